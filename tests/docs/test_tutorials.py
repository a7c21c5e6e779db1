"""Every tutorial does what it says: a reader who types it sees what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slipstream.interop.export_weights import write_exported
from slipstream.interop.physicsnemo import CONSTANTS

from ..conftest import Command
from ..interop.test_import import random_model
from .blocks import blocks_of
from .outputs import is_shown
from .reader import Reader, check_command

pytest.importorskip("pyvista")
FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
PAGES = sorted(FOLDER.glob("*.md"))
EACH = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@EACH
@pytest.mark.usefixtures("empty_folder", "small_pictures")
def test_a_reader_who_types_it_sees_what_it_shows(page: Path, command: Command) -> None:
    if "run.mdlus" in page.read_text("utf-8"):  # what a reader has from PhysicsNeMo
        write_exported(random_model(CONSTANTS).float(), "physicsnemo", Path("run.mdlus"))
    Reader(page, command).read()


def paragraphs(page: Path) -> list[str]:
    """Without blocks, tables, headings and comments; an item of a list is one."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    parts = re.split(r"\n\s*\n|\n(?=\* |\d+\. )", text)
    return [part for part in parts if part.strip() and not part.strip().startswith(("|", "#", "<"))]


@EACH
def test_paragraphs_are_short(page: Path) -> None:
    words = {part[:40]: len(part.split()) for part in paragraphs(page)}
    assert {start: count for start, count in words.items() if count > 60} == {}


@EACH
def test_a_reader_is_told_where_to_save_a_file(page: Path) -> None:
    """Its name is in the text too: not everywhere are titles of blocks shown."""
    text = "".join(paragraphs(page))
    assert [b.title for b in blocks_of(page) if b.title and f"`{b.title}`" not in text] == []


@EACH
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(((?!https?:)[^)#]+)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("error 0.50 after 20 steps", "| error 0.45\n after 20 steps |"),
        ("took 3 s, error 0.1", "took 99 s, error 0.11"),
        ("first ... last", "zero first second third last"),
        ("differs by 3e-16", "differs by 8e-15"),
    ],
)
def test_what_counts_as_the_same_output(shown: str, printed: str) -> None:
    assert is_shown(shown, printed) is None


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("error 0.50", "error 0.30"),
        ("20 steps", "21 steps"),
        ("last ... first", "first second last"),
        ("error 0.5 m", "error 0.5 km"),
        ("Cd 0.5", "Cd -0.5"),
    ],
)
def test_what_does_not(shown: str, printed: str) -> None:
    assert is_shown(shown, printed) is not None


@pytest.mark.parametrize(
    "line",
    ["slipstream trane own", "slipstream train own --oot a", "slipstream data make",
     "torchrun --nproc-per-node 2 -m slipstream train own --seed one"],
)  # fmt: skip
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    with pytest.raises(AssertionError, match="page.md:3: "):
        check_command(line.split(), "page.md:3")


def test_a_fence_or_comment_that_is_not_known_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for text in ("```\nno language\n```", "<!-- skip -->", "```sh\nopen",
                 "<!-- needs: simpleFoam -->\ntext"):  # fmt: skip
        page.write_text(text)
        with pytest.raises(ValueError, match="page.md:"):
            list(blocks_of(page))
