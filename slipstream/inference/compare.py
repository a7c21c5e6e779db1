"""Is design B better than design A? Differences of predicted coefficients, with intervals.

The bound of a difference's error comes from pairs of calibration samples (`evaluation/paired.py`).
It holds for all designs compared with the baseline at once, for each coefficient by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slipstream.core.plain_checks import check_choice
from slipstream.evaluation.calibration import check_level, percent
from slipstream.evaluation.paired import difference_bounds, groupings, too_few
from slipstream.inference.bounds import why_no_interval
from slipstream.inference.predicted_designs import PredictedDesign
from slipstream.runs.calibration_file import Calibration, ForceScores, read_calibration
from slipstream.runs.force_records import SHOWN

Verdict = Literal["better", "worse", "higher", "lower", "cannot be told"]
Wanted = Literal["lower", "higher"]
BETTER: Mapping[str, Wanted] = {"cd": "lower"}
"""Which way is better, where the user does not say it."""
_SAME = 1e-4
"""Relative difference of reference values that are the same: parameters are stored in float32."""


@dataclass(frozen=True)
class Difference:
    """One coefficient of one design against the baseline."""

    design: str
    coefficient: str
    baseline: float
    value: float
    bound: float | None
    """The true difference is within difference +- bound; None where nothing can be promised."""
    verdict: Verdict
    reason: str = ""
    """Why there is no bound."""

    @property
    def difference(self) -> float:
        return self.value - self.baseline

    @property
    def interval(self) -> tuple[float, float] | None:
        if self.bound is None:
            return None
        return self.difference - self.bound, self.difference + self.bound


@dataclass(frozen=True)
class Comparison:
    baseline: PredictedDesign
    others: tuple[PredictedDesign, ...]
    level: float
    split: str
    samples: int
    """Of the calibration, with coefficients."""
    better: Mapping[str, Wanted]
    differences: tuple[Difference, ...]
    promise: str
    """Empty where nothing has a bound."""
    notes: tuple[str, ...]


def parse_better(text: str | None) -> dict[str, Wanted]:
    """ "cd=lower,cl=higher" added to what is meant without it; "cd=any" takes the drag out."""
    better: dict[str, Wanted] = dict(BETTER)
    for part in (text or "").split(","):
        if not part.strip():
            continue
        name, sign, way = (own.strip() for own in part.partition("="))
        if not sign:
            raise ValueError(f"--better must be as cd=lower,cl=higher, got {text!r}")
        check_choice("a coefficient of --better", name, SHOWN)
        check_choice(f"--better {name}", way, ("lower", "higher", "any"))
        better.pop(name, None)
        if way in ("lower", "higher"):
            better[name] = "lower" if way == "lower" else "higher"
    return better


def calibration_for(
    baseline: PredictedDesign, designs: Sequence[PredictedDesign], runs: Sequence[Path] = ()
) -> Calibration:
    """The calibration of the models that predicted some designs; `runs` where the folders moved.

    ValueError where designs are of other weights, and where there is no calibration, none of these
    weights, or one without coefficients or of predictions that were made in another way.
    """
    for design in designs:
        if design.weights != baseline.weights:
            raise ValueError(
                f"designs must be predicted by one model, got {design.name} of the weights"
                f" {design.weights[:12]} and {baseline.name} of {baseline.weights[:12]}"
            )
    folders = list(runs) or [Path(run) for run in baseline.runs]
    if not folders:
        raise ValueError(
            f"--run must name the run that predicted {baseline.name}: its record does not"
        )
    missing = next((folder for folder in folders if not folder.is_dir()), None)
    if missing is not None:
        raise ValueError(
            f"{missing} must be the folder of the run that predicted {baseline.name}, got none"
            " there: --run says where it is now"
        )
    command = f"slipstream calibrate {' '.join(map(str, folders))} --meshes FOLDER --area AREA"
    calibration = read_calibration(folders, baseline.weights)
    if calibration is None or calibration.forces is None:
        what = "a calibration" if calibration is None else "coefficients in its calibration"
        raise ValueError(f"{folders[0]} must have {what} for a comparison, got none: {command}")
    for design in designs:
        how = (design.density, design.precision)
        if how != (calibration.density, "fp32"):
            raise ValueError(
                f"{design.name} must be predicted as it was calibrated, with --density"
                f" {calibration.density} --precision fp32, got {how[0]} and {how[1]}"
            )
    return calibration


def compare(
    baseline: PredictedDesign,
    others: Sequence[PredictedDesign],
    calibration: Calibration,
    level: float = 0.95,
    better: Mapping[str, Wanted] = BETTER,
) -> Comparison:
    """The differences of all coefficients of some designs to those of the baseline.

    ValueError where there is no other design, one has no coefficients, or coefficients are not made
    alike: units, reference values, directions and conventions, also those of the calibration.
    """
    check_level(level, "--level")
    if not others:
        raise ValueError(f"OUT must hold a design besides the baseline, got {baseline.name} alone")
    scores = calibration.forces
    for design in (baseline, *others):
        _check_coefficients(design)
        _check_alike(baseline, design)
        assert design.forces is not None, "checked above"
        differing = why_no_interval(scores, design.forces, design.given)
        if differing:
            raise ValueError(f"{design.name}: {differing}")
    assert scores is not None, "else its absence was said above"
    differences: list[list[Difference]] = [[] for _ in others]
    for name in (one for one in SHOWN if one in baseline.coefficients):
        bounds, reason = _bounds(scores, name, (baseline, *others), level)
        for other, bound, own in zip(others, bounds, differences, strict=True):
            own.append(_difference(baseline, other, name, bound, reason, better.get(name)))
    every = tuple(one for own in differences for one in own)
    samples = max((len(own) for own in scores.residuals.values()), default=0)
    promised = any(one.bound is not None for one in every)
    return Comparison(
        baseline=baseline,
        others=tuple(others),
        level=level,
        split=calibration.split,
        samples=samples,
        better=dict(better),
        differences=every,
        promise=_promise(samples, level, len(others)) if promised else "",
        notes=tuple(_notes(baseline, others, calibration)),
    )


def _bounds(
    scores: ForceScores, name: str, designs: Sequence[PredictedDesign], level: float
) -> tuple[Sequence[float | None], str]:
    """What the samples promise for each design but the first, all at once, or why nothing."""
    residuals = scores.residuals.get(name, {})
    known = [math.inf if one is None else one for one in residuals.values()]
    others = len(designs) - 1
    # Coefficients that a calibration of an older version does not have make no distances.
    names = [one for one in SHOWN if scores.predicted.get(one, {}).keys() >= residuals.keys()]
    names = [one for one in names if all(one in design.coefficients for design in designs)]
    grouped = groupings(len(known), others)
    if names:
        grouped = groupings(
            len(known),
            others,
            predicted=_table([[scores.predicted[n][s] for n in names] for s in residuals]),
            designs=_table([[design.coefficients[n] for n in names] for design in designs]),
        )
    bounds = difference_bounds(known, level, grouped)
    if bounds is None:
        return [None] * others, too_few(len(known), level, others)
    if math.isinf(bounds[0]):
        wrong = sum(map(math.isinf, known))
        reason = f"the prediction is not finite on {wrong} of {len(known)} samples"
        return [None] * others, reason
    return bounds, ""


def _table(rows: Sequence[Sequence[float | None]]) -> NDArray[np.float64]:
    return np.array([[np.nan if one is None else one for one in row] for row in rows], np.float64)


def _difference(
    baseline: PredictedDesign,
    other: PredictedDesign,
    name: str,
    bound: float | None,
    reason: str,
    wanted: Wanted | None,
) -> Difference:
    value, before = other.coefficients[name], baseline.coefficients[name]
    verdict = verdict_of(value - before, bound, wanted)
    return Difference(other.name, name, before, value, bound, verdict, reason)


def verdict_of(difference: float, bound: float | None, wanted: Wanted | None) -> Verdict:
    """What can be said of a difference whose error is at most the bound."""
    if bound is None or not abs(difference) > bound:
        return "cannot be told"
    way: Wanted = "higher" if difference > 0 else "lower"
    if wanted is None:
        return way
    return "better" if way == wanted else "worse"


def _check_coefficients(design: PredictedDesign) -> None:
    if design.forces is None:
        raise ValueError(
            f"designs must have forces to be compared, got {design.name} without: slipstream"
            " predict ... --forces"
        )
    if not design.coefficients:
        lacking = " and ".join(design.forces["missing"])
        raise ValueError(
            f"designs must have coefficients to be compared, got {design.name} without: they need"
            f" {lacking} (slipstream predict --help)"
        )
    wrong = [name for name, own in design.coefficients.items() if not math.isfinite(own)]
    if wrong:
        raise ValueError(f"{wrong[0]} of {design.name} must be a number, got one that is not")


def _check_alike(baseline: PredictedDesign, design: PredictedDesign) -> None:
    differing = next(_unlike(baseline, design), None)
    if differing is not None:
        what, one, other = differing
        raise ValueError(
            f"designs must have the same {what} to be compared, got {one} of {baseline.name} and"
            f" {other} of {design.name}"
        )


def _unlike(one: PredictedDesign, other: PredictedDesign) -> Iterator[tuple[str, object, object]]:
    """What the coefficients of two designs are made with and differs. Area, density and speed may
    be those of each design; `why_no_interval` says where they may not."""
    for name in sorted(one.units.keys() & other.units.keys()):
        if one.units[name] != other.units[name]:
            yield f"unit of {name}", one.units[name], other.units[name]
    assert one.forces is not None and other.forces is not None, "checked before"
    mine, theirs = one.forces["reference"], other.forces["reference"]
    for name in ("drag", "lift"):
        if not np.allclose(_unit(mine[name]), _unit(theirs[name]), rtol=0, atol=1e-3):
            yield f"direction of {name}", _text(mine[name]), _text(theirs[name])
    for name in ("mirror", "pressure"):
        if not _same(mine[name], theirs[name]):
            yield f"{name} of reference", mine[name], theirs[name]
    for name in ("area", "density", "speed"):
        given = one.given.get(name) is not None or other.given.get(name) is not None
        if given and not _same(mine[name], theirs[name]):
            yield f"{name} of reference", mine[name], theirs[name]
    for name in ("pressure", "shear", "traction"):
        stated = [one.forces["conventions"][name]["value"], other.forces["conventions"][name]]
        if name != "pressure" and one.forces["friction"] is None:
            continue
        if stated[0] != stated[1]["value"]:
            yield f"convention of {name}", stated[0], stated[1]["value"]


def _same(one: object, other: object) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=_SAME)
    return one == other


def _unit(vector: Sequence[float]) -> NDArray[np.float64]:
    return np.asarray(vector, np.float64) / np.linalg.norm(vector)


def _text(vector: Sequence[float]) -> str:
    return "(" + " ".join(f"{number:.4g}" for number in vector) + ")"


def _promise(samples: int, level: float, others: int) -> str:
    what = {1: "the difference", 2: "both differences to the baseline"}.get(
        others, f"all {others} differences to the baseline"
    )
    each = "" if others == 1 else f" {others} designs at once are corrected for."
    return (
        f"With a probability of at least {percent(level)} the intervals of a coefficient hold"
        f" {what}, over the choice of the {samples} calibration samples and of the designs, if the"
        f" designs, the baseline too, are like those samples: exchangeable with them.{each} Each"
        " coefficient is by itself. It is no promise for designs of another kind, and none for each"
        " pair: where errors differ more between close variants than the samples tell, intervals"
        " may be too narrow."
    )


def _notes(
    baseline: PredictedDesign, others: Sequence[PredictedDesign], calibration: Calibration
) -> Iterator[str]:
    scores = calibration.forces
    if isinstance(scores, ForceScores) and scores.left_out:
        yield f"{len(scores.left_out)} calibration samples have no coefficients"
    if calibration.split == "val":
        yield "the validation split chose the checkpoint, so intervals are slightly too narrow"
    for other in others:
        names = baseline.parameters.keys() | other.parameters.keys()
        for name in sorted(names):
            mine, theirs = (one.parameters.get(name) for one in (baseline, other))
            if mine != theirs:
                yield (
                    f"{other.name} was predicted with {name} = {theirs}, {baseline.name} with"
                    f" {mine}"
                )
    for verdict in ("outside", "unusual"):
        unlike = [one.name for one in (baseline, *others) if one.likeness == verdict]
        if unlike:
            yield (
                f"{', '.join(unlike)}: {verdict}, not like the training (slipstream predict says"
                " why), so intervals and verdicts that it takes part in are no promise"
            )
    judged = [one.name for one in (baseline, *others) if one.likeness is not None]
    if judged and len(judged) <= len(others):
        unknown = [one.name for one in (baseline, *others) if one.likeness is None]
        yield f"{', '.join(unknown)}: whether it is like the training was not asked"
    warned = [one.name for one in (baseline, *others) if one.warnings]
    if warned:
        yield (
            f"{', '.join(warned)}: predicted with warnings, so it may not be like the calibration"
            " samples"
        )
