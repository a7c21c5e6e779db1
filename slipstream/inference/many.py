"""Many meshes: one after another, each finished or named as failed, and going on after a stop.

OUT/predictions.jsonl has a record for every mesh that was written. A mesh whose record has the same
source file, parameters and weights, and whose output is there, is not predicted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.core.records import append_record, read_records
from slipstream.data.meshes import MeshInput
from slipstream.inference.mesh_fields import regions_of
from slipstream.inference.output import planned_file, write_prediction_mesh
from slipstream.inference.predict import Choices, predict, recipe_of
from slipstream.inference.prediction import MeshPrediction
from slipstream.runs.checkpoint import weights_hash
from slipstream.runs.model_file import TrainedModel

RECORDS = "predictions.jsonl"
KIND = "mesh-prediction"
Finish = Callable[[MeshPrediction, Path], Mapping[str, Any]]
"""Called with a prediction and its file; what it returns goes into the record under `more`."""


@dataclass(frozen=True)
class MeshResult:
    """What became of one mesh."""

    name: str
    status: str
    """predicted, kept (it was there already) or failed."""
    file: str | None = None
    reason: str = ""
    """Why it failed."""
    rows: int = 0
    location: str = ""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Least and largest value of each field; of a vector, of its length."""
    units: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, float] = field(default_factory=dict)
    how: Sequence[str] = ()
    warnings: Sequence[str] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


def predict_many(
    trained: TrainedModel,
    meshes: Sequence[MeshInput],
    out: Path,
    choices: Callable[[MeshInput], Choices],
    *,
    file_of: Callable[[MeshInput], Path] | None = None,
    overwrite: bool = False,
    finish: Finish = lambda prediction, file: {},
) -> Iterator[MeshResult]:
    """Predict meshes into a folder, a result each. An error of one mesh does not stop the others.

    `file_of` is the output of a mesh without its suffix, by default OUT/NAME.
    """
    weights = weights_hash(dict(trained.model.named_parameters()))
    done = _done(out / RECORDS)
    for mesh in meshes:
        target = file_of(mesh) if file_of else out / mesh.name
        try:
            how = choices(mesh)
            key = _key(mesh, weights, how)
            file = planned_file(mesh.path, target, regions_of(recipe_of(trained), how.inputs))
            earlier = done.get(mesh.name)
            if earlier and earlier["key"] == key and file.exists() and not overwrite:
                yield replace(_result(earlier["result"]), status="kept")
                continue
            if file.exists() and not overwrite:
                raise ValueError(
                    f"out must be a new file, got {file}, which exists (--overwrite replaces it)"
                )
            prediction = predict(trained, mesh.path, choices=how)
            written = write_prediction_mesh(prediction, target, overwrite=overwrite)
            result = _predicted(mesh, prediction, written, finish)
            append_record(out / RECORDS, KIND, {"key": key, "result": asdict(result)})
        except (ValueError, OSError) as error:
            yield MeshResult(mesh.name, "failed", reason=_sentence(error))
            continue
        yield result


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"cannot use {str(error.filename)!r}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return str(error)


def _predicted(
    mesh: MeshInput, prediction: MeshPrediction, file: Path, finish: Finish
) -> MeshResult:
    ranges = {}
    for name, values in prediction.fields.items():
        sizes = values if values.ndim == 1 else np.linalg.norm(values, axis=1)
        ranges[name] = (float(sizes.min()), float(sizes.max()))
    return MeshResult(
        mesh.name,
        "predicted",
        str(file),
        rows=prediction.rows,
        location=prediction.location,
        ranges=ranges,
        units=dict(prediction.units),
        errors=prediction.errors,
        how=prediction.how,
        warnings=prediction.warnings,
        more=finish(prediction, file),
    )


def _key(mesh: MeshInput, weights: str, choices: Choices) -> dict[str, Any]:
    """All that the result depends on, as JSON."""
    state = mesh.path.stat()
    inputs = choices.inputs
    given = {name: np.asarray(value).tolist() for name, value in inputs.parameters.items()}
    return {
        "source": str(mesh.path.absolute()),
        "size": state.st_size,
        "changed": state.st_mtime_ns,
        "weights": weights,
        "density": choices.density,
        "precision": choices.precision,
        "parameters": given,
        "inputs": {
            "location": inputs.location,
            "scale": inputs.scale,
            "surface": None if inputs.surface is None else str(inputs.surface.absolute()),
            "regions": list(inputs.regions),
            "flip_normals": inputs.flip_normals,
        },
    }


def _done(records: Path) -> dict[str, dict[str, Any]]:
    """The newest record of each mesh."""
    rows = read_records(records, KIND) if records.is_file() else []
    return {row["result"]["name"]: row for row in rows}


def _result(value: Mapping[str, Any]) -> MeshResult:
    return MeshResult(**{**value, "ranges": {k: tuple(v) for k, v in value["ranges"].items()}})
