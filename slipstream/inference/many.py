"""Many meshes: one after another, each finished or named as failed, and going on after a stop.

OUT/predictions.jsonl has two records for a mesh: one when its files are about to be written, which
names them by their paths below OUT, and one when all are. A mesh is not predicted again where the
last record of the same output file has the same source, choices and weights, and its files are
there; files of a mesh that was not finished are replaced, and no others.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.core.records import append_record, read_records
from slipstream.core.schemas import parsed
from slipstream.data.meshes import MeshInput, parts_of
from slipstream.inference.bounds import Bounds
from slipstream.inference.likeness import Judge, MeshLikeness
from slipstream.inference.mesh_fields import MeshFields, mesh_fields, regions_of
from slipstream.inference.output import planned_file, write_prediction_mesh
from slipstream.inference.predict import Choices, predict, recipe_of
from slipstream.inference.prediction import MeshPrediction
from slipstream.inference.wishes import Wishes
from slipstream.runs.ensemble import Ensemble, Models, as_ensemble

RECORDS = "predictions.jsonl"
_BEGUN, DONE = "mesh-prediction-begun", "mesh-prediction"


@dataclass(frozen=True)
class MeshResult:
    """What became of one mesh."""

    name: str
    status: str
    """predicted, kept (it was there already) or failed."""
    file: str | None = None
    files: Sequence[str] = ()
    """Those of planes, lines, points and tokens."""
    reason: str = ""
    """Why it failed."""
    rows: int = 0
    location: str = ""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Least and largest value of each field; of a vector, of its length."""
    units: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, float] = field(default_factory=dict)
    """Relative L1 error of each field whose truth the mesh has."""
    how: Sequence[str] = ()
    warnings: Sequence[str] = ()
    forces: Mapping[str, Any] | None = None
    true_forces: Mapping[str, Any] | None = None
    coefficient_spread: Mapping[str, float] = field(default_factory=dict)
    """Standard deviation of the coefficients over several models."""
    runs: Sequence[str] = ()
    """The folders of the runs whose models predicted it."""
    remesh: Mapping[str, Any] | None = None
    """How far it moves on other clouds of the same geometry (remesh.py), where that was asked."""
    bounds: Bounds | None = None
    """Of the errors, by the calibration; records have none, since it may come later."""
    likeness: MeshLikeness | None = None
    """To the training, by the judge; None without one."""


@dataclass(frozen=True)
class Outputs:
    """Where the predictions of meshes go."""

    folder: Path
    single: Path | None = None
    """The file of the only mesh; else every mesh is FOLDER/NAME."""
    overwrite: bool = False

    def target(self, mesh: MeshInput) -> Path:
        return self.single or self.folder / mesh.name

    @property
    def records(self) -> Path:
        return self.folder / RECORDS


def predict_many(
    models: Models,
    meshes: Sequence[MeshInput],
    outputs: Outputs,
    choices: Callable[[MeshInput], Choices],
    wishes: Wishes | None = None,
    *,
    judge: Judge | None = None,
    runs: Sequence[Path] = (),
) -> Iterator[MeshResult]:
    """Predict meshes into a folder, a result each; an error of one does not stop the others.

    The judge says whether meshes are like the training, and fails others where it is strict. `runs`
    are the folders that the models are of, for the records.
    """
    job = Job(as_ensemble(models), outputs, wishes or Wishes(), judge, runs)
    for mesh in meshes:
        try:
            yield job.run(mesh, choices(mesh))
        except (ValueError, OSError) as error:
            yield failure(mesh, error)


def failure(mesh: MeshInput, error: ValueError | OSError) -> MeshResult:
    return MeshResult(mesh.name, "failed", reason=_sentence(error))


def earlier_outputs(records: Path) -> set[str]:
    """The files that earlier calls have written, by their real paths."""
    rows = read_records(records) if records.is_file() else []
    files = [file for row in rows for file in row.get("files", ())]
    return {str((records.parent / file).resolve()) for file in files}


