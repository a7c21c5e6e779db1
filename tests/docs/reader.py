"""Somebody who types what a tutorial says, in an empty folder."""

from __future__ import annotations

import ast
import contextlib
import glob
import io
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .blocks import NUMBERS, Block, blocks_of, commands, our_arguments
from .command_line import problem
from .forked import run_ranks
from .outputs import is_shown

Slipstream = Callable[..., tuple[int, str, str]]
"""Calls `slipstream` with arguments in this process: exit code, output, errors."""


class Reader:
    """Runs the blocks of one page in the current folder. AssertionError names page and line."""

    def __init__(self, page: Path, slipstream: Slipstream) -> None:
        self.page, self.slipstream = page, slipstream
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed: str | None = None

    def read(self) -> None:
        for block in blocks_of(self.page):
            self.take(block)

    def take(self, block: Block) -> None:
        where = f"{self.page.name}:{block.line}"
        if block.title is not None:
            Path(block.title).write_text(block.text + "\n", "utf-8")
            self.printed = None
        elif block.language == "sh":
            self.printed = "" if block.runs else None
            for words in commands(block.text):
                check_command(words, where)
                if block.runs:
                    self.printed = (self.printed or "") + self.run(words, where)
        elif block.language == "python":
            tree = compile(block.text, where, "exec", ast.PyCF_ONLY_AST)
            self.printed = self.execute(tree, where) if block.runs else None
        elif block.language == "text" and self.printed is not None:
            missing = is_shown(block.text, self.printed, numbers=block.note != NUMBERS)
            assert missing is None, f"{where}: {missing!r} was not printed, but\n{self.printed}"

    def run(self, words: list[str], where: str) -> str:
        words = [name for word in words for name in sorted(glob.glob(word)) or [word]]
        if words[0] == "slipstream":
            code, *said = self.slipstream(*words[1:])
        elif words[0] == "torchrun":
            code, *said = run_ranks(words)
        else:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            code, *said = done.returncode, done.stdout, done.stderr
        text = "".join(said)
        assert code == 0, f"{where}: {' '.join(words)} ended with {code}:\n{text}"
        return text

    def execute(self, tree: ast.Module, where: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(tree, where, "exec"), self.names)
        return printed.getvalue()


def check_command(words: list[str], where: str) -> None:
    """A command of ours must exist, with the options and arguments that it is given."""
    arguments = our_arguments(words)
    reason = None if arguments is None else problem(arguments)
    assert reason is None, f"{where}: {' '.join(words)}: {reason}"
