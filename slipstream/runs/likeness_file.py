"""RUN/likeness.safetensors: what a model sees of its training samples, to compare designs with.

A file as checkpoint.py writes it (what = "likeness", schema of its own: `layout`); the header has
the fields of `LikenessHeader`, the tensors are `training` (n, E), a description of each training
sample, and `scores` (m), how far each held-out sample lies from them (inference/likeness_score.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from slipstream.core.files import naming_file, remove_partials
from slipstream.core.schemas import Positive, parsed
from slipstream.runs.checkpoint import Header, read_tensors, write_tensors

NAME = "likeness.safetensors"
LAYOUT = 1
_WHAT = "likeness"


@dataclass(frozen=True, eq=False)
class Likeness:
    weights: str
    """Hash of the parameters of the model."""
    data_hash: str
    split_hash: str
    split: str
    """Of the held-out samples."""
    points: int
    """The most points of a sample that its description is made of."""
    training: tuple[str, ...]
    descriptions: NDArray[np.float64]
    """(n, E), of the training samples."""
    held_out: tuple[str, ...]
    scores: NDArray[np.float64]
    """(m), of the held-out samples."""
    content: str = ""
    """Hash of the file it was read from."""


@dataclass(frozen=True)
class LikenessHeader(Header):
    layout: Positive
    weights: str
    data_hash: str
    split_hash: str
    split: str
    points: Positive
    training: tuple[str, ...]
    held_out: tuple[str, ...]


def write_likeness(folder: Path, likeness: Likeness) -> Path:
    """Write the file of the run in a folder, in place of an older one."""
    file = folder / NAME
    remove_partials(folder, NAME)
    state: dict[str, Any] = {
        name: getattr(likeness, name)
        for name in ("weights", "data_hash", "split_hash", "split", "points")
    }
    lists = {"training": list(likeness.training), "held_out": list(likeness.held_out)}
    tensors = {"training": likeness.descriptions, "scores": likeness.scores}
    write_tensors(
        file,
        _WHAT,
        {"layout": LAYOUT, **state, **lists},
        {name: torch.from_numpy(np.asarray(own, np.float64)) for name, own in tensors.items()},
    )
    return file


def read_likeness(folder: Path, weights: str) -> Likeness | None:
    """The likeness file of the model in a folder; None where there is none.

    ValueError where the file is none of this package, damaged, or of other weights.
    """
    file = folder / NAME
    if not file.exists():
        return None
    header, tensors = read_tensors(file, _WHAT)
    with naming_file(file):
        if header.get("layout") != LAYOUT:
            raise ValueError(f"layout must be {LAYOUT}, got {header.get('layout')!r}")
        own = parsed(LikenessHeader, header, open=True)
        if set(tensors) != {"training", "scores"}:
            names = ", ".join(sorted(tensors)) or "none"
            raise ValueError(f"tensors must be training and scores, got {names}")
        descriptions, scores = (tensors[name].double().numpy() for name in ("training", "scores"))
        _check(own, descriptions, scores)
    if own.weights != weights:
        raise ValueError(
            f"{file} must be of the model's weights, hash {weights[:12]}, got"
            f" {own.weights[:12]}: the model was trained further or replaced since"
        )
    return Likeness(
        own.weights,
        own.data_hash,
        own.split_hash,
        own.split,
        own.points,
        own.training,
        descriptions,
        own.held_out,
        scores,
        str(header.get("content", "")),
    )


def _check(header: LikenessHeader, descriptions: NDArray[Any], scores: NDArray[Any]) -> None:
    if descriptions.ndim != 2 or len(descriptions) != len(header.training):
        raise ValueError(
            f"training must have a row for each of {len(header.training)} samples, got the shape"
            f" {descriptions.shape}"
        )
    if scores.shape != (len(header.held_out),):
        raise ValueError(
            f"scores must be one for each of {len(header.held_out)} samples, got the shape"
            f" {scores.shape}"
        )
    for name, values in (("training", descriptions), ("scores", scores)):
        if not np.isfinite(values).all() or (name == "scores" and (values < 0).any()):
            raise ValueError(f"{name} must be finite numbers (scores at least 0), got others")
