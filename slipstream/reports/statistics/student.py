"""Student's t distribution with any positive number of degrees of freedom.

SciPy has it too, but it is no dependency of the core, and a report must not need it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_NORMAL_FROM = 1e6
"""Degrees of freedom from which on the normal distribution stands for it, to 1e-6."""
_TERMS = 500
_CLOSE = 1e-14


@lru_cache(maxsize=4096)
def exceeds(t: float, freedom: float) -> float:
    """P(T > t). With 2 degrees of freedom and t = 2.92 it is 0.05."""
    _check_freedom(freedom)
    if freedom >= _NORMAL_FROM:
        return NormalDist().cdf(-t)
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    tail = 0.5 * _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)
    return tail if t >= 0 else 1 - tail


@lru_cache(maxsize=4096)
def quantile(probability: float, freedom: float) -> float:
    """The t below which T lies with this probability. For 0.975 and 2 it is 4.303."""
    _check_freedom(freedom)
    if not 0 < probability < 1:
        raise ValueError(f"probability must be between 0 and 1, got {probability}")
    if probability < 0.5:
        return -quantile(1 - probability, freedom)
    high = 1.0
    while exceeds(high, freedom) > 1 - probability:
        high *= 2
    low = 0.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if exceeds(middle, freedom) > 1 - probability else (low, middle)
    return high


def _check_freedom(freedom: float) -> None:
    if not freedom > 0:
        raise ValueError(f"freedom must be positive, got {freedom}")


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # There the continued fraction converges fast on the other side.
        return 1 - _incomplete_beta(1 - x, b, a)
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    logarithm += a * math.log(x) + b * math.log1p(-x)
    return math.exp(logarithm) / (a * _continued_fraction(x, a, b))


def _continued_fraction(x: float, a: float, b: float) -> float:
    """1 + d1 x / (1 + d2 x / (1 + ...)) of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    value, numerator, denominator = 1.0, 1.0, 0.0
    for term in range(1, _TERMS):
        m = term // 2
        if term % 2:
            factor = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            factor = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        denominator = 1 / (1 + factor * denominator or tiny)
        numerator = 1 + factor / numerator or tiny
        value *= numerator * denominator
        if abs(numerator * denominator - 1) < _CLOSE:
            break
    return value
