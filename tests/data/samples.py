"""Small sources with known contents, importable by worker processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.core.runtime import derive_seed
from slipstream.data.store import Cloud, Field, RowBlocks, Schema

SCHEMA = Schema(
    coords=(Field("position", "m", components=3),),
    features=(Field("normal", components=3), Field("inflow", "m/s")),
    targets=(Field("pressure", "Pa"), Field("shear", "Pa", components=3)),
)


def make_rows(sample: str, rows: int) -> NDArray[Any]:
    """Random rows whose first column is the row's own number."""
    draw = np.random.default_rng(derive_seed(0, sample))
    values = draw.normal(3, 2, (rows, SCHEMA.width)).astype(np.float32)
    values[:, 0] = np.arange(rows)
    return values


def make_cloud(sample: str, rows: int) -> Cloud:
    values = make_rows(sample, rows)
    arrays = {f.name: values[:, SCHEMA.columns(f.name)] for f in SCHEMA.fields}
    return Cloud(SCHEMA, arrays, {"angle": 4.0})


def blocks_of(values: NDArray[Any], size: int) -> Iterator[NDArray[Any]]:
    for first in range(0, len(values), size):
        yield values[first : first + size]


@dataclass(frozen=True)
class Made:
    """Samples s00, s01, ... of about `rows` rows; every second one comes in blocks."""

    count: int = 6
    rows: int = 500
    bad: Mapping[str, str] = field(default_factory=dict)
    """Sample id -> the way in which it is bad."""
    given: Mapping[str, Sequence[str]] | None = None
    folder: Path | None = None
    """With source files <id>.raw."""
    pause: float = 0.0
    """Seconds before every block, for a test that kills."""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "made"

    @property
    def schema(self) -> Schema:
        return SCHEMA

    @property
    def options(self) -> Mapping[str, Any]:
        return {"rows": self.rows, **self.extra}

    def ids(self) -> Sequence[str]:
        return [f"s{i:02d}" for i in range(self.count)]

    def splits(self) -> Mapping[str, Sequence[str]] | None:
        return self.given

    def files(self, sample: str) -> Mapping[str, Path]:
        return {f"raw/{sample}.raw": self.folder / f"{sample}.raw"} if self.folder else {}

    def read(self, sample: str) -> Cloud | RowBlocks:
        way = self.bad.get(sample)
        if way == "dies":
            os._exit(9)
        if way == "raises":
            raise KeyError("pMeanTrim")
        rows = self.rows + int(sample[1:])
        values = make_rows(sample, rows)
        if way == "nan":
            values[[3, 7], SCHEMA.columns("pressure").start] = np.nan
        if int(sample[1:]) % 2 or way:
            return RowBlocks(rows + (way == "short"), self._blocks(values), {"angle": 1})
        if self.pause:
            time.sleep(self.pause)
        arrays = {f.name: values[:, SCHEMA.columns(f.name)] for f in SCHEMA.fields}
        return Cloud(SCHEMA, arrays, {"angle": 1})

    def _blocks(self, values: NDArray[Any]) -> Iterator[NDArray[Any]]:
        for block in blocks_of(values, 1 + len(values) // 3):
            if self.pause:
                time.sleep(self.pause)
            yield block


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its relative name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
