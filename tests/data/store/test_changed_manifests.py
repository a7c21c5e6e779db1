"""Every value of a manifest is changed, one at a time, in several ways: all are reported."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.data.store import Cloud, Field, Schema, check_store, ingest
from slipstream.data.store.manifest import content_hash

from ..samples import Made

SCHEMA = Schema((Field("x", "m"),), (), (Field("pressure", "Pa"), Field("heat", "W", "flow")))
SPLITS = {"train": ["s00", "s01"], "val": ["s02"], "test": ["s03"]}

UNKNOWABLE = {
    r"fields\.\w+\.\d\.(name|unit|group)": "the rows have no names, units or groups",
    r"fields\.targets": "nor have they an order of names",
    r"splits(\.test)?": "a split may be empty, as test is here",
    r"provenance\.source": "any text may be the name of a source",
    r"provenance\.options.*": "a source names and needs options of its own",
    r"provenance\.seed": "the order before the permutation is not stored",
    r"samples\.\w+\.parameters.*": "the parameters of a sample need not be among its columns",
    r"samples\.\w+\.files.*": "source files may be gone once they are in a store",
    r"quarantined.*": "a sample that is not in the store has left no other trace",
}
"""What a manifest of schema 1, which has no hash, can say without being contradicted."""


@dataclass(frozen=True)
class Tiny(Made):
    """Made of files, with one bad sample and some options; a sample has eight rows."""

    @property
    def schema(self) -> Schema:
        return SCHEMA

    def splits(self) -> Mapping[str, list[str]]:
        return SPLITS

    def read(self, sample: str) -> Cloud:
        draw = np.random.default_rng(int(sample[1:]))
        rows = draw.normal(3, 2, (8, 3)).astype(np.float32)
        if sample == "s03":
            rows[0, 1] = np.nan
        arrays = {field.name: rows[:, [i]] for i, field in enumerate(SCHEMA.fields)}
        return Cloud(SCHEMA, arrays, {"angle": 4.0, "speeds": [1, 2]})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    for i in range(4):
        (tmp_path / f"s0{i}.raw").write_bytes(b"abc")
    ingest(Tiny(4, folder=tmp_path, extra={"box": [0, 1]}), tmp_path / "store")
    assert check_store(tmp_path / "store") == []
    return tmp_path / "store"


Place = tuple[str | int, ...]


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Where every mapping, list, number and text of a JSON value is."""
    if place:
        yield place
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield from places(value[key], (*place, key))


def changes(value: Any) -> Iterator[Any]:
    """Other values for a place, of the same and of other types."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (value + 1, value * 1.001 + 0.001, -value - 1, 0 if value else 2)
    elif isinstance(value, str):
        yield from (value + "x", "", value[:-1])
    elif isinstance(value, list) and value:
        yield from (value[:-1], [*value, value[-1]], value[::-1])
    elif isinstance(value, dict) and value:
        yield dict(list(value.items())[:-1])
    yield from (None, "text", 7, [], {})


def mutants(value: dict[str, Any]) -> Iterator[tuple[Place, dict[str, Any]]]:
    for place in places(value):
        *above, last = place
        held = value
        for key in above:
            held = held[key]  # type: ignore[index]
        others = [other for other in changes(held[last]) if not _same(other, held[last])]
        for other in (*others, KeyError):
            mutant = copy.deepcopy(value)
            holder: Any = mutant
            for key in above:
                holder = holder[key]
            if other is KeyError:
                del holder[last]
            else:
                holder[last] = other
            yield place, mutant


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one) == json.dumps(other)


def _unnoticed(store: Path, value: dict[str, Any], every: int = 1) -> tuple[int, list[str]]:
    """How many mutants are tried, and the places of those that are called good."""
    count, unnoticed = 0, []
    for place, mutant in islice(mutants(value), 0, None, every):
        count += 1
        (store / "manifest.json").write_text(json.dumps(mutant))
        if not check_store(store):
            unnoticed.append(".".join(map(str, place)))
    return count, unnoticed


@pytest.mark.usefixtures("no_shape_checks")
def test_every_change_is_reported(store: Path) -> None:
    value = json.loads((store / "manifest.json").read_text())
    assert value["sha256"] == content_hash(value)
    count, unnoticed = _unnoticed(store, value, every=5)
    assert count > 200 and unnoticed == []


@pytest.mark.usefixtures("no_shape_checks")
def test_without_a_hash_what_contradicts_the_rest_is_reported(store: Path) -> None:
    value = json.loads((store / "manifest.json").read_text())
    del value["sha256"]
    value["schema"] = 1
    (store / "manifest.json").write_text(json.dumps(value))
    assert check_store(store) == []
    count, unnoticed = _unnoticed(store, value)
    known = [place for place in unnoticed if any(re.fullmatch(p, place) for p in UNKNOWABLE)]
    left = sorted(set(unnoticed) - set(known))
    assert count > 1000 and left == [], left
    for pattern in UNKNOWABLE:
        assert any(re.fullmatch(pattern, place) for place in known), pattern
