"""The paper's central claim in minutes on a laptop: four variants, one exactly solved problem."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from slipstream.builtin import builtin_source
from slipstream.core.records import append_record
from slipstream.core.runtime import device_name, pick_device
from slipstream.data.ingest import ingest
from slipstream.data.store import Store, open_store
from slipstream.models.transolver import Transolver
from slipstream.models.variants import Size
from slipstream.physics.poisson import Charges
from slipstream.training.trainer import (
    TrainConfig,
    evaluation_batches,
    fit,
    training_batches,
    validate,
)

VARIANTS = ("baseline", "no-token-attention", "mlp-only", "slice-once")
Watch = Callable[[str, int], Callable[[float], None]]
"""Called with a variant and its number of steps; gives what is told every loss."""


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """A problem and a model small enough for two CPU cores."""

    training_samples: int = 512
    validation_samples: int = 64
    points: int = 256
    charges: Charges = Charges(number=(1, 3), width=(0.1, 0.14), box=(0.35, 0.65))
    size: Size = Size(layers=4, width=64, heads=4, slices=16)
    train: TrainConfig = TrainConfig(steps=2000, warmup=0.05)
    seed: int = 0


@dataclass(frozen=True)
class Result:
    """One row of the table."""

    variant: str
    parameters: int
    error: float
    by_group: dict[str, float]
    seconds: float


def make_store(config: DemoConfig, out: Path) -> Store:
    """The demo's data, as `slipstream data make poisson` makes them; what is there is kept."""
    path = out / f"poisson-seed-{config.seed}"
    parts = {"train": config.training_samples, "val": config.validation_samples}
    samples = sum(parts.values())
    source = builtin_source(
        "poisson",
        samples=samples,
        points=config.points,
        seed=config.seed,
        config=config.charges,
    )
    fractions = {split: count / samples for split, count in parts.items()}
    ingest(source, path, seed=config.seed, fractions=fractions)
    return open_store(path)


def run_demo(config: DemoConfig, out: Path, watch: Watch, device: str = "cpu") -> list[Result]:
    """Train and validate every variant; append one record each to `out`/records.jsonl."""
    where = pick_device(device)
    out.mkdir(parents=True, exist_ok=True)
    store = make_store(config, out)
    sizes = store.schema.coord_dim, store.schema.feature_dim, store.schema.target_dim
    groups = store.schema.target_groups
    results = []
    for variant in VARIANTS:
        started = time.perf_counter()
        model = Transolver(*sizes, variant=variant, size=config.size, seed=config.seed).to(where)
        batches = training_batches(store, config.train, where)
        fit(model, batches, groups, config.train, watch(variant, config.train.steps))
        error = validate(model, evaluation_batches(store, "val", where), groups)
        seconds = time.perf_counter() - started
        count = model.parameter_count()
        result = Result(variant, count, error.mean(), error.by_group(), round(seconds, 1))
        results.append(result)
        fields = {"problem": "poisson", "config": asdict(config), "device": device_name(where)}
        append_record(
            out / "records.jsonl", "demo", {**asdict(result), "kernels": model.kernels, **fields}
        )
    return results


def conclude(results: Iterable[Result]) -> str:
    """What these errors say, and no more."""
    error = {result.variant: result.error for result in results}
    attention = error["no-token-attention"] / error["baseline"]
    coupling = error["mlp-only"] / error["no-token-attention"]
    once = error["slice-once"] / error["no-token-attention"]
    return " ".join((_on_attention(attention), _on_coupling(coupling), _on_slicing_once(once)))


def _on_attention(ratio: float) -> str:
    cost = f"without token attention the error is {ratio:.2f} times the baseline's"
    if ratio <= 1.05:
        return f"The attention is removable here: {cost}."
    return f"Removing the attention costs something here: {cost}."


def _on_coupling(ratio: float) -> str:
    cost = f"mlp-only has {ratio:.2f} times the error of no-token-attention"
    if ratio >= 1.5:
        return f"The coupling is not: {cost}."
    return f"This run does not show that the coupling is needed: {cost}."


def _on_slicing_once(ratio: float) -> str:
    cost = f"slice-once has {ratio:.2f} times the error of no-token-attention"
    if ratio > 1.05:
        return f"Slicing once is not enough here: {cost}."
    return f"This run does not separate slicing once from slicing in every layer: {cost}."
