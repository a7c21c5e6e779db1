"""The built-in problems as sources for a point store: data that need no download.

Sample k is a pure function of (problem, config, points, seed, k): it does not depend on how many
other samples are made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from slipstream.core.checks import check_choice, check_whole
from slipstream.core.configs import overlay
from slipstream.data.store import (
    PAIRS_OPTION,
    PARTS,
    Cloud,
    Field,
    Pairs,
    Parameters,
    Schema,
    Source,
)
from slipstream.physics import poisson, potential_flow, stokes_flow, taylor_green
from slipstream.physics.poisson import Charges
from slipstream.physics.potential_flow import PotentialFlow
from slipstream.physics.scenes import FlowColumns, Quantity
from slipstream.physics.stokes_flow import Stokes
from slipstream.physics.taylor_green import TaylorGreen

LAGS = 6
"""How many stored states a Taylor-Green pair lies apart at most."""

ProblemConfig = Charges | PotentialFlow | Stokes | TaylorGreen
"""The distribution that samples are drawn from, without the number of points."""


class Made(NamedTuple):
    """One sample: coords, features and targets, (N, columns) each, and what else is known of it."""

    coords: Tensor
    features: Tensor
    targets: Tensor
    parameters: Parameters = {}


@dataclass(frozen=True)
class BuiltinProblem:
    """Fields, generator and default config of a built-in problem."""

    schema: Schema
    make: Callable[[Any, int, int, int, str], Made]
    """config, points, seed, sample, device -> the sample's columns."""
    config: ProblemConfig
    """The default."""


@dataclass(frozen=True, kw_only=True)
class _Generated:
    """Common to all sources here: numbered samples, without files, whose splits are drawn."""

    samples: int
    points: int
    seed: int = 0
    device: str = "cpu"
    """Where samples are computed; results of devices differ by rounding only."""

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
    config: ProblemConfig

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
        """Config, points and seed; not the number of samples, so that a store may grow."""
        return {**asdict(self.config), "points": self.points, "seed": self.seed}

    def read(self, sample: str) -> Cloud:
        make = PROBLEMS[self.problem].make
        made = make(self.config, self.points, self.seed, int(sample), self.device)
        arrays = {}
        for name in PARTS:
            fields: tuple[Field, ...] = getattr(self.schema, name)
            columns = getattr(made, name).cpu().split([field.components for field in fields], -1)
            arrays.update({f.name: c.numpy() for f, c in zip(fields, columns, strict=True)})
        return Cloud(self.schema, arrays, made.parameters)


def _poisson() -> BuiltinProblem:
    def make(charges: Charges, points: int, seed: int, sample: int, device: str) -> Made:
        cloud = poisson.make_samples(1, points, seed=seed, first=sample, charges=charges)
        return Made(cloud.coords[0], cloud.features[0], cloud.targets[0])

    schema = Schema(
        coords=(Field("position", components=3),),
        features=(Field("density"),),
        targets=(Field("potential"), Field("field", components=3)),
    )
    return BuiltinProblem(schema, make, Charges())


def _potential_flow(name: str) -> BuiltinProblem:
    def make(config: PotentialFlow, points: int, seed: int, sample: int, device: str) -> Made:
        config = replace(config, points=points)
        flow = potential_flow.make_sample(name, config, seed=seed, sample=sample, device=device)
        return Made(flow.coords, flow.features, flow.targets)

    return BuiltinProblem(_schema(potential_flow.COLUMNS[name]), make, PotentialFlow())


def _stokes(name: str) -> BuiltinProblem:
    def make(config: Stokes, points: int, seed: int, sample: int, device: str) -> Made:
        config = replace(config, points=points)
        flow = stokes_flow.make_sample(name, config, seed=seed, sample=sample, device=device)
        return Made(flow.coords, flow.features, flow.targets, flow.parameters)

    return BuiltinProblem(_schema(stokes_flow.COLUMNS[name]), make, Stokes())


def _schema(columns: FlowColumns) -> Schema:
    def fields(part: Sequence[Quantity]) -> tuple[Field, ...]:
        return tuple(
            Field(q.name, q.unit, components=q.components, computed=q.computed) for q in part
        )

    return Schema(*(fields(part) for part in columns))


