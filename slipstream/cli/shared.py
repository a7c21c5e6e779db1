"""Options and texts that several commands share: progress bar, plug-ins, shard, settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from slipstream.cli.progress import ProgressLines, say_progress
from slipstream.cli.terminal import new_console, say, text_column
from slipstream.core.checked_yaml import load_yaml
from slipstream.core.engine import Engine, as_engine
from slipstream.data.store import IngestProgress, IngestSummary, Manifest
from slipstream.models.plugins import load_plugin

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Workers = Annotated[int, typer.Option(help="Processes, a sample at a time each.")]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="ENGINE",
        help="Where tasks run: processes:N of this machine, dask:local:N, or a cluster, as"
        " dask:tcp://host:8786 (docs/cluster.md).",
    ),
]
ReadMemory = Annotated[
    float | None,
    typer.Option(
        help="GB of memory that reading one mesh may take, where VTK reads it. By default 100 times"
        " its size, at least 4, at most 80 % of the machine's."
    ),
]
ReadTimeout = Annotated[
    float | None,
    typer.Option(
        help="Seconds that reading one mesh may take, where VTK reads it. By default 600, and 60"
        " for each GB."
    ),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", help="Python file with variants of your own; again for more."),
]


def load_plugins(plugins: Plugins) -> None:
    """Register the variants of plug-ins; a command calls this before it does anything else."""
    for path in plugins or ():
        load_plugin(path)


@contextmanager
def engine_for(on: str | None, **others: object) -> Iterator[Engine | None]:
    """The engine of --on, opened; ValueError where an option is given that it decides itself."""
    for name, value in others.items():
        if on is not None and value not in (None, 1):
            raise ValueError(f"--on must not go with --{name}, got {on} and {value}")
    with as_engine(on) as engine:
        if engine is not None and engine.workers() == 0:
            say_progress(f"{engine.name} has no workers yet: tasks wait for them.")
        yield engine


@contextmanager
def bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A function that takes how many are done and how many there are, and draws a bar on stderr.

    Where stderr is no terminal, it prints whole lines at a bounded rate.
    """
    console = new_console(stderr=True)
    if not console.is_terminal:
        yield ProgressLines(title)
        return
    columns = (
        text_column("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def ingest_bar(title: str) -> Iterator[Callable[[IngestProgress], None]]:
    """As `bar`, with a function that takes the progress of an ingest."""
    with bar(title) as advance:
        yield lambda event: advance(event.done, event.total)


def parse_shard(text: str) -> tuple[int, int]:
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal()):
        raise ValueError(f"shard must be i/n with whole numbers, as 0/4, got {text!r}")
    return int(index), int(count)


def report_text(summary: IngestSummary, out: Path, shard: tuple[int, int]) -> list[str]:
    """What an ingest did: one line, and one for each bad sample."""
    bad = f", {len(summary.quarantined)} quarantined" if summary.quarantined else ""
    then = f"; merge when all {shard[1]} shards are done" if shard[1] > 1 else ""
    lines = [f"{out}: {len(summary.written)} written, {len(summary.kept)} kept{bad}{then}."]
    lines += [f"  {sample}: {reason}" for sample, reason in summary.quarantined.items()]
    return lines


def store_warnings(manifest: Manifest) -> list[str]:
    """What a user should know about the data of a new store, a sentence each."""
    from slipstream.data.benchmarks import manifest_warnings
    from slipstream.data.cards import normals_warning

    return [*manifest_warnings(manifest), *normals_warning(manifest)]


def warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        say(f"warning: {warning}")


def direction(name: str, text: str | None) -> tuple[float, ...] | None:
    """Three numbers from the text of an option, as "1,0,0"; None where it is not given."""
    if not text:
        return None
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != 3:
        raise ValueError(f"--{name} must be three numbers with commas, as 1,0,0, got {text!r}")
    return numbers


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Values by name from texts "name=value", each in JSON or YAML: point, true, 1e5, null."""
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise ValueError(f"--set must be name=value, got {setting!r}")
        values[name] = parse_value("--set", name, value)
    return values


def parse_value(option: str, name: str, text: str) -> Any:
    """The value of a field that an option gives, from JSON or YAML."""
    try:
        return json.loads(text)  # first, because 1e5 is a number in JSON but a text in YAML
    except json.JSONDecodeError:
        pass
    try:
        return load_yaml(text, yaml.SafeLoader)
    except (yaml.YAMLError, ValueError):
        raise ValueError(f"{option} {name} must be a YAML value, got {text!r}") from None
