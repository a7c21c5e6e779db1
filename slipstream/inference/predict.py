"""Trained models on one mesh: read it, make the inputs, stream all its rows through each model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slipstream.core.checks import check_choice, check_whole
from slipstream.inference.densities import Density, TokenPoints, token_points
from slipstream.inference.mesh_fields import InputChoices, MeshFields, mesh_fields
from slipstream.inference.prediction import MemberFields, MeshPrediction, make_prediction
from slipstream.models.sweep_plan import Parked
from slipstream.models.sweeps import Watch
from slipstream.runs.ensemble import Ensemble, Models, as_ensemble
from slipstream.runs.model_file import TrainedModel
from slipstream.runs.model_page import what_is_lacking
from slipstream.runs.recipe import Recipe
from slipstream.runs.streaming import Streaming, Write
from slipstream.runs.tokens import Tokens

Precision = Literal["fp32", "bf16"]


def unwatched(done: int, total: int) -> None:
    """Nobody is told: subsets, for one, are no equal parts of the work."""


@dataclass(frozen=True)
class Choices:
    """How a prediction is made. Only `inputs` and `density` change the result."""

    inputs: InputChoices = InputChoices()
    """What is said about the mesh."""
    density: Density = "auto"
    """Which points the tokens come from: full, training or auto."""
    precision: Precision = "fp32"
    """Of the layers: fp32, or bf16 by autocast."""
    chunk: int | None = None
    """Points taken at a time; chosen by the device if None."""
    place: Parked = "auto"
    """Where chunks wait between two sweeps."""
    watch: Watch = field(default=unwatched, compare=False)

    def __post_init__(self) -> None:
        check_choice("density", self.density, get_args(Density))
        check_choice("precision", self.precision, get_args(Precision))
        check_choice("place", self.place, get_args(Parked))
        if self.chunk is not None:
            check_whole("chunk", self.chunk, 1)


def predict(
    model: Models,
    mesh: Any,
    *,
    device: str = "auto",
    density: Density = "auto",
    location: Literal["point", "cell"] | None = None,
    scale: float = 1.0,
    choices: Choices | None = None,
    **parameters: Any,
) -> MeshPrediction:
    """The fields of a trained model on a mesh that it need never have seen.

    `model` is a run's folder, a model file or a loaded model, or a list of several that predict
    together: their mean, and how far they differ (`spread`). `mesh` is a path (VTP, VTU, VTK, VTM,
    STL, PLY, OpenFOAM case), a pyvista object, or numpy arrays (points,) or (points, cells).
    Parameters of the flow are given by name, as U_inf=33.0, in the units that `slipstream model`
    prints. `device` is auto, cpu, cuda or cuda:N. `density` says from which points the tokens come:
    full is all of them, training subsets as dense as in the training. `location` is where fields
    are predicted, for a model that does not say it. Coordinates are multiplied by `scale`: 0.001
    for a mesh in mm and a model in m. `choices` gives all there is to choose, in place of the other
    arguments.

        p = slipstream.predict("runs/a", "car.stl", U_inf=33.0)
        p.mesh, p.fields["pressure"], p.warnings

    Raises ValueError, with one sentence, where the mesh or the parameters lack what it takes.
    """
    models = as_ensemble(model, device=device)
    if choices is None:
        inputs = InputChoices(parameters=parameters, location=location, scale=scale)
        choices = Choices(inputs=inputs, density=density)
    elif parameters:
        raise ValueError(
            f"parameters must be given in choices where these are given, got {min(parameters)}"
        )
    fields = mesh_fields(mesh, recipe_of(models.first), choices.inputs)
    return predict_fields(models, mesh, fields, choices)


def recipe_of(trained: TrainedModel) -> Recipe:
    if trained.recipe is None:
        lacking = "; ".join(what_is_lacking(trained)) or "no recipe"
        raise ValueError(
            f"the model must say how its inputs are made, got an older file ({lacking}):"
            " `slipstream model RUN --store STORE` completes it"
        )
    return trained.recipe


def predict_fields(
    models: Ensemble, source: Any, fields: MeshFields, choices: Choices
) -> MeshPrediction:
    """Tokens of the points that `choices.density` says, and with them the fields at all points."""
    several = [
        _predict_member(member, fields, replace(choices, watch=_share_of(choices.watch, k, models)))
        for k, member in enumerate(models.members)
    ]
    return make_prediction(models, source, fields, several, choices.inputs)


def _predict_member(trained: TrainedModel, fields: MeshFields, choices: Choices) -> MemberFields:
    streaming = Streaming(trained, choices.chunk, choices.place, choices.watch)
    draw = recipe_of(trained).points.draw.most
    chosen = token_points(fields.points, draw, choices.density)
    values, write = _gathered(fields.points, trained.schema.target_dim)
    with _precision(trained, choices):
        if chosen.subsets:
            tokens = mean_tokens(Streaming(trained, choices.chunk, choices.place), fields, chosen)
            streaming.decode(fields.as_points(), tokens, write)
            plan = f"{fields.points:,} points decoded by {chosen.text}"
        else:
            tokens = streaming.predict(fields.as_points(), write, chosen.text)
            plan = f"{streaming.plan(fields.points)}; {chosen.text}"
    return MemberFields(values, tokens, plan)


def encode_fields(models: Ensemble, fields: MeshFields, choices: Choices) -> tuple[Tokens, ...]:
    """The tokens of some points, those of each model, as `choices.density` says."""
    several = []
    for k, trained in enumerate(models.members):
        watch = _share_of(choices.watch, k, models)
        streaming = Streaming(trained, choices.chunk, choices.place, watch)
        chosen = token_points(fields.points, recipe_of(trained).points.draw.most, choices.density)
        with _precision(trained, choices):
            if chosen.subsets:
                several.append(mean_tokens(replace(streaming, watch=unwatched), fields, chosen))
            else:
                several.append(streaming.encode(fields.as_points(), chosen.text))
    return tuple(several)


def decode_fields(
    models: Ensemble,
    source: Any,
    fields: MeshFields,
    tokens: Sequence[Tokens],
    choices: Choices,
) -> MeshPrediction:
    """The fields at points that do not contribute to the tokens, which are one for each model."""
    several = []
    for trained, own in zip(models.members, tokens, strict=True):
        streaming = Streaming(trained, choices.chunk, choices.place, choices.watch)
        values, write = _gathered(fields.points, trained.schema.target_dim)
        with _precision(trained, choices):
            streaming.decode(fields.as_points(), own, write)
        plan = f"{fields.points:,} points decoded by {own.note}"
        several.append(MemberFields(values, own, plan))
    return make_prediction(models, source, fields, several, choices.inputs)


def _share_of(watch: Watch, number: int, models: Ensemble) -> Watch:
    """The progress of one model, as that of all."""
    return lambda done, total: watch(number * total + done, len(models) * total)


def mean_tokens(streaming: Streaming, fields: MeshFields, chosen: TokenPoints) -> Tokens:
    """The mean of the tokens of all subsets."""
    several = [streaming.encode(fields.as_points(rows)) for rows in chosen.subsets]
    return Tokens.mean(several, chosen.text)


def _gathered(count: int, channels: int) -> tuple[NDArray[np.float32], Write]:
    values = np.empty((count, channels), np.float32)

    def write(first: int, end: int, part: Tensor) -> None:
        values[first:end] = part[0].float().cpu().numpy()

    return values, write


def _precision(trained: TrainedModel, choices: Choices) -> torch.autocast:
    kind = trained.device.type
    return torch.autocast(kind, torch.bfloat16, enabled=choices.precision == "bf16")
