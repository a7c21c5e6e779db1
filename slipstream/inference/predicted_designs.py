"""Outputs of `slipstream predict` as designs: their forces and what these depend on, by the records
beside the files. Nothing here reads a mesh or loads a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipstream.core.records import read_records
from slipstream.core.schemas import parsed
from slipstream.data.meshes import Location
from slipstream.inference.many import DONE, RECORDS

_LEVELS = 8
"""Folders above a file in which its records are looked for: designs may lie in folders of OUT."""


@dataclass(frozen=True)
class PredictedDesign:
    name: str
    file: Path
    weights: str
    """Hash of the weights of the model, or of the models that predicted together."""
    density: str
    precision: str
    location: Location
    units: Mapping[str, str]
    """By predicted field."""
    forces: Mapping[str, Any] | None
    """As JSON, see `Forces.to_json`; None where they were not asked for."""
    given: Mapping[str, Any]
    """Reference values that the user gave to `predict`."""
    parameters: Mapping[str, Any]
    """Parameters of the flow that the user gave."""
    runs: tuple[str, ...]
    """The folders of the runs; empty in older records."""
    warnings: tuple[str, ...] = ()
    likeness: str | None = None
    """The verdict of `predict` on its likeness to the training; None where it had none."""

    @property
    def coefficients(self) -> Mapping[str, float]:
        return {} if self.forces is None else self.forces["coefficients"]


@dataclass(frozen=True)
class _Row:
    """What is read of a record; it holds more."""

    key: dict[str, Any]
    files: tuple[str, ...]
    result: dict[str, Any]


@dataclass(frozen=True)
class _Key:
    weights: str
    density: str
    precision: str
    inputs: dict[str, Any]
    wishes: dict[str, Any]


@dataclass(frozen=True)
class _Result:
    name: str
    location: Location
    units: dict[str, str]
    forces: dict[str, Any] | None = field(default=None, metadata={"younger": True})
    runs: tuple[str, ...] = field(default=(), metadata={"younger": True})
    warnings: tuple[str, ...] = field(default=(), metadata={"younger": True})
    likeness: dict[str, Any] | None = field(default=None, metadata={"younger": True})


def read_designs(places: Sequence[Path]) -> list[PredictedDesign]:
    """The designs of some files and folders, each once, in the order in which they are named.

    ValueError where a place is no output of `slipstream predict`, or its record cannot be read.
    """
    designs: dict[Path, PredictedDesign] = {}
    for place in places:
        found = _in_folder(place) if place.is_dir() else [_of_file(place)]
        for design in found:
            designs.setdefault(design.file.resolve(), design)
    return list(designs.values())


def find_design(designs: Sequence[PredictedDesign], text: str) -> PredictedDesign:
    """The design with a name, or whose file it is; ValueError where there is not exactly one."""
    file = Path(text).resolve()
    tests = (
        lambda one: one.file.resolve() == file,
        lambda one: one.name == text,
        lambda one: text in (one.file.name, Path(one.name).name),
    )
    for test in tests:
        found = [one for one in designs if test(one)]
        if len(found) == 1:
            return found[0]
        if found:
            files = " and ".join(str(one.file) for one in found[:2])
            raise ValueError(
                f"--baseline must name one design, got {text!r}, which {files} are: give the file"
            )
    names = ", ".join(one.name for one in designs[:8]) + (", ..." if len(designs) > 8 else "")
    raise ValueError(f"--baseline must be one of the designs, {names}, got {text!r}")


def _in_folder(folder: Path) -> Iterator[PredictedDesign]:
    if not (folder / RECORDS).is_file():
        raise ValueError(
            f"OUT must be an output of `slipstream predict`, got the folder {folder}, which has no"
            f" {RECORDS}"
        )
    count = 0
    for file, row in _finished(folder / RECORDS).items():
        if file.exists():
            yield _design(file, row, folder / RECORDS)
            count += 1
    if not count:
        raise ValueError(f"OUT must hold predicted meshes, got {folder} with none")


def _of_file(file: Path) -> PredictedDesign:
    if not file.exists():
        raise ValueError(f"OUT must be an output of `slipstream predict`, got no {file}")
    for folder in list(file.absolute().parents)[:_LEVELS]:
        if (folder / RECORDS).is_file():
            for known, row in _finished(folder / RECORDS).items():
                if known.resolve() == file.resolve():
                    return _design(file, row, folder / RECORDS)
    raise ValueError(
        f"OUT must be an output of `slipstream predict`, got {file}, which no {RECORDS} beside it"
        " names"
    )


def _finished(records: Path) -> dict[Path, Mapping[str, Any]]:
    """The last record of each file, where that says that the mesh was finished."""
    last = {row["files"][0]: row for row in read_records(records) if row.get("files")}
    return {records.parent / file: row for file, row in last.items() if row["kind"] == DONE}


def _design(file: Path, row: Mapping[str, Any], records: Path) -> PredictedDesign:
    place = f"{records}: the record of {file.name}"
    whole = parsed(_Row, row, place=place, open=True)
    key = parsed(_Key, whole.key, place=f"{place}: key", open=True)
    result = parsed(_Result, whole.result, place=f"{place}: result", open=True)
    return PredictedDesign(
        name=result.name,
        file=file,
        weights=key.weights,
        density=key.density,
        precision=key.precision,
        location=result.location,
        units=result.units,
        forces=result.forces,
        given=(key.wishes.get("forces") or {}).get("reference") or {},
        parameters=key.inputs.get("parameters") or {},
        runs=result.runs,
        warnings=result.warnings,
        likeness=(result.likeness or {}).get("verdict"),
    )
