"""The view of samples in a page, as a reader has it: Chromium opens the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from slipstream.reports.page.html import write_page

from .. import made_content as made
from ..browser import (
    PHONE,
    absent,
    choose,
    colours,
    middle,
    opened,
    pictures,
    projected,
    readout,
    settle,
    snapshot,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.skipif(bool(absent()), reason=absent() or "a browser is there")
SURFACE, VOLUME, MESH = made.surface(), made.volume(), made.mesh()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(made.report((MESH, SURFACE, VOLUME)), path)  # a mesh is drawn fastest
    return path


@pytest.fixture(scope="module")
def shared(browser: Browser, path: Path) -> Iterator[Page]:
    """One page for many tests: the first picture takes a processor a second."""
    with opened(browser, path, color_scheme="light") as page:
        page.locator("#viewer").scroll_into_view_if_needed()
        yield page


@pytest.fixture
def page(shared: Page) -> Page:
    """As it was when it was opened."""
    shared.mouse.move(1, 1)
    shared.evaluate(
        """for (const what of ["sample", "field", "variant"]) {
          const select = document.querySelector(`[data-input=${what}]`);
          select.selectedIndex = 0;
          select.dispatchEvent(new Event("change"));
        }"""
    )
    settle(shared)
    return shared


def test_every_panel_of_every_kind_of_scene_is_drawn(page: Page) -> None:
    seen = set()
    for scene in (SURFACE, VOLUME, MESH):
        choose(page, "sample", scene.name)
        assert min(colours(page)) > 50
        seen |= set(pictures(page))
    assert len(seen) == 9
    labels = page.evaluate("[...document.querySelectorAll('canvas')].map((c) => c.ariaLabel)")
    assert [label.split(":")[0] for label in labels] == [
        "Truth",
        "Prediction of baseline",
        "Absolute error of baseline",
    ]


def test_field_and_variant_change_pictures_and_figures(page: Page) -> None:
    choose(page, "sample", SURFACE.name)
    relative = page.locator(".relative output")
    first = pictures(page)

    def check_relative(field: int, variant: str) -> None:
        wanted = SURFACE.fields[field].relative[variant]
        assert float(relative.text_content() or "") == pytest.approx(wanted, rel=5e-3)

    check_relative(0, "baseline")
    bars = page.locator(".colour-bar")
    ticks = bars.nth(2).locator(".ticks").inner_html()
    choose(page, "variant", "mlp-only")
    second = pictures(page)
    assert first[0] == second[0] and first[1] != second[1] and first[2] != second[2]
    check_relative(0, "mlp-only")
    assert bars.nth(2).locator(".ticks").inner_html() == ticks
    choose(page, "field", "wall shear stress")
    assert all(a != b for a, b in zip(second, pictures(page), strict=True))
    check_relative(1, "mlp-only")
    assert "wall shear stress [Pa]" in bars.nth(0).inner_text()
    choose(page, "sample", VOLUME.name)
    assert page.locator("[data-input=variant]").input_value() == "mlp-only"


def check_readout(page: Page, scene: Any, variant: str, index: int) -> None:
    """All numbers are those of the point, to within what is shown of them."""
    shown = readout(page)
    field = scene.fields[0]
    assert snapshot(page)["probed"] == index
    assert shown["x, y, z"] == pytest.approx(scene.coords[index], abs=1e-3)
    truth, prediction = field.truth[index], field.predictions[variant][index]
    near = float(np.ptp(field.truth)) * 1e-3
    assert shown["Truth"] == [pytest.approx(truth, abs=near)]
    assert shown["Prediction"] == [pytest.approx(prediction, abs=near)]
    assert shown["Absolute error"] == [pytest.approx(field.errors[variant][index], abs=near)]


def test_the_pointer_reads_off_the_nearest_visible_point(page: Page) -> None:
    choose(page, "sample", SURFACE.name)
    choose(page, "variant", "slice-once")
    box = page.locator("canvas").first.bounding_box()
    assert box and SURFACE.normals is not None
    where, to_camera = projected(page, SURFACE)
    front = (SURFACE.normals * to_camera).sum(axis=1) > 0
    before = snapshot(page)["drawn"]
    for at in ((0.5, 0.5), (0.3, 0.6), (0.7, 0.4)):
        pointer = np.array([box["width"] * at[0], box["height"] * at[1]])
        page.mouse.move(box["x"] + pointer[0], box["y"] + pointer[1])
        settle(page)
        far = np.where(front, np.hypot(*(where - pointer).T), np.inf)
        check_readout(page, SURFACE, "slice-once", int(far.argmin()))
    assert page.locator(".marker:visible").count() == 3
    assert snapshot(page)["drawn"] == before
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    settle(page)
    assert page.locator(".marker:visible, .readout:visible").count() == 0


def test_points_of_a_mesh_are_read_off_too(page: Page) -> None:
    box = page.locator("canvas").first.bounding_box()
    assert box
    where, _ = projected(page, MESH)
    index = 12 * 40 + 9
    page.mouse.move(box["x"] + where[index, 0] + 1, box["y"] + where[index, 1])
    settle(page)
    check_readout(page, MESH, "baseline", index)
    choose(page, "variant", "mlp-only")
    index = 1 * 40 + 20
    page.mouse.move(box["x"] + where[index, 0] + 1, box["y"] + where[index, 1])
    settle(page)
    assert "not finite" in page.locator(".readout").inner_text()


def test_the_section_shows_the_inside(page: Page) -> None:
    assert page.locator(".section").is_hidden()
    choose(page, "sample", VOLUME.name)
    assert page.locator("[data-input=axis]").input_value() == "2"
    assert (page.locator(".section output").text_content() or "").startswith("0.500")
    first = pictures(page)
    page.locator("[data-input=place]").fill("20")
    settle(page)
    second = pictures(page)
    assert all(a != b for a, b in zip(first, second, strict=True))
    text = page.locator(".section output").text_content() or ""
    place, _, half, _ = text.replace("\N{NO-BREAK SPACE}", " ").split(" ")
    page.mouse.move(*middle(page))
    settle(page)
    probed = snapshot(page)["probed"]
    assert abs(VOLUME.coords[probed, 2] - float(place)) <= float(half) + 1e-3
    for axis in ("x", "none"):
        choose(page, "axis", axis)
        assert pictures(page) != second
    assert page.locator("[data-input=place]").is_disabled()


def test_faces_with_a_value_each_are_no_mosaic(browser: Browser, tmp_path: Path) -> None:
    """A flat sheet of 18 faces, each with corners of its own: colours run on between them."""
    corners = made.mesh(side=4)
    assert corners.triangles is not None
    coords = (corners.coords * [1, 1, 0])[corners.triangles].reshape(-1, 3).astype(np.float32)
    values = np.repeat(np.arange(18.0), 3)
    field = made.predicted("height", "m", values, coords)
    triangles = np.arange(54, dtype=np.int32).reshape(18, 3)
    scene = replace(corners, coords=coords, fields=(field,), triangles=triangles)
    write_page(made.report((scene,)), tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html") as page:
        page.locator("#viewer").scroll_into_view_if_needed()
        settle(page)
        assert colours(page)[0] > 120, "18 faces and their edges have fewer"


def test_mouse_and_keys_move_all_panels(page: Page) -> None:
    start = snapshot(page)
    first = pictures(page)
    x, y = middle(page, 1)

    def drag(button: Any) -> dict[str, Any]:
        page.mouse.move(x, y)
        page.mouse.down(button=button)
        page.mouse.move(x + 40, y + 25, steps=2)
        page.mouse.up(button=button)
        settle(page)
        return snapshot(page)

    turned = drag("left")
    assert turned["back"] != start["back"] and turned["distance"] == start["distance"]
    assert all(a != b for a, b in zip(first, pictures(page), strict=True))
    moved = drag("right")
    assert moved["back"] == turned["back"] and moved["target"] != turned["target"]
    page.wait_for_timeout(250)  # a page that was just scrolled scrolls on
    page.mouse.wheel(0, -200)  # which arrives when the browser has time for it
    page.wait_for_function("far => slipstream.snapshot().distance < far", arg=moved["distance"])
    settle(page)
    page.mouse.dblclick(x, y)
    settle(page)
    assert snapshot(page)["back"] == start["back"] and pictures(page) == first
    page.locator("canvas").nth(2).focus()
    for key in ("ArrowLeft", "ArrowUp", "+"):
        page.keyboard.press(key)
    settle(page)
    keyed = snapshot(page)
    assert keyed["back"] != start["back"] and keyed["distance"] < start["distance"]
    assert keyed["back"][2] > start["back"][2]
    page.keyboard.press("Enter")
    settle(page)
    assert readout(page)
    page.locator("[data-input=reset]").click()
    settle(page)
    assert pictures(page) == first


def test_the_axes_are_beside_the_picture_and_turn_with_it(page: Page) -> None:
    """They cover nothing of the sample, and are small."""
    choose(page, "sample", SURFACE.name)
    for panel in range(3):
        stage = page.locator(".stage").nth(panel).bounding_box()
        cross = page.locator(".triad").nth(panel).bounding_box()
        assert stage and cross and cross["y"] >= stage["y"] + stage["height"]
        assert max(cross["width"], cross["height"]) <= 48

    def ends() -> list[list[float]]:
        path = page.locator(".triad path").first.get_attribute("d") or ""
        return [[float(x) for x in end.split(",")] for end in path.split("M0 0L")[1:]]

    for _ in range(2):
        now = snapshot(page)
        wanted = [[14 * r, -14 * u] for r, u in zip(now["right"], now["up"], strict=True)]
        assert ends() == [pytest.approx(end) for end in wanted]
        page.locator("canvas").first.focus()
        page.keyboard.press("ArrowLeft")
        settle(page)
    page.locator("[data-input=reset]").click()


def test_a_phone_has_everything_in_its_width(browser: Browser, path: Path) -> None:
    with opened(browser, path, has_touch=True, device_scale_factor=2.5, **PHONE) as page:
        page.locator("canvas").first.scroll_into_view_if_needed()
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        canvas = page.locator("canvas").first
        assert canvas.get_attribute("width") == str(
            round(2.5 * canvas.evaluate("c => c.clientWidth"))
        )
        check_touch(page)
        page.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true))")
        page.locator("[data-input=sample]").select_option(label=VOLUME.name)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def check_touch(page: Page) -> None:
    """A finger that moves sideways turns, a tap reads off, and two fingers zoom."""
    straight = snapshot(page)["back"]
    finger = page.context.new_cdp_session(page)
    x, y = middle(page)
    for kind, moved in (("touchStart", 0), ("touchMove", 20), ("touchMove", 60)):
        point = {"x": x + moved, "y": y + moved / 4}
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    settle(page)
    before = snapshot(page)
    assert before["back"] != straight
    x, y = middle(page)
    page.touchscreen.tap(x, y)
    settle(page)
    assert readout(page)
    session = page.context.new_cdp_session(page)
    for kind, apart in (("touchStart", 20), ("touchMove", 40), ("touchMove", 60)):
        points = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    settle(page)
    after = snapshot(page)
    assert after["distance"] == pytest.approx(before["distance"] / 3, rel=0.05)
    assert after["back"] == before["back"]


def test_nothing_is_drawn_while_nothing_changes(page: Page) -> None:
    before = snapshot(page)["drawn"]
    settle(page)
    settle(page)
    assert snapshot(page)["drawn"] == before


def test_the_view_follows_the_theme(page: Page) -> None:
    ground = "getComputedStyle(document.querySelector('.stage')).backgroundColor"
    light = page.evaluate(ground)
    page.locator("#theme").click()
    assert page.evaluate(ground) != light
    page.locator("#theme").click()
    assert page.evaluate(ground) == light


def test_a_desktop_page_does_not_scroll_sideways(page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.locator("[data-input=sample]").select_option(label=VOLUME.name)
    page.locator(".contents a").first.wait_for(state="visible")
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440
    page.set_viewport_size({"width": 900, "height": 700})


def test_without_webgl_there_is_a_sentence(browser: Browser, path: Path) -> None:
    refuse = """
      const real = HTMLCanvasElement.prototype.getContext;
      HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
        return kind.startsWith("webgl") ? null : real.call(this, kind, ...rest);
      };"""
    with opened(browser, path, script=refuse) as page:
        assert "needs WebGL2" in page.locator("#viewer").inner_text()
        assert page.locator("canvas:visible").count() == 0
        assert page.locator("table").count() == 2 and page.locator("#definitions").is_visible()


def test_the_view_comes_back_after_the_graphics_were_lost(browser: Browser, path: Path) -> None:
    keep = """
      const real = HTMLCanvasElement.prototype.getContext;
      HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
        const found = real.call(this, kind, ...rest);
        if (kind === "webgl2") window.taken = found.getExtension("WEBGL_lose_context");
        return found;
      };"""
    with opened(browser, path, script=keep) as page:
        settle(page)
        first = pictures(page)
        page.evaluate("taken.loseContext()")
        page.locator(".lost").wait_for(state="visible")
        page.evaluate("taken.restoreContext()")
        page.locator(".lost").wait_for(state="hidden")
        settle(page)
        assert pictures(page) == first
        choose(page, "variant", "mlp-only")
        assert pictures(page)[2] != first[2]
