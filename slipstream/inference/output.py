"""A prediction as a file for ParaView: the mesh itself, with the predicted arrays on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.meshes import mesh_info, output_path, write_with_arrays
from slipstream.inference.array_names import free_name
from slipstream.inference.prediction import MeshPrediction


def write_prediction_mesh(
    prediction: MeshPrediction,
    out: Path,
    *,
    extra: Mapping[str, NDArray[Any]] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write the mesh of a prediction, a path, once more with the predicted arrays and `extra` ones
    at the same rows, and return the file's path. ValueError where it exists already."""
    source = Path(prediction.source)
    held = mesh_info(source, regions=prediction.regions).arrays
    taken = {info.name for info in held if info.location == prediction.location}
    arrays = prediction.named_arrays(taken)
    for name, values in (extra or {}).items():
        arrays[free_name(name, "", taken | arrays.keys())] = values
    units = prediction.array_units(arrays)
    return write_with_arrays(
        source,
        out,
        **prediction.at_location(arrays),
        units=units,
        field_text=_about(prediction),
        regions=prediction.regions,
        overwrite=overwrite,
    )


def planned_file(prediction_source: Path, out: Path, regions: tuple[str, ...]) -> Path:
    return output_path(prediction_source, out, regions=regions)


def _about(prediction: MeshPrediction) -> dict[str, str]:
    given = {name: np.asarray(v).tolist() for name, v in prediction.parameters.items()}
    texts = {
        **{f"slipstream_{key}": text for key, text in prediction.about.items()},
        "slipstream_how": "; ".join(prediction.how),
        "slipstream_parameters": json.dumps(given),
    }
    if prediction.warnings:
        texts["slipstream_warnings"] = "; ".join(prediction.warnings)
    return texts
