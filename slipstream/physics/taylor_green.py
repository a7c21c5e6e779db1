"""Decaying perturbed Taylor-Green vortices: incompressible Navier-Stokes in a periodic cube.

Pseudo-spectral on the cube of side 2 pi: the velocity is kept as its Fourier coefficients, the term
omega x u is formed at grid points and projected on fields without divergence, du/dt = P(u x omega)
- nu k^2 u (Canuto et al., Spectral Methods in Fluid Dynamics). Coefficients beyond a third of the
grid are zero throughout, so that products are free of aliasing. Time steps are the classical
fourth-order Runge-Kutta method with the viscous term integrated exactly. A cube of another length
has the same flow: lengths and times are divided by length / 2 pi, and viscosities too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from slipstream.core.checks import check_at_least, check_choice, check_shape, check_whole
from slipstream.core.runtime import generator
from slipstream.core.shapes import Float

VELOCITY_UNIT, PRESSURE_UNIT, TIME_UNIT, VISCOSITY_UNIT = "m/s", "m^2/s^2", "s", "m^2/s"
"""Pressure is divided by the density."""

_DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True, kw_only=True)
class TaylorGreen:
    """The distribution of the trajectories; all draws are uniform or normal."""

    grid: int = 64
    """Grid points along an edge of the cube while solving."""
    stored: int = 32
    """Grid points along an edge of the stored states."""
    length: float = 1.0
    """Edge of the cube, in metres; the vortex has the speed 1 m/s."""
    states: int = 26
    """Stored states, the initial one first."""
    interval: float = 0.08
    """Time between stored states, in seconds."""
    step: float = 0.008
    """Longest time step, in seconds; shortened so that whole steps make an interval. At the lowest
    viscosity on a grid of 48, half of it changes the last state by 2e-5 of its size."""
    viscosity: tuple[float, float] = (8e-4, 3.2e-3)
    """Range of the kinematic viscosity, in m^2/s: Reynolds numbers, with the speed and length / 2
    pi, from 200 to 50. At the lowest viscosity a grid of 96 changes the last state by 1.6 %."""
    perturbation: float = 0.1
    """Root mean square of the random part over that of the vortex."""
    modes: int = 3
    """Largest wave number, along each axis, of the random part."""
    dtype: str = "float32"
    """Precision of the solver: float32 or float64. States are stored in float32."""

    def __post_init__(self) -> None:
        check_whole("grid", self.grid, 8)
        check_whole("stored", self.stored, 4)
        check_whole("states", self.states, 1)
        check_whole("modes", self.modes, 1)
        check_choice("dtype", self.dtype, _DTYPES)
        check_at_least("perturbation", self.perturbation, 0)
        if self.grid % 2 or self.stored % 2 or self.stored > self.grid:
            raise ValueError(
                "grid and stored must be even and stored at most grid,"
                f" got grid {self.grid} and stored {self.stored}"
            )
        if self.modes > (self.grid - 1) // 3:
            raise ValueError(
                f"modes must be at most {(self.grid - 1) // 3}, a third of the grid,"
                f" got {self.modes}"
            )
        if not (self.interval > 0 and self.step > 0):
            raise ValueError(
                f"interval and step must be positive, got {self.interval} and {self.step}"
            )
        if not self.length > 0:
            raise ValueError(f"length must be positive, got {self.length}")
        low, high = self.viscosity
        if not 0 <= low <= high:
            raise ValueError(f"viscosity must be a range (low, high), got ({low}, {high})")

    @property
    def unit(self) -> float:
        """Length in metres, and time in seconds, that are 1 in the solver's cube of side 2 pi."""
        return self.length / (2 * math.pi)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """T states on a grid of M points along each edge, x first; point i is at i / M of the edge."""

    times: Float[Tensor, " T"]
    velocity: Float[Tensor, "T 3 M M M"]
    pressure: Float[Tensor, "T M M M"]
    """Pressure over density, with mean zero."""
    viscosity: float


