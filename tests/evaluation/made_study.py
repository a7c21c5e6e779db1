"""A small study that was trained: three variants, two seeds of the baseline, a test split."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slipstream.training.data import open_data
from slipstream.training.session import train

from .made_runs import small

CELLS = (("baseline", 0), ("baseline", 1), ("no-token-attention", 0), ("mlp-only", 0))
DATA = {
    "data.builtin.samples": {"train": 6, "val": 2, "test": 5},
    "data.points": 16,
}


def trained_study(path: Path, **changes: Any) -> Path:
    """As `slipstream study` lays it out; `changes` as in optim__clip=1."""
    given = {**DATA, **{name.replace("__", "."): value for name, value in changes.items()}}
    store = str(open_data(small(given).data, path / "data" / "poisson").path.resolve())
    cells = []
    for variant, seed in CELLS:
        place = f"runs/poisson/{variant}/seed-{seed}"
        own = {"data.store": store, "model.variant": variant, "seed": seed}
        train(small({**given, **own}), path / place, device="cpu")
        cells.append({"experiment": "poisson", "variant": variant, "seed": seed, "path": place})
    (path / "study.json").write_text(json.dumps({"schema": 1, "cells": cells}))
    return path
