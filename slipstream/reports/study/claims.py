"""The paper's claims: what is measured, which values count as equal, and what would decide them.

A claim is decided by the verdict on its numbers (`reports/statistics/verdicts.py`). To add one,
write a function from `Evidence` to a list of `Measured` in measures.py, and an entry in `CLAIMS`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slipstream.models.variants import BASELINE, POINTWISE
from slipstream.reports.statistics.verdicts import Band, Verdict, Weight
from slipstream.reports.study import measures
from slipstream.reports.study.measures import ATTENTION_FREE, Measure, ratio_of, ratios_over

Answer = Literal["holds", "does not hold here", "undecided"]
Says = Literal["not above", "above", "below", "equal"]

TEN_PER_CENT = Band.of_ratios(1 / 1.1, 1.1)
"""Errors that differ by less count as equal. It is ours: the smallest round band that holds all
that the paper calls a match, 0.974 to 1.079 times the baseline's error."""
COUPLING = "The coupling is not removable"
NO_BAND = Band(0.0, 0.0)
"""Where only the direction is asked for."""


@dataclass(frozen=True)
class Words:
    """How the verdicts on a number are called."""

    below: str = "better"
    above: str = "worse"
    equivalent: str = "equivalent"

    def of(self, verdict: Verdict, number: str) -> str:
        if verdict == "different":
            return f"different by {number}"
        return "undecided" if verdict == "undecided" else str(getattr(self, verdict))


@dataclass(frozen=True)
class Claim:
    text: str
    what: str
    """What is measured, in the words of the table's last column."""
    measure: Measure
    says: Says
    """On which side of the band the claim says the number lies. "not above" is one-sided."""
    band: Band = TEN_PER_CENT
    paper: Band | None = None
    """The range that the paper found, where it gives one."""
    words: Words = Words()
    scale: Literal["ratio", "number"] = "ratio"
    """Whether estimates are logarithms of what is shown."""
    not_asked: Mapping[str, str] = field(default_factory=dict)
    """Experiments on which the claim means nothing, by the start of their names, and why."""

    def smallest(self, weight: Weight) -> float:
        """The smallest level at which anything can be said."""
        one_sided = weight.not_above if self.says == "not above" else 1.0
        return min(weight.smallest, one_sided)

    def answer(self, weight: Weight, level: float) -> Answer:
        verdict = weight.verdict(level)
        if self.says == "not above":
            holds, fails = weight.not_above <= level, verdict == "above"
        elif self.says == "equal":
            holds, fails = verdict == "equivalent", verdict in ("above", "below")
        else:
            holds = verdict == self.says
            fails = not holds and verdict in ("equivalent", "above", "below")
        return "holds" if holds else "does not hold here" if fails else "undecided"

    def why_not_asked(self, experiment: str) -> str | None:
        starts = (why for start, why in self.not_asked.items() if experiment.startswith(start))
        return next(starts, None)


_FLAT = Words("still falling", "rising", "flattened")
_TREND = Words("falls", "rises", "no trend")

