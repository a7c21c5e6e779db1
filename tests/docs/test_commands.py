"""Every command that README.md and docs/ show exists, with the options and values shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from .command_line import problem

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *ROOT.glob("benchmarks/*.md")]
FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", re.M | re.S)
SHELLS = ("", "sh", "bash", "console")
STARTS = (["slipstream"], ["./run"], ["python", "-m", "slipstream"])
NOT_OURS = {"test"}
"""Of `./run`."""


def commands(page: str) -> Iterator[list[str]]:
    """The words after `slipstream` in the shell blocks of a page; comments are left out."""
    for language, block in FENCE.findall(page):
        if language not in SHELLS:
            continue
        for line in block.replace("\\\n", " ").splitlines():
            words = words_of(line.strip().removeprefix("$ "))
            for start in STARTS:
                if words[: len(start)] == start and words[1:2] not in [[own] for own in NOT_OURS]:
                    yield words[len(start) :]


def words_of(line: str) -> list[str]:
    """As a shell would split it, without what comes before the program and after its command."""
    if "slipstream" not in line and "./run" not in line:
        return []
    words = shlex.split(line, comments=True)
    ends = [words.index(own) for own in ("&", "&&", "|", "||", ">", "2>", ";") if own in words]
    words = words[: min(ends, default=len(words))]
    while words and re.fullmatch(r"\w+=.*", words[0]):
        words = words[1:]  # variables of the environment
    if "torchrun" in words and "-m" in words:
        words = ["python", *words[words.index("-m") :]]
    return words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_shown_commands_exist_with_their_options(page: Path) -> None:
    found = [(problem(words), " ".join(words)) for words in commands(page.read_text("utf-8"))]
    assert [f"{command}: {reason}" for reason, command in found if reason] == []


def test_there_are_many() -> None:
    assert sum(len(list(commands(page.read_text("utf-8")))) for page in PAGES) > 100


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("slipstream no-such", "No such command"),
        ("slipstream data no-such", "No such command"),
        ("./run train poisson --out a --no-such 3", "--no-such"),
        ("slipstream train poisson --out", "--out"),
        ("torchrun --nproc-per-node 4 -m slipstream train own --no-such", "--no-such"),
        ("A=b slipstream calibrate --split test", "Missing"),
        ("slipstream predict runs/a car.stl --out p --area wide | tail", "--area"),
        ("slipstream variants one", "unexpected"),
    ],
)
def test_what_is_not_there_is_found(line: str, reason: str) -> None:
    (words,) = commands(f"```sh\n{line}   # a comment\n```")
    assert reason in str(problem(words))