class SpectralGrid:
    """Wave numbers of a cube of `size`^3 points, and the operations that need them.

    Fields are (3, n, n, n), their coefficients (3, n, n, n / 2 + 1), scaled so that a coefficient
    is an amplitude whatever the size.
    """

    def __init__(
        self, size: int, *, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
    ) -> None:
        check_whole("size", size, 4)
        self.size, self.dtype, self.device = size, dtype, torch.device(device)

    @cached_property
    def wave(self) -> Float[Tensor, "3 n n m"]:
        numbers = torch.fft.fftfreq(self.size, 1 / self.size, dtype=self.dtype, device=self.device)
        last = torch.arange(self.size // 2 + 1, dtype=self.dtype, device=self.device)
        return torch.stack(torch.meshgrid(numbers, numbers, last, indexing="ij"))

    @cached_property
    def squared(self) -> Float[Tensor, "n n m"]:
        return self.wave.square().sum(0)

    @cached_property
    def kept(self) -> Tensor:
        """Which coefficients are free of aliasing in a product: |k| < n / 3 along each axis."""
        return (self.wave.abs() < self.size / 3).all(0)

    @cached_property
    def inverse_laplacian(self) -> Float[Tensor, "n n m"]:
        return torch.where(self.squared > 0, 1 / self.squared.clamp(min=1), 0.0)

    def forward(self, field: Tensor) -> Tensor:
        return torch.fft.rfftn(field, dim=(-3, -2, -1), norm="forward")

    def backward(self, coefficients: Tensor) -> Tensor:
        size = (self.size,) * 3
        return torch.fft.irfftn(coefficients, s=size, dim=(-3, -2, -1), norm="forward")

    def divergence(self, velocity: Tensor) -> Tensor:
        return 1j * (self.wave * velocity).sum(0)

    def curl(self, velocity: Tensor) -> Tensor:
        return 1j * torch.linalg.cross(self.wave.to(velocity.dtype), velocity, dim=0)

    def projected(self, velocity: Tensor) -> Tensor:
        """The velocity without its gradient part, so that its divergence is zero."""
        along = (self.wave * velocity).sum(0) * self.inverse_laplacian
        return velocity - self.wave * along

    def points(self) -> Tensor:
        """Coordinates (3, n, n, n)."""
        axis = torch.arange(self.size, dtype=self.dtype, device=self.device)
        axis = axis * (2 * math.pi / self.size)
        return torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"))

    def turning(self, velocity: Tensor) -> Tensor:
        """u x omega from coefficients, dealiased; it equals -(u . grad) u + grad |u|^2 / 2."""
        u, omega = self.backward(velocity), self.backward(self.curl(velocity))
        return self.forward(torch.linalg.cross(u, omega, dim=0)) * self.kept

    def pressure(self, velocity: Tensor) -> Tensor:
        """Pressure over density, with mean zero: the projection of u x omega removes the gradient
        of p + |u|^2 / 2."""
        total = -self.divergence(self.turning(velocity)) * self.inverse_laplacian
        dynamic = self.forward(self.backward(velocity).square().sum(0) / 2) * self.kept
        return torch.where(self.squared > 0, total - dynamic, 0.0)

    def step(self, velocity: Tensor, duration: float, viscosity: float) -> Tensor:
        """One step of the fourth-order Runge-Kutta method for exp(nu k^2 t) u."""
        half = torch.exp(-viscosity * self.squared * duration / 2)
        whole = half.square()
        first = self._change(velocity)
        second = self._change(half * (velocity + duration / 2 * first))
        third = self._change(half * velocity + duration / 2 * second)
        fourth = self._change(whole * velocity + duration * half * third)
        change = whole * first + 2 * half * (second + third) + fourth
        return whole * velocity + duration / 6 * change

    def _change(self, velocity: Tensor) -> Tensor:
        return self.projected(self.turning(velocity))

    def energy(self, velocity: Tensor) -> Tensor:
        """Mean of |u|^2 / 2, from coefficients (3, n, n, m)."""
        return self._mean_square(velocity).sum() / 2

    def dissipation(self, velocity: Tensor, viscosity: float) -> Tensor:
        """Rate at which viscosity dissipates energy: viscosity times the mean of |omega|^2."""
        return viscosity * self._mean_square(self.curl(velocity)).sum()

    def _mean_square(self, coefficients: Tensor) -> Tensor:
        twice = torch.full((self.size // 2 + 1,), 2.0, dtype=self.dtype, device=self.device)
        twice[0] = twice[-1] = 1  # the others stand for themselves and their complex conjugate
        return coefficients.abs().square() * twice


def truncate(coefficients: Tensor, size: int) -> Tensor:
    """Coefficients (..., n, n, m) on a coarser grid: the wave numbers below size / 2 along each
    axis. The others are zero, also size / 2, which on this grid equals -size / 2."""
    check_whole("size", size, 4)
    n = coefficients.shape[-3]
    if size % 2 or size > n:
        raise ValueError(f"size must be even and at most {n}, got {size}")
    half = size // 2
    keep = [*range(half), *range(n - half + 1, n)]
    place = [*range(half), *range(half + 1, size)]
    coarse = coefficients.new_zeros(*coefficients.shape[:-3], size, size, half + 1)
    rows = torch.tensor(keep, device=coefficients.device)
    part = coefficients[..., :half].index_select(-3, rows).index_select(-2, rows)
    at = torch.tensor(place, device=coefficients.device)
    coarse[..., at[:, None], at, :half] = part
    return coarse


def taylor_green_vortex(grid: SpectralGrid, *, phases: tuple[float, float, float]) -> Tensor:
    """(sin x cos y cos z, -cos x sin y cos z, 0) with shifted coordinates, (3, n, n, n)."""
    x, y, z = (axis + phase for axis, phase in zip(grid.points(), phases, strict=True))
    u, v = x.sin() * y.cos() * z.cos(), -x.cos() * y.sin() * z.cos()
    return torch.stack((u, v, torch.zeros_like(u)))


def initial_velocity(
    config: TaylorGreen, grid: SpectralGrid, draw: torch.Generator
) -> Float[Tensor, "3 n n n"]:
    """A vortex with random phases plus a random field without divergence on large scales.

    The random field is drawn as values on a small grid that holds its wave numbers only, so that it
    is the same on every solving grid.
    """
    phases = (2 * math.pi * torch.rand(3, generator=draw, dtype=torch.float64)).tolist()
    vortex = taylor_green_vortex(grid, phases=(phases[0], phases[1], phases[2]))
    small = SpectralGrid(2 * config.modes + 2)
    noise = torch.randn(3, *(small.size,) * 3, generator=draw, dtype=torch.float64)
    smooth = small.forward(noise) * torch.exp(-small.squared / config.modes**2)
    smooth = truncate(small.projected(smooth), small.size)  # drops the wave number size / 2
    rough = refine(smooth, grid.size)
    rough = grid.backward(rough.to(grid.device, torch.promote_types(grid.dtype, torch.complex64)))
    scale = config.perturbation * vortex.square().mean().sqrt() / rough.square().mean().sqrt()
    return vortex + scale * rough


def refine(coefficients: Tensor, size: int) -> Tensor:
    """The same field on a finer grid; `truncate` to the old size is the inverse."""
    n = coefficients.shape[-3]
    if size == n:
        return coefficients
    half = n // 2
    rows = torch.tensor([*range(half), *range(half + 1, n)], device=coefficients.device)
    place = torch.tensor([*range(half), *range(size - half + 1, size)], device=rows.device)
    fine = coefficients.new_zeros(*coefficients.shape[:-3], size, size, size // 2 + 1)
    part = coefficients[..., :half].index_select(-3, rows).index_select(-2, rows)
    fine[..., place[:, None], place, :half] = part
    return fine


def solve_trajectory(
    velocity: Float[Tensor, "3 n n n"],
    *,
    viscosity: float,
    config: TaylorGreen,
    grid: SpectralGrid,
) -> Trajectory:
    """The trajectory that starts from this velocity, of which the divergence is removed first.

    `viscosity` and the times of the result are in the units of the config.
    """
    check_shape("velocity", velocity, "3 n n n", (3, *(grid.size,) * 3))
    coarse = SpectralGrid(config.stored, dtype=grid.dtype, device=grid.device)
    steps = math.ceil(config.interval / config.step - 1e-9)
    state = grid.projected(grid.forward(velocity) * grid.kept)
    velocities, pressures = [], []
    for number in range(config.states):
        for _ in range(steps if number else 0):
            state = grid.step(state, config.interval / steps / config.unit, viscosity / config.unit)
        pressure = truncate(grid.pressure(state), config.stored)
        velocities.append(coarse.backward(truncate(state, config.stored)).float())
        pressures.append(coarse.backward(pressure).float())
    times = config.interval * torch.arange(config.states, dtype=torch.float32, device=grid.device)
    stacked = torch.stack(velocities)
    if not stacked.isfinite().all():
        raise ValueError(
            f"step must be small enough for a stable solution, got {config.step}"
            f" on a grid of {config.grid}"
        )
    return Trajectory(times, stacked, torch.stack(pressures), viscosity)


def make_trajectory(
    config: TaylorGreen, *, seed: int, sample: int, device: str = "cpu"
) -> Trajectory:
    """One trajectory, a pure function of its arguments; draws are made on the CPU."""
    check_whole("sample", sample, 0)
    draw = generator(seed, "taylor-green", sample)
    low, high = config.viscosity
    viscosity = low + (high - low) * float(torch.rand((), generator=draw, dtype=torch.float64))
    grid = SpectralGrid(config.grid, dtype=_DTYPES[config.dtype], device=device)
    velocity = initial_velocity(config, grid, draw)
    return solve_trajectory(velocity, viscosity=viscosity, config=config, grid=grid)
