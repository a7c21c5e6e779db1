"""`slipstream data`: make, check and merge point stores. Bad input raises ValueError."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from slipstream.builtin import NAMES, builtin_config, builtin_source
from slipstream.core import runtime
from slipstream.data.benchmarks import manifest_warnings
from slipstream.data.check import check_store
from slipstream.data.ingest import Report, ingest, merge
from slipstream.data.store import open_store
from slipstream.ingest_commands import ingest as ingest_command
from slipstream.inspect_commands import inspect as inspect_command
from slipstream.store_commands import (
    bar,
    ingest_bar,
    parse_settings,
    parse_shard,
    report_text,
    warn,
)

app = typer.Typer(
    name="data",
    help="Point stores: make built-in data, ingest files, verify, merge shards.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Workers = Annotated[int, typer.Option(help="Processes, a sample at a time each.")]
StorePath = Annotated[Path, typer.Argument(help="Folder of the store.")]

app.command(name="ingest")(ingest_command)
app.command(name="inspect")(inspect_command)


@app.command()
def make(
    problem: Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}.")],
    out: Annotated[Path, typer.Option(help="Folder of the store; what it has is kept.")],
    samples: Annotated[
        int, typer.Option(help="How many samples; of taylor-green, trajectories.")
    ] = 64,
    points: Annotated[
        int, typer.Option(help="Points of each sample; of taylor-green, 32768.")
    ] = 4096,
    seed: Annotated[int, typer.Option(help="Of samples, splits and the order of rows.")] = 0,
    workers: Workers = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="name=value, as inflow=varying; again for more."),
    ] = None,
    shard: Annotated[
        str, typer.Option(help="i/n: every n-th sample from i, for many machines; then merge.")
    ] = "0/1",
    as_json: Json = False,
) -> None:
    """Make a store of a built-in problem; the same command goes on where it was interrupted.

    Example: slipstream data make potential-flow-surface --samples 64 --out stores/flow
    """
    where = str(runtime.pick_device(device))
    config = builtin_config(problem, parse_settings(settings or []))
    source = builtin_source(
        problem, samples=samples, points=points, seed=seed, device=where, config=config
    )
    part = parse_shard(shard)
    with ingest_bar(f"make {problem}") as show:
        report = ingest(source, out, seed=seed, workers=workers, shard=part, progress=show)
    _say(report, out, part, as_json)


@app.command()
def check(store: StorePath, workers: Workers = 1, as_json: Json = False) -> None:
    """Verify a store: every byte, number, split and statistic. Exit code 1 where one is wrong.

    Example: slipstream data check stores/flow
    """
    with bar(f"check {store}") as advance:
        findings = check_store(store, workers=workers, progress=advance)
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    elif findings:
        print("\n".join(str(finding) for finding in findings))
    else:
        found = open_store(store)
        sizes = ", ".join(f"{len(ids)} {split}" for split, ids in found.splits.items())
        print(f"{store} is good: {len(found.manifest.samples)} samples ({sizes}).")
    if findings:
        raise typer.Exit(1)


@app.command(name="merge")
def merge_shards(store: StorePath) -> None:
    """Make the manifest of a store whose shards are all done.

    Example: slipstream data merge stores/flow
    """
    manifest = merge(store)
    print(f"{store}: {len(manifest.samples)} samples, {len(manifest.quarantined)} quarantined.")
    warn(manifest_warnings(manifest))


def _say(report: Report, out: Path, shard: tuple[int, int], as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(report), indent=2))
        return
    print(report_text(report, out, shard))
