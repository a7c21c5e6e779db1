"""Models of other packages and other forms of ours: what is in which file.

slim        the token attention taken out of a trained model, with a certificate
token_maps  the linear maps that fit token attention best, layer by layer
"""