class Job:
    """Predicts one mesh after another into a folder."""

    def __init__(
        self,
        models: Ensemble,
        outputs: Outputs,
        wishes: Wishes,
        judge: Judge | None,
        runs: Sequence[Path],
    ) -> None:
        wishes.check(models)
        self._judge = judge
        self._models, self._outputs, self._wishes = models, outputs, wishes
        self._runs = tuple(str(run.absolute()) for run in runs)
        self._weights = models.weights
        self.read_records()

    def read_records(self) -> None:
        """Other processes may have written some since."""
        file = self._outputs.records
        records = read_records(file) if file.is_file() else []
        self._last = {row["files"][0]: row for row in records if row["kind"] in (_BEGUN, DONE)}

    def begun(self, mesh: MeshInput, choices: Choices) -> bool:
        """Whether a file of a mesh is there."""
        return any(file.exists() for file in self._files(mesh, choices)[1])

    def kept(self, mesh: MeshInput, choices: Choices) -> MeshResult | None:
        """The result of a mesh that was predicted so before, None where it must be predicted;
        ValueError where a file is there that must not be replaced."""
        file, files = self._files(mesh, choices)
        key, last = self._key(mesh, choices), self._last.get(self._path(file))
        if last and last["kind"] == DONE and last["key"] == key and self._there(last["files"]):
            if not self._outputs.overwrite:
                kept = replace(_result(last["result"]), status="kept", file=str(file))
                return replace(kept, likeness=self._likeness_again(mesh, choices, kept.likeness))
        self._check_free(files, last)
        return None

    def run(self, mesh: MeshInput, choices: Choices) -> MeshResult:
        kept = self.kept(mesh, choices)
        if kept is not None:
            return kept
        file, files = self._files(mesh, choices)
        paths, key = [self._path(one) for one in files], self._key(mesh, choices)
        about = {"name": mesh.name, "key": key, "files": paths}
        first = self._wishes.for_prediction(choices)
        prediction = predict(self._models, mesh.path, choices=first)
        likeness = self._likeness(mesh, prediction.inputs)
        numbers = self._wishes.numbers(prediction)
        extra = self._wishes.arrays(self._models, prediction, choices.chunk)
        remesh = self._wishes.other_clouds(self._models, prediction, choices)
        if remesh is not None:
            numbers, extra = {**numbers, "remesh": remesh.to_json()}, {**extra, **remesh.arrays()}
        append_record(self._outputs.records, _BEGUN, about)
        stem = file.with_suffix("")
        beside = [
            str(path) for path in self._wishes.carry_out(self._models, prediction, stem, choices)
        ]
        target = self._outputs.target(mesh)
        write_prediction_mesh(prediction, target, extra=extra, overwrite=True)
        result = replace(
            _predicted(mesh, prediction),
            file=str(file),
            files=beside,
            likeness=likeness,
            runs=self._runs,
            **numbers,
        )
        append_record(self._outputs.records, DONE, {**about, "result": asdict(result)})
        return result

    def _files(self, mesh: MeshInput, choices: Choices) -> tuple[Path, list[Path]]:
        """The file of a mesh, and it with all that are beside it."""
        regions = regions_of(recipe_of(self._models.first), choices.inputs)
        file = planned_file(mesh.path, self._outputs.target(mesh), regions)
        files = [file, *self._wishes.files(file.with_suffix(""))]
        twice = [str(path) for path in files if files.count(path) > 1]
        if twice:
            raise ValueError(f"files of --points must have different names, got {twice[0]} twice")
        return file, files

    def _path(self, file: Path) -> str:
        return os.path.relpath(file, self._outputs.folder)

    def _likeness(self, mesh: MeshInput, inputs: MeshFields) -> MeshLikeness | None:
        """ValueError where the judge is strict and the mesh is not like the training."""
        if self._judge is None:
            return None
        likeness = self._judge.judge(inputs)
        self._judge.check(likeness, mesh.name)
        return likeness

    def _likeness_again(
        self, mesh: MeshInput, choices: Choices, earlier: MeshLikeness | None
    ) -> MeshLikeness | None:
        """That of a mesh that is not predicted again: judged again where it was by another file."""
        judge = self._judge
        if judge is None or (earlier is not None and earlier.of == judge.of):
            if judge is not None and earlier is not None:
                judge.check(earlier, mesh.name)
            return earlier
        return self._likeness(mesh, mesh_fields(mesh.path, judge.recipe, choices.inputs))

    def _there(self, files: Sequence[str]) -> bool:
        return all((self._outputs.folder / file).exists() for file in files)

    def _check_free(self, files: Sequence[Path], last: Mapping[str, Any] | None) -> None:
        own = set(last["files"]) if last and last["kind"] == _BEGUN else set()
        for file in files:
            if file.exists() and not self._outputs.overwrite and self._path(file) not in own:
                raise ValueError(
                    f"out must be a new file, got {file}, which exists (--overwrite replaces it)"
                )

    def _key(self, mesh: MeshInput, choices: Choices) -> dict[str, Any]:
        """All that the result depends on, as JSON."""
        inputs = choices.inputs
        given = {name: np.asarray(value).tolist() for name, value in inputs.parameters.items()}
        return {
            "source": str(mesh.path.absolute()),
            "state": _state(
                [mesh.path, *([inputs.surface] if inputs.surface else []), *self._wishes.points]
            ),
            "weights": self._weights,
            "density": choices.density,
            "precision": choices.precision,
            "inputs": {
                **asdict(inputs),
                "parameters": given,
                "surface": None if inputs.surface is None else str(inputs.surface.absolute()),
                "regions": list(inputs.regions),
            },
            "wishes": _plain(self._wishes.to_json()),
        }


def _plain(value: Any) -> Any:
    """Tuples as lists, as JSON gives them back."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _state(meshes: Sequence[Path]) -> str:
    """A hash of the sizes and times of all files that some meshes consist of."""
    states = []
    for mesh in meshes:
        for part in parts_of(mesh):
            state = part.stat()
            states.append(f"{part.absolute()} {state.st_size} {state.st_mtime_ns}")
    return hashlib.sha256("\n".join(states).encode()).hexdigest()


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"cannot use {str(error.filename)!r}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return str(error)


def _predicted(mesh: MeshInput, prediction: MeshPrediction) -> MeshResult:
    ranges = {}
    for name, values in prediction.fields.items():
        sizes = values if values.ndim == 1 else np.linalg.norm(values, axis=1)
        ranges[name] = (float(np.nanmin(sizes)), float(np.nanmax(sizes)))
    return MeshResult(
        mesh.name,
        "predicted",
        rows=prediction.rows,
        location=prediction.location,
        ranges=ranges,
        units=dict(prediction.units),
        errors=prediction.errors,
        how=prediction.how,
        warnings=prediction.warnings,
    )


def _result(value: Mapping[str, Any]) -> MeshResult:
    ranges = {name: tuple(own) for name, own in value["ranges"].items()}
    likeness = value.get("likeness")
    if likeness is not None:
        likeness = parsed(MeshLikeness, likeness, place="likeness")
    return MeshResult(**{**value, "ranges": ranges, "likeness": likeness})
