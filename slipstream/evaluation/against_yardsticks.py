"""Errors of models beside those of the yardsticks, and sentences about what does not beat them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slipstream.evaluation.summary import Summary
from slipstream.runs.evaluation_file import Evaluation, Yardstick, YardstickKind
from slipstream.runs.force_records import ForceSection

HEADINGS: dict[YardstickKind, str] = {
    "mean": "mean of training",
    "persistence": "persistence",
    "scaling": "best constant scaling",
    "inclination": "local inclination",
    "nearest": "nearest training sample",
}
NAMES: dict[YardstickKind, str] = {
    "mean": "the mean of the training set",
    "persistence": "persistence",
    "scaling": "the best constant scaling",
    "inclination": "local inclination",
    "nearest": "the nearest training sample",
}
OF_FORCES: tuple[YardstickKind, ...] = ("mean", "nearest")
"""The yardsticks that force coefficients have."""
_FEW = 5
"""Samples that a sentence names."""


def yardsticks_of(evaluations: Iterable[Evaluation]) -> tuple[Yardstick, ...]:
    """The yardsticks of evaluations on the same data: those of the first that has some."""
    return next((one.yardsticks for one in evaluations if one.yardsticks), ())


def in_validation(evaluations: Iterable[Evaluation]) -> dict[YardstickKind, float]:
    """Composite errors of yardsticks on the validation split, of the first that knows them."""
    known = (one.validation_yardsticks for one in evaluations if one.validation_yardsticks)
    errors = next(known, {})
    return {kind: error for kind in HEADINGS if (error := errors.get(kind)) is not None}


def unbeaten(summaries: Sequence[Summary], yardsticks: Sequence[Yardstick]) -> list[str]:
    """A sentence for each variant and yardstick that the variant does not beat in some number.

    Numbers are the composite error and the relative L1 error of each variable. As "baseline does
    not beat the mean of the training set in L1 p (0.71 against 0.62)."
    """
    sentences = []
    for variant in dict.fromkeys(summary.variant for summary in summaries):
        own = [s for s in summaries if s.variant == variant and _counts(s)]
        for yardstick in yardsticks:
            worse = [
                f"{summary.name} ({summary.mean:.4g} against {bound:.4g})"
                for summary in own
                if (bound := yardstick.errors.get(summary.name)) is not None
                and not summary.mean < bound
            ]
            if worse:
                what = NAMES[yardstick.kind]
                sentences.append(f"{variant} does not beat {what} in {', '.join(worse)}.")
    return sentences


def copies(yardsticks: Sequence[Yardstick]) -> list[str]:
    """A sentence about samples whose targets are those of a training sample: they test nothing."""
    for yardstick in yardsticks:
        same = [
            f"{sample} (of {yardstick.neighbours[sample]})"
            for sample, errors in yardstick.samples.items()
            if sample in yardstick.neighbours and errors.get("composite") == 0
        ]
        if same:
            more = f" and {len(same) - _FEW} more" if len(same) > _FEW else ""
            shown = ", ".join(same[:_FEW])
            return [f"Samples with the same targets as a training sample: {shown}{more}."]
    return []


def _counts(summary: Summary) -> bool:
    return summary.measure == "L1" or summary.name == "composite"


def beside_text(summary: Summary, yardsticks: Sequence[Yardstick]) -> str:
    """As "p 0.18; mean of training 0.62; nearest training sample 0.35"."""
    parts = [f"{summary.variable or summary.measure} {summary.mean:.3g}"]
    for yardstick in yardsticks:
        bound = yardstick.errors.get(summary.name)
        if bound is not None:
            parts.append(f"{HEADINGS[yardstick.kind]} {bound:.3g}")
    return "; ".join(parts)


def force_sentences(forces: ForceSection) -> list[str]:
    """What is not beaten by the coefficients, and which samples have none; without full stops."""
    sentences = []
    for name, own in forces.errors.items():
        bounds: dict[YardstickKind, float | None] = {"mean": own.mean, "nearest": own.nearest}
        better = [
            f"{NAMES[kind]} ({bound:.3g})"
            for kind, bound in bounds.items()
            if bound is not None and not own.mean_absolute < bound
        ]
        if better:
            sentences.append(
                f"{name.capitalize()} is off by {own.mean_absolute:.3g} on average and does not"
                f" beat {' or '.join(better)}"
            )
    if forces.left_out:
        sample, reason = next(iter(forces.left_out.items()))
        sentences.append(
            f"{len(forces.left_out)} samples have no forces, the first {sample}: {reason}"
        )
    return sentences
