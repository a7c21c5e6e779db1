"""The closed forms against the equations they solve, and the samples against their promises."""

from __future__ import annotations

import math

import pytest
import torch

from slipstream.physics.poisson import Charges, density, field, make_samples, potential

CENTRE = torch.tensor([[0.4, 0.5, 0.6], [0.55, 0.45, 0.5]], dtype=torch.float64)
WIDTH = torch.tensor([0.08, 0.12], dtype=torch.float64)
CHARGE = torch.tensor([1.0, -0.7], dtype=torch.float64)


def some_points(count: int = 50) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(count, 3, generator=draw, dtype=torch.float64)
    x[0] = CENTRE[0] + 1e-6  # within the series
    x[1] = CENTRE[1] + torch.tensor([0.0, 0.0, 1.2e-3])  # near where series and formula meet
    return x.requires_grad_()


def test_the_field_is_the_negative_gradient_of_the_potential() -> None:
    x = some_points()
    (gradient,) = torch.autograd.grad(potential(x, CENTRE, WIDTH, CHARGE).sum(), x)
    torch.testing.assert_close(field(x, CENTRE, WIDTH, CHARGE), -gradient, rtol=1e-8, atol=1e-10)


def test_the_divergence_of_the_field_is_the_density() -> None:
    x = some_points()
    divergence = torch.zeros(len(x), dtype=torch.float64)
    values = field(x, CENTRE, WIDTH, CHARGE)
    for axis in range(3):
        (gradient,) = torch.autograd.grad(values[:, axis].sum(), x, retain_graph=True)
        divergence += gradient[:, axis]
    torch.testing.assert_close(divergence, density(x, CENTRE, WIDTH, CHARGE), rtol=1e-6, atol=1e-7)


def test_far_away_a_charge_is_a_point() -> None:
    x = torch.tensor([[10.0, 0.0, 0.0]], dtype=torch.float64)
    one = (torch.zeros(1, 3, dtype=torch.float64), WIDTH[:1], CHARGE[:1])
    torch.testing.assert_close(potential(x, *one), torch.tensor([1 / (40 * math.pi)]).double())
    torch.testing.assert_close(field(x, *one)[0, 0], torch.tensor(1 / (400 * math.pi)).double())


def test_the_density_holds_the_charge() -> None:
    axis = torch.linspace(-0.2, 1.2, 71, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis, axis)
    total = density(grid, CENTRE, WIDTH, CHARGE).sum() * (axis[1] - axis[0]) ** 3
    torch.testing.assert_close(total, CHARGE.sum(), rtol=1e-5, atol=0)


def test_samples_are_a_pure_function_of_seed_and_index() -> None:
    four = make_samples(4, 20, seed=7)
    last = make_samples(1, 20, seed=7, first=3)
    assert torch.equal(four.targets[3:], last.targets) and torch.equal(four.coords[3:], last.coords)
    assert not torch.equal(make_samples(1, 20, seed=8, first=3).targets, last.targets)
    assert four.coords.shape == (4, 20, 3) and four.features.shape == (4, 20, 1)
    assert four.targets.shape == (4, 20, 4) and four.targets.dtype == torch.float32
    assert 0 <= four.coords.min() and four.coords.max() <= 1


def test_both_signs_occur() -> None:
    signs = make_samples(40, 64, seed=0, charges=Charges(number=(1, 1))).targets[..., 0].sign()
    per_sample = signs.mean(1)
    assert (per_sample == 1).any() and (per_sample == -1).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"number": (3, 2)}, r"number must be a range \(low, high\), got \(3, 2\)"),
        ({"number": (0, 2)}, r"number\[0\] must be a whole number of at least 1, got 0"),
        ({"width": (0.0, 0.1)}, r"width must be positive, got \(0.0, 0.1\)"),
        ({"box": (0.2, 1.2)}, r"box must lie inside the unit interval, got \(0.2, 1.2\)"),
    ],
)
def test_bad_options(options: dict[str, tuple[float, float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Charges(**options)  # type: ignore[arg-type]


def test_no_samples_or_points() -> None:
    with pytest.raises(ValueError, match="samples must be a whole number of at least 1, got 0"):
        make_samples(0, 5, seed=0)
    with pytest.raises(ValueError, match="points must be a whole number of at least 1, got 0"):
        make_samples(1, 0, seed=0)
