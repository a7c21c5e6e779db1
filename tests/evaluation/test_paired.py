"""Bounds of differences: what they cover for residuals of many shapes, and how many are needed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from slipstream.evaluation.paired import difference_bounds, groupings, samples_needed, too_few


def difference_bound(residuals: list[float], level: float, others: int = 1) -> float | None:
    """Without predictions all pairs are alike, so there is one bound."""
    bounds = difference_bounds(residuals, level, groupings(len(residuals), others))
    assert bounds is None or (len(bounds) == others and len(set(bounds)) == 1)
    return None if bounds is None else bounds[0]


Draw = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]
SHAPES: dict[str, Draw] = {
    "normal": lambda draw, size: draw.standard_normal(size),
    "heavy": lambda draw, size: draw.standard_t(3, size),
    "skewed": lambda draw, size: draw.lognormal(0, 1, size),
    "two peaks": lambda draw, size: draw.choice([-2.0, 2.0], size) + draw.normal(0, 0.3, size),
    "rarely wild": lambda draw, size: (
        np.where(draw.random(size) < 0.03, 30, 1) * draw.normal(size=size)
    ),
}
DRAWS = 80


def covered(shape: str, samples: int, others: int, level: float = 0.95) -> float:
    """How probably one bound holds for all designs of a fresh group, over calibrations."""
    draw = np.random.default_rng(7)
    fresh = SHAPES[shape](draw, (4000, others + 1))
    largest = np.sort(np.abs(fresh[:, 1:] - fresh[:, :1]).max(1))
    shares = []
    for _ in range(DRAWS):
        bound = difference_bound(list(SHAPES[shape](draw, (samples,))), level, others)
        assert bound is not None
        shares.append(np.searchsorted(largest, bound, "right") / len(largest))
    return float(np.mean(shares))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("samples", "others"), [(38, 1), (91, 3)])
def test_fresh_designs_are_within_the_bound(shape: str, samples: int, others: int) -> None:
    """0.935: the spread of a share over 4,000 fresh groups is 0.0034, of 80 calibrations 0.004."""
    assert 0.935 <= covered(shape, samples, others) <= 0.985


def test_the_bound_is_no_wider_than_it_must_be() -> None:
    """Of normal residuals; without the cancelling of what designs share it would be 1.4 times."""
    draw = np.random.default_rng(1)
    bounds = [difference_bound(list(draw.normal(3, 1, 160)), 0.95) for _ in range(50)]
    ideal = 1.96 * math.sqrt(2)
    assert 0.97 * ideal <= np.mean([b for b in bounds if b is not None]) <= 1.06 * ideal


def test_what_all_designs_have_in_common_cancels() -> None:
    residuals = np.random.default_rng(2).normal(size=60)
    own, shifted = (difference_bound(list(residuals + by), 0.9) for by in (0.0, 7.0))
    assert own is not None and shifted == pytest.approx(own, rel=1e-12)


def test_a_scale_by_distance_keeps_the_promise() -> None:
    """Errors of a smooth model differ little where its predictions do: close variants have narrow
    bounds that hold for them too, and others those that they had."""
    draw = np.random.default_rng(8)
    held, halves = {"random": [], "close": []}, {"random": [], "close": []}

    def flow(designs: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Predicted coefficients of designs, and the error of the first."""
        predicted = np.stack([np.sin(designs[:, 0]), designs[:, 1], designs @ [0.5, 0.5]], 1)
        return predicted, 0.3 * np.sin(3 * designs[:, 0] + 2 * designs[:, 1]) + 2

    for _ in range(150):
        predicted, errors = flow(draw.normal(size=(60, 2)))
        start = draw.normal(size=2)
        for kind, step in (("random", 1.0), ("close", 0.01)):
            other = draw.normal(size=2) if kind == "random" else start + step * draw.normal(size=2)
            points, own = flow(np.stack([start, other]))
            bounds = difference_bounds(
                list(errors), 0.9, groupings(60, predicted=predicted, designs=points)
            )
            assert bounds is not None
            held[kind].append(abs(own[1] - own[0]) <= bounds[0])
            halves[kind].append(bounds[0])
    assert np.mean(held["random"]) >= 0.85 and np.mean(held["close"]) >= 0.85
    assert np.median(halves["close"]) < 0.1 * np.median(halves["random"])


def test_more_designs_have_a_wider_bound() -> None:
    residuals = list(np.random.default_rng(3).normal(size=200))
    one, two, six = (difference_bound(residuals, 0.95, others) for others in (1, 2, 6))
    assert one is not None and two is not None and six is not None and one < two < six


@pytest.mark.parametrize(("level", "others", "needed"), [
    (0.95, 1, 38), (0.95, 3, 76), (0.9, 1, 18), (0.5, 1, 2), (0.99, 1, 198),
])  # fmt: skip
def test_how_many_samples_are_needed(level: float, others: int, needed: int) -> None:
    residuals = list(np.random.default_rng(4).normal(size=needed))
    assert samples_needed(level, others) == needed
    assert difference_bound(residuals, level, others) is not None
    assert difference_bound(residuals[:-1], level, others) is None
    assert difference_bound([], level, others) is None


def test_too_few_is_said() -> None:
    assert too_few(37, 0.95) == (
        "at most 94 % can be promised for one design against a baseline with 37 samples; 95 %"
        " needs 38"
    )
    assert too_few(1, 0.95, 4).startswith("nothing can be promised for 4 designs at once")


def test_ties_and_residuals_that_are_not_finite() -> None:
    assert difference_bound([0.25] * 50, 0.95) == 0.0
    residuals = list(np.random.default_rng(5).normal(size=200))
    finite = difference_bound(residuals, 0.9)
    few = difference_bound([*residuals[:-2], math.inf, -math.inf], 0.9)
    many = difference_bound([*residuals[:-40], *[math.inf] * 40], 0.9)
    assert finite is not None and few is not None
    assert finite < few < math.inf and many == math.inf
    assert difference_bound([math.inf] * 40, 0.9) == math.inf, "not a NaN of inf - inf"
    with pytest.raises(ValueError, match="residuals must be numbers, got NaN"):
        difference_bound([0.0, math.nan], 0.5)
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        difference_bound(residuals, 1.0)
