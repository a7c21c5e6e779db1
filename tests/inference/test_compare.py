"""`slipstream compare`: verdicts, refusals, and real outputs of `predict` from end to end."""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.data.meshes import read_mesh
from slipstream.inference.compare import (
    Comparison,
    compare,
    parse_better,
    verdict_of,
)
from slipstream.inference.predicted_designs import PredictedDesign, find_design
from slipstream.reports.draw.bodies import Body, difference, read_body
from slipstream.runs.calibration_file import Calibration, ForceScores

from ..conftest import Command
from ..data.mesh_folders import ball, save, shuffled
from ..evaluation.own_bodies import AREA, DENSITY, SPEED, body, make_run

GIVEN = ("--area", AREA, "--density", DENSITY, "--speed", SPEED)
FLOW = ("--forces", "--area", AREA, "--flow-density", DENSITY, "--speed", SPEED)
REFERENCE = {"area": 1.0, "density": 1.2, "speed": 30.0, "drag": [1, 0, 0], "lift": [0, 0, 1],
             "mirror": None, "pressure": None}  # fmt: skip
SAID = {"pressure": {"value": "kinematic"}, "shear": {"value": "kinematic"},
        "traction": {"value": "on the body"}}  # fmt: skip


def design(name: str, cd: float = 0.3, cl: float = 0.1, **changes: Any) -> PredictedDesign:
    """`reference` and `conventions` are parts of the forces."""
    forces = {
        "coefficients": {"cd": cd, "cl": cl, "cs": 0.0},
        "reference": {**REFERENCE, **changes.pop("reference", {})},
        "conventions": {**SAID, **changes.pop("conventions", {})},
        "friction": None,
        "missing": [],
    }
    whole = PredictedDesign(
        name, Path(f"{name}.vtp"), "w" * 64, "auto", "fp32", "cell", {"p": "m^2/s^2"},
        forces, {}, {}, (),
    )  # fmt: skip
    return replace(whole, **changes)


def calibration(residuals: list[float | None]) -> Calibration:
    names = tuple(map(str, range(len(residuals))))
    scores = ForceScores(
        residuals={name: dict(zip(names, residuals, strict=True)) for name in ("cd", "cl", "cs")},
        ranges={name: (REFERENCE[name],) * 2 for name in ("area", "density", "speed")},
        drag=(1.0, 0.0, 0.0),
        lift=(0.0, 0.0, 1.0),
        mirror=None,
        conventions={name: (own["value"],) for name, own in SAID.items()},
        definition="",
        left_out={},
    )
    return Calibration("w" * 64, "", "", "test", "auto", names, 1, 0.9, {}, scores)


KNOWN = calibration(list(np.random.default_rng(0).normal(0.5, 0.01, 160)))
"""Errors of 0.5 that all designs share, and 0.01 of their own: ± 0.028 for a difference."""


def verdicts(comparison: Comparison, coefficient: str = "cd") -> dict[str, str]:
    own = [one for one in comparison.differences if one.coefficient == coefficient]
    return {one.design: one.verdict for one in own}


def test_verdicts_of_designs() -> None:
    others = [design("less", 0.25), design("more", 0.35), design("alike", 0.31, 0.2)]
    comparison = compare(design("a"), others, KNOWN)
    assert verdicts(comparison) == {"less": "better", "more": "worse", "alike": "cannot be told"}
    assert verdicts(comparison, "cl") == {
        "less": "cannot be told", "more": "cannot be told", "alike": "higher"}  # fmt: skip
    first = comparison.differences[0]
    assert first.difference == pytest.approx(-0.05) and first.interval is not None
    assert first.bound is not None and 0.028 < first.bound < 0.045
    assert first.interval == pytest.approx((-0.05 - first.bound, -0.05 + first.bound))
    assert "all 3 differences" in comparison.promise and "160" in comparison.promise
    alone = compare(design("a"), others[:1], KNOWN).differences[0]
    assert alone.bound is not None and alone.bound < first.bound, "one design needs no correction"


