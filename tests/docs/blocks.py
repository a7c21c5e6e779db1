"""The fenced blocks of a page, and the comments before them that say when they run."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

FENCE = re.compile(r"^```(\w*) *(?:title=\"(?P<title>[^\"]+)\")?(?P<rest>.*)$")
COMMENT = re.compile(r"^<!-- (?P<text>.*) -->$")
NUMBERS = "numbers not compared"
NOTES = ("not run: ", "needs: ", NUMBERS)


@dataclass(frozen=True)
class Block:
    """One fenced block: `text` of a file where it has a title, else code or its output."""

    line: int
    language: str
    title: str | None
    text: str
    note: str = ""
    """Of the comment before it: why it is not run, what it needs, or `NUMBERS`."""

    @property
    def runs(self) -> bool:
        """False where it is never run, or where a program or module that it needs is absent."""
        if self.note.startswith("not run: "):
            return False
        needed = self.note.removeprefix("needs: ").replace(",", " ").split()
        return all(shutil.which(name) or find_spec(name) for name in needed)


def blocks_of(page: Path) -> Iterator[Block]:
    """In order. ValueError for a fence or a comment that this does not know."""
    block: Block | None = None
    note, body = "", []
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        where = f"{page.name}:{number}"
        if block is not None:
            if line.rstrip() == "```":
                yield replace(block, text="\n".join(body))
                block = None
            else:
                body.append(line)
        elif fence := FENCE.match(line):
            if fence["rest"].strip() or not fence[1]:
                raise ValueError(f"{where}: a fence must be ```LANGUAGE, got {line!r}")
            block = Block(number, fence[1], fence["title"], "", note)
            note, body = "", []
        elif comment := COMMENT.match(line):
            note = comment["text"]
            if not note.startswith(NOTES):
                raise ValueError(f"{where}: a comment must begin with one of {NOTES}, got {note!r}")
        elif line.strip():
            if note:
                raise ValueError(f"{where}: a block must follow <!-- {note} -->, got {line!r}")
    if block is not None:
        raise ValueError(f"{page.name}:{block.line}: a fence must be closed")


def commands(text: str) -> list[list[str]]:
    """The command lines of a shell block as words; comments are left out."""
    lines = text.replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [one for one in words if one]


def our_arguments(words: list[str]) -> list[str] | None:
    """What `slipstream` is called with, whatever starts it; None for another program."""
    if words[0] == "slipstream":
        return words[1:]
    for place in range(len(words) - 1):
        if words[place : place + 2] == ["-m", "slipstream"]:
            return words[place + 2 :]
    return None
