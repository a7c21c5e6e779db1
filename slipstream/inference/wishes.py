"""What is made of a prediction besides its mesh: forces, planes, lines, points, slices, tokens."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.core.files import write_bytes
from slipstream.data.cards import read_table
from slipstream.data.meshes import output_path, with_arrays, write_object
from slipstream.inference.bands import Band
from slipstream.inference.output import write_prediction_mesh
from slipstream.inference.predict import Choices
from slipstream.inference.prediction import MeshPrediction
from slipstream.inference.prediction_forces import ForceWishes, prediction_forces
from slipstream.inference.queries import Line, Plane, ask, ask_plane, ask_points, distance_along
from slipstream.inference.remesh import Remesh, check_count, measure_remesh, shared
from slipstream.inference.slice_arrays import slice_arrays
from slipstream.runs.ensemble import Ensemble

Arrays = dict[str, NDArray[Any]]
_TABLES = (".csv", ".tsv")
_COMPONENTS = {1: ("",), 2: ("_x", "_y"), 3: ("_x", "_y", "_z")}


@dataclass(frozen=True)
class Wishes:
    forces: ForceWishes | None = None
    planes: tuple[Plane, ...] = ()
    lines: tuple[Line, ...] = ()
    points: tuple[Path, ...] = ()
    """Meshes, or tables with columns x, y and z."""
    slices: bool = False
    tokens: bool = False
    bands: tuple[Band, ...] = ()
    """Of fields, to be written as NAME_band."""
    remesh: int | None = None
    """How many other clouds of the same geometry the prediction is compared with."""

    def arrays(self, models: Ensemble, prediction: MeshPrediction, chunk: int | None) -> Arrays:
        """What is asked besides the fields, at the rows of the mesh, by name."""
        arrays = {f"{band.field}_band": band.at(models, prediction) for band in self.bands}
        if self.slices:
            arrays |= slice_arrays(models.first, prediction, chunk=chunk)
        return arrays

    def check(self, models: Ensemble) -> None:
        """Raise ValueError where something is asked of several models that only one has, and where
        a number of other clouds is none."""
        if self.remesh is not None:
            check_count(self.remesh)
        for option, asked in (("--slices", self.slices), ("--tokens", self.tokens)):
            if asked and len(models) > 1:
                raise ValueError(f"{option} must go with one model, got {len(models)}")

    def to_json(self) -> dict[str, Any]:
        asked = {**asdict(self), "points": [str(path.absolute()) for path in self.points]}
        for name in ("bands", "remesh"):
            if not getattr(self, name):
                del asked[name]  # as in records of before there was such a wish
        return asked

    def files(self, target: Path) -> list[Path]:
        """The files beside the mesh that these wishes make for an output TARGET."""
        files = [
            _numbered(target, "plane", k, self.planes, ".vtp") for k in range(len(self.planes))
        ]
        files += [_numbered(target, "line", k, self.lines, ".csv") for k in range(len(self.lines))]
        files += [_points_file(target, path) for path in self.points]
        return files + ([tokens_file(target)] if self.tokens else [])

    def carry_out(
        self,
        models: Ensemble,
        prediction: MeshPrediction,
        target: Path,
        choices: Choices,
    ) -> Iterator[Path]:
        """Write what is asked beside TARGET, file by file; those of `files` are replaced."""
        for k, plane in enumerate(self.planes):
            asked = ask_plane(models, prediction, plane, choices)
            arrays = asked.named_arrays(set())
            data = with_arrays(
                asked.source, **asked.at_location(arrays), units=asked.array_units(arrays)
            )
            yield write_object(data, _numbered(target, "plane", k, self.planes, ""))
        for k, line in enumerate(self.lines):
            asked = ask_points(models, prediction, line.points(), choices)
            columns = {"distance": distance_along(line.points())}
            file = _numbered(target, "line", k, self.lines, ".csv")
            yield _write_table(file, [], line.points(), columns | dict(asked.fields))
        for path in self.points:
            yield _ask_points(models, prediction, path, _points_file(target, path), choices)
        if self.tokens:
            prediction.tokens.save(tokens_file(target))
            yield tokens_file(target)

    def for_prediction(self, choices: Choices) -> Choices:
        """The choices with a progress that leaves room for that of other clouds."""
        return replace(choices, watch=shared(choices.watch, 0, 1 + (self.remesh or 0)))

    def other_clouds(
        self, models: Ensemble, prediction: MeshPrediction, choices: Choices
    ) -> Remesh | None:
        """How far the prediction moves on other clouds, where that is asked."""
        if self.remesh is None:
            return None

        def watch(done: int, total: int) -> None:
            assert self.remesh is not None
            choices.watch(total + done * self.remesh, total * (1 + self.remesh))

        after = replace(choices, watch=watch)
        return measure_remesh(models, prediction, after, self.remesh, self.forces)

    def numbers(self, prediction: MeshPrediction) -> dict[str, Any]:
        """Forces, as JSON: predicted and, where they are known, true."""
        if self.forces is None:
            return {}
        forces = prediction_forces(prediction, self.forces)
        true = None if forces.true is None else forces.true.to_json()
        numbers = {"forces": forces.predicted.to_json(), "true_forces": true}
        if not prediction.members:
            return numbers
        stated = forces.predicted.conventions
        members = map(prediction.of_member, range(len(prediction.members)))
        several = [
            prediction_forces(one, self.forces, conventions=stated).predicted.coefficients
            for one in members
        ]
        spread = {
            name: float(np.std([one[name] for one in several], ddof=1)) for name in several[0]
        }
        return {**numbers, "coefficient_spread": spread}


def tokens_file(target: Path) -> Path:
    return target.with_name(f"{target.name}.tokens.safetensors")


def _numbered(target: Path, what: str, k: int, several: tuple[Any, ...], suffix: str) -> Path:
    number = f"_{k + 1}" if len(several) > 1 else ""
    return target.with_name(f"{target.name}_{what}{number}{suffix}")


def _points_file(target: Path, points: Path) -> Path:
    stem = target.with_name(f"{target.name}_at_{points.stem}")
    if points.suffix.lower() in _TABLES:
        return stem.with_name(f"{stem.name}.csv")
    return output_path(points, stem)


def _ask_points(
    models: Ensemble, prediction: MeshPrediction, path: Path, file: Path, choices: Choices
) -> Path:
    if path.suffix.lower() not in _TABLES:
        asked = ask(models, prediction, path, choices)
        return write_prediction_mesh(asked, file, overwrite=True)
    rows = read_table(path)
    points = _table_points(rows, path)
    asked = ask_points(models, prediction, points, choices)
    return _write_table(file, rows, points, dict(asked.fields))


def _table_points(rows: list[dict[str, Any]], path: Path) -> NDArray[np.float64]:
    names = {str(name).strip().lower(): name for name in (rows[0] if rows else {})}
    if not {"x", "y", "z"} <= names.keys():
        raise ValueError(
            f"{path} must have columns x, y and z, got {', '.join(map(str, names)) or 'none'}"
        )
    try:
        points = np.array([[float(row[names[axis]]) for axis in "xyz"] for row in rows])
    except (TypeError, ValueError):
        points = np.array([[np.nan] * 3])
    if not np.isfinite(points).all():
        raise ValueError(f"x, y and z of {path} must be numbers in every row, got one without")
    return points


def _write_table(
    file: Path,
    rows: list[dict[str, Any]],
    points: NDArray[Any],
    columns: Mapping[str, NDArray[Any]],
) -> Path:
    """A CSV of the rows of a table, or of points, with columns added."""
    given = list(rows[0]) if rows else ["x", "y", "z"]
    names, values = [], []
    for name, own in columns.items():
        flat = own.reshape(len(own), -1)
        endings = _COMPONENTS.get(flat.shape[1]) or [f"_{k}" for k in range(flat.shape[1])]
        names += [f"{name}{ending}" for ending in endings]
        values.append(flat)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*given, *names])
    for k, numbers in enumerate(np.concatenate(values, 1)):
        before = (
            [_cell(rows[k][name]) for name in given] if rows else [f"{x:.9g}" for x in points[k]]
        )
        writer.writerow([*before, *(f"{number:.9g}" for number in numbers)])
    file.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(file, text.getvalue().encode())
    return file


def _cell(value: Any) -> Any:
    """A number with a decimal point, also where its table has a comma; text as it is."""
    return f"{float(value):.9g}" if isinstance(value, float) else value
