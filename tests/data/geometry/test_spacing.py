"""Distances between points, against regular lattices and the laws of random points."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial import cKDTree

from slipstream.data.geometry import filled_dimension, median_spacing, scaled_spacing
from slipstream.data.geometry.spacing import QUERIES

DRAW = np.random.default_rng(0)


def test_against_a_tree() -> None:
    """All points are compared with all, up to `QUERIES`; then evenly spread ones."""
    for count, axes in ((2, 3), (17, 3), (1000, 2), (QUERIES, 3)):
        points = DRAW.normal(size=(count, axes))
        nearest = cKDTree(points).query(points, k=2)[0][:, 1]
        assert median_spacing(points) == pytest.approx(np.median(nearest), rel=1e-12)
    points = DRAW.normal(size=(5 * QUERIES, 3)).astype(np.float32)
    nearest = cKDTree(points).query(points, k=2)[0][:, 1]
    chosen = np.linspace(0, len(points) - 1, QUERIES).astype(int)
    assert median_spacing(points) == pytest.approx(np.median(nearest[chosen]), rel=1e-5)


def test_lattices_and_points_at_the_same_place() -> None:
    lattice = np.stack(np.meshgrid(*[np.arange(9.0)] * 3), -1).reshape(-1, 3) * (0.5, 2, 2)
    assert median_spacing(lattice) == 0.5
    assert median_spacing(np.repeat(lattice, 2, 0)) == 0.5
    assert median_spacing(lattice.astype(np.float32) + np.float32(1000)) == 0.5
    assert median_spacing((2 * lattice).astype(np.uint8)) == 1
    assert median_spacing(np.zeros((5, 3))) is None
    assert median_spacing(np.zeros((1, 3))) is None and median_spacing(np.zeros((0, 3))) is None
    with_nan = np.concatenate((lattice, np.full((3, 3), np.nan)))
    assert median_spacing(with_nan) == 0.5


@pytest.mark.parametrize("dimension", (2, 3))
def test_a_subset_tells_the_spacing_of_all(dimension: int) -> None:
    """Random points of density n: half of them have a neighbour within the radius of the disc or
    ball that holds ln 2 points on average."""
    points = DRAW.uniform(size=(40_000, dimension))
    volume = {2: math.pi, 3: 4 / 3 * math.pi}[dimension]
    law = (math.log(2) / volume / len(points)) ** (1 / dimension)
    seen = points[:10_000]
    spacing = median_spacing(seen)
    assert spacing is not None
    scaled = scaled_spacing(spacing, seen=len(seen), total=len(points), dimension=dimension)
    assert scaled == pytest.approx(law, rel=0.08)  # 3 deviations of the median of 1,024
    assert median_spacing(points) == pytest.approx(law, rel=0.08)
    assert len(points) ** (1 / dimension) * law == pytest.approx(
        {2: 0.470, 3: 0.549}[dimension], abs=1e-3
    )


def test_surfaces_and_volumes_are_told_apart() -> None:
    ball = DRAW.normal(size=(20_000, 3))
    sphere = ball / np.linalg.norm(ball, axis=1, keepdims=True)
    assert filled_dimension(ball) == 3 and filled_dimension(sphere) == 2
    assert filled_dimension(sphere * (1, 1, 0.01)) == 2
    assert filled_dimension(ball[:, :2]) == 2
    line = np.zeros((20_000, 3))
    line[:, 0] = ball[:, 0]
    assert filled_dimension(line) == 2  # never less
    assert filled_dimension(sphere[:16_000]) == 3  # too few to tell: the number of coordinates
    assert filled_dimension(ball[:16_000, :2]) == 2 and filled_dimension(np.zeros((20_000, 3))) == 3
