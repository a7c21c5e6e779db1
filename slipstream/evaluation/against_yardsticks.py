"""Errors of models beside those of the yardsticks, and sentences about what does not beat them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slipstream.evaluation.summary import Summary
from slipstream.runs.evaluation_file import Evaluation, Yardstick, YardstickKind

HEADINGS: dict[YardstickKind, str] = {
    "mean": "mean of training",
    "nearest": "nearest training sample",
}
_NAMES: dict[YardstickKind, str] = {
    "mean": "the mean of the training set",
    "nearest": "the nearest training sample",
}


def yardsticks_of(evaluations: Iterable[Evaluation]) -> tuple[Yardstick, ...]:
    """The yardsticks of evaluations on the same data: those of the first that has some."""
    return next((one.yardsticks for one in evaluations if one.yardsticks), ())


def unbeaten(summaries: Sequence[Summary], yardsticks: Sequence[Yardstick]) -> list[str]:
    """A sentence for each variant and yardstick that the variant does not beat in some number.

    As "baseline does not beat the mean of the training set in L1 p (0.71 against 0.62)."
    """
    sentences = []
    for variant in dict.fromkeys(summary.variant for summary in summaries):
        own = [summary for summary in summaries if summary.variant == variant]
        for yardstick in yardsticks:
            worse = [
                f"{summary.name} ({summary.mean:.3g} against {bound:.3g})"
                for summary in own
                if (bound := yardstick.errors.get(summary.name)) is not None
                and not summary.mean < bound
            ]
            if worse:
                what = _NAMES[yardstick.kind]
                sentences.append(f"{variant} does not beat {what} in {', '.join(worse)}.")
    return sentences


def beside_text(summary: Summary, yardsticks: Sequence[Yardstick]) -> str:
    """As "p 0.18; mean of training 0.62; nearest training sample 0.35"."""
    parts = [f"{summary.variable or summary.measure} {summary.mean:.3g}"]
    for yardstick in yardsticks:
        bound = yardstick.errors.get(summary.name)
        if bound is not None:
            parts.append(f"{HEADINGS[yardstick.kind]} {bound:.3g}")
    return "; ".join(parts)
