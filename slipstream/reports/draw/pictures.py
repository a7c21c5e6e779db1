"""The pictures of a report: which there are, what they are drawn from, and their captions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from slipstream.core.text import file_name
from slipstream.evaluation.against_yardsticks import HEADINGS, in_validation
from slipstream.models.variants import BASELINE, POINTWISE
from slipstream.reports.content import Picture, Scene
from slipstream.reports.draw import figures
from slipstream.reports.draw.coefficients import CoefficientPairs, coefficient_scatter
from slipstream.reports.draw.fields import field_figure, slice_figure
from slipstream.reports.draw.figures import FieldRatio, LayerEntropy
from slipstream.reports.draw.scenes import match_runs, section_of
from slipstream.reports.draw.style import literal, save, svg_text
from slipstream.reports.draw.sweeps import SweepPoint, sweep_figure
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.settings import Group, Swept, main_groups, sweep, swept_variants
from slipstream.reports.study.study_tables import GRID
from slipstream.reports.study.sweep_tables import (
    fields_of_studies,
    letter,
    sweep_title,
    training_times,
)
from slipstream.reports.study.system_tables import system_points
from slipstream.runs.evaluation_file import Evaluation
from slipstream.runs.sweep import value_text

_FIXED = ("ratios", "curves", "controls", "depth", "locality", "systems", "coefficients")
NAMES = (*_FIXED, "depth-*", "sweep-*", "field-*", "entropy-*", "slices-*")
"""Patterns for the names of all figures that a report may have."""


class Gallery:
    """Turns figures into pictures of the page, and writes them into a folder if one is given."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._taken: set[str] = set()

    def picture(
        self, name: str, title: str, caption: str, figure: Figure, *, of: Sequence[str] = ()
    ) -> Picture:
        """`of` says whose picture it is, as experiment, field and sample, for the file's name."""
        name = self._free("-".join([name, *map(file_name, of)]))
        if self.folder is None:
            svg = svg_text(figure, name)
        else:
            svg = save(figure, self.folder, name)[0].read_text("utf-8")
        return Picture(name, title, caption, svg)

    def _free(self, name: str) -> str:
        """The name, or name+2 where another picture has it, also in other capitals.

        The field "p-3" of the first sample and "p" of a sample "3" would share one otherwise.
        """
        free, number = name, 2
        while free.lower() in self._taken:
            free, number = f"{name}+{number}", number + 1
        self._taken.add(free.lower())
        return free


def error_pictures(runs: Sequence[RunData], gallery: Gallery) -> list[Picture]:
    groups = main_groups(runs)
    failed = {(g.experiment, name) for g in groups for name in g.failures() if name != BASELINE}
    rows = [row for group in groups for row in group.rows()]
    rows = [row for row in rows if (row.experiment, row.variant) not in failed]
    pictures = []
    if any(row.ratio is not None and row.variant != BASELINE for row in rows):
        caption = (
            "Validation error of each variant over the baseline's; bars: one standard deviation."
        )
        if failed:
            names = "; ".join(f"{name} on {experiment}" for experiment, name in sorted(failed))
            caption += f" Left out, as they failed to train: {names}."
        pictures.append(
            gallery.picture("ratios", "Cost of each ablation", caption, figures.ratio_plot(rows))
        )
    curves = [run.curve for group in groups for run in group.runs if run.curve.errors]
    if curves:
        caption = "Validation error against the training step, a line a seed."
        bounds = {
            group.experiment: {HEADINGS[k]: v for k, v in in_validation(group.evaluations).items()}
            for group in groups
        }
        if any(bounds.values()):
            caption += " Grey lines: answers without a model, on the same samples."
        drawn = figures.validation_curves(curves, bounds)
        pictures.append(gallery.picture("curves", "Validation curves", caption, drawn))
    return pictures


