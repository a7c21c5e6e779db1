"""Predictions as files for ParaView: truth, prediction, error, slices; on a mesh or at points."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from slipstream.core.extras import need
from slipstream.data.cards import OriginalMesh, has_card, original_mesh
from slipstream.data.meshes import Mesh
from slipstream.data.store import Field, Schema, Store, open_store
from slipstream.evaluation.run_evaluation import store_of
from slipstream.evaluation.slices import point_entropy
from slipstream.runs.evaluation_file import Evaluation, predictions_of
from slipstream.runs.folder import RunFolder
from slipstream.runs.prediction_file import Prediction, read_prediction

_POLYGONS, _POLYHEDRON, _CONVEX_SET = (5, 7, 9), 42, 41
"""Types of cells, by VTK's numbers: triangle, polygon, quadrangle; two kinds of solids."""
UNKNOWN_SLICE = -1
"""In the array of most probable slices, a point whose slice weights are not known."""


@dataclass(frozen=True)
class VtkFile:
    """A file that was written."""

    path: Path
    contents: str
    """What it holds, for people: on which mesh, at how many points."""


def write_vtk_files(
    run: RunFolder,
    evaluation: Evaluation,
    *,
    store: Path | None = None,
    meshes: Path | None = None,
    slices: bool = False,
) -> list[VtkFile]:
    """Write the predictions of an evaluation beside them, for ParaView.

    `meshes` is the folder that the run's store was made from: the arrays are then written onto its
    meshes, else at points. `store` is where the store is now. ValueError where a mesh is not that
    of its sample.
    """
    opened: Store | None = None
    with nullcontext() if meshes is not None else suppress(ValueError, OSError):  # points need none
        opened = open_store(store_of(run, run.read_config(), store))
    files = []
    for sample, file in predictions_of(run, evaluation).items():
        prediction = read_prediction(file)
        onto = None
        if opened is not None and meshes is not None:
            onto = original_mesh(opened, sample, meshes)
        path = write_vtk(file, prediction, onto=onto, slices=slices)
        card = opened is not None and has_card(opened)
        files.append(VtkFile(path, _contents(prediction, onto, card)))
    return files


def _contents(prediction: Prediction, onto: OriginalMesh | None, card: bool) -> str:
    points = len(prediction.coords)
    if onto is None:
        hint = ", --meshes FOLDER writes onto the meshes that were ingested" if card else ""
        return f"{points:,} points without cells{hint}"
    kind = "points" if onto.location == "point" else "cells"
    size = onto.mesh.info.points if kind == "points" else onto.mesh.info.cells
    if points == size:
        return f"all {size:,} {kind} of {onto.mesh.name}"
    more = ", --full predicts all that are in the store" if points < len(onto.rows) else ""
    return f"{points:,} of the {size:,} {kind} of {onto.mesh.name}, the others are NaN{more}"


def point_arrays(prediction: Prediction, *, slices: bool = False) -> dict[str, NDArray[Any]]:
    """Arrays by name: FIELD, FIELD_prediction, FIELD_error, features, and of the slices:

    entropy                of a point's weights, in nats, mean over the heads
    most_probable_slice    of the first head
    slice_weights_head_H   with `slices`: the weights of all slices, a component each

    A target that was divided by a reference of the sample is there as stored, and as it was before:
    FIELD_undivided, FIELD_undivided_prediction, FIELD_undivided_error. A name that another array
    has already gets a number: entropy_2 beside a field that is called entropy.
    Where the slice weights are known at fewer points than the fields, they are NaN at the others.
    """
    named: dict[str, NDArray[Any]] = {}
    for name, values in _all_arrays(prediction, slices):
        free, number = name, 2
        while free in named:
            free, number = f"{name}_{number}", number + 1
        named[free] = values
    return named


def _all_arrays(prediction: Prediction, slices: bool) -> Iterator[tuple[str, NDArray[Any]]]:
    schema = prediction.schema
    stored = prediction.truth, prediction.values
    undivided = [schema.undivided(values, prediction.features) for values in stored]
    # Fields first: they keep their names, whatever they are called.
    for field in schema.features:
        yield field.name, _own(schema, field, prediction.features)
    for field in schema.targets:
        yield field.name, _own(schema, field, prediction.truth)
    for field in schema.targets:
        yield from _compared(field.name, *(_own(schema, field, values) for values in stored))
        if field.divided is not None:
            pair = [_own(schema, field, values) for values in undivided]
            yield f"{field.name}_undivided", pair[0]
            yield from _compared(f"{field.name}_undivided", *pair)
    if prediction.weights is not None:
        yield from _slice_arrays(prediction.weights.float(), len(prediction.coords), slices)


