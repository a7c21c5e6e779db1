"""Runs small enough for a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from slipstream.core.configs import overlay
from slipstream.experiments import poisson
from slipstream.runs.config import RunConfig
from slipstream.runs.folder import RunFolder
from slipstream.training.data import open_data
from slipstream.training.distributed import World
from slipstream.training.trainer import Trainer

CPU = World(torch.device("cpu"))


def small(**changes: Any) -> RunConfig:
    """12 steps of 2 samples of 32 points; `optim__clip=1` sets optim.clip."""
    base = {
        "data.builtin": {
            "samples": {"train": 6, "val": 3}, "points": 32, "seed": 0,
            "settings": {"number": [1, 3]},
        },
        "model.size": {"layers": 2, "width": 8, "heads": 2, "slices": 3},
        "steps": 12, "batch": 2, "evaluate_every": 4, "log_every": 2,
    }  # fmt: skip
    given = {name.replace("__", "."): value for name, value in changes.items()}
    return overlay(overlay(poisson(), base), given)


def trainer(
    path: Path, config: RunConfig | None = None, *, world: World = CPU, **changes: Any
) -> Trainer:
    """In the folder `path`/run, on data in `path`/data."""
    config = config or small(**changes)
    folder = RunFolder(path / "run")
    store = open_data(config.data, path / "data")
    if not folder.exists:
        folder.begin(config)
    return Trainer(config, store, folder, world)


def weights(made: Trainer) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in made.model.named_parameters()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)
