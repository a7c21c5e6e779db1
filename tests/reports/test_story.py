"""What goes into a report, and from which runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from slipstream.reports.content import Scene, SceneField
from slipstream.reports.draw import pictures
from slipstream.reports.draw.pictures import field_ratios
from slipstream.reports.draw.scenes import section_of
from slipstream.reports.story import make_report, tables_of
from slipstream.reports.study.gather import gather
from slipstream.runs.prediction_file import read_prediction

from ..evaluation.made_runs import edit_config
from .made_data import evaluation, run


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("error", "control", "locality", "field", "slice", "system"):
        monkeypatch.setattr(pictures, f"{name}_pictures", lambda *given: [])


def test_fields_are_those_of_the_compared_size_not_of_a_sweep(
    study: Path, tmp_path: Path, no_pictures: None
) -> None:
    small = Path(shutil.copytree(study / "runs/poisson/baseline/seed-1", tmp_path / "a/seed-0"))
    edit_config(small, lambda config: config["model"]["size"].update(slices=2))
    edit_config(small, lambda config: config.update(seed=0))
    found = gather([tmp_path / "a", study])
    assert [r.size.slices for r in found.runs][:2] == [2, 3]
    report = make_report(found, title="t", conclusion="c")
    (scene,) = report.scenes
    (file,) = found.runs[1].predictions().values()
    truth = read_prediction(file).values[:, 0]
    np.testing.assert_array_equal(scene.fields[0].predictions["baseline"], truth)
    assert "sweep-slices" in [table.name for table in tables_of(report)]
    assert len(report.runs) == 5 and {card.status for card in report.runs} == {"finished"}
    terms = [definition.term for definition in report.definitions]
    assert {"validation error", "test composite", "test L1", "test L2"} <= set(terms)


def test_a_field_ratio_is_of_mlp_only_over_the_baseline() -> None:
    runs = [
        run("baseline", 0.1, evaluation=evaluation("baseline", p=0.2, u=0.4)),
        run("mlp-only", 0.1, evaluation=evaluation("mlp-only", p=0.5, u=0.5)),
    ]
    found = {ratio.field: (ratio.measured, ratio.predicted) for ratio in field_ratios(runs)}
    assert found["p"] == pytest.approx((2.5, 4.5)) and found["u"] == pytest.approx((1.25, 2.25))
    assert field_ratios(runs[:1]) == []


def test_the_section_goes_through_the_body() -> None:
    draw = np.random.default_rng(0)
    coords = draw.uniform(-2, 2, (4000, 3)).astype(np.float32)
    away = np.linalg.norm(coords - np.array([0, 1.2, 0]), axis=1) - 0.4
    coords, away = coords[away > 0], away[away > 0].astype(np.float32)
    empty = np.zeros(len(coords), np.float32)
    field = SceneField("p", "Pa", empty, {"baseline": empty}, {"baseline": empty}, {"baseline": 0})
    made = Scene("s", "e", "1", "volume", coords, "m", (field,), wall_distance=away)
    axis, position = section_of(made)
    assert axis == "y" and position == pytest.approx(1.2, abs=0.4)
    assert section_of(Scene("s", "e", "1", "volume", coords, "m", (field,))) == (None, None)
