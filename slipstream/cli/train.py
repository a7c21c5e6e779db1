"""`slipstream train`: begin or continue one run. Bad input raises ValueError."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.cli.run_config import Changes, choose_config, start_from
from slipstream.cli.shared import Plugins, load_plugins
from slipstream.cli.terminal import say
from slipstream.cli.training_progress import training_progress
from slipstream.core.runtime import environment
from slipstream.core.signals import stop_with
from slipstream.experiments import EXPERIMENTS
from slipstream.runs.config import with_store
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
PresetOption = Annotated[
    str | None,
    typer.Option(
        help="paper: the experiment as it is. small: a model for a CPU, fp32, few points and steps."
        " auto: small without a GPU; a run that exists keeps its own. By default auto for own,"
        " paper for all others.",
        show_default=False,
    ),
]
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
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="Start from a trained model, a run or a model file: docs/finetune.md.",
        ),
    ] = None,
    preset: PresetOption = None,
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
    run_config, notes = None, list[str]()
    if name is not None:
        start = start_from(source, out)
        changes = Changes(config, settings, store, variant, seed, start)
        run_config, notes = choose_config(name, preset, changes, device=device, out=out)
    elif any(given is not None for given in (config, settings, variant, seed, source, preset)):
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
    with training_progress(out.name, notes) as progress:
        outcome = train_run(
            run_config,
            out,
            device=device,
            listeners=[progress.record],
            track=track or (),
            data_progress=progress.making,
            ready=progress.ready,
        )
    if place_in_world()[0] == 0:
        _say(outcome, out, as_json)
    code = 0 if outcome.signal is None else 128 + outcome.signal
    leave_world(code)
    if code:
        raise typer.Exit(code)


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