def control_pictures(runs: Sequence[RunData], gallery: Gallery) -> list[Picture]:
    groups = main_groups(runs)
    fields = field_ratios(runs)
    swept = {group.experiment for own in sweep(runs, "slices") for group in own}
    grids = [g for g in groups if {name for line in GRID for name in line} <= set(g.variants)]
    grid = next((g for g in grids if g.experiment in swept), grids[0] if grids else None)
    three = {BASELINE, POINTWISE, "mlp-only-wide"}
    capacity = [group for group in groups if three <= set(group.variants)]
    counts = _sweep_points(runs, "slices", (BASELINE, "no-token-attention"))
    pictures = []
    if grid or capacity or counts:
        drawn = figures.controls(
            grid=grid.rows() if grid else (),
            slices=counts,
            capacity=[row for group in capacity for row in group.rows()],
            parameters={r.variant: r.parameters for g in capacity for r in g.runs if r.parameters},
            fields=fields,
        )
        caption = (
            "(a) Token attention and tying, change against the tied baseline. (b) Error against the"
            " number of slices. (c) Capacity control. (d) Test error of mlp-only over baseline, per"
            " variable. Bars, and the band in (a): one standard deviation."
        )
        pictures.append(gallery.picture("controls", "Four controls", caption, drawn))
    return [*pictures, *sweep_pictures(runs, gallery)]


def sweep_pictures(runs: Sequence[RunData], gallery: Gallery) -> list[Picture]:
    """Of each experiment, the sweep of its depth, and of every other field that a study swept."""
    pictures: list[Picture] = []
    everyone = {run.variant for run in runs}
    own = fields_of_studies(runs)
    for field in dict.fromkeys(["layers", *own]):
        for groups in sweep(runs, field):
            points = _points_of(groups, field, everyone, timed=field in own)
            if not points:
                continue
            what = "the number of layers" if field == "layers" else letter(field)
            time = ", and against the time of the training" if points[0].seconds else ""
            caption = (
                f"Validation error against {what}, and its ratio to the baseline's{time}; bars: one"
                " standard deviation, where there are several seeds."
            )
            setting = "layers $L$" if field == "layers" else literal(letter(field))
            drawn = sweep_figure(points, setting)
            if field == "layers":  # of the first experiment, it has always been called "depth"
                of = [points[0].experiment] if "depth" in (p.name for p in pictures) else []
                pictures.append(gallery.picture("depth", "Depth sweep", caption, drawn, of=of))
            else:
                of = [field, points[0].experiment]
                pictures.append(gallery.picture("sweep", sweep_title(field), caption, drawn, of=of))
    return pictures


def _sweep_points(
    runs: Sequence[RunData], field: Swept, variants: Iterable[str]
) -> list[SweepPoint]:
    """The points of the first experiment that was swept."""
    return _points_of(next(iter(sweep(runs, field)), []), field, variants)


def _points_of(
    groups: Sequence[Group], field: Swept, variants: Iterable[str], *, timed: bool = False
) -> list[SweepPoint]:
    """The errors of some variants in the groups of a sweep.

    Variants with a failed run are left out; the table of the sweep names them in its notes.
    """
    shown = swept_variants(groups) & set(variants)
    values = [group.at(field) for group in groups]
    numbers = all(isinstance(v, int | float) and v is not True and v > 0 for v in values)
    return [
        SweepPoint(
            row.variant,
            value if numbers else place,
            row.mean,
            row.std,
            row.experiment,
            row.step,
            label="" if numbers else value_text(value),
            seconds=_mean(training_times(group, row.variant)) if timed else None,
        )
        for place, (value, group) in enumerate(zip(values, groups, strict=True))
        for row in group.rows()
        if row.variant in shown - group.failures().keys()
    ]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def field_ratios(runs: Sequence[RunData]) -> list[FieldRatio]:
    """Test error of the pointwise model over the baseline's, and what the physics predicts."""
    ratios = []
    for group in main_groups(runs):
        errors, locality = group.summaries("L1"), group.locality
        for variant, variable in errors:
            base, pointwise = errors[variant, variable].mean, errors.get((POINTWISE, variable))
            if variant == BASELINE and variable and pointwise is not None and base:
                limit = locality.errors.get(variable) if locality else None
                predicted = limit / base if limit is not None else None
                measured = pointwise.mean / base
                ratios.append(FieldRatio(group.experiment, variable, measured, predicted))
    return ratios


def locality_pictures(runs: Sequence[RunData], gallery: Gallery) -> list[Picture]:
    rows = [row for row in field_ratios(runs) if row.predicted is not None]
    if not rows:
        return []
    caption = (
        "Test error over the baseline's, per variable: measured for mlp-only, and predicted from"
        " the physics for a pointwise answer. For Poisson the prediction is a lower limit: the"
        " best answer given place and density. For potential flow it is local-inclination theory"
        " (in the volume: distance from the wall), which a model that knows the place may beat."
    )
    drawn = figures.locality(rows)
    return [gallery.picture("locality", "Where the physics is nonlocal", caption, drawn)]


