"""A real browser without a window, and what tests ask of a page in it."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slipstream.reports.content import Scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# WebGL2 on the processor.
FLAGS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}}
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def absent() -> str:
    """Why there is no browser here; nothing where there is one."""
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed"
    return "" if _executable() else f"no browser: none of {', '.join(_NAMES)}, nor playwright's own"


def _executable() -> str | None:
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found:
        return found
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).is_file() else None


@contextmanager
def launched() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_executable(), args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, path: Path, *, script: str = "", **options: Any) -> Iterator[Page]:
    """The page in a context of its own; at the end nothing may have gone wrong or been loaded."""
    context = browser.new_context(**({"viewport": {"width": 900, "height": 700}} | options))
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url))
    if script:
        page.add_init_script(script)
    page.goto(path.as_uri())
    yield page
    context.close()
    loaded = [text for text in wrong if text != path.as_uri() and not text.startswith("data:")]
    assert not loaded, loaded


def settle(page: Page) -> None:
    """Until what was asked for is on the screen."""
    page.evaluate("() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")


def choose(page: Page, what: str, option: str) -> None:
    page.locator(f"[data-input={what}]").select_option(label=option)
    settle(page)


def middle(page: Page, panel: int = 0) -> tuple[float, float]:
    box = page.locator("canvas").nth(panel).bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


# Every panel, as numbers: copied, because a canvas that is read is slow to draw afterwards.
_READ = """() => [...document.querySelectorAll("canvas")].map((canvas) => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height);
  const pencil = copy.getContext("2d", { willReadFrequently: true });
  pencil.drawImage(canvas, 0, 0);
  const pixels = new Uint32Array(
    pencil.getImageData(0, 0, copy.width, copy.height).data.buffer);
  const solid = pixels.filter((pixel) => pixel >>> 24 === 255);
  const hash = pixels.reduce((sum, pixel) => (Math.imul(sum, 31) + pixel) | 0, 0);
  return { hash, colours: new Set(solid).size };
})"""


def colours(page: Page) -> list[int]:
    """How many colours each panel shows, where it is not background."""
    return [panel["colours"] for panel in page.evaluate(_READ)]


def pictures(page: Page) -> list[int]:
    """A hash of each panel."""
    return [panel["hash"] for panel in page.evaluate(_READ)]


def snapshot(page: Page) -> dict[str, Any]:
    return page.evaluate("slipstream.snapshot()")


def projected(page: Page, scene: Scene) -> tuple[NDArray[Any], NDArray[Any]]:
    """Where each point falls on the first panel, in pixels, and the vectors to the camera."""
    now = snapshot(page)
    low, high = (f(scene.coords.astype(np.float64), axis=0) for f in (np.min, np.max))
    points = (scene.coords - (low + high) / 2) / (np.linalg.norm(high - low) / 2)
    axes = np.array([now["right"], now["up"], now["back"]])
    seen = (points - now["target"]) @ axes.T
    depth = now["distance"] - seen[:, 2]
    size = page.locator("canvas").first.bounding_box()
    assert size
    zoom = size["height"] / 2 / np.tan(np.radians(15)) / depth
    pixels = np.stack(
        [size["width"] / 2 + seen[:, 0] * zoom, size["height"] / 2 - seen[:, 1] * zoom]
    )
    eye = np.array(now["target"]) + now["distance"] * axes[2]
    return pixels.T, eye - points


def readout(page: Page) -> dict[str, list[float]]:
    """What stands beside the pointer, as numbers by their names."""
    found = page.evaluate(
        """() => [...document.querySelectorAll(".readout div")].map(
          (pair) => [...pair.children].map((child) => child.textContent))"""
    )
    return {term: _numbers(text) for term, text in found}


def _numbers(text: str) -> list[float]:
    words = text.replace("\N{MINUS SIGN}", "-").replace("\N{NO-BREAK SPACE}", " ").split(" ")
    return [float(word.rstrip(",")) for word in words if any(c.isdigit() for c in word)]