def test_which_way_is_better() -> None:
    assert parse_better(None) == {"cd": "lower"}
    assert parse_better("cd=any,cl=higher") == {"cl": "higher"}
    assert verdict_of(0.2, 0.1, "higher") == "better" and verdict_of(0.2, 0.1, "lower") == "worse"
    assert verdict_of(-0.2, 0.1, None) == "lower" and verdict_of(0.2, 0.1, None) == "higher"
    assert verdict_of(0.1, 0.1, None) == verdict_of(0.0, 0.0, "lower") == "cannot be told"
    assert verdict_of(5.0, None, "lower") == "cannot be told"
    for text in ("cd", "cd=less", "cm=lower"):
        with pytest.raises(ValueError, match="better"):
            parse_better(text)


def test_close_variants_have_narrow_intervals() -> None:
    """Where the calibration knows how far its samples are apart, in all coefficients."""
    draw = np.random.default_rng(1)
    scores = KNOWN.forces
    assert scores is not None
    names = scores.residuals["cd"].keys()
    far = {name: dict(zip(names, draw.normal(0.3, 0.1, 160), strict=True))
           for name in ("cd", "cl", "cs")}  # fmt: skip
    known = replace(KNOWN, forces=replace(scores, predicted=far))
    a, close, other = design("a"), design("close", 0.302), design("other", 0.42, 0.3)
    near, wide = (compare(a, [one], known).differences[0].bound for one in (close, other))
    plain = compare(a, [close], KNOWN).differences[0].bound
    assert near is not None and wide is not None and plain is not None
    assert near < 0.1 * wide and plain <= wide < 1.3 * plain
    same = compare(a, [design("same")], known).differences[0]
    assert same.verdict == "cannot be told" and same.bound == pytest.approx(0.01 * wide, rel=0.1)


def test_too_few_samples_and_predictions_that_are_not_finite() -> None:
    few = compare(design("a"), [design("b", 0.9)], calibration([0.1] * 20))
    assert verdicts(few) == {"b": "cannot be told"} and few.promise == ""
    assert few.differences[0].reason.startswith("at most 90 % can be promised for one design")
    wild = compare(design("a"), [design("b", 0.9)], calibration([None] * 9 + [0.1] * 51))
    assert wild.differences[0].reason == "the prediction is not finite on 9 of 60 samples"


def test_designs_that_are_not_like_the_training_are_named() -> None:
    def notes(first: str | None, second: str | None) -> str:
        designs = design("a", likeness=first), design("b", 0.4, likeness=second)
        return " | ".join(compare(designs[0], [designs[1]], KNOWN).notes)

    assert "b: outside, not like the training" in notes("like training", "outside")
    assert "a: unusual, not like the training" in notes("unusual", "like training")
    assert "b: whether it is like the training was not asked" in notes("like training", None)
    for verdict in (None, "like training"):
        assert "training" not in notes(verdict, verdict)


def test_unlike_designs_are_refused() -> None:
    a, b = design("a"), design("b")
    cases: list[tuple[PredictedDesign, str]] = [
        (replace(b, forces=None), "must have forces to be compared, got b without"),
        (design("b", math.nan), "cd of b must be a number"),
        (replace(b, units={"p": "Pa"}), "same unit of p .* m\\^2/s\\^2 of a and Pa of b"),
        (design("b", reference={"drag": [0.9, 0.1, 0]}), "same direction of drag"),
        (design("b", reference={"mirror": "y"}), "same mirror of reference"),
        (design("b", reference={"pressure": 5.0}), "same pressure of reference"),
        (design("b", reference={"area": 2.0}), "b: .*the area of the calibration is 1, here"),
        (design("b", reference={"area": 2.0}, given={"area": 2.0}), "same area of reference"),
        (design("b", conventions={"pressure": {"value": "coefficient"}}), "convention of pressure"),
    ]
    for other, sentence in cases:
        with pytest.raises(ValueError, match=sentence):
            compare(a, [other], KNOWN)
    with pytest.raises(ValueError, match="a design besides the baseline, got a alone"):
        compare(a, [], KNOWN)
    with pytest.raises(ValueError, match="--level must be between 0 and 1"):
        compare(a, [b], KNOWN, 95.0)


