"""Forecasts of a learning curve against trainings on two and four times as many samples.

    FOLDER/data/     built-in data: 640 samples to train on, 48 to validate, 48 to test
    FOLDER/runs/     the trainings; those that have finished are not repeated

A trial is somebody who has 160 samples, one quarter of the 640, and forecasts from subsets of 40,
80 and 160 of them on the validation split. The truth is the error on the test split after trainings
on 320 samples, with the next quarter added, and on all 640.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from slipstream.core.checks import check_choice, check_whole
from slipstream.core.records import append_record
from slipstream.core.runtime import commit, device_name, pick_device
from slipstream.data.store import Store, with_training_samples
from slipstream.models.variants import Size
from slipstream.runs.config import (
    BuiltinData,
    DataConfig,
    ModelConfig,
    OptimConfig,
    RunConfig,
    with_store,
)
from slipstream.training.data import open_data
from slipstream.training.forecast import errors_of, gather, in_order, subset_cells
from slipstream.training.learning_curve import draw_curves, interval
from slipstream.training.study import Ending, Resources, StudyCell, prepare_study, run_study

SPLITS = {"train": 640, "val": 48, "test": 48}
SIZES = (40, 80, 160)
QUARTERS = 4
ORDERS = 2
LEVEL = 0.9
Watch = Callable[[Sequence[StudyCell], int], None]


@dataclass(frozen=True)
class Case:
    """A built-in problem, and the model that is trained on it."""

    problem: str
    settings: dict[str, Any] = field(default_factory=dict)
    steps: int = 1000
    size: Size = Size(layers=4, width=64, heads=4, slices=16)
    learning_rate: float = 2e-3

    def config(self) -> RunConfig:
        builtin = BuiltinData(samples=SPLITS, points=512, settings=self.settings)
        return RunConfig(
            experiment="all",
            data=DataConfig(problem=self.problem, builtin=builtin, points=128),
            model=ModelConfig(size=self.size),
            optim=OptimConfig(learning_rate=self.learning_rate, warmup=0.05),
            steps=self.steps,
            batch=4,
            evaluate_every=max(1, self.steps // 10),
            keep=1,
            log_every=100,
        )


CASES: dict[str, Case] = {
    "flow": Case("potential-flow-surface", {"panels": 720, "bodies": [1, 1], "inflow": "varying"}),
    "charge": Case(
        "poisson",
        {"number": [1, 1], "width": [0.14, 0.14], "box": [0.3, 0.7]},
        size=Size(layers=2, width=64, heads=4, slices=16),
    ),
}


@dataclass(frozen=True)
class Trial:
    """The cells of a forecast, and those of the truth by the number of samples."""

    name: str
    store: Store
    """With the samples of the forecast alone in its training split."""
    cells: list[StudyCell]
    truth: dict[int, list[StudyCell]]


def make_trials(name: str, count: int, folder: Path, steps: int | None = None) -> list[Trial]:
    """The trials of a case, a quarter each; its data are made in the folder if they are not there.

    `steps` are those of the case where none are given.
    """
    check_choice("case", name, CASES)
    check_whole("trials", count, 1)
    if count > QUARTERS:
        raise ValueError(f"trials must be at most the {QUARTERS} quarters of the data, got {count}")
    case = CASES[name] if steps is None else replace(CASES[name], steps=steps)
    config = case.config()
    whole = open_data(config.data, folder / "data")
    config = with_store(config, whole.path.resolve())
    names = in_order(whole.ids("train"), QUARTERS)
    quarters = [sorted(names[k::QUARTERS]) for k in range(QUARTERS)]
    wide = partial(subset_cells, config, out=folder)
    everything = wide(names, sizes=[len(names)], orders=2, prefix="all")
    trials = []
    for k, mine in enumerate(quarters[:count]):
        both, prefix = mine + quarters[(k + 1) % QUARTERS], f"trial-{k}"
        twice = wide(both, sizes=[len(both)], orders=1, prefix=prefix)
        trials.append(
            Trial(
                f"{name} {prefix}",
                with_training_samples(whole, mine),
                wide(mine, sizes=SIZES, orders=ORDERS, prefix=prefix),
                {len(both): twice, len(names): everything},
            )
        )
    return trials


def cells_of(trials: Sequence[Trial]) -> list[StudyCell]:
    """All cells of the trials, each once: trials share the truth of all samples."""
    groups = [group for one in trials for group in (one.cells, *one.truth.values())]
    return list({cell.folder.path: cell for group in groups for cell in group}.values())


def run_trials(
    trials: Sequence[Trial], folder: Path, resources: Resources, watch: Watch
) -> list[Ending]:
    """Train whatever has not finished."""
    return run_study(prepare_study(cells_of(trials), folder), folder, resources, watch)


def judge(trial: Trial, out: Path, device: str = "cpu") -> dict[str, Any]:
    """Append the record of a trial: intervals, truths, and whether these are inside."""
    trainings = gather(trial.cells, trial.store, device=device)
    curves = draw_curves(trainings)
    checks = []
    for samples, cells in trial.truth.items():
        said = interval(curves.errors_at(samples), LEVEL)
        for cell in cells:
            error = errors_of(cell, trial.store, split="test", device=device).mean()
            inside = said.low <= error <= said.high
            checks.append({"samples": samples, **asdict(said), "truth": error, "inside": inside})
    row = {
        "name": trial.name,
        "level": LEVEL,
        "steps": trial.cells[0].config.steps,
        "sizes": trainings.sizes.tolist(),
        "errors": trainings.means().tolist(),
        "own_errors": trainings.own_means().tolist(),
        "checks": checks,
        "seconds": [_seconds(cell) for cell in trial.cells],
        "config": {**trial.cells[0].config.to_json(), "data": None},
        "device": device_name(pick_device(device)),
        "commit": commit(),
    }
    return append_record(out, "forecast", row)


def _seconds(cell: StudyCell) -> float:
    """From the first record of a training to its last."""
    times = [datetime.fromisoformat(row["time"]) for row in cell.folder.records()]
    return (max(times) - min(times)).total_seconds()
