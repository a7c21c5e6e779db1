"""The paper's central claim in minutes on a laptop: four variants, one exactly solved problem."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from slipstream.core.records import append_record
from slipstream.core.runtime import device_name, pick_device
from slipstream.experiments import poisson
from slipstream.runs.config import RunConfig, with_store
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import load_model
from slipstream.training.data import open_data
from slipstream.training.session import train
from slipstream.training.sinks import Listener

VARIANTS = ("baseline", "no-token-attention", "mlp-only", "slice-once")
Watch = Callable[[str, int], Listener]
"""Called with a variant and its number of steps; gives what is told every record."""


@dataclass(frozen=True)
class Result:
    """One row of the table."""

    variant: str
    parameters: int
    error: float
    by_group: dict[str, float]
    seconds: float


def demo_config(seed: int = 0, steps: int | None = None) -> RunConfig:
    """The experiment `poisson`, its data drawn from the seed too."""
    config = poisson()
    assert config.data.builtin is not None
    made = replace(config.data.builtin, seed=seed)
    config = replace(config, seed=seed, data=replace(config.data, builtin=made))
    if steps is None:
        return config
    return replace(config, steps=steps, evaluate_every=min(config.evaluate_every, steps))


def run_demo(config: RunConfig, out: Path, watch: Watch, device: str = "cpu") -> list[Result]:
    """Train every variant on one store; append one record each to `out`/records.jsonl.

    What is there already is kept: runs that are finished are not trained again.
    """
    out.mkdir(parents=True, exist_ok=True)
    place = out / f"poisson-seed-{config.seed}"
    open_data(config.data, place / "data")
    results = []
    for variant in VARIANTS:
        started = time.perf_counter()
        one = replace(config, model=replace(config.model, variant=variant))
        run = RunFolder(place / variant)
        train(
            with_store(one, place / "data"),
            run.path,
            device=device,
            listeners=[watch(variant, config.steps)],
        )
        trained = load_model(run.path)
        seconds = time.perf_counter() - started
        metric = trained.metric
        result = Result(
            variant,
            trained.model.parameter_count(),
            metric["error"],
            metric["by_group"],
            round(seconds, 1),
        )
        results.append(result)
        fields = {
            "problem": "poisson",
            "config": config.to_json(),
            "device": device_name(pick_device(device)),
        }
        kernels = trained.model.to(pick_device(device)).kernels
        append_record(
            out / "records.jsonl", "demo", {**asdict(result), "kernels": kernels, **fields}
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
