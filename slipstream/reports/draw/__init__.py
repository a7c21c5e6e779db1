"""Charts, and pictures of fields.

pictures   which pictures a report has, and their captions
figures    the charts, built from panels, axes and legends (axes)
fields     bodies and sections (canvas: camera, light and plane; raster: points to pixels)
style      colours, sizes and fonts of all figures, and how they are written to files
reconstruct, blend   faces through points; colours that run on from face to face
scenes     predictions of several variants on one sample, as one scene
"""
