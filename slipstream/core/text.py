"""Text from files, such as names of arrays, as it may be shown on a terminal."""

from __future__ import annotations

import unicodedata

_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories of control, format, surrogate, private, unassigned and line-end letters."""


def printable(text: str) -> str:
    r"""The text with every letter that a terminal would obey, or not show, as an escape.

    The name "p\x1b[31m" becomes the letters `p`, `\x1b` written out, and `[31m`: printed as it is,
    it would turn the terminal red. Line ends and marks that reverse the direction of writing become
    escapes, too. Letters of all languages and all kinds of spaces stay.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if unicodedata.category(letter) not in _UNSEEN else _escape(letter)
        for letter in text
    )


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
