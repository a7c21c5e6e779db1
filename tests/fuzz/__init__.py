"""A differential fuzzer: damaged files through the package's readers, in guarded processes.

    python -m tests.fuzz --mutants 20000 --seed 0 --jobs 2 --out FILE
    python -m tests.fuzz --only 1234

samples      real files of every format that the package reads: meshes; run_samples: artefacts of a
             run; folder_samples: a folder of meshes
mutate       mutant i, a pure function of seed and i; byte_, text_ and tree_mutations: the ways
readers      the package's readers, by format, through its front doors
reference    what VTK itself reads from the same file, and the comparison
pool         reading in guarded processes with limits on memory and time
outcomes     the classes of outcomes, their table and their record
"""
