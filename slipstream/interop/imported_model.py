"""The model file of an imported model: fields by given or made-up names, and no normaliser."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import torch

from slipstream.core.files import write_bytes
from slipstream.data.batches import Normaliser
from slipstream.data.batches.normaliser import Affine
from slipstream.data.store import Field, Schema
from slipstream.interop.certificate import Parity
from slipstream.interop.import_weights import Import
from slipstream.runs.config import DataConfig, ModelConfig, RunConfig
from slipstream.runs.imported import Imported
from slipstream.runs.model_file import TrainedModel, write_model

_AXES = ("x", "y", "z")


def as_trained(
    imported: Import,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    *,
    fields: Schema | None = None,
) -> TrainedModel:
    """The import as a model that can be written, loaded and called.

    `inputs` and `outputs` are names of its columns, as "pressure" or "pressure=Pa"; without them
    they are those of `fields`, or made up. The normaliser changes nothing: whatever the other
    program did to its data before the model must be done to them here, too. Raises ValueError where
    the fields are not as many as the model's columns.
    """
    schema = _schema(imported, inputs, outputs) if fields is None else fields
    _check_fields(imported, schema)
    normaliser = Normaliser(
        _identity(schema.coord_dim), _identity(schema.feature_dim), _identity(schema.target_dim)
    )
    config = RunConfig(
        experiment=f"imported from {imported.naming.source}",
        data=DataConfig(problem=None),
        model=ModelConfig(
            variant=imported.variant, size=imported.size, constants=imported.constants
        ),
        steps=1,
        evaluate_every=1,
        precision="fp64" if imported.dtype == torch.float64 else "fp32",
    )
    origin = Imported(
        source=imported.naming.title,
        file=imported.path.name,
        sha256=hashlib.sha256(imported.path.read_bytes()).hexdigest(),
        version=imported.foreign.version,
        dropped=imported.dropped,
    )
    return TrainedModel(
        imported.model(), schema, normaliser, config,
        {"step": 0, "error": None, "by_group": {}}, {"data_hash": "", "split_hash": ""},
        imported=origin,
    )  # fmt: skip


def write_imported(out: Path, trained: TrainedModel, imported: Import, parity: Parity) -> Path:
    """Write the model, and beside it the certificate, whose path is returned."""
    certificate = out.with_name(f"{out.stem}.parity.json")
    assert trained.imported is not None, "an imported model says where it is from"
    content = {
        "model": out.name,
        **trained.imported.to_json(),
        "variant": imported.variant,
        "constants": imported.constants.differing(),
        "parity": parity.to_json(),
    }
    write_model(out, trained)
    write_bytes(certificate, (json.dumps(content, indent=2) + "\n").encode())
    return certificate


def _schema(imported: Import, inputs: Sequence[str], outputs: Sequence[str]) -> Schema:
    d, f, k = imported.coord_dim, imported.feature_dim, imported.out_dim
    coords = _AXES[:d] if d <= len(_AXES) else _numbered("coord", d)
    given = list(inputs) or [*coords, *_numbered("feature", f)]
    targets = list(outputs) or _numbered("output", k)
    for option, names, count in (("--inputs", given, d + f), ("--outputs", targets, k)):
        if len(names) != count:
            raise ValueError(f"{option} must be {count} names, got {len(names)}")
    fields = [_field(name) for name in given]
    return Schema(tuple(fields[:d]), tuple(fields[d:]), tuple(map(_field, targets)))


def _check_fields(imported: Import, schema: Schema) -> None:
    wanted = (imported.coord_dim, imported.feature_dim, imported.out_dim)
    got = (schema.coord_dim, schema.feature_dim, schema.target_dim)
    if got != wanted:
        raise ValueError(
            f"the fields of the store must be those of the model, {_columns(*wanted)}, got"
            f" {_columns(*got)}"
        )


def _columns(coords: int, features: int, targets: int) -> str:
    return f"{coords} columns of coordinates, {features} of features and {targets} of targets"


def _field(text: str) -> Field:
    name, _, unit = text.strip().partition("=")
    return Field(name, unit or "1")


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name}_{number}" for number in range(1, count + 1)]


def _identity(columns: int) -> Affine:
    return Affine((0.0,) * columns, (1.0,) * columns)
