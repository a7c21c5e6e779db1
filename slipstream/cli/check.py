"""`slipstream data check` and `merge`: verify a store, join its shards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.shared import Json, Workers, bar, store_warnings, warn
from slipstream.cli.terminal import say
from slipstream.data.store import (
    MANIFEST_NAME,
    check_store,
    merge,
    open_store,
    read_manifest,
)

StorePath = Annotated[Path, typer.Argument(help="Folder of the store.")]


Strict = Annotated[bool, typer.Option("--strict", help="Exit code 1 for warnings, too.")]


def check(
    store: StorePath, workers: Workers = 1, strict: Strict = False, as_json: Json = False
) -> None:
    """Verify a store: every byte, number, split and statistic. Exit code 1 where one is wrong.

    What is unusual but may be right (a sample a thousand times as large as the others, a target
    that is zero everywhere) is a warning.

    Example: slipstream data check stores/flow
    """
    with bar(f"check {store}") as advance:
        defects = check_store(store, workers=workers, progress=advance)
    warnings = _warnings(store)
    if as_json:
        rows = [{**asdict(defect), "severity": "error"} for defect in defects]
        rows += [{"sample": None, "message": one, "severity": "warning"} for one in warnings]
        print(json.dumps(rows, indent=2))
    else:
        say(*(map(str, defects) if defects else [_good(store, warnings)]))
        warn(warnings)
    if defects or (strict and warnings):
        raise typer.Exit(1)


def _warnings(store: Path) -> list[str]:
    """Those of the manifest, if it can be read."""
    try:
        return store_warnings(read_manifest(store / MANIFEST_NAME))
    except (ValueError, OSError):  # a defect says so
        return []


def _good(store: Path, warnings: Sequence[str]) -> str:
    opened = open_store(store)
    sizes = ", ".join(f"{len(ids)} {split}" for split, ids in opened.splits.items())
    but = ", but look at the warnings" if warnings else ""
    return f"{store} is good{but}: {len(opened.manifest.samples)} samples ({sizes})."


def merge_shards(store: StorePath) -> None:
    """Make the manifest of a store whose shards are all done.

    Example: slipstream data merge stores/flow
    """
    manifest = merge(store)
    say(f"{store}: {len(manifest.samples)} samples, {len(manifest.quarantined)} quarantined.")
    warn(store_warnings(manifest))
