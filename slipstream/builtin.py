"""The built-in problems as sources for a point store: data that can be checked, without a download.

Sample k is a pure function of (problem, points, seed, k), whatever else is made with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from slipstream.core.checks import check_choice, check_whole
from slipstream.data.cloud import Cloud
from slipstream.data.fields import PARTS, Field, Schema
from slipstream.physics import poisson, potential_flow
from slipstream.physics.potential_flow import PotentialFlow

Parts = tuple[Tensor, Tensor, Tensor]
"""Coords, features and targets of one sample, (N, columns) each."""


@dataclass(frozen=True)
class Problem:
    """What a built-in problem consists of."""

    schema: Schema
    make: Callable[[int, int, int, str], Parts]
    """points, seed, sample, device -> the sample's columns."""
    options: Mapping[str, Any]
    """What its samples follow from besides, as JSON."""


@dataclass(frozen=True, kw_only=True)
class BuiltinSource:
    """`samples` samples of `points` points of a built-in problem; splits are drawn by fractions."""

    problem: str
    samples: int
    points: int
    seed: int = 0
    device: str = "cpu"
    """Where samples are computed; devices differ by rounding alone."""

    def __post_init__(self) -> None:
        check_choice("problem", self.problem, PROBLEMS)
        check_whole("samples", self.samples, 1)
        check_whole("points", self.points, 1)

    @property
    def name(self) -> str:
        return self.problem

    @property
    def schema(self) -> Schema:
        return PROBLEMS[self.problem].schema

    @property
    def options(self) -> Mapping[str, Any]:
        """The number of samples is not among them: a store may grow."""
        return {"points": self.points, "seed": self.seed, **PROBLEMS[self.problem].options}

    def ids(self) -> Sequence[str]:
        return [f"{k:06d}" for k in range(self.samples)]

    def splits(self) -> None:
        return None

    def files(self, sample: str) -> Mapping[str, Path]:
        return {}

    def read(self, sample: str) -> Cloud:
        parts = PROBLEMS[self.problem].make(self.points, self.seed, int(sample), self.device)
        arrays = {}
        for name, part in zip(PARTS, parts, strict=True):
            fields: tuple[Field, ...] = getattr(self.schema, name)
            columns = part.cpu().split([field.components for field in fields], -1)
            arrays.update({f.name: c.numpy() for f, c in zip(fields, columns, strict=True)})
        return Cloud(self.schema, arrays)


def _poisson() -> Problem:
    charges = poisson.Charges()

    def make(points: int, seed: int, sample: int, device: str) -> Parts:
        cloud = poisson.make_samples(1, points, seed=seed, first=sample, charges=charges)
        return cloud.coords[0], cloud.features[0], cloud.targets[0]

    schema = Schema(
        coords=(Field("position", components=3),),
        features=(Field("density"),),
        targets=(Field("potential"), Field("field", components=3)),
    )
    return Problem(schema, make, asdict(charges))


def _potential_flow(name: str) -> Problem:
    quantities = potential_flow.PROBLEMS[name]

    def make(points: int, seed: int, sample: int, device: str) -> Parts:
        config = PotentialFlow(points=points)
        made = potential_flow.make_sample(name, config, seed=seed, sample=sample, device=device)
        return made.coords, made.features, made.targets

    def fields(part: Sequence[potential_flow.Quantity]) -> tuple[Field, ...]:
        return tuple(Field(q.name, q.unit, components=q.components) for q in part)

    schema = Schema(*(fields(part) for part in quantities))
    options = asdict(PotentialFlow())
    del options["points"]
    return Problem(schema, make, options)


PROBLEMS: dict[str, Problem] = {
    "poisson": _poisson(),
    "potential-flow-surface": _potential_flow("potential-flow-surface"),
    "potential-flow-volume": _potential_flow("potential-flow-volume"),
}
