from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.data.batches import count_points
from slipstream.data.batches.sampling import draw_exact, draw_window


@given(st.integers(1, 500), st.data())
def test_a_window_has_its_rows_once(rows: int, data: st.DataObject) -> None:
    points = data.draw(st.integers(1, rows))
    spans = draw_window(0, data.draw(st.integers(0, 50)), "a", rows=rows, points=points)
    drawn = [row for first, end in spans for row in range(first, end)]
    assert len(set(drawn)) == len(drawn) == points
    assert 0 <= min(drawn) and max(drawn) < rows and len(spans) <= 2
    assert all((b - a) % rows == 1 % rows for a, b in zip(drawn, drawn[1:], strict=False))


@given(st.integers(1, 500), st.data())
def test_an_exact_draw_has_its_rows_once(rows: int, data: st.DataObject) -> None:
    points = data.draw(st.integers(1, rows))
    drawn = draw_exact(0, data.draw(st.integers(0, 50)), "a", rows=rows, points=points)
    assert len(drawn) == points and (np.diff(drawn) > 0).all()
    assert drawn[0] >= 0 and drawn[-1] < rows


@pytest.mark.parametrize("points", [3, 7])
def test_every_row_is_drawn_equally_often(points: int) -> None:
    """Both kinds, over many epochs; and for exact draws every pair of rows too."""
    epochs, rows = 4000, 10
    windows, exact = np.zeros(rows), np.zeros((rows, rows))
    for epoch in range(epochs):
        for first, end in draw_window(1, epoch, "a", rows=rows, points=points):
            windows[first:end] += 1
        chosen = draw_exact(1, epoch, "a", rows=rows, points=points)
        exact[np.ix_(chosen, chosen)] += 1
    share = points / rows
    assert abs(windows / epochs - share).max() < 0.035  # over four standard deviations
    assert abs(np.diag(exact) / epochs - share).max() < 0.035
    pairs = exact[~np.eye(rows, dtype=bool)] / epochs
    assert abs(pairs - share * (points - 1) / (rows - 1)).max() < 0.035


def test_draws_follow_from_seed_epoch_and_sample() -> None:
    keys = [(0, 0, "a"), (1, 0, "a"), (0, 1, "a"), (0, 0, "b")]
    windows = [draw_window(*key, rows=10**6, points=5) for key in keys]
    exact = [draw_exact(*key, rows=10**6, points=5).tolist() for key in keys]
    assert len({str(spans) for spans in windows}) == len({str(drawn) for drawn in exact}) == 4
    assert draw_window(0, 1, "a", rows=10**6, points=5) == windows[2]
    assert draw_exact(0, 1, "a", rows=10**6, points=5).tolist() == exact[2]
    # Pinned: the batches of every past run follow from them.
    assert windows[0] == [(29072, 29077)]
    assert exact[0] == [425750, 524439, 575860, 751191, 753800]


def test_counts() -> None:
    assert count_points(None, 10, "a") == 10
    assert count_points(4, 10, "a") == 4
    assert count_points(0.25, 10, "a") == 2
    assert count_points(0.001, 10, "a") == 1
    with pytest.raises(ValueError, match="points must be at most the 10 rows of sample a, got 11"):
        count_points(11, 10, "a")
    for bad in (0, -1, 0.0, 1.5):
        with pytest.raises(ValueError, match="points must be a"):
            count_points(bad, 10, "a")
