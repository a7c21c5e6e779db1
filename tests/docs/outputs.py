"""Whether a program printed what a page shows, where digits depend on the machine."""

from __future__ import annotations

import re

NUMBER = re.compile(r"[-−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
BOXES = re.compile("[\u2500-\u257f]+")
TOLERANCE = 0.2
"""Numbers that are not whole may differ by this share: a training ends elsewhere on another CPU."""
TINY = 1e-5
"""Below this a number is rounding, as in a parity of 3e-16."""
TIMES = {"s", "ms", "min", "h", "seconds", "MB", "GB", "kB"}
"""The number before such a word is never compared."""


def is_shown(shown: str, printed: str, *, numbers: bool = True) -> str | None:
    """None, or the first part of what is shown that was not printed.

    Words must be equal, whole numbers too, and other numbers within `TOLERANCE`. Where lines break
    and how wide columns are does not count. A `...` stands for anything; what is between two must
    be printed in this order. Without `numbers` any number is like any other.
    """
    words, place = _words(printed), 0
    for part in re.split(r"(?<!\S)\.\.\.(?!\S)", shown):
        wanted = _words(part)
        found = _find(wanted, words, place, numbers)
        if found is None:
            return " ".join(wanted)
        place = found + len(wanted)
    return None


def _words(text: str) -> list[str]:
    return BOXES.sub(" ", text).split()


def _find(wanted: list[str], words: list[str], start: int, numbers: bool) -> int | None:
    for place in range(start, len(words) - len(wanted) + 1):
        follows = [*wanted, ""][1:]
        there = words[place : place + len(wanted)]
        triples = zip(wanted, there, follows, strict=True)
        if all(_alike(a, b, after, numbers) for a, b, after in triples):
            return place
    return None


def _alike(shown: str, printed: str, following: str, numbers: bool) -> bool:
    if NUMBER.sub("#", shown) != NUMBER.sub("#", printed):
        return False
    if not numbers or following.strip(".,;:()") in TIMES:
        return True
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(_near(a, b) for a, b in pairs)


def _near(shown: str, printed: str) -> bool:
    if shown == printed:
        return True
    if re.fullmatch(r"[-−]?[\d,]+", shown) and re.fullmatch(r"[-−]?[\d,]+", printed):
        return False
    a, b = (float(text.replace(",", "").replace("−", "-")) for text in (shown, printed))
    return abs(a - b) <= max(TOLERANCE * max(abs(a), abs(b)), TINY)
