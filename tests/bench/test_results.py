"""The committed measurements: what RESULTS.md says is in the records, and nothing is too large."""

from __future__ import annotations

import json
import lzma
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slipstream.bench.cases import CASES
from slipstream.bench.parity import all_cases
from slipstream.bench.streaming import StreamingCase
from slipstream.cli import bench_streaming
from slipstream.cli.bench import app

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
REPRODUCTION = BENCHMARKS / "reproduction"
RESULTS = BENCHMARKS / "RESULTS.md"
MOST_BYTES, MOST_FILES = 9_000_000, 120

pytestmark = pytest.mark.skipif(
    not RESULTS.is_file(), reason="the measurements are not installed with the package"
)


def links(page: Path) -> set[Path]:
    """The files that a page links to or shows."""
    found = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    return {(page.parent / link).resolve() for link in found}


def script() -> dict[str, Any]:
    return runpy.run_path(str(BENCHMARKS / "results.py"))


def row(name: str, time: str, green: bool = True) -> dict[str, Any]:
    return {"name": name, "time": time, "gate": {"green": green}}


@pytest.mark.parametrize("page", [RESULTS, REPRODUCTION / "README.md"])
def test_linked_files_are_there(page: Path) -> None:
    assert links(page)
    assert [path for path in links(page) if not path.exists()] == []


def test_all_records_and_figures_are_shown() -> None:
    kept = {*BENCHMARKS.glob("records/*/*"), *REPRODUCTION.rglob("*.png")}
    assert kept - links(RESULTS) - links(REPRODUCTION / "README.md") == set()


def test_the_measurements_are_small() -> None:
    files = [path for path in BENCHMARKS.rglob("*") if path.is_file()]
    sizes = [path.stat().st_size for path in files if path.parent.name != "__pycache__"]
    assert sum(sizes) < MOST_BYTES and len(sizes) < MOST_FILES


def test_the_tables_are_those_of_the_records() -> None:
    text = RESULTS.read_text(encoding="utf-8")
    for title, lines in script()["tables"]().items():
        assert "\n".join(lines) in text, f"{title}: run python benchmarks/results.py"


def test_parity_is_green() -> None:
    text = lzma.decompress((BENCHMARKS / "records/h200/parity.jsonl.xz").read_bytes()).decode()
    rows = [json.loads(line) for line in text.splitlines()]
    green = sum(row["green"] and row["deterministic"] for row in rows)
    assert f"**{green} of {len(rows)} cases green" in RESULTS.read_text(encoding="utf-8")


def test_what_waits_for_a_gpu_selects_cases() -> None:
    text = RESULTS.read_text(encoding="utf-8").split("## Waiting for a GPU")[1]
    commands = [shlex.split(line) for line in text.splitlines() if line.startswith("slipstream ")]
    chosen = [
        (words[2], words[words.index("--only") + 1]) for words in commands if "--only" in words
    ]
    assert len(chosen) > 4
    for command, only in chosen:
        cases = all_cases("cuda") if command == "parity" else CASES[command]()
        for part in only.split("|"):
            assert any(part in case.name for case in cases), f"{command} --only {part!r}"


