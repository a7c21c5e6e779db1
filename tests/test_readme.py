"""README.md: short paragraphs, numbers that are measured; docs/test_readme_typed.py types it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
MOST_WORDS = 60
MOST_BYTES = 300_000
MEASURED = re.compile(r"\d+\.\d+ \(\d+\.\d+\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def paragraphs(page: str) -> Iterator[str]:
    """Of prose: no code, table or heading; every item of a list by itself."""
    for part in re.split(r"\n\s*\n|\n(?=[*-] )", FENCE.sub("", page)):
        part = part.strip()
        if part and not part.startswith(("|", "#", "![")):
            yield part


def words(paragraph: str) -> int:
    """As they are read: a link is its text."""
    return len(re.sub(r"\]\([^)]*\)", "]", paragraph).split())


def tables(page: str) -> list[list[list[str]]]:
    """Each table as rows of cells, without its heading."""
    found = []
    for lines in re.findall(r"(?:^\|.*\|\n)+", page, re.M):
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()
        ]
        found.append(rows[2:])
    return found


def test_paragraphs_are_short() -> None:
    assert len(list(paragraphs(README))) > 20
    assert [own for own in paragraphs(README) if words(own) > MOST_WORDS] == []


def test_it_begins_with_a_picture_that_says_what_is_seen() -> None:
    image = re.match(r"# Slipstream\n\n!\[([^\]]+)\]\(([^)]+\.png)\)", README)
    assert image is not None
    assert len(image[1].split()) > 10
    assert (ROOT / image[2]).stat().st_size < MOST_BYTES


def test_measured_numbers_are_those_of_the_records() -> None:
    """The tables of claims and of speed have nothing that the full tables do not have."""
    claims, gpu, cpu = tables(README)
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")
    rows = [line for line in results.splitlines() if line.startswith("| `")]
    for table, most in ((gpu, 6), (cpu, 4)):
        assert 0 < len(table) <= most
        for _, *cells in table:
            numbers = [own for cell in cells for own in MEASURED.findall(cell)]
            *_, ratios = cells
            expected = [*numbers, *filter(None, ratios.split(", ")[:1])]
            assert any(all(f"| {own}" in row for own in expected) for row in rows), cells
    study = (ROOT / "benchmarks" / "reproduction" / "README.md").read_text("utf-8")
    of_cpu = study.partition("## At the size of a CPU")[2]
    said = [cell for _, *cells in claims for cell in cells if "[" in cell]
    assert len(said) == 11 and [cell for cell in said if cell not in of_cpu] == []


def test_every_page_of_the_documentation_can_be_reached() -> None:
    """By links, from page to page; a site's first page needs none."""
    reached: set[Path] = set()
    waiting = {ROOT / "README.md"}
    while waiting:
        page = waiting.pop()
        reached.add(page)
        links = re.findall(r"\]\(((?!https?:)[^)#]+\.md)", page.read_text("utf-8"))
        targets = {(page.parent / link).resolve() for link in links}
        waiting |= {own for own in targets if own.exists()} - reached
    pages = {page for page in ROOT.glob("docs/*.md") if page.name != "index.md"}
    assert sorted(page.name for page in pages - reached) == []
