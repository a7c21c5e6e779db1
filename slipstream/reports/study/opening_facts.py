"""What a report says first: how long, how wrong, and how wrong at most, of one model."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from slipstream.evaluation.calibration import conformal_quantile, percent
from slipstream.reports.content import Fact
from slipstream.reports.study.gather import RunData, study_of
from slipstream.reports.study.times import Times, read_times
from slipstream.runs.calibration_file import Calibration, read_calibration
from slipstream.runs.evaluation_file import Evaluation

LEVEL = 0.9
"""The probability of the bound that is shown."""


def shown_run(runs: Sequence[RunData], sample: str) -> RunData | None:
    """Of the runs with a prediction on a sample the one with the least validation error; of a
    variant only the first seed counts, whose prediction the pictures show."""
    firsts: dict[str, RunData] = {}
    for run in runs:
        if sample in run.predictions():
            firsts.setdefault(run.variant, run)
    known = [run for run in firsts.values() if run.curve.errors]
    return min(known, key=lambda run: min(run.curve.errors.values()), default=None)


def shown_evaluation(run: RunData, sample: str) -> Evaluation | None:
    """Of all points at once, as `slipstream predict` takes them, where the run has one with this
    sample's prediction; else the one of the tables."""
    main = run.evaluation
    if main is None:
        return None
    for one in reversed(run.evaluations):
        same = one.weights == main.weights and one.protocol.split == main.protocol.split
        if one.protocol.full and same and sample in one.pictures:
            return one
    return main


def opening_facts(
    run: RunData, sample: str, variable: str, problems: list[str]
) -> tuple[Fact, ...]:
    """Times, where they were measured; the error of this sample, where not; the errors of the test
    samples; a bound, where the model is calibrated."""
    noun = noun_of(run)
    times = _times(run, sample, problems)
    errors = _errors(shown_evaluation(run, sample), variable)
    facts = _time_facts(times, noun) if times is not None else _own_error(errors, sample, noun)
    known = [error for error in errors.values() if error is not None]
    if known:
        median, worst = statistics.median(known), max(known)
        text = (
            f"is the error to expect: the median over {len(known)} test {_plural(noun, known)}, of"
            f" the {_words(variable)}. The worst is {_percent(worst)}."
        )
        bound = _bound(run, variable, noun, problems)
        facts.append(Fact(_percent(median), f"{text} {bound}".strip()))
    return tuple(facts)


def noun_of(run: RunData) -> str:
    """What a sample is called: the built-in flows are past bodies."""
    bodies = ("potential-flow", "stokes")
    return "body" if run.config.experiment.startswith(bodies) else "sample"


def _plural(noun: str, counted: Sequence[object]) -> str:
    return noun if len(counted) == 1 else {"body": "bodies"}.get(noun, f"{noun}s")


def _times(run: RunData, sample: str, problems: list[str]) -> Times | None:
    """The times of this sample by these weights."""
    study = study_of(run.folder)
    try:
        times = read_times(study) if study else None
    except (ValueError, OSError) as error:
        problems.append(f"times are not shown: {error}")
        return None
    own = (
        run.evaluation is not None and times is not None and times.weights == run.evaluation.weights
    )
    return times if own and times is not None and times.sample == sample else None


def _time_facts(times: Times, noun: str) -> list[Fact]:
    here = (
        f"Both were measured in this run on its machine ({times.device}), {times.date}: the"
        f" shortest of {times.calls} calls."
    )
    return [
        Fact(
            _seconds(times.solver_seconds),
            f"is what the solver takes for this {noun}: {times.solver}, and its values at"
            f" {times.points:,} points.",
        ),
        Fact(
            _seconds(times.model_seconds),
            f"is what the model takes for the same points, whatever the solver costs. {here}",
        ),
    ]


def _own_error(errors: dict[str, float | None], sample: str, noun: str) -> list[Fact]:
    error = errors.get(sample)
    if error is None:
        return []
    return [Fact(_percent(error), f"is the error of the model on the {noun} in the picture.")]


def _errors(evaluation: Evaluation | None, variable: str) -> dict[str, float | None]:
    """The relative L1 error of a variable, by test sample."""
    samples = evaluation.samples if evaluation else {}
    found = {sample: own.get(f"L1 {variable}") for sample, own in samples.items()}
    return {s: None if e is None or not math.isfinite(e) else e for s, e in found.items()}


def _bound(run: RunData, variable: str, noun: str, problems: list[str]) -> str:
    """A sentence with the bound that the model's calibration gives; empty without one."""
    calibration = _calibration(run.folder.path, run, problems)
    if calibration is None or variable not in calibration.fields:
        return ""
    scores = calibration.fields[variable].errors
    bound = conformal_quantile([math.inf if s is None else s for s in scores.values()], LEVEL)
    if bound is None or not math.isfinite(bound):
        return ""
    return (
        f"On a new {noun} like these it is from 0 to {_percent(bound)} with a probability of"
        f" {percent(LEVEL)} (calibrated on {len(scores)} {_plural(noun, [*scores])} of the"
        f" {calibration.split} split)."
    )


def _calibration(folder: Path, run: RunData, problems: list[str]) -> Calibration | None:
    if run.evaluation is None:
        return None
    try:
        return read_calibration([folder], run.evaluation.weights)
    except (ValueError, OSError) as error:
        problems.append(f"{run.name}: the bound of its error is not shown: {error}")
        return None


def _words(variable: str) -> str:
    return variable.replace("_", " ")


def _percent(error: float) -> str:
    return f"{100 * error:.3g} %" if error < 0.1 else f"{100 * error:.0f} %"


def _seconds(seconds: float) -> str:
    """As "61 ms", "2.4 s" or "13 min"."""
    if seconds < 1:
        return f"{1e3 * seconds:.2g} ms" if seconds < 0.1 else f"{1e3 * seconds:.0f} ms"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds / 60:.0f} min"
