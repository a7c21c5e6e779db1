from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slipstream.evaluation.compare import Curve, Row, compare
from slipstream.models.variants import VARIANTS
from slipstream.reports.draw import axes as shared
from slipstream.reports.draw import figures, style
from slipstream.reports.draw.figures import FieldRatio, LayerEntropy, Measurement
from slipstream.reports.draw.sweeps import SweepPoint, sweep_figure

NINE = [f"benchmark-{k}" for k in range(9)]


def rows_of(errors: dict[str, Sequence[float]], experiment: str = "e") -> list[Row]:
    """From the errors of each seed."""
    curves = [
        Curve(experiment, variant, seed, {1: error}, 1)
        for variant, seeds in errors.items()
        for seed, error in enumerate(seeds)
    ]
    return compare(curves)


def spans(axes: Axes, which: int) -> list[tuple[float, float]]:
    """Both ends of every error bar, along x (0) or y (1)."""
    bars = [c for c in axes.containers if hasattr(c, "has_xerr")]
    lines = [segment for bar in bars for group in bar.lines[2] for segment in group.get_segments()]
    return [(float(line[0, which]), float(line[1, which])) for line in lines]


def marks(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    """Where every colour has points."""
    found: dict[str, list[tuple[float, float]]] = {}
    for line in axes.lines:
        if line.get_marker() not in ("", "None", "|", "_"):
            places = zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True)
            found.setdefault(str(line.get_color()), []).extend(
                (float(x), float(y)) for x, y in places
            )
    return found


def texts(figure: Figure) -> str:
    every = [text.get_text() for axes in figure.axes for text in axes.texts]
    return "\n".join(every)


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


# --- style ---------------------------------------------------------------------------------------


def test_every_variant_has_a_look_of_its_own() -> None:
    looks = [style.look_of(name) for name in VARIANTS]
    assert len({look.colour for look in looks}) == len(VARIANTS)
    assert len({(look.marker, look.line) for look in looks}) == len(VARIANTS) - 1


def test_a_variant_that_is_not_known_here_is_drawn_last_in_a_colour_of_no_other() -> None:
    rows = rows_of({"a-plug-ins": [2.0], "baseline": [1.0], "mlp-only": [3.0]})
    figure = figures.ratio_plot(rows)
    assert legend_of(figure)[:2] == ["mlp-only", "a-plug-ins"]
    look = style.look_of("a-plug-ins")
    assert marks(figure.axes[0])[look.colour][0][0] == pytest.approx(2.0)
    assert look.colour not in {style.look_of(name).colour for name in VARIANTS}


def test_labels_carry_units() -> None:
    assert style.with_unit("wall_shear_stress", "m^2/s^2") == "wall shear stress [m²/s²]"
    assert style.with_unit("density", "1") == "density" == style.with_unit("density", "")
    assert style.with_unit("rate", "s^-1") == "rate [s⁻¹]"
    assert [style.number(v) for v in (0.058, 1.0441, 12.0, 148.2, 0.00001234)] == [
        "0.0580", "1.04", "12.0", "148", "1.23e-05",
    ]  # fmt: skip


def test_files_are_written_and_the_settings_left_alone(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    figure = figures.ratio_plot(rows_of({"baseline": [1.0], "mlp-only": [2.0]}))
    drawn, pixels = style.save(figure, tmp_path / "new", "ratios")
    assert drawn.read_text() == style.svg_text(figure, "ratios")
    assert pixels.read_bytes().startswith(b"\x89PNG") and drawn.name == "ratios.svg"
    assert dict(matplotlib.rcParams) == before
    assert [path.name for path in (tmp_path / "new").iterdir() if "partial" in path.name] == []


def test_the_same_bytes_come_twice_whatever_the_user_has_set() -> None:
    rows = rows_of({"baseline": [1.0, 1.1], "mlp-only": [2.0]})
    first = style.svg_text(figures.ratio_plot(rows))
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "svg.hashsalt": "x"}):
        again = style.svg_text(figures.ratio_plot(rows))
    assert first == again and "<dc:date>" not in first


# --- ratios --------------------------------------------------------------------------------------


def test_bars_are_the_propagated_deviation_and_the_band_the_baselines() -> None:
    errors = {"baseline": [0.9, 1.0, 1.1], "no-token-attention": [1.0, 1.4], "mlp-only": [3.0]}
    (axes,) = figures.ratio_plot(rows_of(errors)).axes
    std = 1.2 * math.hypot(math.sqrt(0.08) / 1.2, 0.1 / 1.0)
    ((low, high),) = spans(axes, 0)
    assert (low, high) == pytest.approx((1.2 - std, 1.2 + std))
    band = axes.collections[0].get_datalim(axes.transData)
    assert (band.x0, band.x1) == pytest.approx((0.9, 1.1))
    found = {colour: places[0][0] for colour, places in marks(axes).items()}
    colours = [style.look_of(name).colour for name in ("no-token-attention", "mlp-only")]
    assert found == pytest.approx(dict(zip(colours, (1.2, 3.0), strict=True)))
    assert axes.get_xscale() == "log" and axes.get_xlim()[0] < 0.9 and axes.get_xlim()[1] > 3


