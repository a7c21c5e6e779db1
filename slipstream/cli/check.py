"""`slipstream data check` and `merge`: verify a store, join its shards."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.shared import Json, Workers, bar, store_warnings, warn
from slipstream.cli.terminal import say
from slipstream.data.store import check_store, merge, open_store

StorePath = Annotated[Path, typer.Argument(help="Folder of the store.")]


def check(store: StorePath, workers: Workers = 1, as_json: Json = False) -> None:
    """Verify a store: every byte, number, split and statistic. Exit code 1 where one is wrong.

    Example: slipstream data check stores/flow
    """
    with bar(f"check {store}") as advance:
        defects = check_store(store, workers=workers, progress=advance)
    if as_json:
        print(json.dumps([asdict(defect) for defect in defects], indent=2))
    elif defects:
        say(*map(str, defects))
    else:
        opened = open_store(store)
        sizes = ", ".join(f"{len(ids)} {split}" for split, ids in opened.splits.items())
        say(f"{store} is good: {len(opened.manifest.samples)} samples ({sizes}).")
    if defects:
        raise typer.Exit(1)


def merge_shards(store: StorePath) -> None:
    """Make the manifest of a store whose shards are all done.

    Example: slipstream data merge stores/flow
    """
    manifest = merge(store)
    say(f"{store}: {len(manifest.samples)} samples, {len(manifest.quarantined)} quarantined.")
    warn(store_warnings(manifest))
