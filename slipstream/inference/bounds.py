"""Bounds of a prediction's errors by the calibration of its run, or a sentence why there are none.

Coefficients have an interval only where they are made as those of the calibration were: the same
reference values, directions and conventions. (The reference of the pressure cancels out in the
difference of two coefficients, so it may be another.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.evaluation.calibration import (
    check_level,
    conformal_quantile,
    percent,
    promise,
    too_few,
)
from slipstream.inference.bands import Band
from slipstream.inference.predict import Choices
from slipstream.runs.calibration_file import Calibration, ForceScores, Scores, read_calibration
from slipstream.runs.ensemble import Ensemble
from slipstream.runs.model_file import model_path

_SAME = 1e-4
"""Relative difference of reference values that are the same: parameters are stored in float32."""
_PARALLEL = 1e-3
"""Largest difference of two unit vectors that are the same direction."""


@dataclass(frozen=True)
class Bound:
    """What is known of one number of a new design."""

    samples: int
    """Samples of the calibration that have a score."""
    value: float | None
    """Largest error at the level; None where none can be promised."""
    reason: str = ""
    """Why there is none."""


@dataclass(frozen=True)
class Bounds:
    """Of one mesh. Each bound holds by itself."""

    level: float
    split: str
    fields: Mapping[str, Bound] = field(default_factory=dict)
    """Of the relative L1 error of each target over the mesh."""
    coefficients: Mapping[str, Bound] = field(default_factory=dict)
    """Half of the interval of cd, cl and cs: predicted +- value."""
    reason: str = ""
    """Why coefficients, or all of it, have no bounds."""
    promise: str = ""


def bound_of(scores: Scores, level: float) -> Bound:
    """The bound that some scores promise at a level."""
    known = [math.inf if score is None else score for score in scores.values()]
    value = conformal_quantile(known, level)
    if value is None:
        return Bound(len(known), None, too_few(len(known)))
    if math.isinf(value):
        wrong = known.count(math.inf)
        reason = f"the prediction is not finite on {wrong} of {len(known)} samples"
        return Bound(len(known), None, reason)
    return Bound(len(known), value)


class Calibrated:
    """The calibration of a model, as a call of `predict` uses it."""

    def __init__(
        self, runs: Sequence[Path], models: Ensemble, level: float, choices: Choices
    ) -> None:
        """ValueError where the level is none. A calibration that is missing, cannot be read or is
        of other weights makes no bounds, and every mesh says why."""
        check_level(level, "--level")
        folders = [model_path(run).parent for run in runs]
        command = f"slipstream calibrate {' '.join(map(str, folders))}"
        self._level = level
        self._calibration: Calibration | None = None
        self._reason = f"not calibrated: {command}"
        try:
            self._calibration = read_calibration(folders, models.weights)
        except (ValueError, OSError) as error:
            self._reason = f"not calibrated: {error}: {command}"
        other = _other_prediction(self._calibration, choices)
        if other:
            self._calibration, self._reason = None, other

    def bands(self) -> tuple[Band, ...]:
        """The band of each field. ValueError where there is no calibration, or it has too few
        samples for the level."""
        if self._calibration is None:
            raise ValueError(f"--bands needs a calibration, got none: {self._reason}")
        bands = []
        for name, own in self._calibration.fields.items():
            bound = bound_of(own.band, self._level)
            if bound.value is None:
                raise ValueError(
                    f"--bands needs enough calibration samples for {percent(self._level)} of"
                    f" {name}: {bound.reason} (--level)"
                )
            bands.append(Band(name, bound.value, own.scale))
        return tuple(bands)

    def bounds(self, forces: Mapping[str, Any] | None, given: Mapping[str, Any]) -> Bounds:
        """Of a mesh with these forces, as JSON; `given` are reference values that the user gave."""
        calibration, level = self._calibration, self._level
        if calibration is None:
            return Bounds(level, "", reason=self._reason)
        fields = {name: bound_of(own.errors, level) for name, own in calibration.fields.items()}
        coefficients: dict[str, Bound] = {}
        reason = ""
        if forces is not None and forces["coefficients"]:
            reason = why_no_interval(calibration.forces, forces, given)
            if not reason and calibration.forces is not None:
                sizes = calibration.forces.sizes()
                coefficients = {name: bound_of(own, level) for name, own in sizes.items()}
        text = promise(len(calibration.samples), level)
        return Bounds(level, calibration.split, fields, coefficients, reason, text)


def _other_prediction(calibration: Calibration | None, choices: Choices) -> str:
    """Why predictions by these choices are not such as were calibrated; empty where they are."""
    if calibration is None or (choices.density, choices.precision) == (calibration.density, "fp32"):
        return ""
    return (
        f"no bounds: the calibration is of --density {calibration.density} --precision fp32, got"
        f" --density {choices.density} --precision {choices.precision}"
    )


def why_no_interval(
    scores: ForceScores | None, forces: Mapping[str, Any], given: Mapping[str, Any]
) -> str:
    """Why coefficients are not such as were calibrated, as a sentence; empty where they are."""
    if scores is None:
        return (
            "coefficients have no interval: they were not calibrated (slipstream calibrate RUN"
            " --meshes FOLDER)"
        )
    differing = "; ".join(_differences(scores, forces, given))
    return f"coefficients have no interval: {differing}" if differing else ""


def _differences(
    scores: ForceScores, forces: Mapping[str, Any], given: Mapping[str, Any]
) -> Iterator[str]:
    reference = forces["reference"]
    for name, (low, high) in scores.ranges.items():
        value = reference[name]
        varies = high > low * (1 + _SAME)
        if value is None or (varies and given.get(name) is None):
            continue  # each design has its own, as those of the calibration had
        if not low * (1 - _SAME) <= value <= high * (1 + _SAME):
            calibrated = f"{low:.6g} to {high:.6g}" if varies else f"{low:.6g}"
            yield f"the {name} of the calibration is {calibrated}, here it is {value:.6g}"
    for name, own in (("drag", scores.drag), ("lift", scores.lift)):
        here = np.asarray(reference[name], np.float64)
        if np.linalg.norm(here / np.linalg.norm(here) - np.asarray(own)) > _PARALLEL:
            yield f"the {name} of the calibration is along {_text(own)}, here {_text(here)}"
    if reference["mirror"] != scores.mirror:
        yield f"the mirror of the calibration is {scores.mirror}, here it is {reference['mirror']}"
    for name, values in scores.conventions.items():
        stated = forces["conventions"][name]["value"]
        if name == "pressure" or forces["friction"] is not None:
            if values != (stated,):
                yield f"the {name} of the calibration is {' or '.join(values)}, here it is {stated}"


def _text(vector: Sequence[float] | np.ndarray[Any, Any]) -> str:
    return "(" + " ".join(f"{number:.4g}" for number in vector) + ")"
