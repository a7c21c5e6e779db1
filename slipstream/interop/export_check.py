"""An exported file held to the model that it was made from, on random clouds of three sizes.

A difference is taken relative to the size of its field, which is how far the field goes from its
mean in training, and at least its standard deviation there. What single precision rounds off a
field whose mean is far larger than that, as an absolute pressure, is not counted.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.core.extras import need
from slipstream.core.runtime import generator
from slipstream.runs.model_file import TrainedModel

TOLERANCE = 1e-5
SIZES = (5, 1000, 10_000)
"""Points of the clouds, none of them that of the example that the exporter follows."""

Run = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]
"""Inputs by name, in their order, to outputs by name, as a program computes that has the file."""


@dataclass(frozen=True)
class Agreement:
    """The largest difference from the model on a cloud, over all fields."""

    points: int
    field: str
    difference: float


def check_agreement(trained: TrainedModel, run: Run) -> list[Agreement]:
    """Compare on every size; ValueError where a field differs by more than the tolerance."""
    found = [_compare(trained, run, points) for points in SIZES]
    for one in found:
        if not one.difference <= TOLERANCE:
            raise ValueError(
                f"the exported file must agree with the model to {TOLERANCE:g} of the size of a"
                f" field, got {one.difference:.2g} in {one.field!r} of {one.points:,} points:"
                " nothing was written"
            )
    return found


def torch_run(content: bytes) -> Run:
    """The file as torch.export loads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about its own classes
        module = torch.export.load(io.BytesIO(content)).module()

    def run(inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        with torch.no_grad():
            return module(*inputs.values())

    return run


def onnx_run(content: bytes) -> Run:
    """The file in onnxruntime on the CPU."""
    runtime = need("onnxruntime", "export")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        arrays = session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
        return dict(zip(names, map(torch.from_numpy, arrays), strict=True))

    return run


def draw_inputs(trained: TrainedModel, points: int) -> dict[str, Tensor]:
    """Random coordinates in the box of the training, and features in its ranges."""
    draw, schema = generator(0, "export", points), trained.schema
    coords = 2 * torch.rand(points, schema.coord_dim, generator=draw) - 1
    inputs = {"coords": trained.normaliser.coords.inverse(coords)}
    if schema.features:
        low, high = _ranges(trained)
        shares = torch.rand(points, schema.feature_dim, generator=draw)
        inputs["features"] = low + (high - low) * shares
    return inputs


def _ranges(trained: TrainedModel) -> tuple[Tensor, Tensor]:
    """The lowest and highest value of every column of the features in training; where they are not
    known, a standard deviation around the mean, and the mean of what targets are divided by."""
    if trained.recipe is not None:
        features = trained.recipe.features
        low = [number for feature in features for number in feature.low]
        high = [number for feature in features for number in feature.high]
        return torch.tensor(low), torch.tensor(high)
    schema, affine = trained.schema, trained.normaliser.features
    mean, around = torch.tensor(affine.shift), torch.tensor(affine.scale)
    for target in schema.targets:
        for name in target.divided.by if target.divided else ():
            around[schema.columns(name).start - schema.coord_dim] = 0
    return mean - around, mean + around


def _compare(trained: TrainedModel, run: Run, points: int) -> Agreement:
    inputs = draw_inputs(trained, points)
    got = run(inputs)
    expected = trained(inputs["coords"], inputs.get("features")).cpu().double()
    sizes = _sizes(trained, inputs, expected)
    start = trained.schema.columns("targets").start
    worst = {}
    for field in trained.schema.targets:
        columns = trained.schema.columns(field.name)
        own = slice(columns.start - start, columns.stop - start)
        if got[field.name].shape != expected[:, own].shape:
            raise ValueError(
                f"{field.name!r} of the exported file must have shape"
                f" {tuple(expected[:, own].shape)}, got {tuple(got[field.name].shape)}"
            )
        rounding = 4 * torch.finfo(torch.float32).eps * expected[:, own].abs()
        beyond = ((got[field.name].double() - expected[:, own]).abs() - rounding).clamp(min=0)
        worst[field.name] = float((beyond / sizes[own]).nan_to_num(nan=math.inf).max())
    name = max(worst, key=worst.__getitem__)
    return Agreement(points, name, worst[name])


def _sizes(trained: TrainedModel, inputs: Mapping[str, Tensor], expected: Tensor) -> Tensor:
    """The size of every column of the targets on this cloud, (K,)."""
    features = inputs.get("features")
    features = None if features is None else features.double()
    mean, above = (
        trained.schema.undivided(
            trained.normaliser.targets.inverse(torch.full_like(expected, value)), features
        )
        for value in (0.0, 1.0)
    )
    return torch.maximum((above - mean).abs(), (expected - mean).abs()).amax(0)
