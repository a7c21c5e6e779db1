"""The picture that a report begins with: truth, prediction and where it is wrong, side by side.

Each panel is a picture without ground, so that it suits a light page and a dark one.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import matplotlib.image
import numpy as np
from matplotlib.colors import Colormap, Normalize, to_hex

from slipstream.reports.content import Opening, Panel, Scene, SceneField
from slipstream.reports.draw.canvas import Canvas, canvas_of
from slipstream.reports.draw.fields import error_scale, value_scale
from slipstream.reports.draw.raster import Floats
from slipstream.reports.draw.scenes import field_of, section_of
from slipstream.reports.draw.style import number, plain, with_unit
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.opening_facts import (
    noun_of,
    opening_facts,
    shown_evaluation,
    shown_run,
)
from slipstream.reports.study.own_data import OWN, data_name
from slipstream.runs.evaluation_file import predictions_of
from slipstream.runs.prediction_file import read_prediction

_COLOURS = 9  # of a colour bar


def make_opening(
    runs: Sequence[RunData], scenes: Sequence[Scene], problems: list[str]
) -> Opening | None:
    """The opening of a report: the first sample, by the best model. None without predictions."""
    if not scenes:
        return None
    scene = scenes[0]
    own = [run for run in runs if run.config.experiment == scene.experiment]
    run = shown_run(own, scene.sample)
    if run is None or run.variant not in scene.variants:
        return None
    whole = _whole_field(run, scene, problems)
    field = scene.fields[0] if whole is None else whole
    facts = opening_facts(run, scene.sample, field.name.strip("|"), problems)
    return Opening(
        _caption(scene, run, field, whole=whole is not None),
        panels(scene, field, run.variant),
        facts,
    )


def _whole_field(run: RunData, scene: Scene, problems: list[str]) -> SceneField | None:
    """The first field as the model predicts it from all points at once, where that is known."""
    one = shown_evaluation(run, scene.sample)
    if one is None or not one.protocol.full:
        return None
    file = predictions_of(run.folder, one, run.evaluations).get(scene.sample)
    try:
        return None if file is None else field_of(scene, read_prediction(file))
    except ValueError as error:
        problems.append(f"{run.name} is not pictured from all points at once: {error}")
        return None


def _caption(scene: Scene, run: RunData, field: SceneField, *, whole: bool) -> str:
    noun, experiment = noun_of(run), run.config.experiment
    data = data_name([run]) if experiment == OWN else experiment
    text = (
        f"{plain(field.name).capitalize()} on test {noun} {scene.sample} of {data},"
        f" which no model has learned from. The prediction is that of {run.variant} (seed"
        f" {run.config.seed}), the model with the least validation error. Errors in per cent are"
        f" sums of absolute errors over sums of absolute values."
    )
    one = run.evaluation
    if whole:
        text += " The model is given all points at once."
    elif one is not None and not one.protocol.full and isinstance(one.points, int):
        text += (
            f" The model is given {one.points:,} points at a time, as in training; each time it"
            " predicts a little otherwise, which shows as grain."
        )
    if scene.reconstructed:
        text += " The faces were laid through the sample's points for the picture."
    if scene.kind == "volume":
        text += " Shown is a section."
    return text


def panels(scene: Scene, field: SceneField, variant: str) -> tuple[Panel, ...]:
    canvas = canvas_of(scene, *section_of(scene))
    seen = canvas.raster.shown
    error = field.errors[variant]
    values = value_scale(field.truth[seen])
    wrong = error_scale([error[seen]])
    label, relative = with_unit(field.name, field.unit), field.relative[variant]
    wrong_by = f"error {100 * relative:.3g} %" if math.isfinite(relative) else ""
    shown = (
        ("Truth", "as in the data", field.truth, values, label),
        ("Prediction", f"by {variant}", field.predictions[variant], values, label),
        ("Where it is wrong", wrong_by, error, wrong, f"error of {label}"),
    )
    return tuple(
        Panel(title, note, _png(canvas, array, *scale), _colours(scale[0]), _ends(scale[1]), below)
        for title, note, array, scale, below in shown
    )


def _png(canvas: Canvas, values: Floats, colours: Colormap, norm: Normalize) -> bytes:
    """The picture as PNG, the highest row first, without ground where the canvas has nothing."""
    rgb, cover = np.clip(canvas.image(values, colours, norm), 0, 1), canvas.cover[..., None]
    inner = np.where(cover > 0, (rgb - (1 - cover)) / np.maximum(cover, 1e-3), 0)
    rgba = (np.concatenate([np.clip(inner, 0, 1), cover], -1) * 255).round().astype(np.uint8)
    rows, columns = (np.flatnonzero(cover[..., 0].any(axis)) for axis in (1, 0))
    if len(rows):
        rgba = rgba[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    file = io.BytesIO()
    matplotlib.image.imsave(file, rgba[::-1], format="png", metadata={"Software": "slipstream"})
    return file.getvalue()


def _colours(colours: Colormap) -> tuple[str, ...]:
    return tuple(to_hex(colours(place)) for place in np.linspace(0, 1, _COLOURS))


def _ends(norm: Normalize) -> tuple[str, str, str]:
    low, high = float(norm.vmin or 0), float(norm.vmax or 0)
    low_text, middle, high_text = map(_tick, (low, (low + high) / 2, high))
    return low_text, middle, high_text


def _tick(value: float) -> str:
    """Two digits, as 0.12, 3,800 or 1.2e+06."""
    text = number(value, 2) if value else "0"
    if 100 <= abs(value) < 1e6:
        text = f"{round(value, 1 - math.floor(math.log10(abs(value)))):,.0f}"
    return text.replace("-", "\N{MINUS SIGN}")
