"""The third panel of a sweep, and settings that are no numbers."""

from __future__ import annotations

from slipstream.reports.draw.style import svg_text
from slipstream.reports.draw.sweeps import SweepPoint, sweep_figure


def test_errors_are_drawn_against_the_time_where_all_are_known() -> None:
    points = [SweepPoint("baseline", ratio, 0.2, 0.01, seconds=10.0) for ratio in (1, 4)] + [
        SweepPoint("untied-ln", ratio, 0.2 / ratio, seconds=30.0 * ratio) for ratio in (1, 4)
    ]
    figure = sweep_figure(points, "key_ratio")
    svg_text(figure)
    timed = figure.axes[2]
    drawn = [list(zip(*line.get_data(), strict=True)) for line in timed.lines]
    assert drawn == [[(10.0, 0.2)] * 2, [(30.0, 0.2), (120.0, 0.05)]]
    assert [text.get_text() for text in timed.texts] == ["1", "4"], "of untied-ln alone"
    unknown = [*points, SweepPoint("mlp-only", 1, 0.5)]
    assert len(sweep_figure(unknown, "key_ratio").axes) == 2


def test_words_stand_in_their_order() -> None:
    words = enumerate(("mse", "relative-l1"))
    figure = sweep_figure([SweepPoint("baseline", k, 0.1, label=w) for k, w in words], "optim.loss")
    svg_text(figure)
    left = figure.axes[0]
    assert [text.get_text() for text in left.get_xticklabels()] == ["mse", "relative-l1"]
    assert left.get_xlabel() == "optim.loss"
