"""Whether a steady solution has converged: residuals, and coefficients that no longer change."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_SOLVING = re.compile(r"Solving for (\w+), Initial residual = (\S+),")
NAMES = ("Cd", "Cl", "CmPitch")
"""Coefficients that are read; Cd and Cl must be steady."""


@dataclass(frozen=True)
class Limits:
    """What counts as converged."""

    residual: float
    """The largest residual at the last iteration, of every equation."""
    steadiness: float
    """How far Cd and Cl may range over the window, relative to their size. A lift that is small
    beside the drag is measured by the drag."""
    window: int
    """Iterations at the end over which coefficients are looked at."""


@dataclass(frozen=True)
class Outcome:
    """The end of a run."""

    iterations: int
    residuals: dict[str, float]
    """Of each equation, the first of its last iteration."""
    coefficients: dict[str, float]
    ranges: dict[str, float]
    """How far each coefficient ranged over the window."""


def read_outcome(case: Path, log: Path, window: int) -> Outcome:
    """The end of a run from its log and its coefficients; ValueError where it wrote none."""
    table = read_coefficients(case)
    last = {name: float(column[-1]) for name, column in table.items() if name in NAMES}
    tails = {name: table[name][-window:] for name in last}
    return Outcome(
        int(table["Time"][-1]),
        read_residuals(log),
        last,
        {name: float(np.ptp(tail)) for name, tail in tails.items()},
    )


def read_coefficients(case: Path) -> dict[str, NDArray[np.float64]]:
    """The columns of forceCoeffs by name, of the last run."""
    files = sorted(
        case.glob("postProcessing/forceCoeffs/*/coefficient*.dat"),
        key=lambda file: float(file.parent.name),
    )
    if not files:
        raise ValueError("the solver must write force coefficients, got no file of them")
    lines = files[-1].read_text(encoding="ascii").splitlines()
    names = [line for line in lines if line.startswith("# Time")]
    rows = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    if not names or not rows:
        raise ValueError("the solver must write force coefficients, got an empty file of them")
    table = np.array(rows, np.float64)
    return dict(zip(names[-1][1:].split(), table.T, strict=True))


def read_residuals(log: Path) -> dict[str, float]:
    """The initial residual of each equation in the last iteration of a log."""
    text = log.read_text(encoding="utf-8", errors="replace")
    steps = [step for step in text.split("\nTime = ") if _SOLVING.search(step)]
    if not steps:
        raise ValueError("the solver must solve at least one iteration, got none")
    residuals: dict[str, float] = {}
    for name, value in _SOLVING.findall(steps[-1]):
        residuals.setdefault(name, float(value))
    return residuals


def not_converged(outcome: Outcome, limits: Limits) -> str | None:
    """Why a run has not converged, in one sentence; None where it has."""
    # Written so that NaN is not converged either.
    for name, residual in outcome.residuals.items():
        if not residual <= limits.residual:
            return (
                f"the residual of {name} must fall to {limits.residual:g}, got {residual:.3g} after"
                f" {outcome.iterations} iterations"
            )
    sizes = {name: abs(value) for name, value in outcome.coefficients.items()}
    for name in ("Cd", "Cl"):
        allowed = limits.steadiness * max(sizes[name], sizes["Cd"])
        if not outcome.ranges[name] <= allowed:
            return (
                f"{name} must be steady within {allowed:.3g} over the last {limits.window}"
                f" iterations, got a range of {outcome.ranges[name]:.3g} around"
                f" {outcome.coefficients[name]:.5g}"
            )
    return None