@pytest.mark.parametrize("variants", [1, 2, 10])
@pytest.mark.parametrize("experiments", [1, 9])
def test_ratios_of_any_number(variants: int, experiments: int) -> None:
    errors = {name: [1.0 + k] for k, name in enumerate(list(VARIANTS)[:variants])}
    rows = [row for name in NINE[:experiments] for row in rows_of(errors, name)]
    figure = figures.ratio_plot(rows)
    style.svg_text(figure)
    (axes,) = figure.axes
    assert [t.get_text() for t in axes.get_yticklabels()] == NINE[:experiments]
    assert sum(map(len, marks(axes).values())) == experiments * (variants - 1)
    assert len(legend_of(figure)) == variants
    box = figure.legends[0].get_window_extent()
    assert 0 <= box.x0 and box.x1 <= figure.bbox.x1, "the legend fits"


def test_what_cannot_be_compared_is_left_out_or_said() -> None:
    rows = rows_of({"baseline": [1.0], "untied": [math.nan]}, "broken")
    rows += rows_of({"mlp-only": [2.0]}, "alone")
    figure = figures.ratio_plot(rows)
    assert marks(figure.axes[0]) == {} and texts(figure) == "no baseline"
    with pytest.raises(ValueError, match="rows must hold at least one, got none"):
        figures.ratio_plot([])


# --- controls ------------------------------------------------------------------------------------


def test_the_four_controls() -> None:
    grid = rows_of({"baseline": [0.99, 1.0, 1.01], "no-token-attention": [1.02], "untied": [0.97]})
    slices = [
        SweepPoint("baseline", 8, 0.2),
        SweepPoint("baseline", 32, 0.2, 0.01),
        SweepPoint("baseline", 128, 0.2),
        SweepPoint("baseline", 256, 0.2, 0.02),
        SweepPoint("no-token-attention", 32, 0.21),
        SweepPoint("no-token-attention", 256, 0.3, 0.05),
    ]
    capacity = rows_of({"mlp-only": [3.0], "mlp-only-wide": [2.9], "baseline": [1.0]})
    ratios = [FieldRatio("e", "pressure", 14.8), FieldRatio("e", "wall_shear_stress", 1.5)]
    parameters = {"baseline": 100, "mlp-only": 58, "mlp-only-wide": 112}
    figure = figures.controls(
        grid=grid, slices=slices, capacity=capacity, parameters=parameters, fields=ratios
    )
    a, b, c, d = figure.axes
    assert [axes.get_title(loc="left")[:3] for axes in figure.axes] == ["(a)", "(b)", "(c)", "(d)"]
    assert "[%]" in a.get_xlabel() and a.patches[0].get_bbox().x1 == pytest.approx(1.0)
    changes = sorted(x for places in marks(a).values() for x, _ in places)
    assert changes == pytest.approx([-3, 0, 2])
    wanted = [(0.18, 0.22), (0.19, 0.21), (0.25, 0.35)]
    assert sorted(spans(b, 1)) == [pytest.approx(span) for span in wanted], "of known spread alone"
    assert not b.patches and len(b.collections) == len(spans(b, 1)), "no band between them"
    assert [bar.get_height() for bar in c.patches] == [3.0, 2.9, 1.0]
    assert c.get_xlabel() == "parameters over the baseline's: 0.58×, 1.12×, 1.00×"
    assert d.get_xscale() == "log" and len(marks(d)) == 2
    assert [text.get_text() for text in d.texts] == ["pressure", "wall shear stress"]
    assert [text.get_ha() for text in d.texts] == ["right", "left"]
    assert "not run" not in texts(figure)


def test_a_control_that_was_not_run_says_so() -> None:
    assert texts(figures.controls()).count("not run") == 4
    lone = figures.controls(slices=[SweepPoint("baseline", 32, 0.2, 0.01)])
    assert texts(lone).count("not run") == 3
    assert spans(lone.axes[1], 1) == [pytest.approx((0.19, 0.21))]
    without = figures.controls(grid=rows_of({"untied": [1.0]}), fields=[FieldRatio("e", "p", None)])
    assert texts(without).count("not run") == 4
    style.svg_text(figures.controls())


# --- curves and sweeps ---------------------------------------------------------------------------


