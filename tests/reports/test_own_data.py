"""A report on own data: titled by them, fields and forces first, no claims of the paper's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slipstream.reports.content import Table
from slipstream.reports.draw.coefficients import CoefficientPairs, coefficient_scatter
from slipstream.reports.study.own_data import data_title, is_on_data
from slipstream.reports.write import write_report
from slipstream.runs.evaluation_file import read_evaluations
from slipstream.runs.folder import RunFolder

from ..conftest import Command
from .made_data import run

pytest.importorskip("pyvista")
from ..evaluation.own_bodies import AREA, DENSITY, SPEED, make_run  # noqa: E402


@pytest.mark.usefixtures("small_pictures")
def test_a_run_on_own_data(tmp_path: Path, command: Command) -> None:
    made = make_run(tmp_path)
    asked = ("--area", AREA, "--density", DENSITY, "--speed", SPEED, "--device", "cpu")
    said = command("evaluate", made, "--forces", "--meshes", tmp_path / "raw", *asked)
    assert said.code == 0, said.err
    report = write_report([made], tmp_path / "out")
    assert report.title == "ellipsoids: predicted p, wallShearStress and forces"
    assert report.sections[0].title == "Fields and forces"
    names = [item.name for item in report.sections[0].items]
    assert names[:4] == ["variables-l1", "forces", "samples", "variables-l2"]
    assert names[4:] == ["coefficients", "field-own-p", "field-own-wallShearStress"]
    everything = {item.name for section in report.sections for item in section.items}
    assert not everything & {"claims", "ratio", "ratios", "budgets", "controls"}
    (evaluation,) = read_evaluations(RunFolder(made))[-1:]
    samples = next(item for item in report.sections[0].items if item.name == "samples")
    assert isinstance(samples, Table) and samples.columns[:2] == ("sample", "composite")
    errors = [row[1].value for row in samples.rows]
    assert sorted(errors, key=lambda e: -(e or 0)) == errors and len(errors) == 3
    assert evaluation.forces is not None
    for row in samples.rows:
        own = dict(zip(samples.columns, row, strict=True))
        sample = own["sample"].text
        assert own["L1 p"].value == evaluation.samples[sample]["L1 p"]
        assert own["Cd true"].value == evaluation.forces.samples[sample].true["cd"]
        assert own["Cl predicted"].value == evaluation.forces.samples[sample].predicted["cl"]
        assert own["which"].text == "2"
    assert report.conclusion.startswith("Relative L1 errors of baseline on 3 test samples of ell")
    assert "mean of training" in report.conclusion and "Cd is off by" in report.conclusion
    assert "Transolver needs" not in (tmp_path / "out/report.html").read_text("utf-8")
    assert (tmp_path / "out/figures/coefficients.svg").is_file()


def test_which_reports_are_on_data() -> None:
    several = [run("baseline", 0.1), run("mlp-only", 0.2)]
    assert not is_on_data(several) and is_on_data(several[:1])
    assert is_on_data([run("baseline", 0.1, name="own"), run("mlp-only", 0.2, name="own")])
    assert data_title(several[:1]) == "poisson: predicted fields"


def test_the_scatter_has_the_diagonal_and_its_band() -> None:
    pairs = {"baseline": [(-0.2, -0.1), (0.4, 0.5), (0.1, 0.1)]}
    figure = coefficient_scatter([CoefficientPairs("own", "Cl", pairs, 0.15)])
    (axes,) = figure.axes
    low, high = axes.get_xlim()
    assert (low, high) == axes.get_ylim() and low < -0.2 and high > 0.5
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices
    for x in (low, high):
        ends = corners[np.isclose(corners[:, 0], x), 1]
        assert sorted({round(y, 9) for y in ends}) == pytest.approx(
            sorted([x - 0.05 * abs(x), x + 0.05 * abs(x)])
        )
    points = axes.lines[-1].get_xydata()
    np.testing.assert_allclose(points, pairs["baseline"])
    assert axes.lines[1].get_ydata() == pytest.approx([0.15, 0.15])
    with pytest.raises(ValueError, match="at least one"):
        coefficient_scatter([])
