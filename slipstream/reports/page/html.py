"""The report as one HTML file that holds its styles, scripts, pictures and samples: a browser loads
nothing else.

Arrays of the three-dimensional view are quantised to 16 bits between their least and greatest
value: what the page shows is off by at most half a step, range / 131068 = 7.6e-6 of the range.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray

from slipstream.core.files import write_text
from slipstream.reports.content import Array, Cell, Picture, Report, Scene, SceneField, Table
from slipstream.reports.page.tables import cell_text, text_columns

LAST_CODE = 65534
"""The code of the greatest value."""
NOT_FINITE = 65535
"""The code of NaN and infinities."""
_CLIPPED = 0.5
"""Percent of the values beyond each end of a colour scale: one spike must not grey the rest."""
_ENLARGED = 1.4
"""Width of a figure on the page over its width on paper, whose small print suits no screen."""
_STYLES = ("page.css", "opening.css", "blocks.css", "viewer.css", "small.css")
_PAGE_SCRIPTS = ("contents.js",)
_VIEWER_SCRIPTS = (
    "scales.js",
    "scene.js",
    "camera.js",
    "shaders.js",
    "renderer.js",
    "input.js",
    "panels.js",
    "viewer.js",
)


def write_page(report: Report, path: Path) -> None:
    """Write the page, whole or not at all. Raises ValueError where the report is malformed."""
    write_text(path, render(report))


def render(report: Report) -> str:
    """The page as text. Raises ValueError where a scene or a picture is malformed."""
    early = _script("theme.js")
    late = _script(*_PAGE_SCRIPTS, *(_VIEWER_SCRIPTS if report.scenes else ()))
    return (
        _templates()
        .get_template("page.html.j2")
        .render(
            report=report,
            style=Markup("\n".join(map(_source, _STYLES))),
            early=early,
            late=late,
            policy=_policy(early, late),
            scenes=[_json(pack_scene(scene)) for scene in report.scenes],
        )
    )


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("slipstream.reports.page", "web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "cell_text": cell_text,
        "columns_of_numbers": _columns_of_numbers,
        "paragraphs": _paragraphs,
        "picture_address": _picture_address,
        "picture_width": _picture_width,
        "png_address": _png_address,
        "pretty": _pretty,
    }
    templates.tests["table"] = lambda item: isinstance(item, Table)
    return templates


def _source(name: str) -> str:
    loader = _templates().loader
    assert loader
    return loader.get_source(_templates(), name)[0]


def _script(*names: str) -> Markup:
    """The named scripts inside one function, so that they leave no global names."""
    body = "\n".join(_source(name) for name in names)
    return Markup(f'(() => {{\n"use strict";\n{body}\n}})();\n')


def _policy(*scripts: str) -> str:
    """The content security policy: the browser runs these scripts and requests nothing."""
    hashes = (base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts)
    allowed = " ".join(f"'sha256-{script_hash}'" for script_hash in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )


def _columns_of_numbers(table: Table) -> list[bool]:
    """Which columns hold numbers; the page aligns these to the right."""
    width = len(table.columns)
    for row in table.rows:
        if len(row) != width:
            raise ValueError(
                f"rows of table {table.name!r} must have {width} cells, one a column,"
                f" got {len(row)}"
            )
    return [not words for words in text_columns(table)]


def _paragraphs(text: str) -> list[str]:
    return [part for part in text.split("\n\n") if part.strip()]


def _pretty(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), indent=2, ensure_ascii=False, default=str)


def _picture_address(picture: Picture) -> str:
    """The SVG as the address of an image.

    As an image it is a document of its own: the ids and styles of several figures do not clash
    (matplotlib repeats its ids and styles `*`), and no script in it runs. Base64 costs a third more
    bytes.
    """
    if "<svg" not in picture.svg:
        raise ValueError(
            f"svg of picture {picture.name!r} must be an SVG document, got {picture.svg[:40]!r}"
        )
    return "data:image/svg+xml;base64," + base64.b64encode(picture.svg.encode()).decode()


def _png_address(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _picture_width(picture: Picture) -> int | None:
    """Width on the page in pixels: 360 pt are 360 * 96 / 72 * 1.4 = 672. None without a width."""
    width = re.search(r'<svg[^>]*\swidth="([\d.]+)pt"', picture.svg)
    return round(float(width[1]) * 96 / 72 * _ENLARGED) if width else None


def _json(value: Mapping[str, Any]) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def pack_scene(scene: Scene) -> dict[str, Any]:
    """A scene as the viewer reads it. Raises ValueError where its arrays do not fit together."""
    _check_scene(scene)
    return {
        "name": scene.name,
        "kind": scene.kind,
        "unit": scene.unit,
        "count": len(scene.coords),
        "coords": [pack(axis) for axis in np.asarray(scene.coords).T],
        "normals": None if scene.normals is None else _packed_normals(scene.normals),
        "triangles": None if scene.triangles is None else _packed_triangles(scene),
        "fields": [_packed_field(field) for field in scene.fields],
    }


def _packed_field(field: SceneField) -> dict[str, Any]:
    low, high = _limits(field.truth)
    return {
        "name": field.name,
        "unit": field.unit,
        "scale": [low, high],
        "errorScale": [0.0, max(_limits(errors)[1] for errors in field.errors.values())],
        "truth": pack(field.truth),
        "variants": [
            {
                "name": variant,
                "relative": cell_text(Cell(value=field.relative[variant])),
                "prediction": pack(field.predictions[variant]),
                "error": pack(field.errors[variant]),
            }
            for variant in field.predictions
        ],
    }


def _limits(values: Array) -> tuple[float, float]:
    """The ends of a colour scale."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = np.percentile(finite.astype(np.float64), (_CLIPPED, 100 - _CLIPPED))
    return float(low), float(high)


