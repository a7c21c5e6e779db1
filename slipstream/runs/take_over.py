"""The initial values of a run that starts from a trained model.

All parameters are taken over. The lift and the head are adapted, in closed form, to the statistics
of the new store: inputs and outputs are normalised by these, as in every run, and the function in
physical units is unchanged.

    lift   x_old = (x - s_old) / c_old and x = c_new x_new + s_new:
           W' = W c_new / c_old,  b' = b + W (s_new - s_old) / c_old
    head   W' = W c_old / c_new,  b' = (b c_old + s_old - s_new) / c_new

The other way, keeping the model's statistics, would leave the validation error in units of another
store: a run from a model and one from scratch could not be compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from slipstream.data.batches import Affine, Normaliser
from slipstream.data.store import Field, Schema
from slipstream.runs.checkpoint import weights_hash
from slipstream.runs.config import InitialModel, ModelConfig, RunConfig
from slipstream.runs.model_file import TrainedModel, build_model, load_model, model_path

ADAPTED = ("lift.expand.weight", "lift.expand.bias", "head.weight", "head.bias")


@dataclass(frozen=True, eq=False)
class TakenOver:
    """Initial values, and which fields of the store they know."""

    weights: dict[str, Tensor]
    new_inputs: tuple[str, ...]
    """Whose columns of the lift start at zero: the model did not have them, or they had one value
    in all of its training."""
    lost_inputs: tuple[str, ...]
    """The model's, not the store's: taken to be at their mean."""
    new_targets: tuple[str, ...]
    """Whose rows of the head are drawn from the seed."""
    lost_targets: tuple[str, ...]

    def sentences(self, initial: InitialModel) -> list[str]:
        """What a user should know."""
        said = [
            f"{len(self.weights)} parameters start at the values of {initial.model}, weights"
            f" {initial.weights[:12]}, with lift and head adapted to the statistics of this store."
        ]
        for names, what in (
            (self.new_inputs, "New inputs, whose weights start at zero"),
            (
                self.lost_inputs,
                "Inputs of the model that the store lacks, taken to be at their mean",
            ),
            (self.new_targets, "New targets, with a head drawn from the seed"),
            (self.lost_targets, "Targets of the model that the store lacks"),
        ):
            if names:
                said.append(f"{what}: {', '.join(names)}.")
        return said


def initial_model(path: Path | str) -> tuple[InitialModel, TrainedModel]:
    """What a config says of a model to start from, and the model."""
    file = model_path(path).resolve()
    trained = load_model(file)
    return InitialModel(model=str(file), weights=_weights_of(trained)), trained


def take_over(config: RunConfig, schema: Schema, normaliser: Normaliser) -> TakenOver:
    """The initial values of a run whose config names a model.

    Raises ValueError where the file holds other weights than the config says, the model is of
    another variant, size or constants, or none of its inputs are the store's.
    """
    assert config.initial is not None
    path = config.initial.model
    source = load_model(path)
    weights = _weights_of(source)
    if weights != config.initial.weights:
        raise ValueError(
            f"{path} must have the weights {config.initial.weights[:12]} of the config, got"
            f" {weights[:12]}"
        )
    check_same_model(config.model, source.config.model, path)
    return adapt(source, config, schema, normaliser)


def check_same_model(config: ModelConfig, source: ModelConfig, path: str) -> None:
    """Raise ValueError where a model is of another variant or size than a config, or computes with
    other constants."""
    for name in ("variant", "size", "constants"):
        wanted, got = getattr(config, name), getattr(source, name)
        if wanted != got:
            raise ValueError(
                f"model.{name} must be that of the model to start from, {path}, {got}, got {wanted}"
            )


def adapt(
    source: TrainedModel, config: RunConfig, schema: Schema, normaliser: Normaliser
) -> TakenOver:
    """The weights of a model of the same variant and size for other fields and statistics."""
    drawn = dict(build_model(config, schema, "reference").named_parameters())
    old = {name: p.detach().cpu().double() for name, p in source.model.named_parameters()}
    new = {name: p.detach().double() for name, p in drawn.items()}
    kept = {name: value for name, value in old.items() if name not in ADAPTED}
    new_inputs = _adapt_lift(source, schema, normaliser, old, new)
    new_targets = _adapt_head(source, schema, normaliser, old, new)
    weights = {name: value.to(config.dtype) for name, value in (new | kept).items()}
    return TakenOver(
        weights, new_inputs, _lost(source.schema, schema, ("coords", "features")),
        new_targets, _lost(source.schema, schema, ("targets",)),
    )  # fmt: skip


def _adapt_lift(
    source: TrainedModel,
    schema: Schema,
    normaliser: Normaliser,
    old: dict[str, Tensor],
    new: dict[str, Tensor],
) -> tuple[str, ...]:
    """Write the lift into `new`; the names of the fields that are new to the model."""
    weight, bias = torch.zeros_like(new["lift.expand.weight"]), old["lift.expand.bias"].clone()
    was, now = _inputs(source.normaliser), _inputs(normaliser)
    inputs, unknown = (*schema.coords, *schema.features), []
    if not any(_same_field(field, source.schema, schema) for field in inputs):
        wanted = _named((*source.schema.coords, *source.schema.features))
        raise ValueError(
            f"the store must have an input of the model that the run starts from ({wanted}), got"
            f" one with {_named(inputs)}"
        )
    for field in inputs:
        same = _same_field(field, source.schema, schema)
        if same is None:
            unknown.append(field.name)
            continue
        pairs = zip(_columns(schema, field), _columns(source.schema, same), strict=True)
        for column, before in pairs:
            moved = now.shift[column] - was.shift[before]
            stretched = now.scale[column] / was.scale[before]
            constant = field in schema.features and was.scale[before] == 1.0
            if constant and (moved or stretched != 1.0):
                unknown.append(schema.channels[column])
                continue
            own = old["lift.expand.weight"][:, before]
            weight[:, column] = own * stretched
            bias += own * (moved / was.scale[before])
    new["lift.expand.weight"], new["lift.expand.bias"] = weight, bias
    return tuple(unknown)


def _adapt_head(
    source: TrainedModel,
    schema: Schema,
    normaliser: Normaliser,
    old: dict[str, Tensor],
    new: dict[str, Tensor],
) -> tuple[str, ...]:
    """Write the rows of the head that the model has into `new`; the names of the other targets."""
    weight, bias = new["head.weight"].clone(), new["head.bias"].clone()
    was, now = source.normaliser.targets, normaliser.targets
    first, first_before = schema.columns("targets").start, source.schema.columns("targets").start
    unknown = []
    for field in schema.targets:
        same = _same_field(field, source.schema, schema)
        if same is None:
            unknown.append(field.name)
            continue
        pairs = zip(_columns(schema, field), _columns(source.schema, same), strict=True)
        for column, before in pairs:
            row, own = column - first, before - first_before
            weight[row] = old["head.weight"][own] * (was.scale[own] / now.scale[row])
            moved = was.shift[own] - now.shift[row]
            bias[row] = (old["head.bias"][own] * was.scale[own] + moved) / now.scale[row]
    new["head.weight"], new["head.bias"] = weight, bias
    return tuple(unknown)


def _same_field(field: Field, there: Schema, here: Schema) -> Field | None:
    """The field with the same name, unit and components in the same part; None without one."""
    part = next(p for p in ("coords", "features", "targets") if field in getattr(here, p))
    facts = (field.name, field.unit, field.components, field.divided)
    for other in getattr(there, part):
        if facts == (other.name, other.unit, other.components, other.divided):
            assert isinstance(other, Field)
            return other
    return None


def _lost(source: Schema, schema: Schema, parts: tuple[str, ...]) -> tuple[str, ...]:
    fields = [field for part in parts for field in getattr(source, part)]
    return tuple(field.name for field in fields if _same_field(field, schema, source) is None)


def _columns(schema: Schema, field: Field) -> range:
    columns = schema.columns(field.name)
    return range(columns.start, columns.stop)


def _named(fields: Iterable[Field]) -> str:
    return ", ".join(f"{f.name} [{f.unit}] x {f.components}" for f in fields)


def _inputs(normaliser: Normaliser) -> Affine:
    """The map of coords | features, which the lift takes."""
    parts = (normaliser.coords, normaliser.features)
    return Affine(
        tuple(number for part in parts for number in part.shift),
        tuple(number for part in parts for number in part.scale),
    )


def _weights_of(trained: TrainedModel) -> str:
    return weights_hash(dict(trained.model.named_parameters()))
