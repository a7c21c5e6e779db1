"""The built-in problems as sources for a point store: data that can be checked, without a download.

Sample k is a pure function of (problem, points, seed, k), whatever else is made with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from slipstream.core.checks import check_choice, check_whole
from slipstream.core.configs import overlay
from slipstream.data.store import PAIRS_OPTION, PARTS, Cloud, Field, Pairs, Schema, Source
from slipstream.physics import poisson, potential_flow, taylor_green
from slipstream.physics.poisson import Charges
from slipstream.physics.potential_flow import PotentialFlow
from slipstream.physics.taylor_green import TaylorGreen

LAGS = 6
"""Most stored states between the two of a Taylor-Green pair."""

Parts = tuple[Tensor, Tensor, Tensor]
"""Coords, features and targets of one sample, (N, columns) each."""
Config = Charges | PotentialFlow | TaylorGreen
"""Which samples a problem may have, the number of points aside."""


@dataclass(frozen=True)
class Problem:
    """What a built-in problem consists of."""

    schema: Schema
    make: Callable[[Any, int, int, int, str], Parts]
    """config, points, seed, sample, device -> the sample's columns."""
    config: Config
    """The one that is taken where none is given."""


@dataclass(frozen=True, kw_only=True)
class _Generated:
    """What all sources here share: numbered samples, without files, whose splits are drawn."""

    samples: int
    points: int
    seed: int = 0
    device: str = "cpu"
    """Where samples are computed; devices differ by rounding alone."""

    def __post_init__(self) -> None:
        check_whole("samples", self.samples, 1)
        check_whole("points", self.points, 1)

    def ids(self) -> Sequence[str]:
        return [f"{k:06d}" for k in range(self.samples)]

    def splits(self) -> None:
        return None

    def files(self, sample: str) -> Mapping[str, Path]:
        return {}


@dataclass(frozen=True, kw_only=True)
class BuiltinSource(_Generated):
    """`samples` samples of `points` points of a built-in problem."""

    problem: str
    config: Config

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("problem", self.problem, PROBLEMS)

    @property
    def name(self) -> str:
        return self.problem

    @property
    def schema(self) -> Schema:
        return PROBLEMS[self.problem].schema

    @property
    def options(self) -> Mapping[str, Any]:
        """The number of samples is not among them: a store may grow."""
        return {**asdict(self.config), "points": self.points, "seed": self.seed}

    def read(self, sample: str) -> Cloud:
        make = PROBLEMS[self.problem].make
        parts = make(self.config, self.points, self.seed, int(sample), self.device)
        arrays = {}
        for name, part in zip(PARTS, parts, strict=True):
            fields: tuple[Field, ...] = getattr(self.schema, name)
            columns = part.cpu().split([field.components for field in fields], -1)
            arrays.update({f.name: c.numpy() for f, c in zip(fields, columns, strict=True)})
        return Cloud(self.schema, arrays)


def _poisson() -> Problem:
    def make(charges: Charges, points: int, seed: int, sample: int, device: str) -> Parts:
        cloud = poisson.make_samples(1, points, seed=seed, first=sample, charges=charges)
        return cloud.coords[0], cloud.features[0], cloud.targets[0]

    schema = Schema(
        coords=(Field("position", components=3),),
        features=(Field("density"),),
        targets=(Field("potential"), Field("field", components=3)),
    )
    return Problem(schema, make, Charges())


def _potential_flow(name: str) -> Problem:
    quantities = potential_flow.PROBLEMS[name]

    def make(config: PotentialFlow, points: int, seed: int, sample: int, device: str) -> Parts:
        config = replace(config, points=points)
        made = potential_flow.make_sample(name, config, seed=seed, sample=sample, device=device)
        return made.coords, made.features, made.targets

    def fields(part: Sequence[potential_flow.Quantity]) -> tuple[Field, ...]:
        return tuple(Field(q.name, q.unit, components=q.components) for q in part)

    return Problem(Schema(*(fields(part) for part in quantities)), make, PotentialFlow())


