"""Which samples train, validate and test: as given, or drawn from a seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from slipstream.core.runtime import derive_seed

FRACTIONS: Mapping[str, float] = {"train": 0.8, "val": 0.1, "test": 0.1}

Splits = dict[str, tuple[str, ...]]


def resolve_splits(
    given: Mapping[str, Sequence[str]] | None,
    ids: Sequence[str],
    fractions: Mapping[str, float],
    seed: int,
) -> Splits:
    """The given splits, checked, or drawn ones."""
    if given is None:
        return draw_splits(ids, fractions, seed)
    splits = {name: tuple(members) for name, members in given.items()}
    found = overlaps(splits)
    if found:
        raise ValueError(f"splits must not overlap, got {found[0]}")
    members = {sample for split in splits.values() for sample in split}
    for what, odd in (
        ("splits must hold every sample of the source", sorted(set(ids) - members)),
        ("splits must hold samples of the source only", sorted(members - set(ids))),
    ):
        if odd:
            side = "none of" if odd[0] in ids else "also"
            raise ValueError(f"{what}, got {side} {len(odd)}: {', '.join(odd[:5])}")
    return splits


def draw_splits(ids: Sequence[str], fractions: Mapping[str, float], seed: int) -> Splits:
    """Splits by fractions that sum to 1, a pure function of the seed and the set of ids."""
    if any(not value >= 0 for value in fractions.values()) or not math.isclose(
        sum(fractions.values()), 1
    ):
        raise ValueError(f"split fractions must be positive and sum to 1, got {dict(fractions)}")
    shuffled = sorted(ids, key=lambda sample: (derive_seed(seed, "split", sample), sample))
    splits: Splits = {}
    total, start = 0.0, 0
    for name, fraction in fractions.items():
        total += fraction
        end = round(total * len(shuffled))
        splits[name] = tuple(sorted(shuffled[start:end]))
        start = end
    return splits


def overlaps(splits: Mapping[str, Sequence[str]]) -> list[str]:
    """One phrase for each sample that is in a split twice or in two splits."""
    home: dict[str, str] = {}
    found = []
    for split, members in splits.items():
        for sample in members:
            if sample in home:
                found.append(f"{sample} in {home[sample]} and {split}")
            home[sample] = split
    return found
