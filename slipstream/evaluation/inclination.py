"""Local inclination: the targets on a surface as a fitted function of the wall's direction alone.

Where the data have a stream, the function is a polynomial in the cosine of the angle between normal
and stream, times powers of the speed where that varies; a vector has a part along the stream's
tangent to the wall and one along the normal, each with such a polynomial. Newtonian theory, whose
pressure is the square of that cosine, is one of them. Without a stream it is a polynomial in the
components of the normal. Coefficients are those of least squares on the training split, where every
sample has the same weight.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from slipstream.data.store import Schema, Store
from slipstream.evaluation.neighbours import candidates, read_first

DEGREE = 8
"""Degree of the polynomial in the cosine."""
NORMAL_DEGREE = 4
"""Degree of the polynomial in the components of the normal, where there is no stream."""
SPEEDS: tuple[int, ...] = (0, 1, 2)
"""Powers of the speed, where it varies: pressure goes with its square."""
FIT_POINTS = 1024
"""The first points of each training sample that are fitted."""
_SAME = 1e-6
"""Speeds that differ by no more than this share of the largest are the same."""

Rows = NDArray[np.float32]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Inclination:
    """The fitted function."""

    schema: Schema
    normals: slice
    stream: tuple[int, ...] | None
    """The columns of the stream; None where the data have none."""
    fastest: float
    """The speed by which speeds are divided."""
    powers: tuple[int, ...]
    coefficients: tuple[Floats, ...] = ()
    """Of each target."""

    @property
    def seen(self) -> str:
        """What the function depends on, in words."""
        if self.stream is None:
            return f"the components of the normal, of degree {NORMAL_DEGREE}"
        speed = ", and of degree 2 in the speed" if len(self.powers) > 1 else ""
        return f"the cosine of the angle between normal and stream, of degree {DEGREE}{speed}"

    def __call__(self, sample: str, rows: Rows) -> Rows:
        """The targets, from a sample's rows."""
        terms, directions = self._terms(rows)
        parts = []
        for field, own in zip(self.schema.targets, self.coefficients, strict=True):
            design = _design(terms, directions, field.components)
            answer = np.einsum("nkt,t->nk", design, own) if design.ndim == 3 else design @ own
            parts.append(answer.reshape(len(rows), field.components))
        return np.concatenate(parts, 1).astype(np.float32)

    def normal_equations(self, rows: Rows) -> Iterator[tuple[Floats, Floats]]:
        """Of each target: the sample's part of the matrix and of the right side."""
        terms, directions = self._terms(rows)
        for field in self.schema.targets:
            truth = rows[:, self.schema.columns(field.name)].astype(np.float64)
            weight = 1 / (np.square(truth).sum() or 1.0)
            design = _design(terms, directions, field.components)
            if design.ndim == 3:
                design, truth = design.reshape(-1, design.shape[-1]), truth.reshape(-1)
            yield weight * design.T @ design, weight * design.T @ truth

    def _terms(self, rows: Rows) -> tuple[Floats, Floats]:
        """Polynomials (N, T) and the directions (N, D, 3) of which a vector is made."""
        normal = rows[:, self.normals].astype(np.float64)
        if self.stream is None:
            return _monomials(normal), np.broadcast_to(np.eye(3), (len(rows), 3, 3))
        stream = rows[:, list(self.stream)].astype(np.float64)
        speed = np.linalg.norm(stream, axis=1, keepdims=True)
        along = stream / np.where(speed > 0, speed, 1)
        cosine = (normal * along).sum(1)
        polynomials = legendre.legvander(cosine, DEGREE)
        terms = [polynomials * (speed / self.fastest) ** power for power in self.powers]
        tangent = along - cosine[:, None] * normal
        return np.concatenate(terms, 1), np.stack((tangent, normal), 1)


def fit_inclination(store: Store) -> Inclination | None:
    """The function that fits the training split best; None where the data have no normals."""
    schema, normals = store.schema, store.schema.computed("normals")
    if normals is None:
        return None
    samples = [read_first(store, sample, FIT_POINTS) for sample in candidates(store)]
    stream = _stream(schema, samples)
    fastest, powers = 1.0, SPEEDS[:1]
    if stream is not None:
        speeds = [float(np.linalg.norm(rows[0, list(stream)])) for rows in samples]
        fastest = max(speeds) or 1.0
        powers = SPEEDS if max(speeds) - min(speeds) > _SAME * fastest else powers
    empty = Inclination(schema, schema.columns(normals.name), stream, fastest, powers)
    sums: list[tuple[Floats, Floats]] = []
    for rows in samples:
        own = list(empty.normal_equations(rows))
        sums = [(a + c, b + d) for (a, b), (c, d) in zip(sums, own, strict=True)] if sums else own
    solved = (np.linalg.lstsq(matrix, right, rcond=1e-12)[0] for matrix, right in sums)
    return replace(empty, coefficients=tuple(np.asarray(own, np.float64) for own in solved))


def _design(terms: Floats, directions: Floats, components: int) -> Floats:
    """Of a vector in space (N, 3, D T), else the terms alone (N, T)."""
    if components != 3:
        return terms
    return np.einsum("ndk,nt->nkdt", directions, terms).reshape(len(terms), 3, -1)


def _monomials(normal: Floats) -> Floats:
    """All products of up to NORMAL_DEGREE components."""
    choices = [
        c for n in range(NORMAL_DEGREE + 1) for c in combinations_with_replacement(range(3), n)
    ]
    return np.stack([normal[:, list(choice)].prod(1) for choice in choices], 1)


def _stream(schema: Schema, samples: Sequence[Rows]) -> tuple[int, ...] | None:
    """The columns of the stream: a feature of three components that is the same at all points of a
    sample, or three features whose names end in x, y and z."""
    normals = schema.computed("normals")
    fields = [field for field in schema.features if field != normals]
    whole = [schema.columns(field.name) for field in fields if field.components == 3]
    found = [tuple(range(columns.start, columns.stop)) for columns in whole]
    single = {
        field.name: schema.columns(field.name).start for field in fields if field.components == 1
    }
    for name in single:
        stem = re.sub(r"x$", "", name)
        axes = [f"{stem}{axis}" for axis in "xyz"]
        if stem != name and all(axis in single for axis in axes):
            found.append(tuple(single[axis] for axis in axes))
    return next((own for own in found if _is_stream(own, samples)), None)


def _is_stream(columns: tuple[int, ...], samples: Sequence[Rows]) -> bool:
    constant = all(not np.ptp(rows[:, list(columns)], axis=0).any() for rows in samples)
    return constant and any(rows[0, list(columns)].any() for rows in samples)
