"""`slipstream study --sweep`: the option, and rows of errors for each combination of values."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.cli.shared import parse_value
from slipstream.evaluation.compare import Curve, Row, compare
from slipstream.runs.sweep import Sweep, short_name, value_text
from slipstream.training.study import StudyCell


def parse_sweeps(texts: Sequence[str]) -> list[Sweep]:
    """Sweeps from texts "field=value,value", each value as for --set."""
    sweeps = []
    for text in texts:
        field, equals, values = text.partition("=")
        if not equals or not field or not values.strip():
            raise ValueError(f"--sweep must be field=value,value, got {text!r}")
        sweeps.append(Sweep(field, tuple(parse_value("--sweep", field, f"[{values}]"))))
    return sweeps


def compare_each(cells: Sequence[tuple[StudyCell, Curve]]) -> list[tuple[dict[str, Any], Row]]:
    """The rows of every combination of swept values, with the values.

    A cell without a field, on which its variant does not depend, is in the rows of all values.
    """
    rows = []
    for swept in _combinations([cell for cell, _ in cells]):
        own = [curve for cell, curve in cells if cell.swept.items() <= swept.items()]
        rows += [(swept, row) for row in compare(own)]
    return rows


def _combinations(cells: Sequence[StudyCell]) -> list[dict[str, Any]]:
    """All combinations of the values that cells have; one without values where nothing is swept."""
    values: dict[str, list[Any]] = {}
    for cell in cells:
        for field, value in cell.swept.items():
            known = values.setdefault(field, [])
            known += [value] if value not in known else []
    return [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    ]


def swept_text(swept: Mapping[str, Any]) -> str:
    """As ", key_ratio = 4, layers = 8"; empty without values."""
    return "".join(f", {short_name(f)} = {value_text(value)}" for f, value in swept.items())
