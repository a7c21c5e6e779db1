"""The solver against exact decay, its energy budget and its order; trajectories and promises."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from slipstream.core.runtime import generator
from slipstream.physics.taylor_green import (
    SpectralGrid,
    TaylorGreen,
    initial_velocity,
    make_trajectory,
    refine,
    solve_trajectory,
    taylor_green_vortex,
    truncate,
)

TURN = 2 * math.pi
"""The length of the solver's own cube."""
SMALL = TaylorGreen(
    grid=16, stored=8, length=TURN, states=3, interval=0.2, step=0.1, viscosity=(0.01, 0.02),
    dtype="float64",
)  # fmt: skip


def perturbed(size: int, modes: int = 3) -> tuple[SpectralGrid, Tensor]:
    """Coefficients of one random start."""
    grid = SpectralGrid(size)
    config = TaylorGreen(grid=size, stored=8, modes=modes, perturbation=0.3)
    velocity = initial_velocity(config, grid, generator(0, "start"))
    return grid, grid.projected(grid.forward(velocity) * grid.kept)


def band_limited(size: int, waves: int, draw: torch.Generator) -> Tensor:
    """Values of a random field with wave numbers up to `waves` along each axis."""
    x, y, z = SpectralGrid(size).points()
    field = torch.zeros_like(x)
    for _ in range(12):
        k = torch.randint(-waves, waves + 1, (3,), generator=draw).tolist()
        size_phase = torch.rand(2, generator=draw, dtype=torch.float64).tolist()
        field = field + size_phase[0] * (k[0] * x + k[1] * y + k[2] * z + 6 * size_phase[1]).cos()
    return field


def test_derivatives_are_those_of_waves() -> None:
    grid = SpectralGrid(16)
    x, y, z = grid.points()
    field = torch.stack(((2 * y + z).sin(), (3 * x).cos(), (x - y).sin()))
    curl = torch.stack(
        (
            -(x - y).cos(),
            (2 * y + z).cos() - (x - y).cos(),
            -3 * (3 * x).sin() - 2 * (2 * y + z).cos(),
        )
    )
    found = grid.backward(grid.curl(grid.forward(field)))
    torch.testing.assert_close(found, curl, rtol=0, atol=1e-13)
    gradient = torch.stack((x.cos() * y.cos(), -x.sin() * y.sin(), torch.zeros_like(x)))
    assert grid.backward(grid.projected(grid.forward(gradient))).abs().max() < 1e-14
    divergence = grid.backward(grid.divergence(grid.forward(gradient)))
    torch.testing.assert_close(divergence, -2 * x.sin() * y.cos(), rtol=0, atol=1e-13)


@pytest.mark.parametrize("length", [TURN, 1.0])
def test_two_dimensional_vortex_decays_exactly(length: float) -> None:
    """u = sin kx cos ky, v = -cos kx sin ky keeps its shape and decays as exp(-2 nu k^2 t), where k
    is 2 pi over the length; its pressure is (cos 2kx + cos 2ky) / 4."""
    config = TaylorGreen(
        grid=16, stored=8, length=length, states=4, interval=0.04 * length, step=0.02 * length,
        dtype="float64",
    )  # fmt: skip
    grid, viscosity = SpectralGrid(16), 0.02 * length
    x, y, _ = grid.points()
    vortex = torch.stack((x.sin() * y.cos(), -x.cos() * y.sin(), torch.zeros_like(x)))
    path = solve_trajectory(vortex, viscosity=viscosity, config=config, grid=grid)
    x, y, _ = SpectralGrid(8).points()
    shape = torch.stack((x.sin() * y.cos(), -x.cos() * y.sin(), torch.zeros_like(x)))
    assert path.times[-1] == pytest.approx(0.12 * length)
    for time, velocity, pressure in zip(path.times, path.velocity, path.pressure, strict=True):
        decay = math.exp(-2 * viscosity * (TURN / length) ** 2 * float(time))
        torch.testing.assert_close(velocity, (decay * shape).float(), rtol=0, atol=1e-6)
        expected = decay**2 / 4 * ((2 * x).cos() + (2 * y).cos())
        torch.testing.assert_close(pressure, expected.float(), rtol=0, atol=1e-6)


