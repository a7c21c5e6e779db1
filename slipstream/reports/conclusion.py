"""What the errors of some variants say, and no more: the verdicts on three claims, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.models.variants import BASELINE
from slipstream.reports.claims import CLAIMS, Evidence
from slipstream.reports.settings import Group

SENTENCES = {
    "Token attention is removable": {
        "holds": "The attention is removable here",
        "undecided": "Whether the attention is removable is undecided here",
        "does not hold here": "Removing the attention costs something here",
        "number": "without token attention the error is {:.2f} times the baseline's",
    },
    "The coupling is not removable": {
        "holds": "The coupling is not removable",
        "undecided": "Whether the coupling is removable is undecided here",
        "does not hold here": "The coupling is removable here",
        "number": "mlp-only has {:.2f} times the baseline's error",
    },
    "The point stream is not removable": {
        "holds": "Slicing once is not enough here",
        "undecided": "Whether slicing once is enough is undecided here",
        "does not hold here": "Slicing once is enough here",
        "number": "slice-once has {:.2f} times the baseline's error",
    },
}
"""By claim and verdict; `number` is what follows the colon."""


def conclude_all(groups: Sequence[Group]) -> str:
    """Of each experiment, named where there are several."""
    said = [(group.experiment, conclude(group)) for group in groups]
    if len(said) == 1:
        return said[0][1]
    return " ".join(f"{name}: {text}" for name, text in said if text)


def conclude(group: Group) -> str:
    """What the errors of one experiment say; nothing of what was not run, or failed to train."""
    failure = group.failures().get(BASELINE)
    if failure:
        return f"These runs say nothing of the variants. Of the baseline: {failure}."
    said = []
    for claim in CLAIMS:
        sentences = SENTENCES.get(claim.text)
        number = claim.measure(Evidence(group, {})) if sentences else None
        if sentences and number:
            cost = sentences["number"].format(number.value)
            said.append(f"{sentences[claim.verdict(number)]}: {cost}.")
    return " ".join(said)
