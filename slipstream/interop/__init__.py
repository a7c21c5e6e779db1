"""A trained model handed to other programs.

export.py         one file from a model: refused, or checked and then written
export_graph.py   the computation with the normaliser inside, as torch.export or ONNX
export_facts.py   what the file says of itself: names, units, order, hashes, versions
export_check.py   the file run on random clouds of three sizes, beside the model
"""