def test_a_wind_carries_the_vortex_along() -> None:
    """Galilean invariance: the two-dimensional vortex in a uniform wind moves with it."""
    grid = SpectralGrid(16)
    wind = torch.tensor([0.7, -0.4, 0.2], dtype=torch.float64)[:, None, None, None]

    def vortex(time: float) -> Tensor:
        x, y, _ = grid.points() - wind * time
        shape = torch.stack((x.sin() * y.cos(), -x.cos() * y.sin(), torch.zeros_like(x)))
        return wind + math.exp(-0.2 * time) * shape

    state = grid.forward(vortex(0.0))
    for _ in range(50):
        state = grid.step(state, 0.02, 0.1)
    torch.testing.assert_close(grid.backward(state), vortex(1.0), rtol=0, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_divergence_stays_at_rounding(dtype: str) -> None:
    kind = getattr(torch, dtype)
    grid = SpectralGrid(16, dtype=kind)
    state = perturbed(16)[1].to(torch.promote_types(kind, torch.complex64))
    for _ in range(20):
        state = grid.step(state, 0.05, 0.02)
    assert grid.divergence(state).abs().max() < 20 * torch.finfo(kind).eps


def test_energy_is_lost_to_viscosity_and_to_nothing_else() -> None:
    grid, state = perturbed(16)
    viscosity, step, lost, rates = 0.05, 0.01, [], []
    for _ in range(41):
        lost.append(float(grid.energy(state)))
        rates.append(float(grid.dissipation(state, viscosity)))
        state = grid.step(state, step, viscosity)
    simpson = torch.tensor([1, *[4, 2] * 19, 4, 1], dtype=torch.float64) * step / 3
    dissipated = float(simpson @ torch.tensor(rates, dtype=torch.float64))
    assert lost[0] - lost[-1] == pytest.approx(dissipated, rel=1e-7)
    for _ in range(20):
        state = grid.step(state, step, 0.0)
    without = [float(grid.energy(state)), float(grid.energy(grid.step(state, step, 0.0)))]
    assert without[1] == pytest.approx(without[0], rel=1e-9)


def test_products_are_free_of_aliasing(draw: torch.Generator) -> None:
    """Wave numbers to 5 on a grid of 16 give the same products as on one that holds all sums."""
    rough, grid, wide = SpectralGrid(12), SpectralGrid(16), SpectralGrid(32)
    values = torch.randn(3, 12, 12, 12, generator=draw, dtype=torch.float64)
    start = truncate(rough.projected(rough.forward(values)), 12)
    found = grid.turning(refine(start, 16))
    expected = truncate(wide.turning(refine(start, 32)), 12)
    torch.testing.assert_close(found, refine(expected, 16), rtol=0, atol=1e-13)


def test_energy_is_the_mean_over_the_grid() -> None:
    grid, state = perturbed(16)
    mean = grid.backward(state).square().sum(0).mean() / 2
    torch.testing.assert_close(grid.energy(state), mean)


def test_fourth_order_in_the_time_step() -> None:
    grid, start = perturbed(16)

    def end(steps: int) -> Tensor:
        state = start
        for _ in range(steps):
            state = grid.step(state, 1.0 / steps, 0.02)
        return state

    best = end(64)
    errors = [float((end(steps) - best).abs().max()) for steps in (4, 8, 16)]
    orders = [math.log2(a / b) for a, b in zip(errors, errors[1:], strict=False)]
    assert all(3.7 < order < 4.5 for order in orders)


def test_pressure_balances_the_flow(draw: torch.Generator) -> None:
    """laplace p = -div (u . grad) u, the products formed on a grid fine enough for all of them."""
    grid, state = perturbed(32)
    u = grid.backward(state)
    advected = torch.zeros_like(u)
    for axis in range(3):
        advected += u[axis] * grid.backward(1j * grid.wave[axis] * state)
    right = -grid.divergence(grid.forward(advected) * grid.kept)
    torch.testing.assert_close(-grid.squared * grid.pressure(state), right, rtol=0, atol=1e-13)


def test_truncation_is_exact_for_fields_a_coarse_grid_holds(draw: torch.Generator) -> None:
    seed = int(torch.randint(1 << 30, (), generator=draw))
    fine, coarse = (band_limited(size, 3, torch.Generator().manual_seed(seed)) for size in (20, 8))
    coefficients = SpectralGrid(20).forward(fine)
    found = SpectralGrid(8).backward(truncate(coefficients, 8))
    torch.testing.assert_close(found, coarse, rtol=0, atol=1e-13)
    back = refine(truncate(coefficients, 8), 20)
    torch.testing.assert_close(back, coefficients, rtol=0, atol=1e-14)


def test_truncation_drops_what_a_coarse_grid_cannot_hold() -> None:
    grid = SpectralGrid(16)
    x, _, _ = grid.points()
    for waves in (4, 5, 7):
        assert truncate(grid.forward((waves * x).cos()), 8).abs().max() < 1e-15


def test_finer_grids_agree_where_the_flow_is_resolved() -> None:
    ends = []
    for size in (16, 24):
        grid, state = perturbed(size, modes=2)
        for _ in range(5):
            state = grid.step(state, 0.04, 0.1)
        ends.append(truncate(state, 8))
    assert (ends[0] - ends[1]).abs().max() < 1e-3 * ends[1].abs().max()


def test_start_is_a_vortex_with_a_perturbation_of_the_size_asked() -> None:
    grid = SpectralGrid(16)
    draws = [
        initial_velocity(
            TaylorGreen(grid=16, stored=8, perturbation=size), grid, generator(0, "size")
        )
        for size in (0.0, 0.2)
    ]
    assert grid.divergence(grid.forward(draws[1])).abs().max() < 1e-14
    rms = draws[0].square().mean().sqrt()
    torch.testing.assert_close((draws[1] - draws[0]).square().mean().sqrt(), 0.2 * rms)
    plain = taylor_green_vortex(grid, phases=(0.0, 0.0, 0.0))
    torch.testing.assert_close(plain.square().mean(), draws[0].square().mean())


def test_trajectories_are_a_pure_function_of_config_seed_and_number() -> None:
    one, again = (make_trajectory(SMALL, seed=1, sample=4) for _ in range(2))
    assert torch.equal(one.velocity, again.velocity) and torch.equal(one.pressure, again.pressure)
    assert one.velocity.shape == (3, 3, 8, 8, 8) and one.velocity.dtype == torch.float32
    assert one.times.tolist() == pytest.approx([0.0, 0.2, 0.4])
    assert 0.01 <= one.viscosity <= 0.02
    for other in ({"seed": 2, "sample": 4}, {"seed": 1, "sample": 5}):
        assert not torch.equal(make_trajectory(SMALL, **other).velocity, one.velocity)
    single = make_trajectory(replace(SMALL, dtype="float32"), seed=1, sample=4)
    torch.testing.assert_close(single.velocity, one.velocity, rtol=0, atol=1e-5)


def test_the_state_determines_the_later_one_and_no_constant_does() -> None:
    """From a stored state, its viscosity and the lead time the solver finds the later state, with
    the error of the coarser grid; the state itself, and its best multiple, are far from it."""
    config = TaylorGreen(grid=32, stored=16, states=17, step=0.016, viscosity=(3e-3, 3e-3))
    path, grid = make_trajectory(config, seed=0, sample=0), SpectralGrid(16, dtype=torch.float32)
    now, later, lead = path.velocity[10], path.velocity[16], 6 * config.interval
    state = grid.forward(now)
    for _ in range(15):
        state = grid.step(state, lead / 15 / config.unit, path.viscosity / config.unit)

    def error(answer: Tensor) -> float:
        return float((answer - later).abs().sum() / later.abs().sum())

    multiples = min(error(share * now) for share in torch.linspace(0, 1, 101).tolist())
    solved = error(grid.backward(state))
    assert solved < 0.1
    assert multiples > 2 * solved and error(now) > 4 * solved, (solved, multiples, error(now))


def test_steps_too_long_are_named() -> None:
    config = TaylorGreen(
        grid=16, stored=8, states=3, interval=200.0, step=20.0, viscosity=(0.0, 0.0)
    )
    with pytest.raises(ValueError, match="step must be small enough for a stable solution, got 20"):
        make_trajectory(config, seed=0, sample=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": 4}, "grid must be a whole number of at least 8, got 4"),
        ({"grid": 15, "stored": 8}, "grid and stored must be even .* got grid 15 and stored 8"),
        ({"grid": 16, "stored": 32}, "stored at most grid, got grid 16 and stored 32"),
        ({"grid": 8, "stored": 8}, "modes must be at most 2, a third of the grid, got 3"),
        ({"states": 0}, "states must be a whole number of at least 1, got 0"),
        ({"step": 0.0}, "interval and step must be positive, got 0.08 and 0.0"),
        ({"length": 0.0}, "length must be positive, got 0.0"),
        ({"viscosity": (0.2, 0.1)}, r"viscosity must be a range \(low, high\), got \(0.2, 0.1\)"),
        ({"dtype": "float16"}, "dtype must be one of float32, float64, got 'float16'"),
        ({"perturbation": -0.1}, "perturbation must be at least 0, got -0.1"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TaylorGreen(**options)  # type: ignore[arg-type]


def test_bad_arguments(no_shape_checks: None) -> None:
    with pytest.raises(ValueError, match="size must be even and at most 16, got 18"):
        truncate(torch.zeros(16, 16, 9), 18)
    with pytest.raises(ValueError, match=r"velocity must have shape \(3, n, n, n\)"):
        solve_trajectory(
            torch.zeros(3, 8, 8, 8), viscosity=0.1, config=SMALL, grid=SpectralGrid(16)
        )
    with pytest.raises(ValueError, match="sample must be a whole number of at least 0, got -1"):
        make_trajectory(SMALL, seed=0, sample=-1)
