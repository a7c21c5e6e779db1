"""Charts, and pictures of fields.

pictures   which pictures a report has, and their captions
figures    the charts (axes); fields: bodies and sections (canvas, raster); style: how all look
scenes     predictions of several variants on one sample, as one scene
"""
