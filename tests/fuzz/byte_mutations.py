"""Ways to damage a file of which nothing is known: its bytes, and the numbers and words in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

Mutation = Callable[[bytes, Random], bytes]
"""Any exception says that it cannot be applied to what an earlier mutation left of the file."""


class CannotApply(Exception):
    pass


NUMBERS = (b"0", b"-1", b"1000000000", b"2147483648", b"9223372036854775808", b"1e18", b"nan")
"""Written in the place of numbers: nothing, less than nothing, and too much for 32 and 64 bits."""
WORDS = (
    b"",
    b"****",
    b"1,5",
    b"x",
    b"\x00",
    b"\xff\xfe",
    b"\xc3\xa9",
    b"A" * 10_000,
    b"-",
    b"%s%n",
)
_NUMBER = re.compile(rb"(?<![\w.+-])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")
_WORD = re.compile(rb"[!-~]+")
LOST = 24
"""The most bytes that are lost or added at one place."""


def flip_bits(raw: bytes, draw: Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(draw.choice((1, 1, 1, 4, 16))):
        if changed:
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def delete_bytes(raw: bytes, draw: Random) -> bytes:
    at = draw.randrange(len(raw) + 1)
    return raw[:at] + raw[at + draw.randint(1, LOST) :]


def insert_bytes(raw: bytes, draw: Random) -> bytes:
    at = draw.randrange(len(raw) + 1)
    return raw[:at] + draw.randbytes(draw.randint(1, LOST)) + raw[at:]


def truncate(raw: bytes, draw: Random) -> bytes:
    lost = draw.choice((draw.randint(1, LOST), draw.randrange(len(raw) + 1)))
    return raw[: max(0, len(raw) - lost)]


def repeat_slice(raw: bytes, draw: Random) -> bytes:
    first, last = sorted((draw.randrange(len(raw) + 1), draw.randrange(len(raw) + 1)))
    return raw[:last] + raw[first:last] + raw[last:]


def overwrite_slice(raw: bytes, draw: Random) -> bytes:
    """With zeros, ones, or what stands elsewhere in the file."""
    length = draw.choice((1, 2, 4, 8, 64))
    at, other = draw.randrange(len(raw) + 1), draw.randrange(len(raw) + 1)
    fill = draw.choice((b"\0" * length, b"\xff" * length, raw[other : other + length]))
    return raw[:at] + fill + raw[at + len(fill) :]


def replace_number(raw: bytes, draw: Random) -> bytes:
    return _replace(raw, draw, _NUMBER, draw.choice(NUMBERS))


def nudge_number(raw: bytes, draw: Random) -> bytes:
    """A whole number becomes another that is as likely: one more or less, twice, half."""
    places = [m for m in _NUMBER.finditer(raw) if m[0].isdigit()]
    place = draw.choice(places)
    value = int(place[0])
    other = draw.choice((value + 1, value - 1, value * 2, value // 2))
    return raw[: place.start()] + str(other).encode() + raw[place.end() :]


def replace_word(raw: bytes, draw: Random) -> bytes:
    """By another word of the file, or by one that no writer writes."""
    words = [match[0] for match in _WORD.finditer(raw)] or [b"x"]
    return _replace(raw, draw, _WORD, draw.choice((draw.choice(WORDS), draw.choice(words))))


def move_lines(raw: bytes, draw: Random) -> bytes:
    """A line is lost, written twice, or changes places with another."""
    lines = raw.splitlines(keepends=True)
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    way = draw.randrange(3)
    if way == 0:
        del lines[one]
    elif way == 1:
        lines.insert(one, lines[one])
    else:
        lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _replace(raw: bytes, draw: Random, pattern: re.Pattern[bytes], by: bytes) -> bytes:
    places = list(pattern.finditer(raw))
    place = draw.choice(places)
    return raw[: place.start()] + by + raw[place.end() :]


BYTES: tuple[Mutation, ...] = (
    flip_bits,
    flip_bits,
    delete_bytes,
    delete_bytes,
    insert_bytes,
    truncate,
    repeat_slice,
    overwrite_slice,
)
TEXT: tuple[Mutation, ...] = (replace_number, nudge_number, replace_word, move_lines)
