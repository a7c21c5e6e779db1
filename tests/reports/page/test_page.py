"""The page as text; in a browser, see `test_page_in_browser` and `test_view_in_browser`."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.reports.content import Array, Picture, Scene, Section
from slipstream.reports.page.html import NOT_FINITE, pack, pack_scene, render, write_page

from .. import made_content as made


class Elements(HTMLParser):
    """The elements of a page, and the words of each kind."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.words.append((self.tags[-1][0], data.strip()))

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def unpacked(packed: dict[str, Any]) -> Array:
    """As the page reads it."""
    codes = np.frombuffer(base64.b64decode(packed["codes"]), "<u2")
    values = packed["low"] + codes * (packed["high"] - packed["low"]) / 65534
    return np.where(codes == NOT_FINITE, np.nan, values)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_values_come_back_within_half_a_step(scale: float) -> None:
    drawn = np.random.default_rng(1).normal(size=5000)
    values = (scale * drawn + 3 * scale).astype(np.float32)
    wrong = np.abs(unpacked(pack(values)) - values.astype(np.float64))
    half = float(np.ptp(values.astype(np.float64))) / 131068
    assert 0.5 * half < wrong.max() <= half * (1 + 1e-9)


def test_what_is_not_finite_stays_so_and_the_rest_is_exact() -> None:
    values = np.array([np.nan, 2, np.inf, 5, -np.inf], np.float32)
    assert np.array_equal(unpacked(pack(values)), [np.nan, 2, np.nan, 5, np.nan], equal_nan=True)
    assert np.isnan(unpacked(pack(np.full(3, np.nan, np.float32)))).all()
    assert (unpacked(pack(np.full(3, 7, np.float32))) == 7).all()


def test_one_spike_does_not_stretch_the_scale_and_errors_share_one() -> None:
    scene = made.surface(1000)
    field = scene.fields[0]
    field.truth[3] = 1e6
    field.errors["slice-once"][5] = 1e6
    packed = pack_scene(scene)["fields"][0]
    assert packed["scale"][1] < 2
    worst = np.percentile(field.errors["mlp-only"], 99.5)
    assert packed["errorScale"] == [0, pytest.approx(worst)]


def test_hostile_names_stay_names() -> None:
    found = Elements(render(made.hostile()))
    assert found.count("b") == 0 and found.count("script") == 3 and found.count("img") == 1
    for tag in ("title", "h1", "h2", "strong", "option", "th", "li", "dt", "dd", "pre"):
        texts = "".join(words for name, words in found.words if name == tag)
        plain = json.dumps(made.HOSTILE)[1:-1] if tag == "pre" else made.HOSTILE
        assert plain in texts, tag
    assert not any(name.startswith("on") for _, attrs in found.tags for name in attrs)


def test_nothing_is_loaded() -> None:
    text = render(made.report((made.surface(200),)))
    found = Elements(text)
    addresses = [a[key] for _, a in found.tags for key in ("src", "href") if a.get(key)]
    assert len(addresses) > 5
    assert all(address and address.startswith(("#", "data:")) for address in addresses)
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style and "@import" not in style
    policies = [attrs["content"] for _, attrs in found.tags if "http-equiv" in attrs]
    assert policies[0] and policies[0].startswith("default-src 'none'; script-src 'sha256-")


def test_numbers_are_set_right_the_best_is_bold_and_notes_are_there() -> None:
    text = render(made.report())
    assert '<td class="number" data-column="Poisson"><strong>0.0816 ± 0.001</strong></td>' in text
    assert '<td class="number" data-column="AirfRANS">failed</td>' in text
    assert '<th scope="row">slice-once</th>' in text
    assert "mlp-only on the last experiment failed" in text
    assert "2 missing or failed" in text and "1 of 3 checks FAIL" in text and "not audited" in text


def test_a_bare_report_has_no_empty_parts() -> None:
    bare = dataclasses.replace(made.report(), sections=(), runs=(), definitions=(), problems=())
    found = Elements(render(bare))
    assert [words for tag, words in found.words if tag == "a"] == ["Skip to content"]
    assert found.count("section") == found.count("canvas") == found.count("aside") == 0


def test_many_problems_are_folded() -> None:
    many = dataclasses.replace(made.report(), problems=tuple(f"no run {i}" for i in range(9)))
    text = render(many)
    assert "9 missing or failed" in text and "<summary>4 more</summary>" in text
    assert all(f"<li>no run {i}</li>" in text for i in range(9))


def test_pictures_are_documents_of_their_own_and_larger_than_on_paper() -> None:
    found = Elements(render(made.report()))
    images = [attrs for tag, attrs in found.tags if tag == "img"]
    assert len(images) == 2
    for image in images:
        assert image["src"] and image["src"].startswith("data:image/svg+xml;base64,")
        assert b"<svg" in base64.b64decode(image["src"].split(",")[1])
        assert image["width"] == str(round(5.2 * 96 * 1.4)) and image["alt"]


def changed_scene(**changes: Any) -> Scene:
    return dataclasses.replace(made.surface(50), **changes)


def changed_field(**changes: Any) -> Scene:
    scene = made.surface(50)
    return dataclasses.replace(scene, fields=(dataclasses.replace(scene.fields[1], **changes),))


@pytest.mark.parametrize(
    ("scene", "sentence"),
    [
        (
            changed_scene(coords=np.zeros((50, 2), np.float32)),
            "coords of scene 'ellipsoid 7' must have shape (50, 3), got (50, 2)",
        ),
        (
            changed_scene(coords=np.full((50, 3), np.nan, np.float32)),
            "coords of scene 'ellipsoid 7' must be finite, got 50 of 50 points that are not",
        ),
        (changed_scene(fields=()), "fields of scene 'ellipsoid 7' must be at least one, got none"),
        (
            changed_scene(normals=np.zeros((49, 3), np.float32)),
            "normals of scene 'ellipsoid 7' must have shape (50, 3), got (49, 3)",
        ),
        (
            changed_scene(triangles=np.array([[0, 1, 50]], np.int32)),
            "triangles of scene 'ellipsoid 7' must be indices from 0 to 49, got 0 to 50",
        ),
        (
            changed_field(truth=np.zeros(49, np.float32)),
            "truth of field 'wall shear stress' of scene 'ellipsoid 7' must have shape (50,),"
            " got (49,)",
        ),
        (
            changed_field(relative={"baseline": 0.1}),
            "relative of field 'wall shear stress' of scene 'ellipsoid 7' must be of"
            f" {list(made.VARIANTS)}, got ['baseline']",
        ),
    ],
)
def test_a_malformed_scene_is_refused(scene: Scene, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        render(made.report((scene,)))


def test_a_malformed_item_is_refused() -> None:
    short = dataclasses.replace(made.table(), rows=(made.table().rows[0][:2],))
    with pytest.raises(ValueError, match="rows of table 'main' must have 5 cells, .* got 2"):
        render(dataclasses.replace(made.report(), sections=(Section("s", "", (short,)),)))
    other = Picture("p", "t", "c", "PNG")
    with pytest.raises(ValueError, match="svg of picture 'p' must be an SVG document, got 'PNG'"):
        render(dataclasses.replace(made.report(), sections=(Section("s", "", (other,)),)))


def test_a_page_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    report = made.report((made.surface(100),))
    write_page(report, path)
    assert path.read_text() == render(report) and list(tmp_path.iterdir()) == [path]