def _slice_arrays(weights: Tensor, points: int, slices: bool) -> Iterator[tuple[str, NDArray[Any]]]:
    yield "entropy", _padded(point_entropy(weights).mean(-1).numpy(), points)
    most = np.full(points, UNKNOWN_SLICE, np.int32)
    most[: len(weights)] = weights[:, 0].argmax(-1).numpy()
    yield "most_probable_slice", most
    for head in range(weights.shape[1]) if slices else ():
        yield f"slice_weights_head_{head}", _padded(weights[:, head].numpy(), points)


def write_vtk(
    stem: Path, prediction: Prediction, *, onto: OriginalMesh | None = None, slices: bool = False
) -> Path:
    """Write a prediction as STEM.vtp or, on a volume mesh, STEM.vtu, and return the path.

    `onto` is the mesh of the sample; without it the file has points and no cells. Points and cells
    that were not predicted are NaN (-1 in arrays of whole numbers). ValueError where pyvista is not
    installed.
    """
    pyvista = need("pyvista", "mesh")
    arrays = point_arrays(prediction, slices=slices)
    if onto is None:
        data = pyvista.PolyData(_in_space(prediction.coords))
        rows, at_points = np.arange(len(prediction.coords)), True
    else:
        data = _as_vtk(onto.mesh)
        rows, at_points = onto.rows[: len(prediction.coords)], onto.location == "point"
    into = data.point_data if at_points else data.cell_data
    count = data.n_points if at_points else data.n_cells
    for name, values in arrays.items():
        into[_in_xml(name)] = _placed(values, rows, count)
    path = stem.with_suffix(".vtp" if isinstance(data, pyvista.PolyData) else ".vtu")
    data.save(path)
    return path


def _as_vtk(mesh: Mesh) -> Any:
    """The points and cells of a mesh: PolyData of polygons alone, else an UnstructuredGrid.

    Of polyhedra the package reads no faces: they become convex sets of their corners.
    """
    pyvista = need("pyvista", "mesh")
    chunks = list(mesh.cells().checked())
    if not chunks:
        return pyvista.PolyData(mesh.points())
    sizes, corners, types = (
        np.concatenate(parts).astype(np.int64)
        for parts in zip(*((c.sizes, c.corners, c.types) for c in chunks), strict=True)
    )
    begins = np.cumsum(sizes) - sizes
    # VTK's cells in one array: the size of each, then its corners.
    cells = np.insert(corners, begins, sizes)
    if np.isin(types, _POLYGONS).all():
        return pyvista.PolyData(mesh.points(), cells)
    types[types == _POLYHEDRON] = _CONVEX_SET
    return pyvista.UnstructuredGrid(cells, types.astype(np.uint8), mesh.points())


def _in_xml(name: str) -> str:
    """The name as VTK must be given it, which writes names into XML as they are (9.7)."""
    return escape(name, {'"': "&quot;"})


def _in_space(coords: Tensor) -> NDArray[Any]:
    """Three coordinates, as VTK wants them also in 2D."""
    in_space = np.zeros((len(coords), 3), np.float32)
    given = coords.numpy()[:, :3]
    in_space[:, : given.shape[1]] = given
    return in_space


def _placed(values: NDArray[Any], rows: NDArray[Any], count: int) -> NDArray[Any]:
    missing = np.nan if values.dtype.kind == "f" else UNKNOWN_SLICE
    placed = np.full((count, *values.shape[1:]), missing, values.dtype)
    placed[rows] = values
    return placed


def _own(schema: Schema, field: Field, values: Tensor) -> NDArray[Any]:
    """The columns of a field among those of its part, which is features or targets."""
    part = "features" if field in schema.features else "targets"
    columns, start = schema.columns(field.name), schema.columns(part).start
    return _array(values[:, columns.start - start : columns.stop - start].numpy())


def _compared(
    name: str, truth: NDArray[Any], predicted: NDArray[Any]
) -> Iterator[tuple[str, NDArray[Any]]]:
    yield f"{name}_prediction", predicted
    yield f"{name}_error", predicted - truth


def _array(values: NDArray[Any]) -> NDArray[Any]:
    return values[:, 0] if values.shape[1] == 1 else values


def _padded(values: NDArray[Any], points: int) -> NDArray[Any]:
    padded = np.full((points, *values.shape[1:]), np.nan, np.float32)
    padded[: len(values)] = values
    return padded
