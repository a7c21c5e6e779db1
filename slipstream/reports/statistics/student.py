"""Student's t distribution with any positive number of degrees of freedom."""

from __future__ import annotations

from functools import lru_cache

from scipy.special import stdtr, stdtrit


@lru_cache(maxsize=4096)
def exceeds(t: float, freedom: float) -> float:
    """P(T > t). With 2 degrees of freedom and t = 2.92 it is 0.05."""
    _check_freedom(freedom)
    return float(stdtr(freedom, -t))


@lru_cache(maxsize=4096)
def quantile(probability: float, freedom: float) -> float:
    """The t below which T lies with this probability. For 0.975 and 2 it is 4.303."""
    _check_freedom(freedom)
    if not 0 < probability < 1:
        raise ValueError(f"probability must be between 0 and 1, got {probability}")
    return float(stdtrit(freedom, probability))


def _check_freedom(freedom: float) -> None:
    if not freedom > 0:
        raise ValueError(f"freedom must be positive, got {freedom}")
