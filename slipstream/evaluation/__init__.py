"""Errors of trained models on a split, and what explains them.

run_evaluation   the evaluation of runs: measured, recorded beside the run, not repeated
measure          the three measures; evaluate: errors of a model on batches
streamed         whole samples that have more points than are taken at a time
yardsticks       what a model must beat: the mean of the training set, the nearest training sample
                 (neighbours: which that is), the state as it is or scaled (later_states), a fitted
                 function of the wall's direction (inclination); kept_yardsticks: once for the data;
                 against_yardsticks: sentences about it
by_sample        errors sample by sample; sample_forces: and force coefficients, of the bodies that
                 sample_bodies reads
predict_sample   the prediction on one sample, for pictures; surface_view: with the surface's faces;
                 vtk_export: for ParaView
slices           entropy and use of the slices; locality: what a pointwise model can reach
forces           forces of a surface from pressure and shear; force_result: what they are;
                 mesh_forces: those of a mesh file (force_arrays: which of its arrays);
                 force_reference, force_conventions, force_forms, force_faces: reference values,
                 what arrays mean, conversions, area vectors; force_warnings: what may be wrong;
                 force_estimate: from some of the faces, with an interval
calibration      what errors on held-out samples promise; paired: of the difference of two designs
compare          validation errors of variants at equal steps; summary: evaluations over seeds
"""