def test_curves_have_a_panel_each_and_a_line_for_every_seed() -> None:
    steps = range(1000, 50_001, 1000)
    curves = [
        Curve(name, variant, seed, {s: 1 / s for s in steps}, 50_000)
        for name in NINE[:4]
        for variant in ("mlp-only", "baseline")
        for seed in (0, 1)
    ]
    curves += [Curve("empty", "untied", 0, {}, 0), Curve("one", "untied", 0, {7: 0.1}, 7)]
    figure = figures.validation_curves(curves)
    style.svg_text(figure)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [*NINE[:4], "empty", "one"]
    first, *_, empty, one = figure.axes
    assert first.get_yscale() == "log" and len(first.lines) == 4
    colours = [line.get_color() for line in first.lines]
    assert colours == [style.look_of(v).colour for v in ("baseline",) * 2 + ("mlp-only",) * 2]
    assert empty.texts[0].get_text() == "no validation"
    assert marks(one) == {style.look_of("untied").colour: [(7, 0.1)]}
    assert legend_of(figure) == ["baseline", "untied", "mlp-only"]
    assert [text.get_text() for text in first.get_xticklabels()][1:3] == ["0", "20k"]


def test_curves_have_a_level_line_for_each_error_without_a_model() -> None:
    curves = [Curve(name, "baseline", 0, {10: 0.2, 20: 0.1}, 20) for name in ("a", "b")]
    figure = figures.validation_curves(curves, {"a": {"mean": 1.0, "nearest": 0.5}, "b": {}})
    style.svg_text(figure)
    first, second = figure.axes
    levels = [line.get_ydata()[0] for line in first.lines[1:]]
    assert levels == [1.0, 0.5] and len(first.lines) == 3 and len(second.lines) == 1
    assert (
        first.get_ylim()[1] > 1.0 and len({str(line.get_linestyle()) for line in first.lines}) == 3
    )
    assert legend_of(figure) == ["baseline", "mean", "nearest"]


@pytest.mark.parametrize(
    ("count", "left", "below"),
    [(1, [0], [0]), (3, [0], [0, 1, 2]), (4, [0, 2], [2, 3]), (5, [0, 3], [2, 3, 4])],
)
def test_panels_are_in_even_rows_and_named_at_the_left_and_below(
    count: int, left: list[int], below: list[int]
) -> None:
    curves = [Curve(name, "baseline", 0, {10: 0.1, 20: 0.05}, 20) for name in "abcde"[:count]]
    axes = figures.validation_curves(curves).axes
    assert [k for k, one in enumerate(axes) if one.get_ylabel()] == left
    assert [k for k, one in enumerate(axes) if one.get_xlabel()] == below


def test_a_depth_sweep_shows_errors_and_their_ratios() -> None:
    points = [
        *(SweepPoint("baseline", depth, 1 / depth, 0.1 / depth) for depth in (1, 2, 4)),
        *(SweepPoint("mlp-only", depth, 3.0, 0.3) for depth in (4, 2, 1)),
        SweepPoint("slice-once", 8, 1.0),
    ]
    figure = sweep_figure(points, "layers")
    style.svg_text(figure)
    left, right = figure.axes
    colour = style.look_of("mlp-only").colour
    assert set(marks(left)[colour]) == {(1, 3), (2, 3), (4, 3)}
    assert set(marks(right)[colour]) == {(1, 3), (2, 6), (4, 12)}
    std = 12 * math.hypot(0.1, 0.1)
    assert max(spans(right, 1)) == pytest.approx((12 - std, 12 + std))
    assert style.look_of("slice-once").colour not in marks(right), "no baseline at that depth"
    alone = sweep_figure([SweepPoint("mlp-only", 4, 0.5)], "layers")
    assert texts(alone) == "no baseline to compare with"


def test_a_ratio_has_a_bar_only_where_both_spreads_are_known() -> None:
    points = [SweepPoint("baseline", 2, 0.4), SweepPoint("mlp-only", 2, 0.8, 0.05)]
    points += [SweepPoint("baseline", 4, 0.4, 0.02), SweepPoint("mlp-only", 4, 0.8)]
    left, right = sweep_figure(points, "layers").axes
    assert len(spans(left, 1)) == 2 and spans(right, 1) == []


def test_sweeps_name_their_experiment_and_steps() -> None:
    at = ("poisson", 4000)
    points = [SweepPoint(name, 2, 0.4, None, *at) for name in ("baseline", "no-token-attention")]
    figure = figures.controls(slices=points)
    assert figure.axes[1].get_title(loc="left") == "(b) slice count, poisson, 4,000 steps"
    left, right = sweep_figure(points, "layers").axes
    assert left.get_title(loc="left") == "poisson, 4,000 steps" == right.get_title(loc="left")
    mixed = [*points, SweepPoint("baseline", 4, 0.4, None, "poisson", 2000)]
    title = sweep_figure(mixed, "layers").axes[0].get_title(loc="left")
    assert title == "poisson, 2,000 to 4,000 steps"
    assert (
        sweep_figure([SweepPoint("baseline", 4, 0.4)], "layers").axes[0].get_title(loc="left") == ""
    )


