"""Which figures there are, what they are called and what is said of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from slipstream.reports.content import Scene
from slipstream.reports.draw import pictures
from slipstream.reports.draw.pictures import Gallery, field_pictures, system_pictures

from .. import made_content as made
from ..study.test_system_tables import row


@pytest.fixture(autouse=True)
def blank(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drawn does not matter here."""
    monkeypatch.setattr(pictures, "field_figure", lambda *given, **how: Figure((1, 1)))


def sample(name: str, **changes: Any) -> Scene:
    return replace(made.surface(50), sample=name, name=f"e, test sample {name}", **changes)


def test_every_sample_has_figures_of_its_own(tmp_path: Path) -> None:
    scenes = [sample("000010"), sample("000020"), sample("000030", experiment="other")]
    found = field_pictures(scenes, Gallery(tmp_path))
    names = [picture.name for picture in found]
    experiment = scenes[0].experiment
    fields = ("pressure=20coefficient", "wall=20shear=20stress")
    assert names == [
        *(f"field-{experiment}-{field}" for field in fields),
        *(f"field-{experiment}-{field}-000020" for field in fields),
        *(f"field-other-{field}" for field in fields),
    ]
    assert {file.stem for file in tmp_path.iterdir()} == set(names)
    assert [picture.title.endswith(", sample 000020") for picture in found] == [
        False, False, True, True, False, False,
    ]  # fmt: skip


def test_the_cases_of_speed_are_named() -> None:
    rows = [row(f"{n}", n / 10, n / 5, points=n, training=True) for n in (100_000, 200_000)]
    (picture,) = system_pictures(rows, Gallery(None))
    assert "one layer" in picture.caption and "below each panel" in picture.caption
