"""What the errors of some variants say, and no more: the verdicts on three claims, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slipstream.models.variants import BASELINE
from slipstream.reports.study.claims import CLAIMS, Claim, Evidence, Number


@dataclass(frozen=True)
class Saying:
    """How the verdicts on a claim are put."""

    holds: str
    undecided: str
    fails: str
    number: str
    """With a place for the ratio."""

    def of(self, verdict: str) -> str:
        return {"holds": self.holds, "undecided": self.undecided}.get(verdict, self.fails)


SAYINGS = {
    "Token attention is removable": Saying(
        "the attention is removable",
        "whether the attention is removable is undecided",
        "removing the attention costs something",
        "without token attention the error is {:.2f} times the baseline's",
    ),
    "The coupling is not removable": Saying(
        "the coupling is not removable",
        "whether the coupling is removable is undecided",
        "the coupling is removable",
        "mlp-only has {:.2f} times the baseline's error",
    ),
    "The point stream is not removable": Saying(
        "slicing once is not enough",
        "whether slicing once is enough is undecided",
        "slicing once is enough",
        "slice-once has {:.2f} times the baseline's error",
    ),
}
_SPOKEN = [claim for claim in CLAIMS if claim.text in SAYINGS]
_BRACKETS = "In brackets: the error over the baseline's."


def conclude_all(evidence: Sequence[Evidence]) -> str:
    """Of each experiment; where there are several, those with the same verdict together."""
    if len(evidence) == 1:
        return conclude(evidence[0])
    sentences = [_of_all(claim, evidence) for claim in _SPOKEN]
    said = [_capital(sentence) for sentence in sentences if sentence]
    failed = [f"Of {one.main.experiment}: {_failure(one)}" for one in evidence if _failure(one)]
    return " ".join([*said, *([_BRACKETS] if said else []), *failed])


def conclude(evidence: Evidence) -> str:
    """What the errors of one experiment say; nothing of what was not run, or failed to train."""
    failure = _failure(evidence)
    if failure:
        return failure
    said = []
    for claim in _SPOKEN:
        number = claim.measure(evidence)
        if number:
            saying = SAYINGS[claim.text]
            verdict = _capital(saying.of(claim.verdict(number)))
            said.append(f"{verdict} here: {saying.number.format(number.value)}.")
    return " ".join(said)


def _failure(evidence: Evidence) -> str:
    failure = evidence.main.failures().get(BASELINE)
    if failure is None:
        return ""
    return f"These runs say nothing of the variants. Of the baseline: {failure}."


def _of_all(claim: Claim, evidence: Sequence[Evidence]) -> str:
    """One sentence on a claim, as "the coupling is not removable on a (2.10) and b (1.90)."."""
    found: dict[str, list[tuple[str, Number]]] = {}
    for one in evidence:
        number = None if _failure(one) else claim.measure(one)
        if number:
            found.setdefault(claim.verdict(number), []).append((one.main.experiment, number))
    parts = [
        f"{SAYINGS[claim.text].of(verdict)} on {_enumerated(found[verdict])}"
        for verdict in ("holds", "does not hold here", "undecided")
        if verdict in found
    ]
    return "; ".join(parts) + "." if parts else ""


def _enumerated(numbers: Sequence[tuple[str, Number]]) -> str:
    *first, last = [f"{name} ({number.value:.2f})" for name, number in numbers]
    return f"{', '.join(first)} and {last}" if first else last


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
