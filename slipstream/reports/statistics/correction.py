"""Levels for several verdicts at once.

Holm's levels for m verdicts are alpha / m for the smallest p-value, alpha / (m - 1) for the next,
and so on to alpha for the largest. They are used from the largest p-value down (Hochberg 1988): all
verdicts up to the largest one that keeps its level hold. If even the largest is below alpha, all
hold at alpha, which is the test of "so it is everywhere". The probability of any wrong verdict is
at most alpha where the estimates are independent, as those of different runs are, or share a
baseline; Holm's own order needs nothing of the kind, and is weaker.

With three p-values of 0.01, 0.03 and 0.04 and alpha = 0.05, all hold; with 0.01, 0.03 and 0.2, the
level of 0.03 is 0.025, so only the first holds, at 0.05 / 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.reports.statistics.verdicts import ALPHA


def levels(p_values: Sequence[float], alpha: float = ALPHA) -> list[float]:
    """The level at which each verdict is to be taken, in the order given."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    steps = [alpha / (len(order) - rank) for rank in range(len(order))]
    kept = [rank for rank, place in enumerate(order) if p_values[place] <= steps[rank]]
    largest = max(kept, default=-1)
    own = [0.0] * len(order)
    for rank, place in enumerate(order):
        own[place] = steps[largest] if rank <= largest else steps[rank]
    return own
