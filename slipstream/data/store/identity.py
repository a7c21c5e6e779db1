"""Hashes that say whether two runs saw the same data."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from slipstream.data.store.point_store import Store


def data_hash(store: Store) -> str:
    """Hash of the fields, the origin, and every sample's rows, bytes and checksum."""
    samples = {
        sample: [entry.rows, entry.bytes, entry.crc32]
        for sample, entry in sorted(store.manifest.samples.items())
    }
    return _hash({**store.manifest.origin.identity(), "samples": samples})


def split_hash(store: Store) -> str:
    """Hash of the samples in each split, with their order."""
    return _hash({split: list(ids) for split, ids in store.manifest.splits.items()})


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
