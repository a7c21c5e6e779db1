"""The verdicts on three claims as sentences: the conclusion at the head of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slipstream.models.variants import BASELINE
from slipstream.reports.study.claims import CLAIMS, Claim, Estimate, Evidence


@dataclass(frozen=True)
class Wording:
    """How the verdicts on a claim are worded."""

    holds: str
    undecided: str
    fails: str
    number: str
    """The sentence with the ratio, as "mlp-only has {:.2f} times the baseline's error"."""

    def of(self, verdict: str) -> str:
        return {"holds": self.holds, "undecided": self.undecided}.get(verdict, self.fails)


WORDINGS = {
    "Token attention is removable": Wording(
        "the attention is removable",
        "whether the attention is removable is undecided",
        "removing the attention costs something",
        "without token attention the error is {:.2f} times the baseline's",
    ),
    "The coupling is not removable": Wording(
        "the coupling is not removable",
        "whether the coupling is removable is undecided",
        "the coupling is removable",
        "mlp-only has {:.2f} times the baseline's error",
    ),
    "The point stream is not removable": Wording(
        "slicing once is not enough",
        "whether slicing once is enough is undecided",
        "slicing once is enough",
        "slice-once has {:.2f} times the baseline's error",
    ),
}
_WORDED = [claim for claim in CLAIMS if claim.text in WORDINGS]
_BRACKETS = "In brackets: the error over the baseline's."


def conclude_all(evidence: Sequence[Evidence]) -> str:
    """The verdicts on every experiment; where there are several, grouped by verdict."""
    if len(evidence) == 1:
        return conclude(evidence[0])
    sentences = [_capital(text) for claim in _WORDED if (text := _of_all(claim, evidence))]
    failed = [f"Of {one.main.experiment}: {_failure(one)}" for one in evidence if _failure(one)]
    return " ".join([*sentences, *([_BRACKETS] if sentences else []), *failed])


def conclude(evidence: Evidence) -> str:
    """The verdicts on one experiment; claims whose variants were not run are left out.

    As "The coupling is not removable here: mlp-only has 2.10 times the baseline's error."
    """
    failure = _failure(evidence)
    if failure:
        return failure
    sentences = []
    for claim in _WORDED:
        estimate = claim.measure(evidence)
        if estimate:
            wording = WORDINGS[claim.text]
            verdict = _capital(wording.of(claim.verdict(estimate)))
            sentences.append(f"{verdict} here: {wording.number.format(estimate.value)}.")
    return " ".join(sentences)


def _failure(evidence: Evidence) -> str:
    """Every ratio divides by the baseline's error: where it failed, none means anything."""
    failure = evidence.main.failures().get(BASELINE)
    if failure is None:
        return ""
    return f"These runs say nothing of the variants. Of the baseline: {failure}."


def _of_all(claim: Claim, evidence: Sequence[Evidence]) -> str:
    """One sentence on a claim, as "the coupling is not removable on a (2.10) and b (1.90)."."""
    by_verdict: dict[str, list[tuple[str, Estimate]]] = {}
    for one in evidence:
        estimate = None if _failure(one) else claim.measure(one)
        if estimate:
            pair = (one.main.experiment, estimate)
            by_verdict.setdefault(claim.verdict(estimate), []).append(pair)
    parts = [
        f"{WORDINGS[claim.text].of(verdict)} on {_enumerated(by_verdict[verdict])}"
        for verdict in ("holds", "does not hold here", "undecided")
        if verdict in by_verdict
    ]
    return "; ".join(parts) + "." if parts else ""


def _enumerated(estimates: Sequence[tuple[str, Estimate]]) -> str:
    *first, last = [f"{name} ({estimate.value:.2f})" for name, estimate in estimates]
    return f"{', '.join(first)} and {last}" if first else last


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
