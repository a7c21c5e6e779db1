"""What the configs of all generators have: the stream, and when a flow counts as converged."""

from __future__ import annotations

from dataclasses import dataclass

from slipstream.core.checks import check_at_least, check_choice, check_whole
from slipstream.physics.openfoam.convergence import Limits


@dataclass(frozen=True, kw_only=True)
class CaseConfig:
    """Each generator has fields of its own besides, and gives all numbers a default."""

    rows: str = "surface"
    """`surface`: the faces of the body. `volume`: the cells of the mesh."""
    incidence: tuple[float, float]
    """In degrees, nose up."""
    speed: tuple[float, float]
    """In m/s."""
    viscosity: float = 1.5e-5
    """Kinematic, in m^2/s."""
    iterations: int
    """After so many it is looked whether the flow has converged, and after two and four times as
    many where it has not."""
    residual: float
    """At which all equations have converged."""
    steadiness: float
    """How far Cd and Cl may range over the last iterations, relative to their size."""
    window: int
    """How many iterations these are."""
    seconds: float
    """The most that a tool of OpenFOAM may take."""

    def __post_init__(self) -> None:
        check_choice("rows", self.rows, ("surface", "volume"))
        check_ranges(self, "incidence", "speed")
        if self.speed[0] <= 0:
            raise ValueError(f"speed must be above 0 m/s, got {self.speed[0]}")
        check_whole("iterations", self.iterations, 10)
        check_whole("window", self.window, 2)
        if self.window > self.iterations:
            raise ValueError(
                f"window must be at most iterations, {self.iterations}, got {self.window}"
            )
        for name in ("viscosity", "residual", "steadiness", "seconds"):
            check_at_least(name, getattr(self, name), 1e-12)

    @property
    def limits(self) -> Limits:
        return Limits(self.residual, self.steadiness, self.window)


def check_ranges(config: object, *names: str) -> None:
    for name in names:
        low, high = getattr(config, name)
        if not low <= high:
            raise ValueError(f"{name} must be a range (low, high), got ({low}, {high})")
