"""A trained model on one mesh: read it, make the inputs, stream all its rows through the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slipstream.core.checks import check_choice
from slipstream.inference.densities import Density, TokenPoints, token_points
from slipstream.inference.derived import coefficients
from slipstream.inference.mesh_fields import InputChoices, MeshFields, mesh_fields, regions_of
from slipstream.inference.prediction import MeshPrediction
from slipstream.models.sweep_plan import Parked
from slipstream.runs.model_file import TrainedModel, load_model
from slipstream.runs.model_page import what_is_lacking
from slipstream.runs.recipe import Recipe
from slipstream.runs.streaming import PhysicalPoints, Streaming
from slipstream.runs.tokens import Tokens

Watch = Callable[[int, int], None]


@dataclass(frozen=True)
class Choices:
    """How a prediction is made. Only `inputs` and `density` change the result."""

    inputs: InputChoices = InputChoices()
    density: Density = "auto"
    precision: Literal["fp32", "bf16"] = "fp32"
    chunk: int | None = None
    """Points taken at a time; chosen by the device if None."""
    place: Parked = "auto"
    """Where chunks wait between two sweeps."""
    watch: Watch = field(default=lambda done, total: None, compare=False)


def predict(
    model: TrainedModel | Path | str,
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

    `model` is a run's folder, a model file or a loaded model; `mesh` a path (VTP, VTU, VTK, VTM,
    STL, PLY, OpenFOAM case), a pyvista object, or numpy arrays (points,) or (points, cells).
    Parameters of the flow are given by name, as U_inf=33.0. `choices` gives all there is to choose,
    in place of the other arguments.

        p = slipstream.predict("runs/a", "car.stl", U_inf=33.0)
        p.mesh, p.fields["pressure"], p.warnings

    Raises ValueError, with one sentence, where the mesh or the parameters lack what it takes.
    """
    trained = model if isinstance(model, TrainedModel) else load_model(model, device=device)
    if choices is None:
        inputs = InputChoices(parameters=parameters, location=location, scale=scale)
        choices = Choices(inputs=inputs, density=density)
    elif parameters:
        raise ValueError(
            f"parameters must be given in choices where these are given, got {min(parameters)}"
        )
    check_choice("precision", choices.precision, ("fp32", "bf16"))
    recipe = recipe_of(trained)
    fields = mesh_fields(mesh, recipe, choices.inputs)
    return predict_fields(trained, mesh, fields, choices)


def recipe_of(trained: TrainedModel) -> Recipe:
    if trained.recipe is None:
        lacking = "; ".join(what_is_lacking(trained)) or "no recipe"
        raise ValueError(
            f"the model must say how its inputs are made, got an older file ({lacking}):"
            " `slipstream model RUN --store STORE` completes it"
        )
    return trained.recipe


def predict_fields(
    trained: TrainedModel, source: Any, fields: MeshFields, choices: Choices
) -> MeshPrediction:
    recipe = recipe_of(trained)
    streaming = Streaming(trained, choices.chunk, choices.place, choices.watch)
    points = PhysicalPoints.of(fields.coords, dict(fields.features) or None)
    chosen = token_points(fields.rows, recipe.points.draw.most, choices.density)
    values = np.empty((fields.rows, trained.schema.target_dim), np.float32)

    def write(first: int, end: int, part: Tensor) -> None:
        values[first:end] = part[0].float().cpu().numpy()

    autocast = torch.autocast(
        trained.device.type, torch.bfloat16, enabled=choices.precision == "bf16"
    )
    with autocast:
        if chosen.subsets:
            tokens = mean_tokens(streaming, fields, chosen)
            streaming.decode(points, tokens, write)
            plan = f"{fields.rows:,} points decoded by {chosen.text}"
        else:
            tokens = streaming.predict(points, write, chosen.text)
            plan = f"{streaming.plan(fields.rows)}; {chosen.text}"
    return _prediction(trained, source, fields, values, tokens, (plan, *fields.notes), choices)


def mean_tokens(streaming: Streaming, fields: MeshFields, chosen: TokenPoints) -> Tokens:
    """The mean of the tokens of all subsets."""
    several = []
    for rows in chosen.subsets:
        features = {
            name: values[rows] if np.ndim(values) and len(values) == fields.rows else values
            for name, values in fields.features.items()
        }
        several.append(streaming.encode(PhysicalPoints.of(fields.coords[rows], features or None)))
    return Tokens.mean(several, chosen.text)


def _prediction(
    trained: TrainedModel,
    source: Any,
    fields: MeshFields,
    values: NDArray[Any],
    tokens: Tokens,
    how: tuple[str, ...],
    choices: Choices,
) -> MeshPrediction:
    recipe, named = recipe_of(trained), {}
    start = trained.schema.columns("targets").start
    for target in trained.schema.targets:
        columns = trained.schema.columns(target.name)
        own = values[:, columns.start - start : columns.stop - start]
        named[target.name] = own[:, 0] if own.shape[1] == 1 else own
    bad = [name for name, own in named.items() if not np.isfinite(own).all()]
    if bad:
        raise ValueError(f"the prediction of {bad[0]} must be finite, got NaN or infinity")
    units = {target.name: target.undivided_unit for target in trained.schema.targets}
    derived, notes = coefficients(recipe, fields.features, named)
    derived = {name: own for name, own in derived.items() if name not in named}
    config = trained.config
    return MeshPrediction(
        source=source,
        name=fields.mesh.name,
        location=fields.location,
        fields={**named, **derived},
        units={**units, **dict.fromkeys(derived, "1")},
        truth=fields.truth,
        tokens=tokens,
        recipe=recipe,
        features=fields.features,
        regions=regions_of(recipe, choices.inputs),
        how=(*how, *notes),
        warnings=fields.warnings,
        about={"model": f"{config.name} step {trained.metric['step']}", "weights": tokens.weights},
    )
