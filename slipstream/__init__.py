"""Slipstream: the Transolver neural operator, its ablations, and slice/deslice as two functions."""

from slipstream.core.version import VERSION as __version__
from slipstream.kernels.api import couple, deslice_tokens, slice_points
from slipstream.kernels.membership import Membership, TokenSums
from slipstream.kernels.plan import Precision
from slipstream.models.transolver import Transolver
from slipstream.models.variants import VARIANTS, Size
from slipstream.runs.model_file import load_model

__all__ = [
    "VARIANTS",
    "Membership",
    "Precision",
    "Size",
    "TokenSums",
    "Transolver",
    "__version__",
    "couple",
    "deslice_tokens",
    "load_model",
    "slice_points",
]