@dataclass(frozen=True, kw_only=True)
class TaylorGreenSource(_Generated):
    """Trajectories of decaying vortices, to be seen as pairs of states: velocity and lead time ->
    velocity that much later, 1 to `LAGS` stored states. `points` is the cube of an even number.
    """

    config: TaylorGreen
    """Its `stored` becomes what the points say."""
    name: str = "taylor-green"

    def __post_init__(self) -> None:
        super().__post_init__()
        edge = _grid_edge(self.points, self.config.grid)
        object.__setattr__(self, "config", replace(self.config, stored=edge))

    @property
    def pairs(self) -> Pairs:
        velocity = Field("velocity", taylor_green.VELOCITY_UNIT, components=3)
        lags = tuple(range(1, min(LAGS, self.config.states - 1) + 1))
        step = self.config.interval
        return Pairs((velocity,), self.config.states, lags, step, taylor_green.TIME_UNIT)

    @property
    def schema(self) -> Schema:
        return self.pairs.stored((Field("position", "m", components=3),))

    @property
    def options(self) -> Mapping[str, Any]:
        return {"seed": self.seed, PAIRS_OPTION: self.pairs.to_json(), **asdict(self.config)}

    def read(self, sample: str) -> Cloud:
        found = taylor_green.make_trajectory(
            self.config, seed=self.seed, sample=int(sample), device=self.device
        )
        edge = self.config.stored
        at = torch.arange(edge, dtype=torch.float64) * (2 * math.pi / edge)
        position = torch.stack(torch.meshgrid(at, at, at, indexing="ij"), -1).reshape(-1, 3)
        states = enumerate(found.velocity.flatten(2).cpu())
        arrays = {f"velocity@{k}": state.T.numpy() for k, state in states}
        arrays["position"] = position.numpy()
        return Cloud(self.schema, arrays, {"viscosity": found.viscosity})


def _grid_edge(points: int, largest: int) -> int:
    """Grid points along an edge of a cube of so many in all."""
    edge = round(points ** (1 / 3))
    if edge**3 != points or edge % 2 or not 4 <= edge <= largest:
        raise ValueError(
            f"points of taylor-green must be the cube of an even number from 4 to the grid's"
            f" {largest}, as {min(32, largest) ** 3}, got {points}"
        )
    return edge


def builtin_config(problem: str, settings: Mapping[str, Any]) -> Config:
    """The usual samples of a problem with some settings changed."""
    return overlay(_usual_config(problem), settings, fixed=("points", "stored"))


def builtin_schema(problem: str) -> Schema:
    """The fields of a problem as a model sees them."""
    source = builtin_source(problem, samples=1, points=4**3)
    if isinstance(source, TaylorGreenSource):
        return source.pairs.seen(source.schema.coords)
    return source.schema


def _usual_config(problem: str) -> Config:
    check_choice("problem", problem, NAMES)
    if problem in PROBLEMS:
        return PROBLEMS[problem].config
    return TaylorGreen(stored=4)  # the smallest: the points of a source say how many


def builtin_source(
    problem: str,
    *,
    samples: int,
    points: int,
    seed: int = 0,
    device: str = "cpu",
    config: Config | None = None,
) -> Source:
    """The source of a built-in problem by its name; `config` where not the usual samples."""
    usual = _usual_config(problem)
    config = usual if config is None else config
    if type(config) is not type(usual):
        raise ValueError(f"config of {problem} must be a {type(usual).__name__}, got {config!r}")
    common: dict[str, Any] = {"samples": samples, "points": points, "seed": seed, "device": device}
    if isinstance(config, TaylorGreen):
        return TaylorGreenSource(config=config, **common)
    return BuiltinSource(problem=problem, config=config, **common)


PROBLEMS: dict[str, Problem] = {
    "poisson": _poisson(),
    "potential-flow-surface": _potential_flow("potential-flow-surface"),
    "potential-flow-volume": _potential_flow("potential-flow-volume"),
}
NAMES = (*PROBLEMS, "taylor-green")
