"""Claims judged: a verdict for each number, at levels that allow for how many there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from slipstream.reports.statistics.correction import levels
from slipstream.reports.statistics.power import seeds_needed
from slipstream.reports.statistics.verdicts import ALPHA, Verdict, inside, weigh
from slipstream.reports.study.claims import CLAIMS, Answer, Claim
from slipstream.reports.study.evidence import Evidence, Measured


@dataclass(frozen=True)
class Judgement:
    """What one number says of a claim."""

    claim: Claim
    experiment: str
    measured: Measured
    level: float
    """The level at which it was judged."""
    verdict: Verdict
    answer: Answer

    @property
    def value(self) -> float:
        """As it is shown."""
        return self._shown(self.measured.estimate.value)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of 95 %, for this number alone; None where the scatter is unknown, or there is none."""
        estimate = self.measured.estimate
        if not estimate.error:
            return None
        ends = estimate.interval()
        return None if ends is None else (self._shown(ends[0]), self._shown(ends[1]))

    @property
    def words(self) -> str:
        """The verdict in the words of the claim, as "worse" or "different by 1.14"."""
        return self.claim.words.of(self.verdict, f"{self.value:.3g}")

    @property
    def against_paper(self) -> str:
        """As "0.974 to 1.079: below"; empty where the paper gives no range."""
        paper = self.claim.paper
        if paper is None:
            return ""
        low, high = (f"{self._shown(end):.5g}" for end in (paper.low, paper.high))
        place = inside(self.measured.estimate, paper)
        return f"{f'{low} to ' if math.isfinite(paper.low) else 'at most '}{high}: {place}"

    @property
    def seeds_needed(self) -> str:
        """Beside what is not decided: the seeds of each variant that would decide it."""
        if self.verdict not in ("undecided", "different") and self.answer != "undecided":
            return ""
        estimate = self.measured.estimate
        if estimate.error is None:
            return "unknown"
        if estimate.spread is None:
            return ""
        count = seeds_needed(estimate, self.claim.band)
        return "> 1,000" if count is None else str(count)

    def _shown(self, value: float) -> float:
        return math.exp(value) if self.claim.scale == "ratio" else value


def judge(claim: Claim, numbers: Sequence[tuple[str, Measured]]) -> list[Judgement]:
    """Verdicts on all numbers of one claim, each with the experiment that it is of."""
    finite = [(name, one) for name, one in numbers if math.isfinite(one.estimate.value)]
    weights = [weigh(one.estimate, claim.band) for _, one in finite]
    own = levels([claim.smallest(weight) for weight in weights], ALPHA)
    return [
        Judgement(claim, name, one, level, weight.verdict(level), claim.answer(weight, level))
        for (name, one), weight, level in zip(finite, weights, own, strict=True)
    ]


def judge_all(
    evidence: Sequence[Evidence], claims: Sequence[Claim] = CLAIMS
) -> dict[str, list[Judgement]]:
    """By the text of the claim; a claim on which no run bears has none."""
    return {
        claim.text: judge(
            claim,
            [
                (one.experiment, measured)
                for one in evidence
                if claim.why_not_asked(one.experiment) is None
                for measured in claim.measure(one)
            ],
        )
        for claim in claims
    }
