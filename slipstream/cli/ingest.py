"""`slipstream data ingest`: a point store from a published data set or from any meshes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.shared import (
    Json,
    On,
    ReadMemory,
    ReadTimeout,
    Workers,
    engine_for,
    ingest_bar,
    parse_settings,
    parse_shard,
    report_text,
    store_warnings,
    warn,
)
from slipstream.cli.terminal import say
from slipstream.core.checks import check_choice
from slipstream.data.benchmarks import BENCHMARKS, RawSource, benchmark_source
from slipstream.data.meshes import ReadLimits, read_within
from slipstream.data.store import MANIFEST_NAME, Source, SourceWithin, read_manifest
from slipstream.data.store import ingest as write_store

MESH = "mesh"


def ingest(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(BENCHMARKS)}, or {MESH}.")],
    raw: Annotated[Path, typer.Argument(help="Folder of the files, as published.")],
    store: Annotated[
        Path, typer.Argument(help="Folder of the store; samples already in it are kept.")
    ],
    card: Annotated[
        Path | None, typer.Option(help="For mesh: what the files hold (see data inspect).")
    ] = None,
    split: Annotated[
        str,
        typer.Option(
            help="published, sorted, a folder with train.txt, val.txt and test.txt, or a JSON or"
            " YAML file."
        ),
    ] = "published",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="name=value: an option of the reader; again for more."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the order of rows.")] = 0,
    workers: Workers = 1,
    on: On = None,
    shard: Annotated[
        str, typer.Option(help="i/n: every n-th sample from i, for many machines; then merge.")
    ] = "0/1",
    hashed: Annotated[
        bool,
        typer.Option(
            "--hash/--no-hash",
            help="Record the sha256 of every file read, by which changed files are noticed.",
        ),
    ] = True,
    read_memory: ReadMemory = None,
    read_timeout: ReadTimeout = None,
    as_json: Json = False,
) -> None:
    """Make a store of a published data set, or of any meshes; run again, it continues.

    A sample that cannot be read is left out, with the reason.

    Example: slipstream data ingest drivaerml-surface /data/drivaerml stores/cars --set box=null
    """
    context = partial(read_within, ReadLimits(read_memory, read_timeout))
    with context():
        source = _source(name, raw if on is None else raw.absolute(), card, split, settings or [])
    part = parse_shard(shard)
    with engine_for(on, workers=workers) as engine, ingest_bar(f"ingest {name}") as show:
        summary = write_store(
            SourceWithin(source, context),
            store,
            seed=seed,
            workers=workers,
            shard=part,
            hash_files=hashed,
            progress=show,
            engine=engine,
        )
    presence = source.presence() if isinstance(source, RawSource) else None
    warnings = store_warnings(read_manifest(store / MANIFEST_NAME)) if part[1] == 1 else []
    if as_json:
        output = {**asdict(summary), "presence": presence, "warnings": warnings}
        print(json.dumps(output, indent=2))
        return
    if presence:
        say(f"{presence}.")
    say(*report_text(summary, store, part))
    warn(warnings)


def _source(name: str, raw: Path, card: Path | None, split: str, settings: Sequence[str]) -> Source:
    check_choice("name", name, (*BENCHMARKS, MESH))
    if name != MESH:
        if card:
            raise ValueError(f"--card must go with {MESH}, got it with {name}")
        return benchmark_source(name, raw, split=split, options=parse_settings(settings))
    if settings or split != "published":
        raise ValueError(f"--set and --split must not go with {MESH}: its card says all that")
    if card is None:
        raise ValueError(f"{MESH} must have a --card, got none: data inspect writes one")
    from slipstream.data.cards import MeshSource, read_card

    return MeshSource(raw, read_card(card))
