"""model.safetensors: a trained model that says itself what it is and what it takes.

The header (see checkpoint.py, what = "model") holds:

    config       of the run
    fields       coords, features and targets with units
    normaliser   of each part; that of `coords` is the map of coordinates
    metric       step, validation error and its groups
    data_hash, split_hash
    imported     where the model is from, if another program trained it (imported.py)
    recipe       how inputs are made and what outputs are (recipe.py); files of older versions have
                 none, and `add_recipe` gives them one where their store is at hand
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slipstream.core.files import naming_file
from slipstream.core.runtime import pick_device
from slipstream.core.schemas import YOUNGER, Count, parsed
from slipstream.core.shapes import Float
from slipstream.data.batches import Normaliser
from slipstream.data.store import PARTS, Schema
from slipstream.kernels.plan import Impl
from slipstream.models.structure import check_structure, expected_parameters
from slipstream.models.transolver import Transolver
from slipstream.models.variants import Shapes, variant_named
from slipstream.runs.checkpoint import Header, read_tensors, write_tensors
from slipstream.runs.config import RunConfig
from slipstream.runs.imported import Imported
from slipstream.runs.model_inputs import InputFields, ModelInputs, model_inputs
from slipstream.runs.model_page import model_page
from slipstream.runs.recipe import Recipe, check_version
from slipstream.runs.streaming import PhysicalPoints, Streaming, gather
from slipstream.runs.tokens import Tokens


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model with what is needed to use it: `trained(coords, features)` in physical units."""

    model: Transolver
    """On normalised inputs."""
    schema: Schema
    """Its fields, with components and units."""
    normaliser: Normaliser
    """From physical units and back."""
    config: RunConfig
    """How it was trained."""
    metric: Mapping[str, Any]
    """Step, validation error and its groups."""
    about: Mapping[str, Any]
    """Hashes of the data, and versions."""
    recipe: Recipe | None = None
    """How inputs are made and what outputs are; None in files of older versions."""
    imported: Imported | None = None
    """Where the model is from, if another program trained it."""

    @torch.no_grad()
    def __call__(self, coords: Any, features: Any = None) -> Any:
        """The targets at points, in physical units: undivided, where the card divided them by a
        reference of the sample (`undivided_unit` of a field is then their unit).

        `coords` (N, d) and `features` (N, f) are in the units of `schema`, or (B, N, d) and
        (B, N, f) for several clouds at once. Both are tensors, numpy arrays or lists, and the
        result is a tensor on the model's device where `coords` is one, else an array. `features`
        may also be a mapping: each by its name, with values at the points or numbers that all
        points share. ValueError says which fields the model takes where others are given, and how
        each that is missing is made.
        """
        inputs = self.inputs(coords, features)
        values = self.normaliser.targets.inverse(self._run(inputs))
        return inputs.answer(self.schema.undivided(values, inputs.features))

    @torch.no_grad()
    def as_stored(self, coords: Any, features: Any = None) -> Any:
        """The same in the units of `schema`, as the store has its targets."""
        inputs = self.inputs(coords, features)
        return inputs.answer(self.normaliser.targets.inverse(self._run(inputs)))

    @torch.no_grad()
    def normalised(self, coords: Any, features: Any = None) -> Any:
        """The same, normalised as the training's targets were; coords and features are not."""
        inputs = self.inputs(coords, features)
        return inputs.answer(self._run(inputs))

    def encode(self, coords: Any, features: Any = None, **how: Any) -> Tokens:
        """The mixed tokens of every layer on these points, for `decode`.

        `how` is chunk (points taken at a time) and place (where chunks wait: auto, device, host,
        file, recompute). They change memory and time, not the result.
        """
        return Streaming(self, **how).encode(PhysicalPoints.of(coords, features))

    def decode(
        self, coords: Any, features: Any = None, *, tokens: Tokens, chunk: int | None = None
    ) -> Any:
        """The targets at any points, in physical units, by the tokens of a cloud.

        Every point is computed by itself and adds nothing to the tokens: planes, lines and other
        meshes of the same flow can be asked. `decode(x, tokens=encode(x))` is `trained(x)`.
        """
        points = PhysicalPoints.of(coords, features)
        form = self.inputs(*points.read(0, 1))
        shape = (form.coords.shape[0], self.schema.target_dim, self.config.dtype)
        fields, write = gather(points.count, *shape)
        Streaming(self, chunk).decode(points, tokens, write)
        return form.answer(fields if form.as_array else fields.to(self.device))

    def inputs(self, coords: Any, features: Any) -> ModelInputs:
        """Points as the model takes them, checked, on its device and not normalised."""
        takes, dtype = InputFields(self.schema, self.recipe), self.config.dtype
        return model_inputs(takes, coords, features, device=self.device, dtype=dtype)

    def normalised_inputs(self, inputs: ModelInputs) -> tuple[Tensor, Tensor | None]:
        features = inputs.features
        if features is not None:
            features = self.normaliser.features.forward(features)
        return self.normaliser.coords.forward(inputs.coords), features

    def _run(self, inputs: ModelInputs) -> Float[Tensor, "B N k"]:
        return self.model(*self.normalised_inputs(inputs))

    def __str__(self) -> str:
        """A page that a person can read."""
        return model_page(self)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device


