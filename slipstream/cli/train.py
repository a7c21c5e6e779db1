"""`slipstream train`: begin or continue one run. Bad input raises ValueError."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TimeRemainingColumn,
)

from slipstream.cli.shared import Plugins, load_plugins, parse_settings
from slipstream.cli.terminal import new_console, plain, say, text_column
from slipstream.core.checked_yaml import read_yaml
from slipstream.core.configs import overlay
from slipstream.core.runtime import environment
from slipstream.core.signals import stop_with
from slipstream.data.store import IngestProgress
from slipstream.experiments import EXPERIMENTS, experiment
from slipstream.runs.config import RunConfig, with_store, with_variant
from slipstream.runs.folder import RunFolder
from slipstream.training.distributed import leave_world, place_in_world
from slipstream.training.session import train as train_run
from slipstream.training.study import STUDY
from slipstream.training.trainer import TrainingOutcome

ConfigOption = Annotated[
    Path | None, typer.Option(help="YAML with fields to change; `slipstream train --list`.")
]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", help="name=value, as optim.clip=1; again for more.")
]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")]
StoreOption = Annotated[Path | None, typer.Option(help="Point store; built-in data need none.")]


def train(
    name: Annotated[
        str | None, typer.Argument(metavar="EXPERIMENT", help="One of --list; none to resume.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run.")] = None,
    store: StoreOption = None,
    variant: Annotated[str | None, typer.Option(help="One of `slipstream variants`.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of initial values, order and draws.")
    ] = None,
    config: ConfigOption = None,
    settings: SettingsOption = None,
    device: DeviceOption = "auto",
    plugin: Plugins = None,
    track: Annotated[
        list[str] | None, typer.Option(help="tensorboard or wandb, besides records.jsonl.")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the config and stop.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Train one model; the same command continues after an interruption, exact to the bit.

    Ctrl-C and SIGTERM save a checkpoint first. On several GPUs: torchrun --nproc-per-node 4 -m
    slipstream train ...

    Example: slipstream train drivaerml-surface --store stores/ml --out runs/baseline
    """
    study = environment(STUDY)
    if study is not None:
        stop_with(int(study))
    load_plugins(plugin)
    if listed:
        _list(as_json)
        return
    run_config = None
    if name is not None:
        run_config = make_config(name, config, settings, store=store, variant=variant, seed=seed)
    elif any(given is not None for given in (config, settings, variant, seed)):
        raise ValueError("an experiment must be named to change its config, got none (--list)")
    elif out is None:
        raise ValueError("an experiment or --out of a run to continue must be given, got neither")
    elif (folder := RunFolder(out)).exists and store is not None:
        run_config = with_store(folder.read_config(), store)
    if show:
        shown = run_config or RunFolder(out or Path()).read_config()
        print(json.dumps(shown.to_json(), indent=2))
        return
    if out is None:
        raise ValueError("--out must name the folder of the run, got none")
    resumed = run_config or (RunFolder(out).read_config() if RunFolder(out).exists else None)
    steps = resumed.steps if resumed else None
    with training_bar(out.name, steps) as bars:
        outcome = train_run(
            run_config,
            out,
            device=device,
            listeners=[bars.training, bars.warn],
            track=track or (),
            data_progress=bars.making,
        )
    if place_in_world()[0] == 0:
        _say(outcome, out, as_json)
    code = 0 if outcome.signal is None else 128 + outcome.signal
    leave_world(code)
    if code:
        raise typer.Exit(code)


def make_config(
    name: str,
    file: Path | None,
    settings: Sequence[str] | None,
    *,
    store: Path | None = None,
    variant: str | None = None,
    seed: int | None = None,
) -> RunConfig:
    """An experiment's config, changed by a file, then by --set, then by the other options."""
    config = experiment(name)
    if file is not None:
        config = overlay(config, read_yaml(file).mapping(), fixed=("experiment",))
    if settings:
        config = overlay(config, parse_settings(settings), fixed=("experiment",))
    config = with_store(config, store)
    if variant is not None:
        config = with_variant(config, variant)
    return config if seed is None else replace(config, seed=seed)