def field_pictures(scenes: Iterable[Scene], gallery: Gallery) -> list[Picture]:
    """A picture for each field of each scene.

    Of an experiment with several samples, all but the first carry the sample in their names.
    """
    pictures, experiments = [], set()
    for scene in scenes:
        further = scene.experiment in experiments
        experiments.add(scene.experiment)
        axis, position = section_of(scene)
        for field in scene.fields:
            drawn = field_figure(scene, field.name, scene.variants, axis=axis, position=position)
            of = [scene.experiment, field.name.strip("|"), *([scene.sample] if further else [])]
            caption = (
                f"{scene.name}: truth and predictions on one colour scale, absolute errors below on"
                " another; relative L1 errors are of this sample."
            )
            if scene.reconstructed:
                caption += (
                    " The sample has points and no faces: those that are drawn were laid through"
                    " the points, with colours linear in each."
                )
            title = f"{scene.experiment}: {field.name}"
            title += f", sample {scene.sample}" if further else ""
            pictures.append(gallery.picture("field", title, caption, drawn, of=of))
    return pictures


def slice_pictures(runs: Sequence[RunData], gallery: Gallery) -> list[Picture]:
    pictures = []
    for group in main_groups(runs):
        layers = [_entropies(one) for one in group.first_seeds() if one.slices]
        if layers:
            caption = (
                f"{group.experiment}: mean over points and heads of the entropy of a point's slice"
                " weights, layer by layer (dashed: uniform weights), and effective number of"
                " slices."
            )
            drawn, of = figures.entropy(layers), [group.experiment]
            title = "Entropy of the slices"
            pictures.append(gallery.picture("entropy", title, caption, drawn, of=of))
    for matched in match_runs(runs, (BASELINE, "no-token-attention")):
        if matched.normals is None:
            continue
        drawn = slice_figure(
            matched.coords,
            matched.normals,
            matched.tops,
            matched.entropies,
            matched.similarities,
            matched.labels,
        )
        caption = (
            f"{matched.experiment}: the closest slice functions of the last layer on the side"
            " shown, matched by the Hungarian method over the points; each over its own maximum."
            f" Cosine similarity of the median pair of all: {matched.median:.2f}."
        )
        of, title = [matched.experiment], "Learned slice functions"
        pictures.append(gallery.picture("slices", title, caption, drawn, of=of))
    return pictures


def _entropies(one: Evaluation) -> LayerEntropy:
    return LayerEntropy(
        one.variant,
        one.slices[0].slices,
        tuple(layer.mean("entropy") for layer in one.slices),
        tuple(layer.mean("effective") for layer in one.slices),
    )


def force_pictures(runs: Sequence[RunData], gallery: Gallery) -> list[Picture]:
    """Force coefficients predicted over true, of the first seed of each variant."""
    drawn = []
    for group in main_groups(runs):
        sections = {r.variant: r.forces for r in reversed(group.compared) if r.forces is not None}
        for name in dict.fromkeys(name for own in sections.values() for name in own.errors):
            pairs = {
                variant: [(one.true[name], one.predicted[name]) for one in own.samples.values()]
                for variant, own in sections.items()
                if name in own.errors
            }
            training = [own[name] for one in sections.values() for own in one.training.values()]
            mean = float(np.mean(training)) if training else None
            drawn.append(CoefficientPairs(group.experiment, name.capitalize(), pairs, mean))
    if not drawn:
        return []
    caption = (
        "Coefficients of the test samples from predicted fields over those from true fields; the"
        " line is where both are equal, the band 5 % around it."
    )
    title = "Predicted over true coefficients"
    return [gallery.picture("coefficients", title, caption, coefficient_scatter(drawn))]


def system_pictures(bench: Sequence[Mapping[str, Any]], gallery: Gallery) -> list[Picture]:
    points = system_points(bench) if bench else []
    if not points:
        return []
    caption = (
        "Median time and peak memory of one step of a whole model or of one layer: which, and what"
        " else the cases have in common, stands below each panel."
    )
    return [gallery.picture("systems", "Speed and memory", caption, figures.systems(points))]
