"""Runs on a mesh of data x points: several processes share the points of every sample."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstream.audit.run_audit import audit_run
from slipstream.bench.kills import finish_run
from slipstream.core.schemas import parsed
from slipstream.runs.checkpoint import read_checkpoint
from slipstream.runs.config import MeshConfig, RunConfig
from slipstream.runs.folder import RunFolder
from slipstream.training.distributed import join_world
from slipstream.training.session import train

from .small import small

COMMON = {
    "steps": 20, "evaluate_every": 10, "log_every": 1, "data__points": 15, "precision": "fp64",
    "data__builtin__samples": {"train": 8, "val": 3},
}  # fmt: skip


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Two groups of two processes, each with 8 and 7 points of its two samples."""
    folder = RunFolder(tmp_path_factory.mktemp("four") / "run")
    finish_run(small(**COMMON, batch=2, mesh__points=2), folder, "cpu", 4)
    return folder


def test_two_by_two_processes_are_one(four: RunFolder, tmp_path: Path) -> None:
    train(small(**COMMON, batch=4), tmp_path / "one", device="cpu")
    folders = RunFolder(tmp_path / "one"), four
    one, other = (read_checkpoint(f.checkpoint_file(20)).part("model") for f in folders)
    assert max(float((one[name] - other[name]).abs().max()) for name in one) < 1e-11
    for kind, names in {"train": ("loss", "gradient_norm"), "validation": ("error",)}.items():
        for name in names:
            mine, theirs = ([row[name] for row in f.history(kind)] for f in folders)
            assert mine == pytest.approx(theirs, rel=1e-6 if kind == "train" else 1e-11)
    assert [row["kind"] for row in four.history()] == [row["kind"] for row in folders[0].history()]


def test_its_records_and_its_audit(four: RunFolder, tmp_path: Path) -> None:
    (start,) = four.history("start")
    assert (start["processes"], start["mesh"]) == (4, {"data": 2, "points": 2})
    found = audit_run(four.path)
    assert found.holds, [finding for finding in found.findings if not finding.holds]
    sentences = {finding.check: finding.sentence for finding in found.findings}
    assert sentences["draws"].startswith("20 batches of 4 samples")
    assert "fp64, 2 processes a sample" in sentences["implementation"]


@pytest.mark.parametrize("mesh", [{"data": 4, "points": 1}, None])
def test_the_audit_sees_another_mesh(
    four: RunFolder, tmp_path: Path, mesh: dict[str, int] | None
) -> None:
    rows = [json.loads(line) for line in four.records_file.read_text().splitlines()]
    before = four.records_file.read_text()
    rows[1]["mesh"] = mesh
    assert rows[1]["kind"] == "start"
    four.records_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    wrong = [finding for finding in audit_run(four.path).findings if not finding.holds]
    four.records_file.write_text(before)
    assert [finding.check for finding in wrong] == ["implementation"]
    expected = "must have the mesh {'data': 2, 'points': 2}, got"
    assert expected in wrong[0].sentence


@pytest.mark.parametrize(("size", "words"), [(1, "2 and 1 process "), (3, "2 and 3 processes ")])
def test_a_mesh_that_does_not_divide_the_processes(
    size: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", str(size))
    with pytest.raises(ValueError, match=f"must divide the number of processes, got {words}"):
        train(small(mesh__points=2), tmp_path / "run", device="cpu")
    with pytest.raises(ValueError, match="must divide"), join_world("cpu", MeshConfig(points=2)):
        pass
    assert not (tmp_path / "run").exists()


def test_a_run_keeps_its_mesh(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run").begin(small(mesh__points=2))
    with pytest.raises(ValueError, match="mesh.points: 2, 1"):
        train(small(), tmp_path / "run", device="cpu")
    with pytest.raises(ValueError, match="mesh.points must be a whole number of at least 1, got 0"):
        small(mesh__points=0)


def test_older_configs_have_a_mesh_of_one() -> None:
    older = small().to_json()
    del older["mesh"]
    assert parsed(RunConfig, older) == small() and small().mesh == MeshConfig(points=1)
