"""What the errors of some variants say, and no more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slipstream.evaluation.compare import Row
from slipstream.models.variants import BASELINE
from slipstream.reports.settings import Group

POINTWISE = "mlp-only"


def conclude_all(groups: Sequence[Group]) -> str:
    """Of each experiment, named where there are several."""
    said = [(group.experiment, conclude(group.rows())) for group in groups]
    if len(said) == 1:
        return said[0][1]
    return " ".join(f"{name}: {text}" for name, text in said if text)


def conclude(rows: Iterable[Row]) -> str:
    """What the errors of one experiment say, and no more."""
    error = {row.variant: row.mean for row in rows}
    said = []
    if {BASELINE, "no-token-attention"} <= error.keys():
        said.append(_on_attention(error["no-token-attention"] / error[BASELINE]))
    if {BASELINE, POINTWISE} <= error.keys():
        said.append(_on_coupling(error[POINTWISE] / error[BASELINE]))
    if {BASELINE, "slice-once"} <= error.keys():
        said.append(_on_slicing_once(error["slice-once"] / error[BASELINE]))
    return " ".join(said)


def _on_attention(ratio: float) -> str:
    cost = f"without token attention the error is {ratio:.2f} times the baseline's"
    if ratio <= 1.05:
        return f"The attention is removable here: {cost}."
    return f"Removing the attention costs something here: {cost}."


def _on_coupling(ratio: float) -> str:
    cost = f"mlp-only has {ratio:.2f} times the baseline's error"
    if ratio >= 1.2:
        return f"The coupling is not removable: {cost}."
    return f"These runs do not show that the coupling is needed: {cost}."


def _on_slicing_once(ratio: float) -> str:
    cost = f"slice-once has {ratio:.2f} times the baseline's error"
    if ratio > 1.05:
        return f"Slicing once is not enough here: {cost}."
    return f"These runs do not separate slicing once from slicing in every layer: {cost}."
