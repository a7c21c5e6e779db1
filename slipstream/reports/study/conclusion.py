"""The verdicts on three claims as sentences: the conclusion at the head of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipstream.models.variants import BASELINE
from slipstream.reports.study.claims import CLAIMS
from slipstream.reports.study.evidence import Evidence
from slipstream.reports.study.judgement import Judgement, judge_all


@dataclass(frozen=True)
class Wording:
    """How what is said of a claim is worded."""

    holds: str
    undecided: str
    fails: str
    better: str
    """Where the variant is better than the baseline by more than the band."""
    number: str
    """The sentence with the ratio, as "mlp-only has {} times the baseline's error"."""

    def of(self, one: Judgement) -> str:
        if one.verdict == "below":
            return self.better
        return {"holds": self.holds, "undecided": self.undecided}.get(one.answer, self.fails)


WORDINGS = {
    "Token attention is removable": Wording(
        "the attention is removable",
        "whether the attention is removable is undecided",
        "removing the attention costs something",
        "the attention is better removed",
        "without token attention the error is {} times the baseline's",
    ),
    "The coupling is not removable": Wording(
        "the coupling is not removable",
        "whether the coupling is removable is undecided",
        "the coupling is removable",
        "the coupling is better removed",
        "mlp-only has {} times the baseline's error",
    ),
    "The point stream is not removable": Wording(
        "slicing once is not enough",
        "whether slicing once is enough is undecided",
        "slicing once is enough",
        "slicing once is better",
        "slice-once has {} times the baseline's error",
    ),
}
_WORDED = [claim for claim in CLAIMS if claim.text in WORDINGS]
_BRACKETS = (
    "In brackets: the error over the baseline's and its interval of 95 %; * one seed, its scatter"
    " assumed."
)


def conclude_all(evidence: Sequence[Evidence]) -> str:
    """What is said of each experiment; where there are several, grouped by what is said."""
    failures = {one.experiment: failure for one in evidence if (failure := _failure(one))}
    sound = [one for one in evidence if one.experiment not in failures]
    judged = judge_all(sound, _WORDED)
    if len(evidence) == 1:
        return " ".join([*failures.values(), *_of_one(judged)])
    sentences = [_capital(_of_all(own)) for own in judged.values() if own]
    failed = [f"Of {name}: {failure}" for name, failure in failures.items()]
    return " ".join([*sentences, *([_BRACKETS] if sentences else []), *failed])


def _of_one(judged: Mapping[str, list[Judgement]]) -> list[str]:
    """As "The coupling is not removable here: mlp-only has 2.10 times the baseline's error [2.01,
    2.19]."."""
    sentences = []
    for text, own in judged.items():
        for one in own:
            wording = WORDINGS[text]
            number = wording.number.format(f"{one.value:.2f}")
            sentences.append(f"{_capital(wording.of(one))} here: {number}{_interval(one)}.")
    return sentences


def _interval(one: Judgement) -> str:
    """As " (95 %: 2.01 to 2.19)"; what is assumed of a single seed is said."""
    ends = one.interval
    assumed = ", one seed, its scatter assumed" if one.measured.estimate.assumed else ""
    return f" (95 %: {ends[0]:.2f} to {ends[1]:.2f}{assumed})" if ends else ""


def _failure(evidence: Evidence) -> str:
    """Every ratio divides by the baseline's error: where it failed, none means anything."""
    failure = evidence.main.failures().get(BASELINE)
    if failure is None:
        return ""
    return f"These runs say nothing of the variants. Of the baseline: {failure}."


def _of_all(judgements: Sequence[Judgement]) -> str:
    """One sentence on a claim, as "slicing once is not enough on a (2.10) and b (1.90)."."""
    by_words: dict[str, list[Judgement]] = {}
    for one in judgements:
        by_words.setdefault(WORDINGS[one.claim.text].of(one), []).append(one)
    parts = [f"{words} on {_enumerated(own)}" for words, own in by_words.items()]
    return "; ".join(parts) + "."


def _enumerated(judgements: Sequence[Judgement]) -> str:
    *first, last = [f"{one.experiment} ({_number(one)})" for one in judgements]
    return f"{', '.join(first)} and {last}" if first else last


def _number(one: Judgement) -> str:
    mark = "*" if one.measured.estimate.assumed else ""
    ends = f" [{one.interval[0]:.2f}, {one.interval[1]:.2f}]" if one.interval else ""
    return f"{one.value:.2f}{mark}{ends}"


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
