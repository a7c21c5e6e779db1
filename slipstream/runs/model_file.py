"""model.safetensors: a trained model that says itself what it is and what it takes.

The header (see checkpoint.py, what = "model") holds: config of the run, fields with units, the
normaliser (of which `coords` is the map of coordinates), hashes of the data, step and validation
error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from numpy.typing import NDArray
from torch import Tensor

from slipstream.core.files import naming_file
from slipstream.core.runtime import pick_device
from slipstream.core.schemas import parsed
from slipstream.core.shapes import Float
from slipstream.data.batches import Normaliser
from slipstream.data.store import PARTS, Schema
from slipstream.kernels.plan import Impl
from slipstream.models.structure import check_structure, expected_parameters
from slipstream.models.transolver import Transolver
from slipstream.models.variants import Shapes, variant_named
from slipstream.runs.checkpoint import BestValidation, Header, read_tensors, write_tensors
from slipstream.runs.config import RunConfig
from slipstream.runs.model_inputs import ModelInputs, model_inputs

Points = TypeVar("Points", Tensor, NDArray[Any])


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model with what is needed to use it: `trained(coords, features)` in physical units."""

    model: Transolver
    schema: Schema
    normaliser: Normaliser
    config: RunConfig
    metric: Mapping[str, Any]
    """Step, validation error and its groups."""
    about: Mapping[str, Any]
    """Hashes of the data, and versions."""

    @torch.no_grad()
    def __call__(self, coords: Points, features: Points | None = None) -> Points:
        """The targets at points, in physical units: undivided, where the card divided them by a
        reference of the sample (`undivided_unit` of a field is then their unit).

        `coords` (N, d) and `features` (N, f) are in the units of `schema`, or (B, N, d) and
        (B, N, f) for several clouds at once. Both are tensors or numpy arrays, and the result is
        what `coords` is: a tensor on the model's device, or an array. ValueError says which fields
        the model takes where others are given.
        """
        inputs = self._inputs(coords, features)
        values = self.normaliser.targets.inverse(self._run(inputs))
        return cast(Points, inputs.answer(self.schema.undivided(values, inputs.features)))

    @torch.no_grad()
    def as_stored(self, coords: Points, features: Points | None = None) -> Points:
        """The same in the units of `schema`, as the store has its targets."""
        inputs = self._inputs(coords, features)
        return cast(Points, inputs.answer(self.normaliser.targets.inverse(self._run(inputs))))

    @torch.no_grad()
    def normalised(self, coords: Points, features: Points | None = None) -> Points:
        """The same, normalised as the training's targets were; coords and features are not."""
        inputs = self._inputs(coords, features)
        return cast(Points, inputs.answer(self._run(inputs)))

    def _inputs(self, coords: Any, features: Any) -> ModelInputs:
        dtype = self.config.dtype
        return model_inputs(self.schema, coords, features, device=self.device, dtype=dtype)

    def _run(self, inputs: ModelInputs) -> Float[Tensor, "B N k"]:
        features = inputs.features
        if features is not None:
            features = self.normaliser.features.forward(features)
        return self.model(self.normaliser.coords.forward(inputs.coords), features)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device


@dataclass(frozen=True)
class ModelHeader(Header):
    config: RunConfig
    fields: Schema
    normaliser: Normaliser
    metric: BestValidation
    data_hash: str
    split_hash: str

    def check(self) -> None:
        """Raise ValueError unless the normaliser has a number for every column."""
        for part in PARTS:
            columns = self.fields.columns(part)
            expected, got = columns.stop - columns.start, len(getattr(self.normaliser, part).shift)
            if expected != got:
                raise ValueError(f"normaliser.{part} must have {expected} numbers, got {got}")


def build_model(config: RunConfig, schema: Schema, impl: Impl | None = None) -> Transolver:
    """The model of a run, with its initial values."""
    model = Transolver(
        schema.coord_dim,
        schema.feature_dim,
        schema.target_dim,
        variant=config.model.variant,
        size=config.model.size,
        seed=config.seed,
        impl=impl or config.model.impl,
        precision=config.model.dots,
    )
    model.recompute = config.recompute
    return model.to(config.dtype)


def write_model(path: Path, trained: TrainedModel) -> None:
    state = {
        "config": trained.config.to_json(),
        "fields": trained.schema.to_json(),
        "normaliser": trained.normaliser.to_json(),
        "metric": dict(trained.metric),
        **trained.about,
    }
    write_tensors(path, "model", state, dict(trained.model.named_parameters()))


def load_model(path: Path | str, *, device: str = "cpu", impl: Impl | None = None) -> TrainedModel:
    """Load a `model.safetensors`, or the one of a run's folder.

    `device` as in "cuda" or "auto", `impl` where the kernels should not be chosen as in training.
    Raises ValueError where the file is none, its variant is a plug-in's that is not loaded, or its
    parameters are not those of its variant.
    """
    path = Path(path)
    path = path / "model.safetensors" if path.is_dir() else path
    header, tensors = read_tensors(path, "model")
    with naming_file(path):
        written = parsed(ModelHeader, header, open=True)
        written.check()
    config, schema = written.config, written.fields
    config.model.check_loaded(str(path))
    check_weights(tensors, config, schema, str(path))
    model = build_model(config, schema, impl)
    model.load_state_dict(tensors)
    model = model.to(pick_device(device)).eval()
    own = ("config", "fields", "normaliser", "metric")
    about = {key: value for key, value in header.items() if key not in own}
    return TrainedModel(model, schema, written.normaliser, config, header["metric"], about)


def check_weights(
    weights: Mapping[str, Tensor], config: RunConfig, schema: Schema, what: str
) -> None:
    """Raise ValueError unless these are the parameters of the config's variant, and no other, of
    the dtype of its precision."""
    for name, weight in weights.items():
        if weight.dtype != config.dtype:
            raise ValueError(
                f"{what}: {name} must have dtype {config.dtype} in {config.precision}, got"
                f" {weight.dtype}"
            )
    shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
    check_structure(shapes, weight_shapes(config, schema), what)


def weight_shapes(config: RunConfig, schema: Schema) -> Shapes:
    """Name and shape of every parameter that a run must have."""
    return expected_parameters(
        variant_named(config.model.variant),
        config.model.size,
        coord_dim=schema.coord_dim,
        feature_dim=schema.feature_dim,
        out_dim=schema.target_dim,
    )
