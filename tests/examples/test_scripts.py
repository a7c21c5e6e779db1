"""The scripts in examples/ that a reader runs, each smaller: they end, and print what they say."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(file for file in EXAMPLES.glob("*.py") if "\ndef main(" in file.read_text("utf-8"))


def run(name: str, **smaller: Any) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](**smaller)


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.\d+(?:e[-+]\d+)?|\d+e[-+]\d+", text)]


def test_there_are_five_and_each_is_short() -> None:
    assert len(SCRIPTS) == 5
    for file in SCRIPTS:
        assert len(file.read_text("utf-8").splitlines()) <= 60, file.name
        assert f"python examples/{file.name}" in file.read_text("utf-8"), file.name


def test_predict_a_mesh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("predict_a_mesh", folder=tmp_path, samples=12, steps=60)
    said = capsys.readouterr().out
    assert "60 steps, validation error" in said and "wall_shear [Pa]" in said
    force, exact = (numbers(line) for line in said.splitlines()[-2:])
    assert len(force) == 3 and exact == pytest.approx([11.00, 2.19, 0], abs=0.3)
    assert abs(force[0] - exact[0]) < 0.5 * exact[0]
    assert (tmp_path / "predicted.vtp").stat().st_size > 10_000
    picture = runpy.run_path(str(EXAMPLES.parent / "docs" / "pictures" / "body.py"))
    drawn = picture["draw"](tmp_path / "run", panels=180)
    titles = [axes.get_title() for axes in drawn.axes if axes.get_title()]
    assert len(titles) == 3 and re.fullmatch(r"solved: drag 9\.\d+ N", titles[0])


def test_couple_in_your_model(capsys: pytest.CaptureFixture[str]) -> None:
    run("couple_in_your_model", steps=60)
    alone, coupled = numbers(capsys.readouterr().out)
    assert coupled < 0.8 * alone


def test_calibrated_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("calibrated_interval", folder=tmp_path, bodies=30, steps=40)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    for line in lines:
        predicted, bound, true = numbers(line)
        assert line.endswith("outside") == (abs(predicted - true) > bound)
    assert sum("outside" in line for line in lines) <= 4


def test_stream_many_points(capsys: pytest.CaptureFixture[str]) -> None:
    run("stream_many_points", points=5_000)
    differences = numbers(capsys.readouterr().out)
    assert len(differences) == 6 and max(differences) < 1e-4


@pytest.mark.filterwarnings("ignore")
def test_accelerate_a_transolver(capsys: pytest.CaptureFixture[str]) -> None:
    run("accelerate_a_transolver", points=500, slices=8)
    said = capsys.readouterr().out
    if "not installed" in said:
        pytest.skip("flashslice is not installed")
    assert "Replaced 2 of 2" in said and "undone, to the bit: True" in said
    assert max(numbers(said.partition("differ by")[2].splitlines()[0])) < 1e-5


def test_accelerate_says_that_there_is_nothing_to_accelerate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "flashslice", None)
    run("accelerate_a_transolver")
    assert "flashslice is not installed here" in capsys.readouterr().out
