"""All namings, and which one a file has: by its keys, and by what its reader says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import torch

from slipstream.core.checks import check_choice
from slipstream.core.text import printable
from slipstream.interop.flashslice import FLASHSLICE, FLASHSLICE_ONCE
from slipstream.interop.linear_no import LINEAR_NO
from slipstream.interop.names import Naming
from slipstream.interop.physicsnemo import PHYSICSNEMO, SECOND, THIRD, THIRD_ENGINE
from slipstream.interop.thuml import THUML
from slipstream.interop.weight_files import Foreign
from slipstream.models.variants import BASELINE

Source = Literal["auto", "thuml", "flashslice", "physicsnemo", "linearno"]
_NOTHING = torch.empty(0)
NAMINGS = (LINEAR_NO, FLASHSLICE_ONCE, FLASHSLICE, THUML, *PHYSICSNEMO)


def naming_of(foreign: Foreign, source: Source, variant: str | None, path: Path) -> Naming:
    """The naming of a file's keys. Raises ValueError where it is none, or of another source."""
    fitting = [naming for naming in NAMINGS if _fits(naming, foreign)]
    if LINEAR_NO in fitting:
        fitting = [LINEAR_NO]
    if THUML in fitting and _has(foreign, r"blocks\.\d+\.Attn\.in_project_deslice\."):
        fitting.remove(THUML)
    own = [naming for naming in fitting if source in ("auto", naming.source)]
    if not own:
        seen = " and ".join(dict.fromkeys(naming.source for naming in fitting))
        got = f"those of {seen}" if seen else f"{printable(min(foreign.tensors))} and others"
        wanted = "a Transolver that is known" if source == "auto" else source
        raise ValueError(f"{path} must have the keys of {wanted}, got {got}")
    if own[0].source == "physicsnemo":
        return _generation(own, foreign, path)
    if THUML in own and len(own) > 1:  # the keys of both are the same
        return THUML if variant == BASELINE else FLASHSLICE
    return own[0]


def variant_of(naming: Naming, foreign: Foreign, variant: str | None, path: Path) -> str:
    """The variant of a file. Raises ValueError where its keys do not tell, and nobody says."""
    if variant is not None:
        check_choice(f"--variant for {path}, whose keys are those of {naming.title},", variant,
                     naming.variants)  # fmt: skip
        return variant
    if len(naming.variants) == 1:
        return naming.variants[0]
    if _has(foreign, r"blocks\.\d+\.Attn\.in_project_deslice\."):
        return "untied"
    if not _has(foreign, r"blocks\.\d+\.Attn\."):
        return "mlp-only"
    raise ValueError(
        f"--variant must say what {path} is, since its keys are those of baseline,"
        " no-token-attention and frozen-slice alike, got none (the baseline of thuml has them, too)"
    )


def _generation(own: list[Naming], foreign: Foreign, path: Path) -> Naming:
    """Which release of PhysicsNeMo; 1.2 and 1.3 differ in the axes of their temperatures only."""
    if SECOND in own:
        shape = tuple(foreign.tensors.get("blocks.0.Attn.temperature", _NOTHING).shape)
        version = foreign.version
        if version is None and (len(shape) != 4 or shape[1] == shape[2]):
            raise ValueError(
                f"{path} must say which release of physicsnemo wrote it, since with one head the"
                " keys of 1.2 and 1.3 are the same, got none: import the .mdlus file"
            )
        early = re.match(r"1\.2(\D|$)", version) if version else shape[1] > shape[2]
        return SECOND if early else THIRD
    naming = own[0]
    if naming is THIRD_ENGINE and re.match(r"1\.2(\D|$)", foreign.version or ""):
        raise ValueError(
            f"{path} must be of physicsnemo 1.3 or later where it uses Transformer Engine, whose"
            f" constants in 1.2 are not known, got {foreign.version}"
        )
    return naming


def _fits(naming: Naming, foreign: Foreign) -> bool:
    return all(_has(foreign, sign) for sign in naming.signs)


def _has(foreign: Foreign, pattern: str) -> bool:
    return any(re.match(pattern, key) for key in foreign.tensors)


def naming_to(source: str, variant: str) -> Naming:
    """The newest naming of a source, to write in. Raises ValueError where it lacks the variant."""
    of_source = [naming for naming in NAMINGS if naming.source == source]
    for naming in of_source:
        if variant in naming.variants:
            return naming
    known = ", ".join(dict.fromkeys(name for one in of_source for name in one.variants))
    raise ValueError(f"the variant must be one that {source} has ({known}), got {variant!r}")
