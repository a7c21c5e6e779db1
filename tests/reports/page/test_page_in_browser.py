"""The page as a reader has it: Chromium opens the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slipstream.reports.page.html import write_page

from .. import made_content as made
from ..browser import PHONE, absent, middle, opened, settle

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.skipif(bool(absent()), reason=absent() or "a browser is there")
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
STORED = "localStorage.getItem('slipstream-theme')"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page without samples."""
    path = tmp_path_factory.mktemp("plain") / "report.html"
    write_page(made.report(), path)
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_the_opening_is_there_and_nothing_is_cut(
    browser: Browser, tmp_path: Path, scheme: Any
) -> None:
    report = replace(made.report(), opening=made.opening(), notice=40 * "A long notice. ")
    write_page(report, tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html", color_scheme=scheme, **PHONE) as page:
        page.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true))")
        widths = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        assert page.evaluate(widths) == [390, 390]
        images = page.locator("#opening img")
        assert images.count() == 3
        for k in range(3):
            assert images.nth(k).evaluate("image => image.complete && image.naturalWidth") == 200
            box = images.nth(k).bounding_box()
            assert box and box["x"] >= 0 and 250 < box["width"] and box["x"] + box["width"] <= 390
        cut = """[...document.querySelectorAll("main *")].filter((e) => !e.closest(".scroll")
          && e.getBoundingClientRect().right > 390.5).map((e) => e.outerHTML.slice(0, 80))"""
        assert page.evaluate(cut) == []
        claims, first = (page.locator(at).bounding_box() for at in (".conclusion", "#opening"))
        assert claims and first and first["y"] + first["height"] <= claims["y"]


def test_the_theme_is_changed_and_remembered(browser: Browser, plain: Path) -> None:
    """Storing and finding it again, each by itself.

    What one page stored is not always there when the next is loaded: the browser hands it from
    process to process, and under load has been seen to lose it.
    """
    with opened(browser, plain, color_scheme="light") as page:
        light = page.evaluate(BACKGROUND)
        assert page.evaluate(STORED) is None
        page.locator("#theme").click()
        dark = page.evaluate(BACKGROUND)
        assert dark != light
        assert page.evaluate(STORED) == "dark"
        page.locator("#theme").click()
        assert page.evaluate(BACKGROUND) == light
        assert page.evaluate(STORED) == "light"
    with opened(browser, plain, color_scheme="dark") as page:
        assert page.evaluate(BACKGROUND) == dark


def test_a_stored_theme_wins_over_the_system(browser: Browser, plain: Path) -> None:
    for stored, system in (("light", "dark"), ("dark", "light")):
        with opened(browser, plain, color_scheme=stored) as page:
            wanted = page.evaluate(BACKGROUND)
        store = f"localStorage.setItem('slipstream-theme', '{stored}')"
        with opened(browser, plain, script=store, color_scheme=system) as page:
            assert page.evaluate(BACKGROUND) == wanted


def test_without_storage_the_theme_still_changes(browser: Browser, plain: Path) -> None:
    refuse = "Object.defineProperty(window, 'localStorage', {get() { throw new Error('no'); }})"
    with opened(browser, plain, script=refuse, color_scheme="light") as page:
        before = page.evaluate(BACKGROUND)
        page.locator("#theme").click()
        assert page.evaluate(BACKGROUND) != before


def test_contents_are_folded_on_a_phone(browser: Browser, plain: Path) -> None:
    with opened(browser, plain, **PHONE) as page:
        assert page.locator(".contents a").first.is_hidden()
        page.locator(".contents summary").click()
        page.locator(".contents a").last.click()
        assert page.locator("#definitions").is_visible() and page.url.endswith("#definitions")


def test_hostile_names_do_nothing(browser: Browser, tmp_path: Path) -> None:
    write_page(made.hostile(), tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html") as page:
        page.locator("canvas").first.scroll_into_view_if_needed()
        settle(page)
        assert page.evaluate("window.hacked === undefined")
        assert page.locator("[data-input=variant]").input_value() == made.HOSTILE
        page.mouse.move(*middle(page))
        settle(page)
        assert made.HOSTILE in page.locator(".readout").inner_text()
        assert page.locator("main b").count() == 0
