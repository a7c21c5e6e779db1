"""The exact potential flow past a tri-axial ellipsoid (Lamb, Hydrodynamics, articles 112 to 114).

With semi-axes a_i the potential is sum_i U_i x_i (1 + alpha_i(k) / (2 - alpha_i(0))), where
alpha_i(k) = a_1 a_2 a_3 times the integral from k to infinity of 1 / ((a_i^2 + m) D(m)) dm,
D(m)^2 = prod_j (a_j^2 + m), and k >= 0 is the confocal ellipsoid sum_i x_i^2 / (a_i^2 + k) = 1 that
passes through x. The alpha_i(0) are twice the depolarisation factors and add up to 2.
"""

from __future__ import annotations

import numpy
import torch
from torch import Tensor

from slipstream.core.checks import check_shape

_NODES = 80
_STEPS = 60


def ellipsoid_velocity(axes: Tensor, freestream: Tensor, points: Tensor) -> Tensor:
    """Velocity (P, 3) on or outside the ellipsoid around the origin with semi-axes (3)."""
    check_shape("axes", axes, "3", (3,))
    check_shape("points", points, "P 3", (None, 3))
    confocal = confocal_parameter(axes, points)
    squares = axes.square() + confocal[:, None]
    strength = freestream / (2 - demagnetising(axes, axes.new_zeros(1)))  # (1, 3)
    slope = -axes.prod() / (squares * squares.prod(-1, keepdim=True).sqrt())
    normal = points / squares
    gradient = 2 * normal / normal.square().sum(-1, keepdim=True)
    along = (strength * points * slope).sum(-1, keepdim=True) * gradient
    return freestream + strength * demagnetising(axes, confocal) + along


def demagnetising(axes: Tensor, confocal: Tensor) -> Tensor:
    """alpha_i(k), (K, 3)."""
    squares, weights = confocal_quadrature(axes, confocal)
    return axes.prod() * (weights[..., None] / (squares * squares.prod(-1, True).sqrt())).sum(1)


def confocal_quadrature(axes: Tensor, confocal: Tensor) -> tuple[Tensor, Tensor]:
    """axes^2 + m, (K, Q, 3), and the weights of an integral over m from k to infinity, (K, Q).

    By Gauss-Legendre quadrature in t with m = k + (c t / (1 - t))^2, which makes the range finite
    and, with c near the axes, the integrand smooth.
    """
    nodes, weights = numpy.polynomial.legendre.leggauss(_NODES)
    t = torch.as_tensor((nodes + 1) / 2).to(axes)
    weight = torch.as_tensor(weights / 2).to(axes)
    scale = (axes.square().mean() + confocal[:, None]).sqrt()  # (K, 1)
    root = scale * t / (1 - t)
    squares = axes.square() + (confocal[:, None] + root.square())[..., None]
    return squares, 2 * root * scale / (1 - t).square() * weight


def confocal_parameter(axes: Tensor, points: Tensor) -> Tensor:
    """k >= 0 of each point (P); 0 also for points that rounding has put inside the ellipsoid.

    Newton's method from k = 0 on the sum minus one, which is convex and decreasing: an iterate
    never passes the root.
    """
    confocal = points.new_zeros(len(points))
    for _ in range(_STEPS):
        squares = axes.square() + confocal[:, None]
        value = (points.square() / squares).sum(-1) - 1
        slope = (points / squares).square().sum(-1)
        confocal = (confocal + value / slope).clamp(min=0)
    return confocal
