"""Slipstream: the Transolver neural operator, its ablations, and slice/deslice as two functions.

Names are imported when they are first used, so that a program without kernels need not load Triton.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slipstream.core.version import VERSION as __version__

if TYPE_CHECKING:
    from slipstream.inference.predict import predict
    from slipstream.interop.accelerate import accelerate
    from slipstream.kernels.api import couple, deslice_tokens, slice_points
    from slipstream.kernels.membership import Membership, TokenSums
    from slipstream.kernels.plan import Precision as Precision
    from slipstream.models.transolver import Transolver
    from slipstream.models.variants import VARIANTS, Size, register_variant
    from slipstream.runs.model_file import load_model

__all__ = [
    "VARIANTS",
    "Membership",
    "Size",
    "TokenSums",
    "Transolver",
    "__version__",
    "accelerate",
    "couple",
    "deslice_tokens",
    "load_model",
    "predict",
    "register_variant",
    "slice_points",
]
_HOMES = {
    "inference.predict": ("predict",),
    "interop.accelerate": ("accelerate",),
    "kernels.api": ("couple", "deslice_tokens", "slice_points"),
    "kernels.membership": ("Membership", "TokenSums"),
    "kernels.plan": ("Precision",),
    "models.transolver": ("Transolver",),
    "models.variants": ("VARIANTS", "Size", "register_variant"),
    "runs.model_file": ("load_model",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
