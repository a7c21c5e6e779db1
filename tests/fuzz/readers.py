"""The package's readers, by format, through the same doors that the commands use.

A reader returns what it read as named numpy arrays: values that are not arrays as their text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from slipstream.audit.certificate import read_certificate
from slipstream.audit.study_audit import certify
from slipstream.data.cards import MeshSource, draft_card, look_at, read_card
from slipstream.data.meshes import INTERNAL, Wanted, is_case, mesh_info, patches_of, read_mesh
from slipstream.data.store import check_store, read_manifest
from slipstream.runs.checkpoint import read_checkpoint
from slipstream.runs.evaluation_file import read_evaluations
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import load_model
from slipstream.runs.prediction_file import read_prediction
from slipstream.runs.run_records import read_run_records
from slipstream.runs.study_file import read_planned

from .mutate import MESHES

Contents = dict[str, NDArray[Any]]


def read_contents(format: str, path: Path) -> Contents:
    """All that the package reads from a file or folder of this format."""
    return READERS[format](path)


def digests_of(contents: Contents) -> dict[str, tuple[str, str]]:
    """Dtype and shape of each array, and a hash of its values."""
    return {
        name: (f"{values.dtype} {values.shape}", hashlib.sha256(values.tobytes()).hexdigest())
        for name, values in contents.items()
    }


def _read_mesh(path: Path) -> Contents:
    if not is_case(path):
        return _region(path)
    regions = [INTERNAL, *patches_of(path)]
    return {f"{r}: {k}": v for r in regions for k, v in _region(path, regions=[r]).items()}


def _region(path: Path, **how: Any) -> Contents:
    arrays = mesh_info(path).arrays
    wanted = [Wanted(array.name, array.location, array.components) for array in arrays]
    mesh = read_mesh(path, wanted, **how)
    contents = {f"{want.location} {want.name}": mesh.array(want) for want in wanted}
    contents["points"] = mesh.points()
    chunks = list(mesh.cells().checked())
    contents["cells: types"] = _joined([chunk.types for chunk in chunks])
    contents["cells: sizes"] = _joined([chunk.sizes for chunk in chunks])
    contents["cells: corners"] = _joined([chunk.corners for chunk in chunks])
    mesh.cell_centres()
    return contents


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)


def _text(value: Any) -> Contents:
    return {"value": np.frombuffer(repr(value).encode("utf-8", "replace"), np.uint8)}


def _tensors(tensors: Mapping[str, Any]) -> Contents:
    plain = {k: v.detach().contiguous() for k, v in tensors.items() if v is not None}
    return {name: _bytes(tensor) for name, tensor in plain.items()}


def _bytes(tensor: torch.Tensor) -> NDArray[Any]:
    return tensor.reshape(-1).view(torch.uint8).numpy()


def _checkpoint(path: Path) -> Contents:
    checkpoint = read_checkpoint(path)
    return _text((checkpoint.step, checkpoint.state)) | _tensors(checkpoint.tensors)


def _model(path: Path) -> Contents:
    trained = load_model(path)
    about = trained.schema, trained.normaliser, trained.config, trained.metric, trained.about
    return _text((*about, trained.recipe)) | _tensors(dict(trained.model.named_parameters()))


def _prediction(path: Path) -> Contents:
    values = dict(vars(read_prediction(path)))
    names = ("coords", "features", "truth", "values", "weights")
    tensors = {name: values.pop(name) for name in names}
    return _text(values) | _tensors(tensors)


def _audit(path: Path) -> Contents:
    certificate = certify(path)
    return _text((certificate.findings, [run.spans for run in certificate.runs]))


def _inspect(path: Path) -> Contents:
    look = look_at(path)
    return _text((look, draft_card(look)))


def _ingest(path: Path) -> Contents:
    source = MeshSource(path, read_card(path / "card.yaml"))
    clouds = {sample: source.read(sample) for sample in source.ids()}
    rows = {f"{s} {name}": v for s, one in clouds.items() for name, v in one.arrays.items()}
    return rows | _text({sample: cloud.parameters for sample, cloud in clouds.items()})


READERS: Mapping[str, Callable[[Path], Contents]] = {
    **dict.fromkeys(MESHES, _read_mesh),
    "card": lambda path: _text(read_card(path)),
    "manifest": lambda path: _text(read_manifest(path)),
    "config": lambda path: _text(RunFolder(path).read_config()),
    "certificate": lambda path: _text(read_certificate(path)),
    "study": lambda path: _text(read_planned(path)),
    "records": lambda path: _text(read_run_records(path)),
    "evaluations": lambda path: _text(read_evaluations(RunFolder(path))),
    "model": _model,
    "checkpoint": _checkpoint,
    "prediction": _prediction,
    "run": _audit,
    "store": lambda path: _text(check_store(path)),
    "inspect": _inspect,
    "ingest": _ingest,
}
