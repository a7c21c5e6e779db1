"""`slipstream report` as a user meets it, on a study that was trained."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ..conftest import Command
from ..reports.conftest import made_study, study  # noqa: F401


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A folder with files of an older report, of one that was killed, and of nobody's."""
    out = tmp_path / "out"
    for name in ("tables/sweep-steps.tex", "figures/field-other-p.png", "tables/grid.md"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("of an older one")
    left = ("tables/.claims.tex.7.partial", "figures/.field-x.svg.7.partial")
    for name in (*left, ".report.html.7.partial"):
        (out / name).write_text("of a report that was killed")
    for name in NOT_OURS:
        (out / name).write_text("not of a report")
    return out


NOT_OURS = ("tables/notes.md", "figures/logo.png", "tables/grid.csv", "tables/.notes.md.7.partial")


def test_a_page_tables_and_figures_replace_older_ones(
    study: Path,  # noqa: F811
    older: Path,
    command: Command,
) -> None:
    said = command("report", study, "--out", older)
    assert said.code == 0, said.err
    assert "without token attention the error is" in said.out
    assert said.out.splitlines()[-1] == f"Report: {older / 'report.html'}"
    page = (older / "report.html").read_text()
    for heading in ("Validation error", "Subsampling noise", "Entropy of the slices", "poisson"):
        assert heading in page
    assert not re.search(r"(src|href)=[\"']?https?:", page)
    names = {file.name for file in (older / "tables").iterdir()}
    assert {"main.md", "main.tex", "ratio.md", "variables-l1.md", "noise.md"} <= names
    drawn = {file.name for file in (older / "figures").iterdir()}
    assert {"ratios.svg", "ratios.png", "curves.svg", "field-poisson-potential.png"} <= drawn
    assert "slices-poisson.svg" not in drawn, "there is no body to draw them on"
    assert "±" in (older / "tables/main.md").read_text()

    assert [file.name for file in older.rglob("*.partial")] == [".notes.md.7.partial"]
    assert {(older / name).read_text() for name in NOT_OURS} == {"not of a report"}
    assert not {"sweep-steps.tex", "grid.md"} & names and "field-other-p.png" not in drawn


@pytest.mark.usefixtures("small_pictures")
def test_what_is_missing_is_said_in_place(study: Path, tmp_path: Path, command: Command) -> None:  # noqa: F811
    (study / "runs/poisson/mlp-only/seed-0/config.json").unlink()
    (study / "runs/poisson/no-token-attention/seed-0/evaluations.jsonl").unlink()
    said = command("report", study, "--out", tmp_path / "out")
    assert said.code == 0
    assert "Note: poisson mlp-only seed 0 is missing" in said.out
    assert "Note: not evaluated: poisson no-token-attention seed 0 (slipstream eval" in said.out
    page = (tmp_path / "out/report.html").read_text()
    assert "poisson mlp-only seed 0 is missing" in page and "not evaluated: " in page
    table = (tmp_path / "out/tables/main.md").read_text().splitlines()
    head, row = ([cell.strip() for cell in table[line].split("|")[1:-1]] for line in (2, 4))
    assert head[:4] == ["experiment", "baseline", "no-token-attention", "mlp-only"]
    assert row[0] == "poisson" and row[3] == "missing"


def test_a_study_that_was_only_trained(study: Path, tmp_path: Path, command: Command) -> None:  # noqa: F811
    for file in (*study.rglob("evaluations.jsonl"), *study.glob("certificate*")):
        file.unlink()
    said = json.loads(command("report", study, "--out", tmp_path / "out", "--json").out)
    assert len(said["problems"]) == 2 and str(tmp_path / "out/report.html") in said["files"]
    assert not any("variables" in file or "field-" in file for file in said["files"])
    page = (tmp_path / "out/report.html").read_text()
    assert "<h2>Errors</h2>" in page and "<h2>Fields</h2>" not in page


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("gone",), "gone must be the folder of a run or a study, got no such folder"),
        (("empty",), "empty must have runs that can be read, got none"),
        (("study", "--bench", "gone.jsonl"), "gone.jsonl"),
        (("study", "--bench", "bad.jsonl"), "bad.jsonl"),
    ],
)
def test_bad_input_is_one_sentence(
    study: Path,  # noqa: F811
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.jsonl").write_text("{]\n")
    said = command("report", *arguments, "--out", "out")
    assert said.code == 2 and sentence in said.err and said.err.count("\n") == 1, said
    assert not (tmp_path / "out/report.html").exists()
