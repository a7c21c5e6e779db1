"""The splits train, val and test: as given by a source, or drawn from a seed."""

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
    known: Mapping[str, Sequence[str]],
) -> Splits:
    """The given splits, checked, or drawn ones that keep `known`, the splits of the store."""
    if given is None:
        return grow_splits(known, ids, fractions, seed)
    splits = {name: tuple(members) for name, members in given.items()}
    overlapping = overlaps(splits)
    if overlapping:
        raise ValueError(f"splits must not overlap, got {overlapping[0]}")
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
    """Splits by fractions that sum to 1, a pure function of the seed and the set of ids.

    Every split with a positive fraction has at least one sample, where there are enough: of five
    samples, 80, 10 and 10 % are 3, 1 and 1.
    """
    if any(not value >= 0 for value in fractions.values()) or not math.isclose(
        sum(fractions.values()), 1
    ):
        raise ValueError(f"split fractions must be positive and sum to 1, got {dict(fractions)}")
    shuffled = _shuffled(ids, seed)
    splits: Splits = {}
    start = 0
    for name, size in _sizes(fractions, len(shuffled)).items():
        splits[name] = tuple(sorted(shuffled[start : start + size]))
        start += size
    return splits


def _sizes(fractions: Mapping[str, float], count: int) -> dict[str, int]:
    """How many of `count` samples each split gets."""
    sizes: dict[str, int] = {}
    total, start = 0.0, 0
    for name, fraction in fractions.items():
        total += fraction
        end = round(total * count)
        sizes[name], start = end - start, end
    wanted = [name for name, fraction in fractions.items() if fraction > 0]
    if count >= len(wanted):
        for name in (name for name in wanted if not sizes[name]):
            sizes[max(sizes, key=sizes.__getitem__)] -= 1
            sizes[name] = 1
    return sizes


def grow_splits(
    known: Mapping[str, Sequence[str]],
    ids: Sequence[str],
    fractions: Mapping[str, float],
    seed: int,
) -> Splits:
    """Drawn splits of all ids in which every known sample stays in its split.

    If a fresh draw leaves the known samples where they are, that draw is taken. Otherwise the new
    samples go, one by one, to the split that lacks most, so that the fractions are met as well as
    possible.
    """
    fresh = draw_splits(ids, fractions, seed)
    if all(set(members) <= set(fresh.get(split, ())) for split, members in known.items()):
        return fresh
    grown = {split: list(known.get(split, ())) for split in (*fractions, *known)}
    placed = {sample for members in known.values() for sample in members}
    for sample in _shuffled(ids, seed):
        if sample not in placed:
            lacking = max(fractions, key=lambda split: len(fresh[split]) - len(grown[split]))
            grown[lacking].append(sample)
    return {split: tuple(sorted(members)) for split, members in grown.items()}


def _shuffled(ids: Sequence[str], seed: int) -> list[str]:
    return sorted(ids, key=lambda sample: (derive_seed(seed, "split", sample), sample))


def overlaps(splits: Mapping[str, Sequence[str]]) -> list[str]:
    """A phrase for each sample that is in two splits or twice in one: "a in train and test"."""
    split_of: dict[str, str] = {}
    phrases = []
    for split, members in splits.items():
        for sample in members:
            if sample in split_of:
                phrases.append(f"{sample} in {split_of[sample]} and {split}")
            split_of[sample] = split
    return phrases
