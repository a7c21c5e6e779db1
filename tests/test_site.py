"""The site: it builds without a warning, needs no network, and its first pages are easy to read."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MOST_WORDS = 60
CONCEPTS, TUTORIALS = sorted(DOCS.glob("concepts/*.md")), sorted(DOCS.glob("tutorials/*.md"))
EASY = [DOCS / "index.md", *CONCEPTS, *TUTORIALS]
"""Pages for newcomers."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The built site, and what was said while it was built."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install '.[docs]'")
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout + done.stderr


def test_it_builds_without_a_warning(site: tuple[Path, str]) -> None:
    folder, said = site
    assert not re.search("^(WARNING|ERROR)", said, re.M), said
    assert {"index.html", "traps.html", "404.html"} <= {file.name for file in folder.iterdir()}


class Resources(HTMLParser):
    """What a browser loads for a page, links to follow aside."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        places = [named.get(name) for name in ("src", "srcset", "poster", "data")]
        if tag == "link" and named.get("rel") != "canonical":
            places.append(named.get("href"))
        self.loaded += [place for place in places if place]


def test_it_loads_nothing_from_elsewhere(site: tuple[Path, str]) -> None:
    folder, _ = site
    elsewhere = re.compile(r"^(https?:)?//")
    for page in folder.rglob("*.html"):
        resources = Resources()
        resources.feed(page.read_text("utf-8"))
        assert resources.loaded, page
        assert [place for place in resources.loaded if elsewhere.match(place)] == [], page
    for sheet in folder.rglob("*.css"):
        loaded = re.findall(r"(?:url\(|@import\s)\s*[\"']?([^\"')]+)", sheet.read_text("utf-8"))
        assert [place for place in loaded if elsewhere.match(place)] == [], sheet


def test_no_link_leads_out_of_the_site_by_a_path(site: tuple[Path, str]) -> None:
    """`../benchmarks/...` is a file of the repository, and no page of the site."""
    folder, _ = site
    for page in {*folder.rglob("*.html")} - {folder / "404.html"}:  # which has links from the root
        for link in re.findall(r'<a [^>]*href="([^"#]+)', page.read_text("utf-8")):
            if not re.match(r"[a-z]+:", link):
                assert (page.parent / link).resolve().is_relative_to(folder.resolve()), (page, link)
                assert (page.parent / link).exists(), (page, link)


def test_every_page_is_in_the_navigation() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    listed = list(pages_of(nav))
    there = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert sorted(listed) == sorted(there)


def pages_of(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [page for entry in entries for page in pages_of(entry)]


def paragraphs(text: str) -> list[str]:
    """Paragraphs and items of lists, without tables, headings and code."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", text)
    return [block for block in blocks if not re.match(r"\s*(\||#|!\[)", block)]


@pytest.mark.parametrize("page", EASY, ids=lambda page: page.name)
def test_paragraphs_for_newcomers_are_short(page: Path) -> None:
    words = {len(block.split()): block for block in paragraphs(page.read_text("utf-8"))}
    assert max(words) <= MOST_WORDS, words[max(words)]


def links() -> Any:
    found = importlib.util.spec_from_file_location("links", DOCS / "links.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_links_out_of_the_pages_lead_to_the_repository_or_become_text() -> None:
    turned = links().turned
    text = "[all rows](../benchmarks/RESULTS.md#data), [plan](plan.md), [here](#below)"
    assert turned(text, "data.md", None) == (
        "all rows (`benchmarks/RESULTS.md`), [plan](plan.md), [here](#below)"
    )
    assert turned(text, "data.md", "https://host/us/slipstream/") == (
        "[all rows](https://host/us/slipstream/blob/main/benchmarks/RESULTS.md#data),"
        " [plan](plan.md), [here](#below)"
    )
    deeper = "[flare.py](../../examples/flare.py) and [method](../method.md)"
    assert turned(deeper, "concepts/x.md", None) == "flare.py and [method](../method.md)"
