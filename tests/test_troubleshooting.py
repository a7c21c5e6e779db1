"""docs/troubleshooting.md and docs/traps.md quote messages as the sources have them."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
TRAPS = (ROOT / "docs" / "traps.md").read_text("utf-8")
HOLE = "…"
"""What stands for a placeholder of an f-string, on the page and in `templates`."""
LEAST = 25
"""A quotation has more fixed letters than this, or it could be of many messages."""


def quotations() -> list[str]:
    blocks = re.findall(r"^```text\n(.*?)^```", PAGE, re.M | re.S)
    return [line for block in blocks for line in block.splitlines()]


def trap_quotations() -> list[str]:
    """The parts in typographic quotation marks."""
    return re.findall("“([^”]+)”", TRAPS)


@cache
def templates() -> tuple[str, ...]:
    """Every text of the package; placeholders of f-strings are holes."""
    found = set()
    for file in sorted((ROOT / "slipstream").rglob("*.py")):
        text = file.read_text("utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.JoinedStr):
                found.add("".join(_text_of(part) for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return tuple(text for text in found if " " in text)


def _text_of(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else HOLE


def pieces(quoted: str) -> list[str]:
    return [piece for piece in quoted.split(HOLE) if piece.strip()]


def is_in(quoted: str, template: str) -> bool:
    """Whether the pieces are fixed text of the template, in this order."""
    start = 0
    for piece in pieces(quoted):
        at = template.find(piece, start)
        if at < 0:
            return False
        start = at + len(piece)
    return True


def is_said(quoted: str) -> bool:
    """In one text of the sources, or, where one sentence goes on with another, in two of them."""
    if any(is_in(quoted, template) for template in templates()):
        return True
    parts = pieces(quoted)
    return len(parts) > 1 and all(any(part in text for text in templates()) for part in parts)


@pytest.mark.parametrize("quoted", quotations() + trap_quotations())
def test_the_sources_have_every_message_that_is_quoted(quoted: str) -> None:
    assert sum(map(len, pieces(quoted))) > LEAST, "too few words to tell a message by"
    assert is_said(quoted)


def test_every_message_has_its_meaning_and_what_to_do() -> None:
    blocks = re.split(r"^```text\n.*?^```", PAGE, flags=re.M | re.S)[1:]
    assert 20 <= len(blocks) <= 45
    for block in blocks:
        assert "**Means:**" in block and "**Do:**" in block, block


def test_a_message_that_nobody_says_is_found() -> None:
    assert not is_said("the flux capacitor must be charged to 1.21 GW, got …")


def test_the_traps_have_the_numbers_of_their_record() -> None:
    lines = (ROOT / "benchmarks" / "traps.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines][1:]
    assert len(records) == 19
    for record in records:
        said = [
            f"{record[name]:.3g}"
            for name in ("pressure", "wall_shear", "as_told")
            if name in record
        ]
        said += [f"{record[name]:.4g}" for name in ("cd", "true_cd") if name in record]
        assert [number for number in said if number not in TRAPS] == [], record["trap"]