def pack(values: Array) -> dict[str, Any]:
    """Values as 16-bit codes from `low` to `high`, in base64.

    With values from 0 to 1 a step is 1 / 65534, and 0.25 gets the code round(16383.5) = 16384.
    """
    exact = np.asarray(values, np.float64)  # a small range far from zero is lost in fp32
    finite = np.isfinite(exact)
    low, high = (float(f(exact[finite])) for f in (np.min, np.max)) if finite.any() else (0.0, 0.0)
    step = (high - low) / LAST_CODE or 1.0  # a constant has no range: every code is 0
    codes = np.rint((np.where(finite, exact, low) - low) / step)
    return {"low": low, "high": high, "codes": _base64(np.where(finite, codes, NOT_FINITE), "<u2")}


def _packed_triangles(scene: Scene) -> str:
    """In 16 bits where these are enough for the numbers of the points."""
    return _base64(np.asarray(scene.triangles), "<u4" if len(scene.coords) > 65535 else "<u2")


def _packed_normals(normals: Array) -> str:
    """Unit normals in 8 bits, off by at most 0.4 degrees: they are used for shading only."""
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    units = np.nan_to_num(normals / np.where(lengths > 0, lengths, 1))
    return _base64(np.rint(units * 127), "i1")


def _base64(values: NDArray[Any], dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values.astype(dtype)).tobytes()).decode()


def _check_scene(scene: Scene) -> None:
    where = f"scene {scene.name!r}"
    count = len(scene.coords)
    _check_coords(where, scene.coords)
    if not scene.fields:
        raise ValueError(f"fields of {where} must be at least one, got none")
    if scene.normals is not None:
        _check_shape(f"normals of {where}", scene.normals, (count, 3))
    if scene.triangles is not None:
        _check_triangles(where, scene.triangles, count)
    for field in scene.fields:
        _check_field(f"field {field.name!r} of {where}", field, scene.variants, count)


def _check_coords(where: str, coords: Array) -> None:
    _check_shape(f"coords of {where}", coords, (len(coords), 3))
    wrong = int((~np.isfinite(coords).all(axis=1)).sum())
    if not len(coords):
        raise ValueError(f"coords of {where} must be at least one point, got none")
    if wrong:
        raise ValueError(
            f"coords of {where} must be finite, got {wrong} of {len(coords)} points that are not"
        )


def _check_triangles(where: str, triangles: NDArray[np.int32], count: int) -> None:
    _check_shape(f"triangles of {where}", triangles, (len(triangles), 3))
    low, high = triangles.min(initial=0), triangles.max(initial=0)
    if low < 0 or high >= count:
        raise ValueError(
            f"triangles of {where} must be indices from 0 to {count - 1}, got {low} to {high}"
        )


def _check_field(where: str, field: SceneField, variants: Sequence[str], count: int) -> None:
    """Every field must have predictions, errors and a relative error of each variant."""
    if not variants:
        raise ValueError(f"{where} must have predictions of at least one variant, got none")
    for what in ("predictions", "errors", "relative"):
        names = list(getattr(field, what))
        if sorted(names) != sorted(variants):
            raise ValueError(f"{what} of {where} must be of {list(variants)}, got {names}")
    _check_shape(f"truth of {where}", field.truth, (count,))
    for variant in variants:
        for what in ("predictions", "errors"):
            values = getattr(field, what)[variant]
            _check_shape(f"{what}[{variant!r}] of {where}", values, (count,))


def _check_shape(what: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ValueError(f"{what} must have shape {shape}, got {array.shape}")
