"""Models of other programs: their weights brought in, and ours handed back.

names           how a program calls our parameters, as rows of data; the same rows serve both ways
thuml, flashslice, physicsnemo, linear_no
                the rows, constants and dead tensors of one program each
sources         all of them, and which one a file is from
weight_files    files of other programs read without executing code
refusals        what is refused by name, with the reason
import_weights  foreign tensors as a model; export_weights: a model as foreign tensors
imported_model  the model file of an imported model
certificate     both models compared on seeded inputs, where the other program is installed
"""
