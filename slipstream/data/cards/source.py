"""A folder of meshes as a source: the samples, files and parameters that a card names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.cards.parameters import (
    ParameterRow,
    find_row,
    parameter_numbers,
    read_one,
    read_parameter_table,
)
from slipstream.data.cards.patterns import ID, find_files
from slipstream.data.cards.rows import read_arrays, read_kept
from slipstream.data.cards.shape import percent
from slipstream.data.cards.types import Card, ParameterValue
from slipstream.data.meshes import INTERNAL, Mesh, mesh_info, parts_of, resolve
from slipstream.data.store import Cloud, Manifest, Schema, draw_splits

UNDECIDED = "normals_undecided"
"""The parameter of a sample with the share of its area, 0 to 1, on which computed normals are not
known to point out of the body; absent where there is none."""


def normals_warning(manifest: Manifest) -> list[str]:
    """A sentence about the samples of a store whose normals may point into the body, or none."""
    if manifest.origin.schema.computed("normals") is None:
        return []
    shares = {
        sample: float(entry.parameters[UNDECIDED])
        for sample, entry in manifest.samples.items()
        if entry.parameters.get(UNDECIDED)
    }
    if not shares:
        return []
    worst = max(shares, key=lambda sample: shares[sample])
    return [
        f"computed normals are not known to point out of the body in {len(shares)} of"
        f" {len(manifest.samples)} samples, on up to {percent(shares[worst])} of the area"
        f" ({worst}): sheets that are seen from both sides, hidden parts, bodies in one another,"
        " tunnels and the ground have no side that is known to be outside"
    ]


@dataclass(frozen=True)
class MeshSource:
    """The samples of a folder, as its card says.

    Raises ValueError when the folder lacks a kind of file, or when neither the first, the middle
    nor the last sample has an array that the card names. A single sample that lacks a file, an
    array or a parameter raises where it is read, which quarantines it.
    """

    raw: Path
    card: Card

    def __post_init__(self) -> None:
        if not self.raw.is_dir():
            got = "a file" if self.raw.exists() else "none"
            raise ValueError(f"{self.raw} must be a folder of meshes, got {got}")
        patterns = {**self.card.files, **{p.file: p.file for p in self.card.parameters}}
        for name, pattern in patterns.items():
            if not self._paths[pattern]:
                whose = f" ({name})" if name != pattern else ""
                raise ValueError(f"{self.raw} must have files like {pattern!r}{whose}, got none")
        self._tables  # noqa: B018 - it checks them
        self._check_arrays()

    @property
    def name(self) -> str:
        return self.card.name

    @property
    def schema(self) -> Schema:
        return self.card.schema

    @property
    def options(self) -> Mapping[str, Any]:
        return self.card.to_json()

    def ids(self) -> Sequence[str]:
        """The ids of all files with arrays, so that a sample that lacks one of them is reported."""
        patterns = [self.card.files[file] for file in self.card.array_files]
        return sorted({id for p in patterns if ID in p for id in self._paths[p]})

    def splits(self) -> Mapping[str, Sequence[str]] | None:
        given = self.card.splits
        if given is None:
            return None
        if given.fractions is None:
            return given.lists
        return draw_splits(self.ids(), given.fractions, given.seed)

    def files(self, sample: str) -> Mapping[str, Path]:
        """The meshes, with all the files that they consist of, and the files of parameters."""
        meshes = self._meshes(sample).values()
        paths = [part for mesh in meshes for part in parts_of(mesh)]
        paths += [self._path(file.file, sample) for file in self.card.parameters]
        return {self._name(path): path for path in paths}

    def read(self, sample: str) -> Cloud:
        rows = read_arrays(self.card, self._meshes(sample))
        note: dict[str, float] = {}
        if self.card.drop or self.card.box:
            note["rows_left_out"] = rows.left_out
        if rows.undecided:
            note[UNDECIDED] = rows.undecided
        parameters = self._parameters(sample)
        return Cloud(self.schema, _divided(self.schema, rows.arrays, parameters), note | parameters)

    def read_mesh(self, sample: str) -> tuple[Mesh, NDArray[np.intp], NDArray[Any]]:
        """The mesh that the rows of a sample are from, the point or cell of it that each row is,
        (N,), and the rows' coordinates, (N, 3)."""
        return read_kept(self.card, self._meshes(sample))

    def _name(self, path: Path) -> str:
        """The path relative to the folder, also outside of it: a .vtm may name blocks anywhere."""
        inside = path.is_relative_to(self.raw)
        name = path.relative_to(self.raw) if inside else Path(os.path.relpath(path, self.raw))
        return name.as_posix()

    @cached_property
    def _paths(self) -> dict[str, dict[str, Path]]:
        """The paths by id, for every pattern of the card; cached, as listing may be slow."""
        patterns = {*self.card.files.values(), *(p.file for p in self.card.parameters)}
        return {pattern: find_files(self.raw, pattern) for pattern in sorted(patterns)}

    @cached_property
    def _tables(self) -> dict[str, dict[str, ParameterRow]]:
        """Parameters of all samples, by the table's pattern."""
        return {
            file.file: read_parameter_table(self._path(file.file, ""), file.id, file.id_pattern)
            for file in self.card.parameters
            if file.id is not None
        }

    def _path(self, pattern: str, sample: str) -> Path:
        path = self._paths[pattern].get(sample if ID in pattern else "")
        if path is None:
            raise ValueError(f"sample {sample} must have a file like {pattern!r}, got none")
        return path

    def _meshes(self, sample: str) -> dict[str, Path]:
        return {file: self._path(pattern, sample) for file, pattern in self.card.files.items()}

    def _parameters(self, sample: str) -> dict[str, Any]:
        parameters: dict[str, Any] = {}
        for entry in self.card.features:
            if isinstance(entry.value, ParameterValue):
                file = self.card.parameters[entry.value.source].file
                path = self._path(file, sample)
                table = self._tables.get(file)
                row = read_one(path) if table is None else find_row(table, sample, path)
                field = entry.field
                parameters[field.name] = parameter_numbers(
                    row, entry.value.key, field.components, path
                )
        return parameters

    def _check_arrays(self) -> None:
        """Raise when no readable sample has the arrays of the card: then the card is wrong."""
        ids = self.ids()
        errors = []
        for sample in dict.fromkeys((ids[0], ids[len(ids) // 2], ids[-1])):
            try:
                meshes = self._meshes(sample)
                held = {
                    file: mesh_info(meshes[file], regions=self.card.patches or (INTERNAL,)).arrays
                    for file in self.card.array_files
                }
            except (ValueError, OSError):
                continue  # a fault of this sample, not of the card
            try:
                for file, arrays in held.items():
                    for wanted in self.card.wanted(file):
                        resolve(wanted, arrays, meshes[file].name)
                return
            except ValueError as error:
                errors.append(error)
        if errors:
            raise errors[0]


def _divided(
    schema: Schema, arrays: Mapping[str, NDArray[Any]], parameters: Mapping[str, Any]
) -> dict[str, NDArray[Any]]:
    """The arrays, each divided by the reference of its field; ValueError where that is 0."""
    divided = dict(arrays)
    for field in schema.targets:
        if field.divided is not None:
            try:
                reference = field.divided.of_sample(parameters)
            except ValueError as error:
                raise ValueError(f"{field.name}: {error}") from None
            divided[field.name] = np.asarray(arrays[field.name], np.float64) / reference
    return divided
