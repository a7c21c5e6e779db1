"""A trained model on a mesh that it has never seen.

mesh_fields  from a mesh and the recipe of a model to the model's inputs, and what is odd in them
densities    from which points the tokens come: all, or subsets as dense as in training
predict      the fields on a mesh, a file or in memory; prediction: what comes of it
derived      pressure and friction coefficients from predicted fields
queries      planes, lines and points at which a flow is asked
output       a prediction written onto its mesh; many: many meshes, and going on after a stop
"""

from slipstream.inference.many import MeshResult, predict_many
from slipstream.inference.predict import Choices, predict
from slipstream.inference.prediction import MeshPrediction

__all__ = ["Choices", "MeshPrediction", "MeshResult", "predict", "predict_many"]