def test_names_of_designs() -> None:
    several = [design("wide/a"), replace(design("tall/a"), file=Path("tall/a.vtp")), design("b")]
    assert find_design(several, "b") is several[2] and find_design(several, "b.vtp") is several[2]
    assert find_design(several, "wide/a") is several[0]
    assert find_design(several, "tall/a.vtp") is several[1]
    with pytest.raises(ValueError, match="must name one design, got 'a', which"):
        find_design(several, "a")
    with pytest.raises(ValueError, match="one of the designs, wide/a, tall/a, b, got 'c'"):
        find_design(several, "c")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `run`, `raw` and, since `outputs` was asked for, `predicted`."""
    return make_run(tmp_path_factory.mktemp("own")).parent


@pytest.fixture
def outputs(made: Path, command: Command) -> Path:
    """PREDICTED: 4 and 5, and another mesh of 5, by a run with a calibration. To be read only."""
    out, raw = made / "predicted", made / "raw"
    if not out.exists():
        said = command("calibrate", made / "run", "--split", "test", "--meshes", raw, *GIVEN)
        assert said.code == 0, said.err
        other = save(shuffled(body(5)), made / "new" / "other.stl")
        said = command("predict", made / "run", raw / "4.vtp", raw / "5.vtp", other, "--out", out,
                       *FLOW)  # fmt: skip
        assert said.code == 0, said.err
    return out


def test_outputs_of_predict(outputs: Path, command: Command) -> None:
    out, run = outputs, outputs.parent / "run"
    said = command("compare", out / "4.vtp", out / "5.vtp", "--baseline", "4", "--level", 0.5,
                   "--better", "cl=higher", "--json")  # fmt: skip
    assert said.code == 0, said.err
    told = json.loads(said.out)
    assert told["baseline"] == "4" and told["designs"] == ["5"] and told["samples"] == 3
    residuals = json.loads((run / "calibration.json").read_text())["calibration"]["forces"]
    rows = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
    value = {row["name"]: row["result"]["forces"]["coefficients"] for row in rows
             if row["kind"] == "mesh-prediction"}  # fmt: skip
    for one in told["differences"]:
        name = one["coefficient"]
        assert one["difference"] == value["5"][name] - value["4"][name]
        errors = list(residuals["residuals"][name].values())
        sizes = [abs(x - y) for x, y in zip(errors, errors[1:] + errors[:1], strict=True)]
        # The mean over pairs of three samples; a near pair's is scaled up, a near design's down.
        assert 0.01 * min(sizes) <= one["bound"] <= 100 * max(sizes)
        predicted = residuals["predicted"][name]
        assert predicted["5"] == pytest.approx(value["5"][name], rel=1e-5)
    page = (out / "compare.html").read_text("utf-8")
    assert "Against 4" in page and page.count("data:image/svg+xml") == 1
    assert "row by row" in page and "<script src" not in page and told["problems"] == []


def test_the_table_comes_where_nothing_can_be_promised(
    outputs: Path, tmp_path: Path, command: Command
) -> None:
    said = command("compare", outputs, "--baseline", "5", "--out", tmp_path)
    assert said.code == 0, said.err
    assert said.out.count("cannot be told") >= 6 and "95 % needs 57" in said.out
    page = (tmp_path / "compare.html").read_text("utf-8")
    assert "nearest place" in page and "row by row" in page


def test_what_is_no_comparison_is_one_sentence(
    outputs: Path, tmp_path: Path, command: Command
) -> None:
    made = Path(shutil.copytree(outputs.parent, tmp_path / "own"))
    run, out = made / "run", made / "predicted"
    records = out / "predictions.jsonl"
    records.write_text(records.read_text().replace(str(outputs.parent), str(made)))
    four, five = out / "4.vtp", out / "5.vtp"

    def refused(*arguments: Any) -> str:
        said = command("compare", *arguments)
        assert said.code == 2 and said.out == "" and said.err.count("\n") == 1
        return said.err

    assert "which no predictions.jsonl beside it names" in refused(
        made / "raw" / "4.vtp", "--baseline", "4")  # fmt: skip
    assert "which has no predictions.jsonl" in refused(tmp_path, "--baseline", "4")
    assert "got no" in refused(out / "6.vtp", "--baseline", "6")
    assert "--baseline must be one of the designs" in refused(out, "--baseline", "x")
    assert "cd=lower" in refused(out, "--baseline", "4", "--better", "down")
    assert "--field must be a predicted scalar, p, got" in refused(
        four, five, "--baseline", "4", "--field", "U")  # fmt: skip
    plain = tmp_path / "plain"
    assert command("predict", run, made / "raw" / "5.vtp", "--out", plain).code == 0
    assert "must have forces" in refused(four, plain, "--baseline", "4")
    moved = run.rename(tmp_path / "elsewhere")
    assert "--run says where it is now" in refused(four, five, "--baseline", "4")
    how = ("compare", four, five, "--baseline", "4")
    assert command(*how, "--run", moved).code == 0
    file = moved / "calibration.json"
    text = file.read_text()
    file.write_text(re.sub(r'"weights": "\w{12}', '"weights": "000000000000', text))
    assert "must be of the model's weights" in refused(*how[1:], "--run", moved)
    file.unlink()
    assert "slipstream calibrate" in refused(*how[1:], "--run", moved)
    lines = records.read_text().splitlines()
    weights = json.loads(lines[-1])["key"]["weights"]
    records.write_text("\n".join([*lines[:-1], lines[-1].replace(weights, "1" * 64)]) + "\n")
    assert "predicted by one model, got other of the weights 1111" in refused(
        out, "--baseline", "4", "--run", moved)  # fmt: skip


def read(mesh: Any, file: Path) -> Body:
    return read_body(file.stem, save(mesh, file), "cell", "p")


def with_x(mesh: Any) -> Any:
    mesh = mesh.copy()
    mesh.cell_data["p"] = np.asarray(mesh.cell_centers().points)[:, 0].astype(np.float64)
    return mesh


def test_the_difference_of_a_field(tmp_path: Path) -> None:
    first = read(with_x(ball()), tmp_path / "a.vtp")
    wider = read(with_x(ball(1.1)), tmp_path / "b.vtp")
    by_row = difference(wider, first)
    assert by_row.how == "by row" and by_row.share == 1
    np.testing.assert_allclose(by_row.values, 0.1 * first.places[:, 0], atol=1e-6)
    turned = read(with_x(shuffled(ball(1.01))), tmp_path / "c.vtp")
    nearest = difference(turned, first)
    assert nearest.how == "nearest" and nearest.share == 1
    np.testing.assert_allclose(nearest.values, turned.places[:, 0] / 101, atol=1e-6)
    half = ball()
    half.points[half.points[:, 0] > 0, 0] *= 1.5
    half = read(with_x(shuffled(half)), tmp_path / "d.vtp")
    part = difference(half, first)
    assert 0.5 < part.share < 0.8 and np.isnan(part.values).mean() == pytest.approx(1 - part.share)
    far = read(with_x(shuffled(ball(1.2))), tmp_path / "far.vtp")
    with pytest.raises(ValueError, match="a and far must have a common surface .* got 0%"):
        difference(first, far)
    assert len(read_mesh(tmp_path / "d.vtp").points()) == 162
