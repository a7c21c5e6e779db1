"""Samples that are unlike the training set of a model, in ways that are known: for `likeness`.

Every family changes one thing of the scenes that the training drew: how many bodies, how slender,
of which shape, how large, how rough, how they stand in the stream, or the stream itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slipstream.core.runtime import generator
from slipstream.physics.bodies import FAMILIES, Body
from slipstream.physics.panels import pressure_coefficient
from slipstream.physics.potential_flow import PotentialFlow, solve_flow, wall_flow
from slipstream.physics.scenes import draw_scene, frequency_for
from slipstream.physics.surface import SurfacePoints, draw_on_surface
from slipstream.physics.triangles import join

SAME = "same"
"""The family of the training itself, with samples that no split has."""
SCALE, SLENDER, TURN, FASTER, ROUGHER = 1.3, 2.0, 30.0, 1.5, 2.0


@dataclass(frozen=True, eq=False)
class Scene:
    bodies: tuple[Body, ...]
    freestream: Tensor
    turned: float = 0.0
    """Degrees about the vertical by which the bodies are turned in the stream."""


@dataclass(frozen=True, eq=False)
class FamilySample:
    """N points, float32, with the columns of `potential-flow-surface`."""

    coords: Tensor
    features: Tensor
    targets: Tensor | None
    """None where the flow was not solved."""


Family = Callable[[PotentialFlow, int, int], Scene]
"""What the training drew from, a seed and a number of the sample -> the scene."""


def families_for(config: PotentialFlow) -> dict[str, Family]:
    """The families that differ from the training's, and the training's own first."""
    families: dict[str, Family] = {
        SAME: _drawn,
        "two bodies": lambda c, seed, k: _drawn(replace(c, bodies=(2, 2)), seed, k),
        "twice as slender": _slender,
        f"scaled by {SCALE:g}": _scaled,
        f"turned by {TURN:g} degrees": lambda c, seed, k: replace(_drawn(c, seed, k), turned=TURN),
        "twice as rough": lambda c, seed, k: _drawn(
            replace(c, amplitude=ROUGHER * c.amplitude), seed, k
        ),
        f"inflow turned by {TURN:g} degrees": _other_direction,
        f"inflow {FASTER:g} times as fast": _faster,
    }
    for shape in FAMILIES:
        if shape not in config.families:
            families[f"shape {shape}"] = _of_shape(shape)
    return families


def make_sample(
    scene: Scene, config: PotentialFlow, seed: int, sample: int, *, points: int, solved: bool
) -> FamilySample:
    """Points on the walls with what the model takes and, if it is to be solved, what is true."""
    turn, back = _rotation(scene.turned), _rotation(-scene.turned)
    frequency = frequency_for(config.panels, len(scene.bodies))
    draw = generator(seed, "likeness", sample)
    numbers = torch.rand(points, 3, generator=draw, dtype=torch.float64)
    mesh = join([body.mesh(frequency) for body in scene.bodies])
    at = draw_on_surface(mesh, frequency, numbers)
    faces, targets = len(mesh.faces) // len(scene.bodies), None
    if solved:
        # The flow about turned bodies is that of a stream turned back about bodies that are not.
        flow = solve_flow(scene.bodies, _times(back, scene.freestream), frequency=frequency)
        velocity = wall_flow(flow, at)[2]
        pressure = pressure_coefficient(velocity, flow.freestream)[:, None]
        targets = torch.cat((pressure, _times(turn, velocity)), -1).float()
    position, normal = (_times(turn, own) for own in _wall(scene.bodies, at, faces))
    features = torch.cat((normal, scene.freestream.expand(len(position), 3)), -1)
    return FamilySample(position.float(), features.float(), targets)


def _wall(bodies: tuple[Body, ...], at: SurfacePoints, faces: int) -> tuple[Tensor, Tensor]:
    """Positions and normals (P, 3) of points on smooth walls whose meshes have as many faces."""
    position, normal = torch.empty_like(at.directions), torch.empty_like(at.directions)
    for k, body in enumerate(bodies):
        rows = at.face // faces == k
        wall = body.at(at.directions[rows])
        position[rows], normal[rows] = wall.positions, wall.normals
    return position, normal


def _drawn(config: PotentialFlow, seed: int, sample: int) -> Scene:
    return Scene(*draw_scene(config, seed=seed, sample=sample))


def _slender(config: PotentialFlow, seed: int, sample: int) -> Scene:
    """The axes across the stream divided, so that the bodies stay within the training's extent."""
    scene = _drawn(config, seed, sample)
    shape = torch.tensor((1.0, 1 / SLENDER, 1 / SLENDER), dtype=torch.float64)
    return replace(scene, bodies=tuple(replace(b, axes=b.axes * shape) for b in scene.bodies))


def _scaled(config: PotentialFlow, seed: int, sample: int) -> Scene:
    scene = _drawn(config, seed, sample)
    bodies = (Body(b.axes * SCALE, b.modes, b.centre * SCALE) for b in scene.bodies)
    return replace(scene, bodies=tuple(bodies))


def _other_direction(config: PotentialFlow, seed: int, sample: int) -> Scene:
    scene = _drawn(config, seed, sample)
    return replace(scene, freestream=_times(_rotation(TURN), scene.freestream))


def _faster(config: PotentialFlow, seed: int, sample: int) -> Scene:
    scene = _drawn(config, seed, sample)
    return replace(scene, freestream=FASTER * scene.freestream)


def _of_shape(shape: str) -> Family:
    return lambda c, seed, k: _drawn(replace(c, families=(shape,)), seed, k)


def _rotation(degrees: float) -> Tensor:
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    rows = ((cosine, -sine, 0.0), (sine, cosine, 0.0), (0.0, 0.0, 1.0))
    return torch.tensor(rows, dtype=torch.float64)


def _times(matrix: Tensor, vectors: Tensor) -> Tensor:
    return (vectors[..., None, :] * matrix).sum(-1)
