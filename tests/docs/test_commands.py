"""Every command of ours that a page shows exists, with the options that it is given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .blocks import commands
from .reader import check_command

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = re.compile(r"^```(?:sh)?\n(.*?)^```", re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_commands_of_a_page_exist(page: Path) -> None:
    """A command with `...` for words is left out, and so is a block that shows no command."""
    text = page.read_text("utf-8")
    for block in SHELL.finditer(text):
        if not re.search(r"^(\./run|slipstream|torchrun|srun) ", block[1], re.M):
            continue
        where = f"{page.name}:{text[: block.start()].count(chr(10)) + 1}"
        for words in commands(block[1]):
            if "..." not in words:
                check_command(words, where)
