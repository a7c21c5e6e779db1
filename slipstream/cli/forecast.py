"""`slipstream forecast`: how many runs an error takes. Bad input raises ValueError."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from slipstream.cli.forecast_text import as_json_value, error_table, notes, sentence
from slipstream.cli.progress import duration, say_progress
from slipstream.cli.run_config import Changes
from slipstream.cli.shared import Json, bar
from slipstream.cli.study import exit_unless_finished, study_bar
from slipstream.cli.terminal import new_console, say
from slipstream.cli.train import DeviceOption, SettingsOption
from slipstream.core.checks import check_choice, check_whole
from slipstream.core.runtime import available_cores, device_name, pick_device
from slipstream.data.batches import PointDataset
from slipstream.data.store import Store, open_store, varying_groups
from slipstream.experiments import own, small
from slipstream.runs.config import RunConfig
from slipstream.training.data import check_fits
from slipstream.training.forecast import gather, subset_cells, subset_sizes
from slipstream.training.forecast_answer import answer, check_share
from slipstream.training.probe import step_seconds
from slipstream.training.study import Ending, Resources, StudyCell, prepare_study, run_study

POINTS = 256
"""Points of a draw, where every sample has as many."""
VALIDATIONS = 10
REST_OF_A_STEP = 1.5
"""Optimiser, loading and validations make a step so much longer than its passes: 24.5 ms became 36
to 39 with the usual model on one core."""
START_SECONDS = 4
"""Of the process of a training, before its first step."""
LEAST_VALIDATION = 3
"""Validation samples without which nothing can be said of the next one."""


def forecast(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder of a point store.")],
    target: Annotated[
        float, typer.Option(help="Relative L1 error to reach on new designs.")
    ] = 0.05,
    field: Annotated[
        str | None, typer.Option(help="One group of targets; without it, the mean over all.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the trainings; those there are kept. [default: "
            "out/forecast/STORE's name]",
            show_default=False,
        ),
    ] = None,
    orders: Annotated[int, typer.Option(help="Random orders of the samples, and seeds.")] = 3,
    sizes: Annotated[int, typer.Option(help="Subsets of each order, each half of the next.")] = 3,
    steps: Annotated[int, typer.Option(help="Of every training.")] = 2000,
    settings: SettingsOption = None,
    level: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.9,
    device: DeviceOption = "auto",
    parallel: Annotated[
        int | None, typer.Option(help="Trainings at a time. [default: 2 on a CPU, else 1]")
    ] = None,
    as_json: Json = False,
) -> None:
    """How many runs do I need? Train small models on parts of a store and look ahead.

    Nested halves of the training split, a few random orders, equally many steps each: the learning
    curve says how many runs more the target takes, or that no number will do. Run again, it
    continues; another --target is answered from the same trainings.

    Example: slipstream forecast stores/cars --target 0.05
    """
    check_share("--target", target)
    check_share("--level", level)
    opened = _checked(store, field)
    split = opened.manifest.splits["train"]
    counts = subset_sizes(len(split), sizes)
    config = _config(opened, steps, settings)
    folder = out or Path("out/forecast") / store.resolve().name
    cells = subset_cells(config, split, folder, sizes=counts, orders=orders)
    _check_same_samples(cells, folder)
    on_cpu = pick_device(device).type == "cpu"
    at_once = parallel if parallel is not None else min(2, available_cores()) if on_cpu else 1
    resources = Resources(device=device, parallel=at_once)
    ready = prepare_study(cells, folder)
    _say_time(opened, ready, resources)
    with study_bar(len(ready)) as watch:
        _exit_unless_finished(run_study(ready, folder, resources, watch))
    with bar("errors") as advance:
        trainings = gather(ready, opened, field=field, device=device, progress=advance)
    result = answer(trainings, target, level)
    said = [sentence(result), *notes(result, config, field, validation=trainings.errors.shape[1])]
    if as_json:
        value = as_json_value(result, trainings, said, out=folder)
        print(json.dumps(value, indent=2))
        return
    new_console().print(error_table(result, trainings))
    say(*said)


def _checked(path: Path, field: str | None) -> Store:
    """The store, if it can be forecast from."""
    store = open_store(path)
    check_fits(store, own().data)
    validation = len(store.ids("val"))
    if validation < LEAST_VALIDATION:
        raise ValueError(
            f"{path} must have at least {LEAST_VALIDATION} samples in its split 'val', got"
            f" {validation}"
        )
    if field is not None:
        groups = [
            name for name in store.schema.target_groups if name in varying_groups(store.manifest)
        ]
        check_choice("--field", field, groups)
    return store


def _config(store: Store, steps: int, settings: list[str] | None) -> RunConfig:
    """The small model, on few points and for few steps."""
    check_whole("--steps", steps, 1)
    ids = [name for split in ("train", "val") for name in store.ids(split)]
    points = min(POINTS, *(store.rows(name) for name in ids))
    config = replace(
        small(own(), points),
        steps=steps,
        evaluate_every=max(1, steps // VALIDATIONS),
        keep=1,
        log_every=50,
    )
    return Changes(None, settings, store=store.path).apply(config)


def _check_same_samples(cells: Sequence[StudyCell], folder: Path) -> None:
    for cell in cells:
        if cell.folder.exists and cell.folder.read_config().data.train != cell.config.data.train:
            raise ValueError(
                f"{folder} must hold trainings on samples that the store has now, got trainings on"
                " others: give another --out"
            )


def _say_time(store: Store, cells: Sequence[StudyCell], resources: Resources) -> None:
    """How long the trainings that are left will take, on a CPU."""
    where = pick_device(resources.device)
    left, config = [cell for cell in cells if not cell.finished], cells[0].config
    if not left or where.type != "cpu":
        return
    points = PointDataset(store, "train", points=config.data.points).mean_points * config.batch
    usual = torch.get_num_threads()
    torch.set_num_threads(max(1, available_cores() // resources.parallel))  # as a training has
    each = REST_OF_A_STEP * step_seconds(config, store.schema, points) * config.steps
    torch.set_num_threads(usual)
    seconds = (each + START_SECONDS) * len(left) / resources.parallel
    say_progress(
        f"{len(left)} trainings of {config.steps:,} steps, {resources.parallel} at a time: about"
        f" {duration(seconds)} on this {device_name(where)}, where nothing else runs."
    )


def _exit_unless_finished(endings: Sequence[Ending]) -> None:
    for ending in endings:
        if ending.status != "finished":
            why = f": {ending.reason}" if ending.reason else ""
            say(f"{ending.cell.name}: {ending.status}{why}", error=True)
    exit_unless_finished(endings)