def test_systems_have_a_panel_for_each_quantity_and_axis() -> None:
    rows = [
        Measurement(series, axis, at, quantity, unit, None if at == 128 and k else at * slope)
        for k, (series, slope) in enumerate((("fused", 1.0), ("eager", 3.0)))
        for axis in ("slices G", "points N")
        for quantity, unit in (("peak memory", "GB"), ("step time", "ms"))
        for at in ((16, 32, 64, 128) if axis == "slices G" else (64, 96))
    ]
    figure = figures.systems(rows)
    style.svg_text(figure)
    assert [axes.get_ylabel() for axes in figure.axes] == 2 * ["peak memory [GB]", "step time [ms]"]
    assert [axes.get_xlabel() for axes in figure.axes] == 2 * ["slices G"] + 2 * ["points N"]
    first, last = figure.axes[0], figure.axes[-1]
    assert first.get_yscale() == "log" and last.get_yscale() == "linear"
    assert last.get_ylim()[0] == 0
    assert [text.get_text() for text in first.texts] == ["×"]
    assert legend_of(figure) == ["fused", "eager", "does not fit"]
    assert len(figures.systems(rows[:1]).axes) == 1
    assert figures.systems([Measurement("s", "G", 8, "memory", "GB", None)]).axes[0].texts


def test_measured_stands_beside_predicted() -> None:
    rows = [
        FieldRatio("e", "pressure", 4.0, 2.0),
        FieldRatio("e", "velocity", 0.5, None),
        FieldRatio("e", "density", None, math.nan),
    ]
    figure = figures.locality(rows)
    style.svg_text(figure)
    (axes,) = figure.axes
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
    assert ends == [(1, 4), (1, 0.5), (1, 2)], "from 1, where there is no difference"
    assert texts(figure).split() == ["4.00×", "0.500×", "2.00×"]
    assert [t.get_text() for t in axes.get_yticklabels()][0] == "e\npressure"
    low, high = axes.get_xlim()
    assert low < 0.5 and high > 4


def test_entropies_stay_below_the_logarithm_of_the_slices() -> None:
    run = LayerEntropy("baseline", 32, (3.4, 2.5), (31.0, 15.4))
    figure = figures.entropy([run, LayerEntropy("untied", 64, (4.0,), (60.0,))])
    style.svg_text(figure)
    left, right = figure.axes
    dashed = [line.get_ydata()[0] for line in left.lines if line.get_linestyle() == "--"]
    assert dashed == pytest.approx([math.log(32), math.log(64)])
    assert left.get_ylabel() == "mean entropy [nats]" and left.get_ylim()[1] > math.log(64)
    assert marks(right)[style.look_of("baseline").colour] == [(1, 31.0), (2, 15.4)]
    assert texts(figure).splitlines()[:2] == ["ln 32 = 3.47", "ln 64 = 4.16"]


# --- axes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1.0, 6.8], ["1×", "1.5×", "2×", "3×", "5×"]),
        ([0.98, 1.03], ["0.98×", "1×", "1.02×"]),
        ([0.02, 900.0], ["0.1×", "1×", "10×", "100×", "1000×"]),
        ([1.0], ["1×"]),
        ([None, math.nan, -1.0], ["0.9×", "1×", "1.1×"]),
    ],
)
def test_logarithmic_axes_have_a_few_plain_numbers(
    values: list[float | None], wanted: list[str]
) -> None:
    axes = Figure().subplots()
    shared.log_axis(axes, "x", values, suffix="×")
    axes.figure.draw_without_rendering()
    found = [text.get_text() for text in axes.get_xticklabels()]
    assert set(wanted) <= set(found) and len(found) <= 7


def test_large_numbers_are_short() -> None:
    assert [shared.thousands(v) for v in (0, 512, 1500, 262144, 16.8e6)] == [
        "0", "512", "1.5k", "262k", "16.8M",
    ]  # fmt: skip


def test_powers_of_two_are_whole_numbers_where_that_is_as_short() -> None:
    axes = Figure().subplots()
    shared.doubling_axis(axes, [512, 1024, 1500, 16384, 262144])
    axes.figure.draw_without_rendering()
    found = [text.get_text() for text in axes.get_xticklabels()]
    assert found == ["512", "1024", "1.5k", "16384", "262k"]


def test_many_settings_have_few_marks() -> None:
    axes = Figure().subplots()
    shared.doubling_axis(axes, [2.0**k for k in range(20)])
    marks = list(axes.get_xticks())
    assert marks == [2.0 ** (3 * k) for k in range(7)] and axes.get_xscale() == "log"
