"""Text from files, such as names of arrays and fields: on a terminal, and as names of files."""

from __future__ import annotations

import hashlib
import string
import unicodedata

_IN_FILE_NAMES = frozenset(string.ascii_letters + string.digits + "._-")
_LONGEST = 70
"""Letters of a part of a file name; systems allow 255 for all parts and the ending."""
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


def printable_lines(text: str) -> str:
    """The same for several lines."""
    return "\n".join(map(printable, text.split("\n")))


def file_name(text: str) -> str:
    """The text as a part of a file name, another one for every other text.

    "U/Uinf" becomes "U=2FUinf": letters, digits and . _ - stay, each byte of all else in UTF-8 is
    written as =XX, a dot at the beginning too, which would hide the file. A text of more than 70
    letters so written is cut and gets a hash: "aaa...+9f86d081884c7d65". So written, names mean
    nothing to shells, LaTeX and browsers.
    """
    encoded = "".join(
        letter if letter in _IN_FILE_NAMES and (at or letter != ".") else _as_bytes(letter)
        for at, letter in enumerate(text)
    )
    if len(encoded) <= _LONGEST:
        return encoded or "="
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{encoded[: _LONGEST - 17]}+{digest}"


def _as_bytes(letter: str) -> str:
    return "".join(f"={byte:02X}" for byte in letter.encode("utf-8", "surrogatepass"))


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
