"""A trained model on a mesh that it has never seen.

mesh_fields   from a mesh and the recipe of a model to the model's inputs; mesh_reading: the arrays
              that are read; oddities: what is unlike the training
densities     from which points the tokens come: all, or subsets as dense as in training
predict       the fields on a mesh, a file or in memory; prediction: what comes of it
derived       pressure and friction coefficients from predicted fields; prediction_forces: forces
queries       planes, lines and other points at which a flow is asked; slice_arrays: its slices
output        a prediction written onto its mesh; array_names: names that are free there
wishes        what is made of a prediction besides the mesh; designs: a table of parameters
many          many meshes, and going on after a stop; many_meshes: the same here or on an engine

How far to trust it:

calibrate     errors on held-out samples, of stored_predictions; sample_scores: what is measured of
              one; bounds: what they promise of a prediction; bands: at each of its points
likeness      whether a mesh is like the training; likeness_score: how far it is from it
remesh        how far a prediction moves on other meshes of its geometry, which remesh_clouds makes
compare       differences of designs, of which predicted_designs are the records of `predict`
"""

from slipstream.inference.many import MeshResult, Outputs, predict_many
from slipstream.inference.predict import Choices, predict
from slipstream.inference.prediction import MeshPrediction

__all__ = ["Choices", "MeshPrediction", "MeshResult", "Outputs", "predict", "predict_many"]