@dataclass(frozen=True, kw_only=True)
class TaylorGreenSource(_Generated):
    """Trajectories of decaying vortices, read as pairs of states: velocity, lead time and viscosity
    -> the velocity 1 to `LAGS` stored states later. `points` is the cube of an even number.
    """

    config: TaylorGreen
    """Its field `stored` is set from `points`."""
    name: str = "taylor-green"

    def __post_init__(self) -> None:
        super().__post_init__()
        edge = _grid_edge(self.points, self.config.grid)
        object.__setattr__(self, "config", replace(self.config, stored=edge))

    @property
    def pairs(self) -> Pairs:
        velocity = Field("velocity", taylor_green.VELOCITY_UNIT, components=3)
        lags = tuple(range(1, min(LAGS, self.config.states - 1) + 1))
        return Pairs(
            (velocity,),
            self.config.states,
            lags,
            self.config.interval,
            taylor_green.TIME_UNIT,
            (Field("viscosity", taylor_green.VISCOSITY_UNIT),),
        )

    @property
    def schema(self) -> Schema:
        return self.pairs.stored((Field("position", "m", components=3),))

    @property
    def options(self) -> Mapping[str, Any]:
        return {"seed": self.seed, PAIRS_OPTION: self.pairs.to_json(), **asdict(self.config)}

    def read(self, sample: str) -> Cloud:
        trajectory = taylor_green.make_trajectory(
            self.config, seed=self.seed, sample=int(sample), device=self.device
        )
        edge = self.config.stored
        at = torch.arange(edge, dtype=torch.float64) * (self.config.length / edge)
        position = torch.stack(torch.meshgrid(at, at, at, indexing="ij"), -1).reshape(-1, 3)
        states = enumerate(trajectory.velocity.flatten(2).cpu())
        arrays = {f"velocity@{k}": state.T.numpy() for k, state in states}
        arrays["position"] = position.numpy()
        arrays["viscosity"] = np.full((len(position), 1), trajectory.viscosity)
        return Cloud(self.schema, arrays, {"viscosity": trajectory.viscosity})


def _grid_edge(points: int, largest: int) -> int:
    """Grid points along an edge of a cube of `points` grid points: 16 for 4096."""
    edge = round(points ** (1 / 3))
    if edge**3 != points or edge % 2 or not 4 <= edge <= largest:
        raise ValueError(
            f"points of taylor-green must be the cube of an even number from 4 to the grid's"
            f" {largest}, as {min(32, largest) ** 3}, got {points}"
        )
    return edge


def builtin_config(problem: str, settings: Mapping[str, Any]) -> ProblemConfig:
    """The default config of a problem with some settings changed."""
    return overlay(_usual_config(problem), settings, fixed=("points", "stored"))


def builtin_schema(problem: str) -> Schema:
    """The fields of a problem as a model sees them."""
    source = builtin_source(problem, samples=1, points=4**3)
    if isinstance(source, TaylorGreenSource):
        return source.pairs.seen(source.schema.coords)
    return source.schema


def _usual_config(problem: str) -> ProblemConfig:
    check_choice("problem", problem, NAMES)
    if problem in PROBLEMS:
        return PROBLEMS[problem].config
    return TaylorGreen(stored=4)  # the smallest allowed; a source sets it from its points


def builtin_source(
    problem: str,
    *,
    samples: int,
    points: int,
    seed: int = 0,
    device: str = "cpu",
    config: ProblemConfig | None = None,
) -> Source:
    """The source of a built-in problem by its name; `config` is the default one if None."""
    usual = _usual_config(problem)
    config = usual if config is None else config
    if type(config) is not type(usual):
        raise ValueError(f"config of {problem} must be a {type(usual).__name__}, got {config!r}")
    common: dict[str, Any] = {"samples": samples, "points": points, "seed": seed, "device": device}
    if isinstance(config, TaylorGreen):
        return TaylorGreenSource(config=config, **common)
    return BuiltinSource(problem=problem, config=config, **common)


PROBLEMS: dict[str, BuiltinProblem] = {
    "poisson": _poisson(),
    "potential-flow-surface": _potential_flow("potential-flow-surface"),
    "potential-flow-volume": _potential_flow("potential-flow-volume"),
    "stokes-surface": _stokes("stokes-surface"),
    "stokes-volume": _stokes("stokes-volume"),
}
NAMES = (*PROBLEMS, "taylor-green")
