"""The outcomes of many mutants: counts, groups of failures, a table and a record."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from slipstream.core.runtime import commit, versions

from .examine import CLASSES, FAILURES, Outcome
from .mutate import FORMATS


class Tally:
    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {format: Counter() for format in FORMATS}
        self.mutations: dict[str, Counter[str]] = defaultdict(Counter)
        self.failures: list[Outcome] = []
        self.lenient: list[Outcome] = []
        self.peak = 0

    def add(self, outcome: Outcome) -> None:
        self.counts[outcome.sample.format][outcome.kind] += 1
        if len(outcome.mutations) == 1:
            self.mutations[outcome.mutations[0].rpartition(" ")[2]][outcome.kind] += 1
        if outcome.kind in FAILURES:
            self.failures.append(outcome)
        if outcome.kind == "lenient":
            self.lenient.append(outcome)
        self.peak = max(self.peak, outcome.peak)

    def table(self) -> str:
        rows = {format: counts for format, counts in self.counts.items() if counts}
        total: Counter[str] = sum(rows.values(), Counter())
        return _table({**rows, "all": total})

    def groups(self, outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
        """Outcomes of one format, class and place together, the most frequent first."""
        alike: dict[tuple[str, str, str], list[Outcome]] = defaultdict(list)
        for outcome in outcomes:
            alike[outcome.sample.format, outcome.kind, _general(outcome.detail)].append(outcome)
        return [
            {
                "format": format,
                "class": kind,
                "what": what,
                "count": len(members),
                "mutants": sorted(member.index for member in members)[:5],
                "example": members[0].detail[:300],
            }
            for (format, kind, what), members in sorted(
                alike.items(), key=lambda item: -len(item[1])
            )
        ]

    def record(self, *, seed: int, seconds: float) -> dict[str, Any]:
        return {
            "schema": 1,
            "what": "fuzz",
            "seed": seed,
            "mutants": sum(counts.total() for counts in self.counts.values()),
            "seconds": round(seconds, 1),
            "peak_bytes": self.peak,
            "commit": commit(),
            "versions": versions(),
            "counts": {
                format: {kind: counts[kind] for kind in CLASSES if counts[kind]}
                for format, counts in self.counts.items()
                if counts
            },
            "by_mutation": {
                name: {kind: counts[kind] for kind in CLASSES if counts[kind]}
                for name, counts in sorted(self.mutations.items())
            },
            "failures": self.groups(self.failures),
            "lenient": self.groups(self.lenient),
        }


def _general(detail: str) -> str:
    """Without numbers and names that differ between outcomes of one cause."""
    detail = re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", detail)
    if " at " in detail and " in " in detail:
        return detail
    return re.sub(r"0x[0-9a-f]+|-?\d[\d.e+-]*", "N", detail)


def _table(rows: dict[str, Counter[str]]) -> str:
    head = ["format", "mutants", *CLASSES]
    body = [
        [format, str(counts.total()), *(str(counts[kind] or "") for kind in CLASSES)]
        for format, counts in rows.items()
    ]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
             for row in (head, *body)]  # fmt: skip
    return "\n".join("  ".join(line) for line in lines)