@dataclass(frozen=True)
class Metric:
    """The best validation of the training."""

    step: Count
    error: float | None
    """None for an imported model."""
    by_group: dict[str, float | None]


@dataclass(frozen=True)
class ModelHeader(Header):
    config: RunConfig
    fields: Schema
    normaliser: Normaliser
    metric: Metric
    data_hash: str
    split_hash: str
    recipe: Recipe | None = field(default=None, metadata=YOUNGER)
    imported: Imported | None = field(default=None, metadata=YOUNGER)

    def check(self) -> None:
        """Raise ValueError unless the normaliser has a number for every column, and the recipe is
        of these fields."""
        for part in PARTS:
            columns = self.fields.columns(part)
            expected, got = columns.stop - columns.start, len(getattr(self.normaliser, part).shift)
            if expected != got:
                raise ValueError(f"normaliser.{part} must have {expected} numbers, got {got}")
        if self.recipe is not None:
            self.recipe.check(self.fields)


def parse_header(header: Mapping[str, Any]) -> ModelHeader:
    """Raises ValueError where the header of a model file is not as described above."""
    check_version(header.get("recipe"))
    written = parsed(ModelHeader, header, open=True)
    written.check()
    return written


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
        constants=config.model.constants,
    )
    model.recompute, model.memory = config.recompute, config.memory
    model.stream_precision = config.stream_precision
    return model.to(config.dtype)


def write_model(path: Path, trained: TrainedModel) -> None:
    state = {
        "config": trained.config.to_json(),
        "fields": trained.schema.to_json(),
        "normaliser": trained.normaliser.to_json(),
        "metric": dict(trained.metric),
        **trained.about,
        **({"recipe": trained.recipe.to_json()} if trained.recipe else {}),
        **({"imported": trained.imported.to_json()} if trained.imported else {}),
    }
    write_tensors(path, "model", state, dict(trained.model.named_parameters()))


def model_path(path: Path | str) -> Path:
    """The model file of a run's folder, or the file itself."""
    path = Path(path)
    return path / "model.safetensors" if path.is_dir() else path


def load_model(path: Path | str, *, device: str = "cpu", impl: Impl | None = None) -> TrainedModel:
    """Load a `model.safetensors`, or the one of a run's folder.

    `device` as in "cuda" or "auto", `impl` where the kernels should not be chosen as in training.
    Raises ValueError where the file is none, its variant is a plug-in's that is not loaded, or its
    parameters are not those of its variant.
    """
    path = model_path(path)
    header, tensors = read_tensors(path, "model")
    with naming_file(path):
        written = parse_header(header)
    config, schema = written.config, written.fields
    config.model.check_loaded(str(path))
    check_weights(tensors, config, schema, str(path))
    model = build_model(config, schema, impl)
    model.load_state_dict(tensors)
    model = model.to(pick_device(device)).eval()
    own = ("config", "fields", "normaliser", "metric", "recipe", "imported")
    about = {key: value for key, value in header.items() if key not in own}
    metric = header["metric"]
    return TrainedModel(
        model, schema, written.normaliser, config, metric, about, written.recipe, written.imported
    )


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