class Bars:
    """One bar while built-in data are made, and one for the training."""

    def __init__(self, progress: Progress | None, name: str, steps: int | None) -> None:
        self._progress, self._name, self._steps = progress, name, steps
        self._making: TaskID | None = None
        self._training: TaskID | None = None
        self._state: dict[str, str] = {}

    def making(self, event: IngestProgress) -> None:
        """Called with the progress of making the data."""
        if self._progress is None:
            return
        if self._making is None:
            self._making = self._progress.add_task("making data", total=event.total, state="")
        self._progress.update(self._making, completed=event.done)
        if event.done == event.total:
            self._progress.remove_task(self._making)

    def training(self, kind: str, row: Mapping[str, Any]) -> None:
        """Called with every record of the training: draws its state."""
        if self._progress is None:
            return
        if self._training is None:
            self._training = self._progress.add_task(self._name, total=self._steps, state="")
        self._state.update(_shown(kind, row))
        state = "  ".join(text for text in self._state.values() if text)
        self._progress.update(self._training, completed=row["step"], state=state)

    def warn(self, kind: str, row: Mapping[str, Any]) -> None:
        """Called with every record of the training: prints the warnings of its start."""
        for warning in row.get("warnings", ()) if kind == "start" else ():
            console = self._progress.console if self._progress else new_console(stderr=True)
            console.print(plain(f"warning: {warning}"), soft_wrap=True)


@contextmanager
def training_bar(name: str, steps: int | None) -> Iterator[Bars]:
    """Bars with loss, validation error, points a second, memory and time left.

    Without a terminal they show nothing.
    """
    console = new_console(stderr=True)
    if not console.is_terminal:
        yield Bars(None, name, steps)
        return
    columns = (
        text_column("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        text_column("{task.fields[state]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        yield Bars(progress, name, steps)


def _shown(kind: str, row: Mapping[str, Any]) -> dict[str, str]:
    if kind == "validation" and row["error"] is not None:
        return {"validation": f"val {row['error']:.4f}"}
    if kind != "train":
        return {}
    loss, peak = row["loss"], row["peak_gb"]
    return {
        "loss": f"loss {loss:.4f}" if loss is not None else "loss -",
        "speed": f"{row['points_per_second'] / 1e3:,.0f}k points/s",
        "memory": f"{peak:.1f} GB" if peak is not None else "",
        "skipped": f"{row['skipped']} skipped" if row["skipped"] else "",
    }


def _say(outcome: TrainingOutcome, out: Path, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(outcome), indent=2))
        return
    if outcome.best is not None:
        best = outcome.best
        groups = ", ".join(
            f"{name} not measured" if error is None else f"{name} {error:.4f}"
            for name, error in best["by_group"].items()
        )
        say(f"Best validation error {best['error']:.4f} ({groups}) at step {best['step']}.")
    if outcome.reason == "finished":
        say(f"Finished after {outcome.step} steps: {out / 'model.safetensors'}")
    else:
        say(f"Stopped after step {outcome.step}, saved; the same command continues: {out}")


def _list(as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for name, function in EXPERIMENTS.items():
        config = function()
        data = "built-in" if config.data.builtin else "your"
        summary = (function.__doc__ or "").strip()
        rows.append(
            {
                "name": name,
                "data": data,
                "steps": config.steps,
                "points": config.data.points,
                "batch": config.batch,
                "precision": config.precision,
                "summary": summary,
            }
        )
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        points = "all points" if row["points"] is None else f"points {row['points']}"
        facts = (f"{row['steps']:,} steps", f"batch {row['batch']}", points, row["precision"])
        say(f"{row['name']:24}{', '.join(facts)}; {row['data']} data", f"    {row['summary']}")
    say("--show prints a whole config, --set and --config change it.")
