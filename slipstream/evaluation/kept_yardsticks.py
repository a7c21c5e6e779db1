"""Yardsticks kept in the folder of a store, so that they are computed once for its data.

STORE/yardsticks.json holds those of some splits and normalisers. It is no part of the data: it may
be removed, and where the folder cannot be written nothing is kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from slipstream.core.files import json_text, read_json, write_text
from slipstream.core.schemas import parsed
from slipstream.data.batches import Normaliser
from slipstream.data.store import YARDSTICKS_NAME, Store, data_hash, split_hash
from slipstream.runs.evaluation_file import Yardstick

SCHEMA = 1
"""To be raised when what a yardstick is changes: what was kept before then counts no more."""

Yardsticks = tuple[Yardstick, ...]


def kept(
    store: Store, normaliser: Normaliser, split: str, measured: Callable[[], Yardsticks]
) -> Yardsticks:
    """The yardsticks of a split, from the store's folder if they are there, else `measured`."""
    key = _key(store, normaliser, split)
    entries = _entries(store)
    if key in entries:
        with suppress(ValueError, TypeError):  # damaged: measured anew
            return tuple(parsed(Yardstick, value) for value in entries[key])
    made = measured()
    entries = {**_entries(store), key: [asdict(one) for one in made]}  # others may have written
    with suppress(OSError):
        content = {"schema": SCHEMA, "entries": entries}
        write_text(store.path / YARDSTICKS_NAME, json_text(content), durable=False)
    return made


def _key(store: Store, normaliser: Normaliser, split: str) -> str:
    """A hash of all that the numbers depend on."""
    targets = normaliser.to_json()["targets"]
    what = [data_hash(store), split_hash(store), split, targets]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def _entries(store: Store) -> dict[str, Any]:
    """What is kept by key; nothing where the file is missing, damaged or of another schema."""
    try:
        content = read_json(store.path / YARDSTICKS_NAME)
        return dict(content["entries"]) if content["schema"] == SCHEMA else {}
    except (ValueError, OSError, KeyError, TypeError):
        return {}
