"""Numbers in the text of a mesh file, each checked: VTK stops at `1,5`, or crashes, or reads on."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 20
_UNDERSCORE = ord("_")


def words_of(text: bytes) -> list[bytes]:
    """The words of a text; ValueError where it holds a zero byte, which numpy would pass over."""
    if b"\0" in text:
        raise ValueError("a zero byte in text")
    return text.split()


def numbers(words: Sequence[bytes] | NDArray[Any], dtype: str) -> NDArray[Any]:
    """The numbers that these words stand for; ValueError for a word that is none of this dtype.

    `300` is no uint8, `1.5` and `1.0` are no int32, `1e300` is no float32, `1,5`, `****` and `1_0`
    are no numbers.
    """
    if not len(words):
        return np.empty(0, dtype)
    try:
        return _converted(np.asarray(words), dtype)
    except (ValueError, OverflowError):
        pass
    for word in words:  # to name the first that is wrong
        try:
            _converted(np.array([word]), dtype)
        except (ValueError, OverflowError):
            text = word[:40].decode("latin-1")
            kind = np.dtype(dtype).name
            raise ValueError(f"{text!r} where a number of {kind} must be") from None
    raise ValueError(f"numbers that are not of {dtype}")


def _converted(words: NDArray[Any], dtype: str) -> NDArray[Any]:
    if (words.view(np.uint8) == _UNDERSCORE).any():  # Python takes 1_0 for 10
        raise ValueError("_ in a number")
    if np.dtype(dtype).kind != "f":
        return words.astype(dtype)
    values = words.astype(np.float64)
    if (np.isfinite(values) & (np.abs(values) > np.finfo(dtype).max)).any():
        raise OverflowError("more than the largest number")
    return values.astype(dtype)


def numbers_between(
    file: io.BufferedReader, begin: int, end: int, dtype: str
) -> Iterator[NDArray[Any]]:
    """All numbers of a text between two bytes of a file, some at a time."""
    file.seek(begin)
    part = b""
    while (left := end - file.tell()) > 0 and (text := file.read(min(_BLOCK, left))):
        text = part + text
        cut = len(text)
        if left > _BLOCK:  # the last word may go on
            cut = max(text.rfind(blank) for blank in (b" ", b"\n", b"\t")) + 1
        part = text[cut:]
        yield numbers(words_of(text[:cut]), dtype)
    yield numbers(words_of(part), dtype)


def next_numbers(file: io.BufferedReader, count: int, dtype: str) -> Iterator[NDArray[Any]]:
    """The next `count` numbers of a text, some at a time; the file then stands after the last one.

    EOFError if the file ends before.
    """
    while count > 0:
        begin = file.tell()
        some = min(_BLOCK, 32 * count)  # about as long as the values, as most arrays are small
        text = file.read(some) + file.readline()
        if not text:
            raise EOFError(f"an end where {count} more values must follow")
        words = text.split()
        if len(words) > count:
            final = next(islice(re.finditer(rb"\S+", text), count - 1, None))
            text = text[: final.end()]
            file.seek(begin + len(text))
            words = words[:count]
        yield numbers(words_of(text), dtype)
        count -= len(words)
