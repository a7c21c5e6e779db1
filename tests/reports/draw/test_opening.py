"""The picture that a report begins with."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import matplotlib.image
import numpy as np
import pytest

from slipstream.reports.content import Scene
from slipstream.reports.draw import opening
from slipstream.reports.draw.opening import make_opening, panels
from slipstream.reports.study import opening_facts

from .. import made_content as made
from ..made_data import evaluation, run


@pytest.mark.parametrize("scene", [made.surface(400), made.volume(800)], ids=lambda s: s.kind)
def test_three_panels_without_ground(scene: Scene) -> None:
    field = scene.fields[0]
    truth, prediction, wrong = panels(scene, field, "mlp-only")
    assert [one.title for one in (truth, prediction, wrong)] == [
        "Truth", "Prediction", "Where it is wrong",
    ]  # fmt: skip
    assert truth.colours == prediction.colours and truth.ticks == prediction.ticks
    assert wrong.ticks[0] == "0" and wrong.colours != truth.colours
    assert f"{100 * field.relative['mlp-only']:.3g} %" in wrong.note
    pixels = [matplotlib.image.imread(io.BytesIO(one.png)) for one in (truth, prediction, wrong)]
    assert all(own.shape == pixels[0].shape and own.shape[2] == 4 for own in pixels)
    if scene.kind == "surface":
        assert pixels[0][0, 0, 3] == 0 and pixels[0][pixels[0].shape[0] // 2, 200, 3] == 1
    assert not np.array_equal(pixels[0], pixels[1])


def test_an_error_that_is_not_known_is_left_out() -> None:
    scene = made.surface(200)
    field = replace(scene.fields[0], relative=dict.fromkeys(made.VARIANTS, math.nan))
    assert panels(scene, field, "baseline")[2].note == ""


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (-0.891, "−0.89"), (3790, "3,800"), (151, "150"), (12.3, "12")]
)
def test_ends_of_a_scale_have_two_digits(value: float, text: str) -> None:
    assert opening._tick(value) == text


def test_the_caption_says_what_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    one = evaluation("baseline", **{"pressure coefficient": 0.2})
    own = run("baseline", 0.1, name="ellipsoids", evaluation=one)
    monkeypatch.setattr(opening_facts.RunData, "predictions", lambda run: {"7": None})
    scene = replace(made.surface(200), reconstructed=True)
    found = make_opening([own, run("baseline", 0.1)], [scene], [])
    assert found is not None
    for words in ("test sample 7 of ellipsoids", "no model has learned from", "baseline (seed 0)",
                  "16 points at a time", "laid through the sample's points"):  # fmt: skip
        assert words in found.caption, words
    assert make_opening([own], [], []) is None
    assert make_opening([run("baseline", 0.1)], [scene], []) is None, "of another experiment"
