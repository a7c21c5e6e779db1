"""Models of other programs: brought in, computed by our kernels in place, made smaller, handed on.

names           how a program calls our parameters, as rows of data; the same rows serve both ways
thuml, flashslice, physicsnemo, linear_no
                the rows, constants and dead tensors of one program each
sources         all of them, and which one a file is from
weight_files    files of other programs read without executing code
refusals        what is refused by name, with the reason
import_weights  foreign tensors as a model; export_weights: a model as foreign tensors
imported_model  the model file of an imported model; out_file: where a file may be written
certificate     both models compared on seeded inputs, where the other program is installed
accelerate      the attentions of a live model computed by our kernels: recognise finds them, trial
                tells their constants, attention_forward is what they compute
slim            the token attention taken out of a trained model; token_maps: what fits it best;
                slim_folder: its files; fewer_slices: which slices go with it, by slot_use, how
                points are divided among the slots
export          one file from a model: refused, or checked and then written
export_graph    its computation with the normaliser inside; export_facts: what it says of itself;
export_check    the file run on random clouds of three sizes, beside the model
"""
