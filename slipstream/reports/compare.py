"""The page of `slipstream compare`: verdicts, the table, and both bodies with the difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from slipstream.evaluation.calibration import percent
from slipstream.inference.compare import Comparison, Difference
from slipstream.inference.predicted_designs import PredictedDesign
from slipstream.reports.content import Cell, Definition, Picture, Report, Section, Table
from slipstream.reports.draw.bodies import (
    NEAR,
    BodyDifference,
    bodies_figure,
    difference,
    read_body,
    scalar_fields,
)
from slipstream.reports.draw.style import svg_text
from slipstream.reports.page.html import write_page

PAGE = "compare.html"
_MOST = 12
"""Designs with a picture: each is some 100 KB of the page."""


def write_comparison(comparison: Comparison, path: Path, field: str | None = None) -> Report:
    """Write the page and return what it shows; `problems` say which pictures are missing, and why.

    The field is the first scalar that was predicted where none is named. ValueError for a field
    that was not predicted.
    """
    baseline = comparison.baseline
    shown = _field(baseline, field)
    pictures: list[Picture] = []
    problems: list[str] = []
    for number, other in enumerate(comparison.others[:_MOST], start=1):
        if shown is None:
            break
        picture, problem = _picture(baseline, other, shown, number)
        pictures += [picture] if picture else []
        problems += [problem] if problem else []
    if shown is None:
        problems.append(f"{baseline.name} has no predicted scalar to be shown on its body.")
    left = len(comparison.others) - _MOST
    if left > 0:
        problems.append(f"{left} more designs have no picture: a page shows {_MOST}.")
    report = Report(
        title=f"Against {baseline.name}",
        subtitle=_subtitle(comparison),
        conclusion="\n\n".join(conclusions(comparison)),
        sections=(
            Section("Coefficients", items=(_table(comparison),)),
            *([Section(f"Field: {shown}", items=tuple(pictures))] if pictures else []),
        ),
        definitions=tuple(_definitions(comparison)),
        problems=tuple(problems),
    )
    write_page(report, path)
    return report


def conclusions(comparison: Comparison) -> Iterator[str]:
    """What is known, a sentence for each design."""
    for other in comparison.others:
        own = [one for one in comparison.differences if one.design == other.name]
        told = [f"{_name(one)} is {_verdict(one)}" for one in own if one.bound is not None
                and one.verdict != "cannot be told"]  # fmt: skip
        open_ = [_name(one) for one in own if one.verdict == "cannot be told"]
        if open_:
            told.append(f"{', '.join(open_)} cannot be told")
        yield f"{other.name} against {comparison.baseline.name}: {'; '.join(told)}."


def _verdict(one: Difference) -> str:
    assert one.interval is not None, "only such have a verdict"
    low, high = one.interval
    way = "lower" if one.difference < 0 else "higher"
    less, most = sorted((abs(low), abs(high)))
    by = f"{way} by {less:.2g} to {most:.2g}"
    return f"{one.verdict}, {by}" if one.verdict in ("better", "worse") else by


def _name(one: Difference) -> str:
    return one.coefficient.capitalize()


def _table(comparison: Comparison) -> Table:
    columns = ("design", "coefficient", comparison.baseline.name, "here", "difference",
               f"interval, {percent(comparison.level)}", "verdict")  # fmt: skip
    rows = []
    for one in comparison.differences:
        interval = one.interval
        text = one.reason if interval is None else f"{interval[0]:+.3g} to {interval[1]:+.3g}"
        numbers = (f"{one.baseline:.4f}", f"{one.value:.4f}", f"{one.difference:+.4f}")
        known = one.verdict != "cannot be told"
        rows.append(
            (
                *map(_text, (one.design, _name(one), *numbers, text)),
                Cell(text=one.verdict, kind="text", best=known),
            )
        )
    count = len(comparison.others)
    caption = (
        f"Predicted coefficients, and what is known of the true difference."
        f" {count} design{'s' if count > 1 else ''} compared with {comparison.baseline.name}."
    )
    notes = (*([comparison.promise] if comparison.promise else []), *comparison.notes)
    return Table("compare", "Differences", caption, columns, tuple(rows), notes)


def _text(text: str) -> Cell:
    return Cell(text=text, kind="text")


def _field(baseline: PredictedDesign, asked: str | None) -> str | None:
    names = list(baseline.units)
    scalars = scalar_fields(baseline.file, baseline.location, names)
    if asked is None:
        return scalars[0] if scalars else None
    if asked not in scalars:
        have = ", ".join(scalars) or "none"
        raise ValueError(f"--field must be a predicted scalar, {have}, got {asked!r}")
    return asked


def _picture(
    baseline: PredictedDesign, other: PredictedDesign, field: str, number: int
) -> tuple[Picture | None, str]:
    """The picture of one design, and why it, or its difference, is missing."""
    try:
        first, second = (
            read_body(one.name, one.file, one.location, field) for one in (baseline, other)
        )
    except (ValueError, OSError) as error:
        return None, f"{other.name} has no picture: {error}."
    between: BodyDifference | None = None
    problem = ""
    try:
        between = difference(second, first)
    except ValueError as error:
        problem = f"{error}."
    unit = baseline.units.get(field, "1")
    figure = bodies_figure(first, second, between, field, unit)
    name = f"bodies-{number}"
    title = f"{other.name} against {baseline.name}"
    return Picture(name, title, _caption(between), svg_text(figure, name)), problem


def _caption(between: BodyDifference | None) -> str:
    seen = "Both bodies from one place and at one scale, the predicted field in the same colours."
    if between is None:
        return f"{seen} The bodies have no common surface for a difference."
    if between.how == "by row":
        return f"{seen} The difference is row by row: the meshes have the same faces."
    return (
        f"{seen} The meshes have other faces, so the difference is to the nearest place of the"
        f" baseline, where its surface lies within {NEAR:.0%} of its size ({between.share:.0%} of"
        " the places; grey elsewhere)."
    )


def _subtitle(comparison: Comparison) -> str:
    date = datetime.now(UTC).date().isoformat()
    return (
        f"{date}. {_count(comparison.others)} against a baseline, predicted by the model of the"
        f" weights {comparison.baseline.weights[:12]}, calibrated on {comparison.samples} samples"
        f" of its {comparison.split} split."
    )


def _count(others: Sequence[PredictedDesign]) -> str:
    return f"{len(others)} design{'s' if len(others) > 1 else ''}"


def _definitions(comparison: Comparison) -> Iterator[Definition]:
    yield Definition("difference", "predicted coefficient of the design less the baseline's")
    yield Definition(
        "interval",
        "of the true difference: the predicted one, give or take a bound of its error from pairs of"
        " calibration samples, in whose difference the errors that both have in common cancel",
    )
    ways = ", ".join(f"{n.capitalize()} {way}" for n, way in comparison.better.items())
    yield Definition("better", ways or "no direction was given")
    yield Definition(
        "cannot be told", "the interval holds both signs, or none can be promised: no verdict"
    )
