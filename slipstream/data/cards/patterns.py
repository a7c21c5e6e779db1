"""Patterns of a sample's files: paths below a folder in which `{id}` stands for the sample's id.

    run_{id}/boundary_{id}.vtp      PressureVTK/*/{id}.vtk      cases/{id}/  (a folder: OpenFOAM)

`{id}` and `*` stand for text without a slash, `?` for one letter, `**` for any folders, also those
behind links. Hidden files never match.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from slipstream.core.folders import walk

ID = "{id}"

_ODD = re.compile(r"[^A-Za-z0-9._+=@-]")
_MEANING = re.compile(r"[*?{}\\]")


def sample_id(text: str) -> str:
    """The text as a sample's id, which must be a file name on any system: other letters become `_`.

    If some are not ASCII, a hash of the text keeps it apart from others with the same result.
    """
    text = unicodedata.normalize("NFC", text.strip())
    cleaned = _ODD.sub("_", text)
    if not text.isascii():
        cleaned += f"-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:10]}"
    return cleaned if re.match(r"[A-Za-z0-9_]", cleaned) else f"_{cleaned}"


def as_pattern(path: str) -> str:
    """A pattern that matches the path: letters with a meaning in patterns become `?`."""
    plain = _MEANING.sub("?", path)
    if plain.isprintable():
        return plain
    return "".join(letter if letter.isprintable() else "?" for letter in plain)


def pattern_problem(pattern: str) -> str | None:
    """What a pattern must be and is not, for an error; None where it is good."""
    path = PurePosixPath(pattern)
    if path.is_absolute() or ".." in path.parts or "\\" in pattern:
        return "be a path below the raw folder with slashes between its parts"
    if re.search(r"[{}]", pattern.replace(ID, "")):
        return f"have no other braces than {ID}"
    if any("**" in part.replace(ID, "*") for part in path.parts if part != "**"):
        return f"have ** as a whole part of the path only, and text between {ID} and {ID} or *"
    if pattern.startswith("./") or "//" in pattern:
        return "be a path without './' and '//'"
    return None


def find_files(raw: Path, pattern: str) -> dict[str, Path]:
    """The file, or folder, of every id, sorted by id; ValueError where an id has more than one.

    Without `{id}` the one file belongs to every sample and has the id "".
    """
    paths: dict[str, Path] = {}
    expression = as_expression(pattern)
    for path in sorted(set(_candidates(raw, pattern))):
        name = path.relative_to(raw).as_posix() + ("/" if pattern.endswith("/") else "")
        match = expression.fullmatch(name)
        if not match or any(part.startswith(".") for part in PurePosixPath(name).parts):
            continue
        sample = sample_id(match["id"]) if ID in pattern else ""
        if sample in paths:
            whose = f"the id {sample!r}" if sample else "all samples"
            both = sorted((paths[sample].relative_to(raw).as_posix(), name))
            raise ValueError(
                f"{raw}: the pattern {pattern!r} must match one file for {whose}, got {both[0]} and"
                f" {both[1]}"
            )
        paths[sample] = path
    return dict(sorted(paths.items()))


def _candidates(folder: Path, pattern: str) -> Iterator[Path]:
    """Paths that match the pattern with any text for each `{id}`."""
    first, stars, rest = re.sub(r"(\*\*/)+", "**/", pattern).partition("**/")
    plain = re.sub(r"[\[\]]", "[\\g<0>]", first).replace(ID, "*")
    starts = folder.glob(plain) if plain else [folder]
    if not stars:
        yield from starts
        return
    for start in starts:
        for here, folders, _ in walk(start):
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield from _candidates(here, rest)


def as_expression(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression, in which every further `{id}` is the same text."""
    parts = re.split(r"(\{id\}|\*\*/|\*|\?)", pattern)
    text = {"{id}": r"(?P<id>[^/]+)", "**/": r"(?:[^/]+/)*", "*": "[^/]*", "?": "[^/]"}
    expression = ""
    for part in parts:
        expression += text[part] if part in text else re.escape(part)
        if part == ID:
            text[ID] = "(?P=id)"
    return re.compile(expression)
