"""What starting from a model is worth: few bodies of one family after many of another.

A model is trained on bodies of one family in potential flow. On a few bodies of another family
models are trained for equally many steps, from that model and from scratch, with several seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipstream.core.configs import overlay
from slipstream.core.runtime import commit
from slipstream.data.store import open_store
from slipstream.interop.slim import validation_error
from slipstream.runs.config import RunConfig, with_store
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import load_model
from slipstream.runs.take_over import initial_model
from slipstream.training.data import open_data
from slipstream.training.session import train_whole

PROBLEM = "potential-flow-surface"


@dataclass(frozen=True, kw_only=True)
class FinetuneCase:
    many: int = 320
    few: int = 20
    family: str = "car"
    other: str = "wing"
    seeds: int = 3
    steps: int = 1000
    """On the many."""
    tuning: int = 300
    """On the few, from a model and from scratch."""
    rates: tuple[float, ...] = (1e-3, 3e-4)
    """Learning rates of both."""


def measure_finetune(base: RunConfig, case: FinetuneCase, folder: Path) -> Iterator[dict[str, Any]]:
    """A record for each learning rate; BASE is the experiment of PROBLEM, and runs that FOLDER has
    are used again."""
    source = folder / "source"
    train_whole(_config(base, case.family, {"train": case.many, "val": 32}, case.steps), source)
    initial, trained = initial_model(source)
    few = _config(base, case.other, {"train": case.few, "val": 64}, case.tuning, seed=1)
    store = folder / "few"
    open_data(few.data, store)
    few = with_store(few, store)
    untuned = 0.0
    for rate in case.rates:
        errors: dict[str, list[float]] = {"from scratch": [], "from the model": []}
        for seed in range(case.seeds):
            config = replace(few, seed=seed, optim=replace(few.optim, learning_rate=rate))
            starts = {"from scratch": None, "from the model": initial}
            for name, start in starts.items():
                run = folder / f"{name.replace(' ', '-')}-{rate:g}-{seed}"
                train_whole(replace(config, initial=start), run, device="cpu")
                errors[name].append(RunFolder(run).history("validation")[-1]["error"])
                untuned = untuned or _error(trained, run, store)
        yield {
            "name": f"learning rate {rate:g}",
            "learning_rate": rate,
            "errors": errors,
            "untuned": untuned,
            "error_on_the_many": trained.metric["error"],
            **{name: getattr(case, name) for name in ("many", "few", "family", "other")},
            "steps": case.steps,
            "tuning": case.tuning,
            "commit": commit(),
        }


def _error(trained: Any, run: Path, store: Path) -> float:
    """The error of the model, as it is, on the few's validation samples, in their units."""
    return float(validation_error(trained, load_model(run), open_store(store)).mean())


def _config(
    base: RunConfig, family: str, samples: dict[str, int], steps: int, *, seed: int = 0
) -> RunConfig:
    settings = {"panels": 720, "bodies": [1, 1], "families": [family]}
    builtin = {"samples": samples, "points": 1024, "settings": settings, "seed": seed}
    return overlay(
        base,
        {
            "data.builtin": builtin,
            "data.points": 256,
            "optim.warmup": 0.05,
            "steps": steps,
            "evaluate_every": max(1, steps // 5),
        },
    )