def test_what_waits_for_a_gpu_streams_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands are understood; a GPU would run them."""
    given: list[StreamingCase] = []
    monkeypatch.setattr(
        bench_streaming.streams, "run_streaming", lambda cases, out, device: given.extend(cases)
    )
    monkeypatch.setattr(bench_streaming, "_said", lambda records, out, as_json: [])
    text = RESULTS.read_text(encoding="utf-8")
    lines = re.findall(r"^slipstream bench (streaming .*)$", text, re.MULTILINE)
    for line in lines:
        words = shlex.split(line.replace("--folder out/gpu ", "--folder . "))
        assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0, line
    in_bf16 = {(case.points, case.place) for case in given if case.dtype == "bf16"}
    assert in_bf16 >= {(133_000_000, "device"), (133_000_000, "recompute"), (20_000_000, "device")}
    assert any(case.one_pass and case.points == 20_000_000 for case in given)


def test_of_a_name_the_newest_is_kept_that_passed_its_gate() -> None:
    rows = [row("a", "3", green=False), row("a", "2"), row("b", "1"), row("a", "1")]
    kept = script()["newest"](rows)
    assert {(row["name"], row["time"]) for row in kept} == {("a", "2"), ("b", "1")}


def test_a_newer_row_without_a_reference_leaves_the_older_ratio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = script()["add"]
    monkeypatch.setitem(add.__globals__, "H200", tmp_path)
    for file, time, results in (("model-reference", "1", {"reference": {}}), ("model", "2", {})):
        given = tmp_path / "given" / f"{file}.jsonl"
        given.parent.mkdir(exist_ok=True)
        given.write_text(json.dumps({**row("a", time), "kind": "bench", "results": results}))
        add(given)
    kept = {file.stem: json.loads(file.read_text())["time"] for file in tmp_path.glob("*.jsonl")}
    assert kept == {"model": "2", "reference": "1"}


def test_an_archive_holds_all_but_predictions_and_is_the_same_again(tmp_path: Path) -> None:
    archive = runpy.run_path(str(REPRODUCTION / "archive.py"))
    run = tmp_path / "given/records/study/runs/a"
    for name in ("records.jsonl", "config.json", "predictions/x.safetensors"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(name)
    for name in ("first.tar.xz", "second.tar.xz"):
        archive["pack"](tmp_path / "given", tmp_path / name)
        os.utime(run / "config.json", (1, 1))
    assert (tmp_path / "first.tar.xz").read_bytes() == (tmp_path / "second.tar.xz").read_bytes()
    archive["unpack"](tmp_path / "first.tar.xz", tmp_path / "again")
    files = [path for path in (tmp_path / "again").rglob("*") if path.is_file()]
    assert {path.name: path.read_text() for path in files} == {
        "records.jsonl": "records.jsonl", "config.json": "config.json"
    }  # fmt: skip
    with pytest.raises(ValueError, match="folder must hold records of runs, got .* with 0 files"):
        archive["pack"](tmp_path / "nothing", tmp_path / "third.tar.xz")


def test_the_reproduction_s_tables_are_made_of_its_archive(tmp_path: Path) -> None:
    """Of the smaller part; what the larger one needs is looked for."""
    environment = os.environ | {
        "PYTHON": sys.executable, "PARTS": "few", "PLACE": str(tmp_path / "place"),
        "WORK": str(tmp_path / "work"),
    }  # fmt: skip
    command = ["bash", str(REPRODUCTION / "run.sh"), "report"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for kind in ("tables", "figures"):
        names = {path.name for path in (REPRODUCTION / "few" / kind).iterdir()}
        assert {path.name for path in (tmp_path / "place/few" / kind).iterdir()} == names
    for committed in (REPRODUCTION / "few/tables").iterdir():
        made = tmp_path / "place/few/tables" / committed.name
        assert made.read_bytes() == committed.read_bytes(), f"{committed.name}: run.sh report"


def test_every_run_of_the_archive_has_what_a_report_reads(tmp_path: Path) -> None:
    runpy.run_path(str(REPRODUCTION / "archive.py"))["unpack"](
        REPRODUCTION / "records.tar.xz", tmp_path
    )
    runs = [file.parent for file in tmp_path.rglob("config.json")]
    assert f"all {len(runs)} runs" in (REPRODUCTION / "README.md").read_text(encoding="utf-8")
    for run in runs:
        assert {path.name for path in run.iterdir()} >= {"records.jsonl", "evaluations.jsonl"}
    studies = [*tmp_path.glob("records/*"), *tmp_path.glob("few/records/*")]
    assert len(studies) > 20
    for study in studies:
        assert {path.name for path in study.iterdir()} >= {"study.json", "certificate.json"}