CLAIMS = (
    Claim(
        "Token attention is removable",
        "error of no-token-attention over the baseline's",
        ratio_of(ATTENTION_FREE),
        "not above",
        paper=Band.of_ratios(0.974, 1.079),
    ),
    Claim(
        COUPLING,
        "error of mlp-only over the baseline's",
        ratio_of(POINTWISE),
        "above",
        paper=Band.of_ratios(1.04, 5.6),
    ),
    Claim(
        "The point stream is not removable",
        "error of slice-once over the baseline's",
        ratio_of("slice-once"),
        "above",
        paper=Band.of_ratios(2.2, 6.8),
    ),
    Claim(
        "Slicing anew in every layer gains little",
        "error of frozen-slice over the baseline's",
        ratio_of("frozen-slice"),
        "not above",
        paper=Band.of_ratios(0.995, 1.17),
    ),
    Claim(
        "Attention is removable untied too",
        "error of untied-no-token-attention over that of untied",
        ratio_of("untied-no-token-attention", "untied"),
        "not above",
        paper=Band.of_ratios(0.9895, 1.0105),
    ),
    Claim(
        "Tying and attention have nothing to do with each other",
        "interaction: what removing the attention costs untied over what it costs tied",
        measures.interaction,
        "equal",
        paper=Band.of_ratios(0.9895, 1.0105),
        words=Words("cheaper untied", "dearer untied", "independent"),
    ),
    Claim(
        "It does not depend on the number of slices",
        "error of no-token-attention over the baseline's with the same G",
        ratios_over("slices", ATTENTION_FREE),
        "not above",
        paper=Band.of_ratios(0.985, 1.015),
    ),
    Claim(
        "Capacity does not repair it",
        "share of the gap of mlp-only, in logarithms, that mlp-only-wide closes",
        measures.gap_closed_by_width,
        "not above",
        band=Band(-0.1, 0.1),
        paper=Band(-math.inf, 0.03),
        words=Words("wider is worse", "a part", "nothing"),
        scale="number",
    ),
    Claim(
        "Pressure suffers more than velocity or wall shear",
        "test error of mlp-only over the baseline's, that of pressure over that of the other field",
        measures.pressure_over_others,
        "above",
        band=NO_BAND,
        words=Words("less", "more"),
        not_asked={
            "potential-flow": "there the pressure is a function of the velocity at the same point"
        },
    ),
    Claim(
        "The curves have flattened",
        "baseline: error after the most steps over that of a training of half as many",
        measures.last_doubling(BASELINE),
        "equal",
        words=_FLAT,
    ),
    Claim(
        "They have flattened without attention too",
        "no-token-attention: error after the most steps over that of a training of half as many",
        measures.last_doubling(ATTENTION_FREE),
        "equal",
        words=_FLAT,
    ),
    Claim(
        "Predicted: the gap of mlp-only persists at every depth",
        "error of mlp-only over the baseline's with the same L",
        ratios_over("layers", POINTWISE),
        "above",
    ),
    Claim(
        "Predicted: no trend of mlp-only with depth",
        "change of mlp-only's error over the depths, by a line through the logarithms",
        measures.trend_over_depth(POINTWISE),
        "equal",
        words=_TREND,
    ),
    Claim(
        "Predicted: the baseline improves with depth",
        "change of the baseline's error over the depths, by a line through the logarithms",
        measures.trend_over_depth(BASELINE),
        "below",
        band=NO_BAND,
        words=_TREND,
    ),
    Claim(
        "Predicted: the gap of slice-once persists at every depth",
        "error of slice-once over the baseline's with the same L",
        ratios_over("layers", "slice-once"),
        "above",
    ),
    Claim(
        "Predicted: depth closes the gap of frozen slices",
        "frozen-slice over the baseline: the ratio at the largest L over that at the smallest",
        measures.gap_closed_by_depth,
        "below",
        band=NO_BAND,
    ),
    Claim(
        "The first layer spreads its points almost evenly over the slices",
        "mean entropy of the baseline's first layer over ln G",
        measures.first_layer_entropy,
        "equal",
        band=Band.of_ratios(0.95, 1 / 0.95),
        words=Words("uneven", equivalent="even"),
    ),
    Claim(
        "Without attention the last layer uses more slices",
        "effective slices of the last layer, no-token-attention's over the baseline's",
        measures.last_layer("effective"),
        "above",
        band=NO_BAND,
        words=Words("fewer", "more"),
    ),
    Claim(
        "Without attention points choose their slices more sharply",
        "entropy of the last layer, no-token-attention's over the baseline's",
        measures.last_layer("entropy"),
        "below",
        band=NO_BAND,
        words=Words("lower", "higher"),
    ),
    Claim(
        "Subsampling noise is small",
        "largest relative standard deviation of the baseline's test errors over draws of points",
        measures.largest_noise,
        "not above",
        band=Band(-math.inf, 0.01),
        words=Words(above="larger", equivalent="small"),
        scale="number",
    ),
)
