"""Tables of many words and of many columns, on a phone and on a desk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slipstream.models.variants import VARIANTS
from slipstream.reports.content import Cell, Section, Table
from slipstream.reports.page.html import write_page
from slipstream.reports.study.cells import text_cell
from slipstream.reports.study.claims_table import COLUMNS, SOURCES

from .. import made_content as made
from ..browser import absent, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.skipif(bool(absent()), reason=absent() or "a browser is there")
CLAIM = (
    text_cell("Tying and attention have nothing to do with each other"),
    text_cell("potential-flow-surface, pressure over wall_shear, 16,000 steps"),
    text_cell("does not hold here"),
    text_cell("different by 1.14 (assumed)"),
    Cell(-0.000436, kind="ratio", interval=(-0.00123, 0.00345)),
    text_cell("0.9895 to 1.0105: below"),
    text_cell("> 1,000"),
)
SOURCE = (
    *CLAIM[:2],
    text_cell(
        "largest relative standard deviation of the baseline's test errors over draws of points"
    ),
    text_cell("1, 1, 3 and 3 seeds; a single seed taken to scatter like baseline's (0.13 %)"),
    Cell(0.797, kind="ratio", interval=(0.701, 0.822)),
)
NUMBERS = (text_cell("builtin-taylor-green"), *[Cell(0.0535, 0.002)] * len(VARIANTS))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tables = (
        Table("claims", "Claims", "c", COLUMNS, (CLAIM, CLAIM)),
        Table("main", "Errors", "c", ("experiment", *VARIANTS), (NUMBERS,)),
        Table("numbers", "Numbers", "c", SOURCES, (SOURCE, SOURCE)),
        Table("long", "Long", "c", ("name", 'a "b" <c>'), ((text_cell("n" * 60), Cell(0.5)),)),
    )
    path = tmp_path_factory.mktemp("tables") / "report.html"
    write_page(replace(made.report(), sections=(Section("Claims", items=tables),)), path)
    return path


def ends(page: Page, table: int) -> list[float]:
    """Where each column ends, from the left of what is seen of the table, over its width."""
    return (
        page.locator(".block .scroll")
        .nth(table)
        .evaluate(
            """(box) => [...box.querySelectorAll("thead th")].map((head) =>
          (head.getBoundingClientRect().right - box.getBoundingClientRect().left)
          / box.getBoundingClientRect().width)"""
        )
    )


# Cells of a table that reach beyond what is seen of it, or of the page; and lines in all.
_CUT = """() => [...document.querySelectorAll(".block:has(table)")].map((block) => {
  const box = block.querySelector(".scroll");
  const [seen, cells] = [box.getBoundingClientRect(), [...block.querySelectorAll("tbody tr > *")]];
  const words = (cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return range.getBoundingClientRect();
  };
  const right = Math.min(seen.right, document.documentElement.clientWidth);
  return {
    cut: cells.filter((cell) => [cell.getBoundingClientRect(), words(cell)].some(
      (place) => place.left < seen.left || place.right > right)).length,
    cells: cells.length,
    scrolls: getComputedStyle(box).overflowX,
    hidden: box.scrollWidth - box.clientWidth,
    names: cells.filter((cell) => cell.tagName === "TD").map(
      (cell) => getComputedStyle(cell, "::before").content),
  };
})"""


def test_a_phone_cuts_no_table(browser: Browser, path: Path) -> None:
    """Each cell is a line with the name of its column: also names of 60 letters without a gap."""
    with opened(browser, path, viewport={"width": 390, "height": 844}) as page:
        tables = page.evaluate(_CUT)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= page.evaluate("document.documentElement.clientWidth")
        assert [table["cells"] for table in tables] == [14, 1 + len(VARIANTS), 10, 2]
        for table in tables:
            assert (table["cut"], table["hidden"], table["scrolls"]) == (0, 0, "auto")
        assert tables[0]["names"][:3] == [f'"{name}"' for name in COLUMNS[1:4]]
        assert tables[3]["names"] == ['"a \\"b\\" <c>"']
        page.set_viewport_size({"width": 900, "height": 700})
        tables = page.evaluate(_CUT)
        assert tables[1]["hidden"] > 100 and tables[1]["scrolls"] == "auto"
        assert set(tables[0]["names"]) == {"none"}
        assert page.evaluate("document.documentElement.scrollWidth") <= 900


@pytest.mark.parametrize("width", [1200, 1280, 1920])
def test_a_desk_shows_all_of_the_claims(browser: Browser, path: Path, width: int) -> None:
    with opened(browser, path, viewport={"width": width, "height": 900}) as page:
        assert ends(page, 0)[-1] <= 1 and ends(page, 2)[-1] <= 1


def test_long_names_of_variants_do_not_widen_their_columns(browser: Browser, path: Path) -> None:
    with opened(browser, path, viewport={"width": 1280, "height": 900}) as page:
        widths = (
            page.locator(".block table")
            .nth(1)
            .evaluate("(t) => [...t.querySelectorAll('thead th')].map((head) => head.offsetWidth)")
        )
        assert max(widths[1:]) <= 1.2 * min(widths[1:])
