"""The Transolver and its variants, and how to add one.

variants     all that anybody asks of a variant, and their registry; plugins: files that add some
transolver   the model: lift, layers, head
steps        a model in steps, for chunks and queries; sweeps: any number of points in chunks, which
             wait in a parking; sweep_plan: how many at a time, and where they wait; lean: training
             in chunks (lean_compiled: compiled); totals: the sums of chunks
coupling     slice, mix, deslice of a layer; linear_no, slice_once: those that are built otherwise
constants    what a model computes with besides its parameters
sharding     one sample's points over several processes
structure    parameters that a model must have, as data
layers       the parts that all are put together from, and their initial values
"""

from slipstream.models.constants import Constants
from slipstream.models.plugins import load_plugin
from slipstream.models.steps import SteppedCoupling
from slipstream.models.variants import Look, Parts, Size, Variant, register_variant

__all__ = [
    "Constants",
    "Look",
    "Parts",
    "Size",
    "SteppedCoupling",
    "Variant",
    "load_plugin",
    "register_variant",
]
