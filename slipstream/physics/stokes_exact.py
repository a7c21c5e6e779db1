"""The exact Stokes flow past a tri-axial ellipsoid (Oberbeck, 1876; Lamb, Hydrodynamics, 339).

With semi-axes a_i, alpha_i(k) and the confocal parameter k of `ellipsoid.py`, and chi(k) = a_1 a_2
a_3 times the integral from k to infinity of dm / D(m), a stream U_i along axis i gives

    velocity   U - B (chi + a_i^2 alpha_i) e_i - B x_i a_1 a_2 a_3 k / ((a_i^2 + k) D(k)) grad k
    pressure   -2 mu B a_1 a_2 a_3 / D(k) dk/dx_i
    drag       16 pi mu a_1 a_2 a_3 B

with B = U_i / (chi(0) + a_i^2 alpha_i(0)). The traction on the wall is the drag over 4 pi a_1 a_2
a_3 |(x_1 / a_1^2, x_2 / a_2^2, x_3 / a_3^2)|, in the direction of the drag.
"""

from __future__ import annotations

import math

from torch import Tensor

from slipstream.core.checks import check_shape
from slipstream.physics.ellipsoid import (
    confocal_parameter,
    confocal_quadrature,
    demagnetising,
)


def ellipsoid_drag(axes: Tensor, freestream: Tensor) -> Tensor:
    """Force (3) on the ellipsoid with semi-axes (3), at unit viscosity."""
    check_shape("axes", axes, "3", (3,))
    return 16 * math.pi * axes.prod() * _strength(axes, freestream)[0]


def ellipsoid_traction(axes: Tensor, freestream: Tensor, points: Tensor) -> Tensor:
    """Force per area (P, 3) at points of the wall of the ellipsoid around the origin."""
    check_shape("points", points, "P 3", (None, 3))
    steepness = (points / axes.square()).norm(dim=-1, keepdim=True)
    return ellipsoid_drag(axes, freestream) / (4 * math.pi * axes.prod() * steepness)


def ellipsoid_stokes_flow(
    axes: Tensor, freestream: Tensor, points: Tensor
) -> tuple[Tensor, Tensor]:
    """Velocity (P, 3) and pressure (P), at unit viscosity, on or outside the ellipsoid."""
    check_shape("axes", axes, "3", (3,))
    check_shape("points", points, "P 3", (None, 3))
    confocal = confocal_parameter(axes, points)
    strength = _strength(axes, freestream)
    squares = axes.square() + confocal[:, None]
    slope = axes.prod() / squares.prod(-1, keepdim=True).sqrt()
    normal = points / squares
    gradient = 2 * normal / normal.square().sum(-1, keepdim=True)
    slowed = strength * (chi(axes, confocal) + axes.square() * demagnetising(axes, confocal))
    along = confocal[:, None] * slope * (strength * normal).sum(-1, keepdim=True) * gradient
    pressure = -2 * slope[:, 0] * (strength * gradient).sum(-1)
    return freestream - slowed - along, pressure


def chi(axes: Tensor, confocal: Tensor) -> Tensor:
    """chi(k), (K, 1)."""
    squares, weights = confocal_quadrature(axes, confocal)
    return axes.prod() * (weights / squares.prod(-1).sqrt()).sum(1, keepdim=True)


def _strength(axes: Tensor, freestream: Tensor) -> Tensor:
    """B of each axis, (1, 3)."""
    wall = axes.new_zeros(1)
    return freestream / (chi(axes, wall) + axes.square() * demagnetising(axes, wall))
