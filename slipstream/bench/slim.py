"""What `slipstream slim` costs in validation error, beside training without attention.

For each seed a baseline and a `no-token-attention` model are trained on charges, and the attention
is taken out of the baseline: errors before, after the closed form, and after fine-tuning for a
tenth of the steps; then the same with fewer slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipstream.core.configs import overlay
from slipstream.interop.fewer_slices import Limits
from slipstream.interop.slim import SlimRequest, slim
from slipstream.runs.config import RunConfig, with_store, with_variant
from slipstream.runs.folder import RunFolder
from slipstream.training.data import open_data
from slipstream.training.session import train_whole


@dataclass(frozen=True, kw_only=True)
class SlimCase:
    seeds: int = 3
    steps: int = 1000
    learning_rate: float = 3e-4
    """Of the fine-tuning; the trainings have that of the experiment."""
    limits: Limits = Limits(drop_unused=0.005, merge_alike=0.95)
    """By which slices go in the second slimming: less than a tenth of the average share of 16."""


def measure_slim(base: RunConfig, case: SlimCase, folder: Path) -> Iterator[dict[str, Any]]:
    """A record for each seed; runs that FOLDER has are used again."""
    data = folder / "data"
    open_data(base.data, data)
    changes = {"steps": case.steps, "evaluate_every": max(1, case.steps // 5)}
    config = overlay(with_store(base, data), changes)
    for seed in range(case.seeds):
        runs = {
            variant: folder / f"{variant}-{seed}" for variant in ("baseline", "no-token-attention")
        }
        for variant, run in runs.items():
            train_whole(replace(with_variant(config, variant), seed=seed), run, device="cpu")
        tuning = max(1, case.steps // 10)
        request = SlimRequest(steps=tuning, learning_rate=case.learning_rate, device="cpu")
        certificate = slim(runs["baseline"], data, folder / f"slim-{seed}", request)
        errors = {name: own["error"] for name, own in certificate["validation"].items()}
        fewer = slim(
            runs["baseline"], data, folder / f"fewer-slices-{seed}",
            replace(request, limits=case.limits),
        )  # fmt: skip
        for name in ("closed form", "fine-tuned"):
            errors[f"fewer slices, {name}"] = fewer["validation"][name]["error"]
        errors["from scratch"] = _best(runs["no-token-attention"])
        keys = ("parameters", "step_ms", "fit", "steps", "learning_rate", "device", "commit")
        kept = {key: certificate[key] for key in keys}
        row = {"name": f"seed {seed}", "seed": seed, "errors": errors, "of": case.steps, **kept}
        yield {**row, "slices": fewer["slices"], "fewer_slices_step_ms": fewer["step_ms"]}


def _best(run: Path) -> float:
    rows = RunFolder(run).history("validation")
    return float(min(row["error"] for row in rows if row["error"] is not None))
