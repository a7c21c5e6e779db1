from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.data.store import check_store, ingest

from ..samples import Made, contents

SPLITS = {"train": ["s00", "s01", "s02"], "test": ["s03"]}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    ingest(Made(4, given=SPLITS), tmp_path / "store")
    return tmp_path / "store"


def test_a_good_store_has_no_findings_and_is_not_changed(store: Path) -> None:
    before = contents(store)
    seen: list[tuple[int, int]] = []
    assert check_store(store, progress=lambda done, total: seen.append((done, total))) == []
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert contents(store) == before


def _flip(store: Path) -> None:
    """The last bit of one value: no other check could see it."""
    data = bytearray((store / "samples/s01.npy").read_bytes())
    data[5000] ^= 1
    (store / "samples/s01.npy").write_bytes(data)


def _spoil(store: Path) -> None:
    rows = np.load(store / "samples/s01.npy", mmap_mode="r+")
    rows[7, 7], rows[9, 8] = np.nan, np.inf
    rows.flush()


def _cut(store: Path) -> None:
    data = (store / "samples/s01.npy").read_bytes()
    (store / "samples/s01.npy").write_bytes(data[:-4])


def _manifest(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Changes a manifest of schema 1, which has no hash: the comparisons must find it."""

    def apply(store: Path) -> None:
        value = json.loads((store / "manifest.json").read_text())
        del value["sha256"]
        value["schema"] = 1
        change(value)
        (store / "manifest.json").write_text(json.dumps(value))

    return apply


def _set(*keys: Any, to: Any) -> Callable[[Path], None]:
    def change(value: Any) -> None:
        for key in keys[:-1]:
            value = value[key]
        value[keys[-1]] = to

    return _manifest(change)


def _rename(value: Any) -> None:
    value["samples"]["../s02"] = value["samples"].pop("s02")


@pytest.mark.parametrize(
    ("damage", "messages"),
    [
        (_flip, ["s01: its crc32 must be "]),
        (
            _spoil,
            [
                "s01: field 'pressure' must be finite in float32, got 1 NaN and 0 infinite values"
                " at rows 7",
                "s01: field 'shear' must be finite in float32, got 0 NaN and 1 infinite values at"
                " rows 9",
                "s01: its crc32 must be ",
            ],
        ),
        (_cut, ["s01: {store}/samples/s01.npy must have 22172 bytes, got 22168: the file was cut"]),
        (lambda s: (s / "samples/s01.npy").unlink(), ["s01: {store}/samples/s01.npy must be a sa"]),
        (lambda s: (s / "samples/s09.npy").touch(), ["samples must be in the manifest, got sampl"]),
        (lambda s: (s / "samples/.x.partial").touch(), ["samples must be in the manifest, got sa"]),
        (lambda s: (s / "notes.txt").touch(), ["a store must hold nothing else, got notes.txt"]),
        (lambda s: (s / "ingest").mkdir(), ["an ingest must be finished, got the folder ingest"]),
        (
            _set("statistics", "mean", 8, to=0.5),
            ["statistics of shear[0] must be those of the split 'train'"],
        ),
        (
            _set("statistics", "std", to=[9.0] * 11),
            ["std of statistics must follow from their squares, got other numbers"],
        ),
        (
            _set("statistics", to=None),
            ["statistics must be there for the split 'train', and without it absent"],
        ),
        (
            _set("samples", "s02", "statistics", "low", 0, to=-1.0),
            ["statistics of position[0] must", "s02: its statistics of position[0] must be those"],
        ),
        (
            _set("splits", "test", to=["s03", "s00"]),
            ["splits must not overlap, got s00 in train and test"],
        ),
        (
            _set("splits", "test", to=["s07"]),
            ["s03: a sample must be in a split, got none", "s07: a sample of a split must have an"],
        ),
        (
            _set("splits", to={"test": ["s03"], "train": ["s00", "s01", "s02"]}),
            ["samples must be in the order of the splits, got another order"],
        ),
        (_set("splits", to={**SPLITS, " ": []}), ["a split must have a name, got ' '"]),
        (_set("slipstream", to="new"), ["slipstream must be a version, as 0.1.0, got 'new'"]),
        (_set("provenance", "source", to=""), ["source must be the name of a source, got ''"]),
        (
            _set("fields", "targets", 0, "group", to=" "),
            ["the group of field 'pressure' must be t"],
        ),
        (
            _set("provenance", "options", "pairs", to={"states": 3}),
            ["the option 'pairs' must describe pairs: pairs must have the field state, got"],
        ),
        (
            _set("samples", "s02", "parameters", "angle", to=float("nan")),
            ["{store}/manifest.json: samples.s02.parameters.angle must be a finite number"],
        ),
        (
            _set("samples", "s02", "files", "a.vtp", to={"bytes": 3, "sha256": "a7"}),
            ["s02: source file 'a.vtp' must have its bytes, and may have its sha256, got {{'byt"],
        ),
        (
            _manifest(
                lambda value: [
                    value["samples"][i].update(files={"a": {"bytes": int(i[-1])}})
                    for i in ("s01", "s02")
                ]
            ),
            ["source file a must be one file to all samples, got bytes 1 of s01 and 2 of s02"],
        ),
        (_set("quarantined", "s?", to="x"), ["quarantined: a sample id must have 1 to 200"]),
        (_set("quarantined", "s9", to=""), ["the reason to quarantine s9 must be text, got ''"]),
        (_set("note", to="x"), ["{store}/manifest.json: a field must be one of"]),
        (_set("sha256", to="x"), ["a manifest of schema 1 must have no sha256, got one"]),
        (_set("quarantined", to={"s03": "x"}), ["s03: a sample must not be quarantined, got both"]),
        (_set("schema", to=9), ["{store}/manifest.json: schema must be at most 2, got 9: a newer"]),
        (lambda s: (s / "manifest.json").unlink(), ["{store} must be a store with a manifest.js"]),
    ],
)
def test_what_is_found(store: Path, damage: Callable[[Path], Any], messages: list[str]) -> None:
    damage(store)
    found = [str(finding) for finding in check_store(store)]
    assert len(found) == len(messages), found
    for message, expected in zip(found, messages, strict=True):
        assert message.startswith(expected.format(store=store)), message


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_set("samples", "s02", "bytes", to=None), "samples.s02.bytes must be a whole number, got"),
        (_set("samples", "s02", "crc32", to=None), "samples.s02.crc32 must be a whole number, got"),
        (
            _set("samples", "s02", "rows", to=10**400),
            "rows must be a number of at most 64 bits",
        ),
        (_set("samples", "s02", to=None), "samples.s02 must be a mapping with the fields of"),
        (_set("samples", "s02", to={}), "samples.s02 must have the field rows, got none"),
        (_manifest(_rename), "a sample id must have 1 to 200 letters"),
        (_set("quarantined", to=None), "quarantined must be a mapping, got None"),
        (_set("splits", "test", to=None), "splits.test must be a list, got None"),
        (_set("provenance", "seed", to=None), "seed must be a whole number, got None"),
        (_set("statistics", "squares", to=[]), "statistics must have as many numbers of each kind"),
        (_set("statistics", "squares", 0, to=-1), "squares of statistics must be at least 0, got"),
        (_set("statistics", "mean", 0, to=None), "statistics.mean[0] must be a number, got None"),
        (_set("fields", "targets", to=[]), "must have 7 numbers of each kind, one a column, got"),
    ],
)
def test_a_damaged_manifest_is_one_sentence(
    store: Path, damage: Callable[[Path], Any], message: str
) -> None:
    damage(store)
    (found,) = check_store(store)
    assert str(found).startswith(f"{store}/manifest.json: ") and message in str(found), found


def test_wrong_bytes_of_a_header_are_a_finding(store: Path) -> None:
    file = store / "samples/s01.npy"
    whole = file.read_bytes()
    for place in range(
        len("\x93NUMPYvvhh{'descr': '<f4', 'fortran_order': False, 'shape': (501, 11)")
    ):
        for byte in b")}]('\0\n\xff" if place % 4 == 0 else b"\n":
            if byte != whole[place]:
                file.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
                (found, *more) = check_store(store)
                assert found.sample == "s01" and "\n" not in str(found), found


def test_workers_find_the_same(store: Path) -> None:
    _flip(store)
    assert check_store(store, workers=2) == check_store(store)
