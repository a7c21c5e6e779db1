"""Gaussian charges in free space: a nonlocal problem whose solution is known in closed form.

The density rho = sum_k q_k N(x; c_k, sigma_k^2) has the potential phi = sum_k q_k erf(u) / (4 pi r)
and the field E = -grad phi, with r = |x - c_k| and u = r / (sqrt(2) sigma_k); -laplace phi = div E
= rho. A model is given the density at the points and must predict potential and field there, which
do not follow from the density at the same point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slipstream.core.checks import check_whole
from slipstream.core.runtime import generator
from slipstream.core.shapes import Float

_SERIES_BELOW = 1e-2


@dataclass(frozen=True, kw_only=True)
class Charges:
    """The distribution of the charges of a sample; all draws are uniform, in the unit cube."""

    number: tuple[int, int] = (2, 5)
    """Fewest and most charges; the sign of each is drawn evenly, its size from [0.5, 1.5]."""
    width: tuple[float, float] = (0.06, 0.12)
    """Range of the standard deviations."""
    box: tuple[float, float] = (0.3, 0.7)
    """Range of each coordinate of the centres: well inside, so that the density in the cube
    determines the solution."""

    def __post_init__(self) -> None:
        for name in ("number", "width", "box"):
            low, high = getattr(self, name)
            if not low <= high:
                raise ValueError(f"{name} must be a range (low, high), got ({low}, {high})")
        check_whole("number[0]", self.number[0], 1)
        check_whole("number[1]", self.number[1], 1)
        if self.width[0] <= 0:
            raise ValueError(f"width must be positive, got {self.width}")
        if not 0 < self.box[0] <= self.box[1] < 1:
            raise ValueError(f"box must lie inside the unit interval, got {self.box}")


@dataclass(frozen=True, eq=False)
class ChargedClouds:
    """S samples of N points: density as feature, potential and field as targets."""

    coords: Float[Tensor, "S N 3"]
    features: Float[Tensor, "S N 1"]
    targets: Float[Tensor, "S N 4"]


def make_samples(
    samples: int, points: int, *, seed: int, first: int = 0, charges: Charges | None = None
) -> ChargedClouds:
    """Samples `first` .. `first + samples`, each a pure function of (seed, its index)."""
    check_whole("samples", samples, 1)
    check_whole("points", points, 1)
    charges = charges or Charges()
    rows = [_sample(points, seed, index, charges) for index in range(first, first + samples)]
    coords, features, targets = (torch.stack(part).float() for part in zip(*rows, strict=True))
    return ChargedClouds(coords, features, targets)


def density(x: Tensor, centre: Tensor, width: Tensor, charge: Tensor) -> Tensor:
    """Charge density at points (N, 3) of K charges: centres (K, 3), widths (K), charges (K)."""
    squared = (x[:, None] - centre).square().sum(-1) / width.square()
    return ((-squared / 2).exp() * charge / (width * math.sqrt(2 * math.pi)) ** 3).sum(-1)


def potential(x: Tensor, centre: Tensor, width: Tensor, charge: Tensor) -> Tensor:
    u = (x[:, None] - centre).norm(dim=-1) / (math.sqrt(2) * width)
    return (charge * _erf_over_u(u) / (4 * math.pi * math.sqrt(2) * width)).sum(-1)


def field(x: Tensor, centre: Tensor, width: Tensor, charge: Tensor) -> Tensor:
    """The negative gradient of the potential, (N, 3)."""
    offset = x[:, None] - centre
    u = offset.norm(dim=-1) / (math.sqrt(2) * width)
    strength = charge * _enclosed_over_u3(u) / (4 * math.pi * (math.sqrt(2) * width) ** 3)
    return (strength[..., None] * offset).sum(1)


def draw_charges(charges: Charges, draw: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Centres (K, 3), widths (K) and charges (K) of one sample."""
    number = int(torch.randint(charges.number[0], charges.number[1] + 1, (), generator=draw))
    centre = _uniform((number, 3), charges.box, draw)
    width = _uniform((number,), charges.width, draw)
    sign = torch.randint(0, 2, (number,), generator=draw).double() * 2 - 1
    return centre, width, sign * _uniform((number,), (0.5, 1.5), draw)


def solution(x: Tensor, centre: Tensor, width: Tensor, charge: Tensor) -> tuple[Tensor, Tensor]:
    """Density (N), and potential and field (N, 4), at points."""
    phi = potential(x, centre, width, charge)[:, None]
    answer = torch.cat((phi, field(x, centre, width, charge)), -1)
    return density(x, centre, width, charge), answer


def _sample(points: int, seed: int, index: int, charges: Charges) -> tuple[Tensor, Tensor, Tensor]:
    draw = generator(seed, "poisson", index)
    drawn = draw_charges(charges, draw)
    x = _uniform((points, 3), (0.0, 1.0), draw)
    rho, answer = solution(x, *drawn)
    return x, rho[:, None], answer


def _uniform(shape: tuple[int, ...], bounds: tuple[float, float], draw: torch.Generator) -> Tensor:
    low, high = bounds
    return low + (high - low) * torch.rand(shape, generator=draw, dtype=torch.float64)


def _erf_over_u(u: Tensor) -> Tensor:
    series = 2 / math.sqrt(math.pi) * (1 - u**2 / 3 + u**4 / 10)
    safe = u.clamp(min=_SERIES_BELOW)
    return torch.where(u < _SERIES_BELOW, series, torch.erf(safe) / safe)


def _enclosed_over_u3(u: Tensor) -> Tensor:
    """(erf(u) - 2 u exp(-u^2) / sqrt(pi)) / u^3: the share of the charge within u, over u^3."""
    scale = 2 / math.sqrt(math.pi)
    series = scale * (2 / 3 - 2 * u**2 / 5 + u**4 / 7)
    safe = u.clamp(min=_SERIES_BELOW)
    exact = (torch.erf(safe) - scale * safe * (-safe.square()).exp()) / safe**3
    return torch.where(u < _SERIES_BELOW, series, exact)
