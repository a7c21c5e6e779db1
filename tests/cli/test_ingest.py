"""`slipstream data ingest` as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from slipstream.cli import app as cli
from slipstream.data.store import check_store, open_store

from ..data.benchmarks.test_drivaerml import write_run
from ..data.benchmarks.test_shift import WING, write_wing
from ..data.benchmarks.test_taylor_green import make_velocity, write_netcdf


def slipstream(*arguments: object) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "slipstream", "data", "ingest", *map(str, arguments)],
        capture_output=True, text=True,
    )  # fmt: skip


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """In this process: the exit code."""
    monkeypatch.setattr(sys, "argv", ["slipstream", "data", "ingest", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def test_cars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, store = tmp_path / "raw", tmp_path / "store"
    for run in (33, 43, 423, 472, 108):
        write_run(raw, run)
    (raw / "run_43/boundary_43.vtp").write_text("no mesh")
    done = slipstream("drivaerml-surface", raw, store)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "5 of 484 designs are here."
    assert lines[1] == f"{store}: 4 written, 0 kept, 1 quarantined."
    assert lines[2].startswith("  run_43: boundary_43.vtp")
    assert [line[:17] for line in lines[3:]] == ["warning: pressure"]  # of a box, not of a car
    assert check_store(store) == []
    found = open_store(store)
    assert found.splits == {
        "train": ("run_33",),
        "val": ("run_423",),
        "test": ("run_472", "run_108"),
    }
    assert found.manifest.samples["run_33"].files["run_33/boundary_33.vtp"]["sha256"]
    assert found.manifest.origin.source == "drivaerml-surface"
    again = ("drivaerml-surface", raw, store, "--json")
    assert call(monkeypatch, *again) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["kept"]) == 4 and list(said["quarantined"]) == ["run_43"]
    assert said["presence"] == "5 of 484 designs are here" and len(said["warnings"]) == 1
    assert call(monkeypatch, *again, "--set", "location=point") == 2
    assert "options must be what" in capsys.readouterr().err
    assert check_store(store) == []


def test_wings_with_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw, store = tmp_path / "raw", tmp_path / "store"
    for number in (3, 8):
        write_wing(raw, number)
    (raw / WING / "sample_000009").mkdir()
    lists = tmp_path / "lists.json"
    lists.write_text('{"train": [8], "val": [], "test": [3]}')
    options = ("--set", "box=[[-1, -2, -1], [2.5, 2, 3]]", "--set", "pressure_offset=2e1")
    command = ("shift-wing-surface", raw, store, "--split", lists, "--no-hash", *options)
    for shard in ("0/2", "1/2"):
        assert call(monkeypatch, *command, "--shard", shard, "--seed", 5) == 0
        assert not (store / "manifest.json").exists()
    monkeypatch.setattr(sys, "argv", ["slipstream", "data", "merge", str(store)])
    with pytest.raises(SystemExit):
        cli.main()
    assert check_store(store) == []
    found = open_store(store)
    assert found.splits == {"train": ("sample_000008",), "val": (), "test": ("sample_000003",)}
    rows = found.array("sample_000008")
    assert rows[:, 0].max() <= 2.5
    pressure = rows[:, found.schema.columns("pressure")][:, 0]
    np.testing.assert_allclose(
        pressure, 10 * rows[:, 0] - 3 * rows[:, 1] + 7 * rows[:, 2] - 25, atol=1e-4
    )
    assert "sha256" not in str(found.manifest.samples) and found.manifest.origin.seed == 5


def test_vortices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_netcdf(tmp_path / "tg.nc", make_velocity(2, states=3))
    options = ("--set", "states=3", "--set", "lags=[0, 2]")
    assert call(monkeypatch, "taylor-green", tmp_path / "tg.nc", tmp_path / "s", *options) == 0
    store = open_store(tmp_path / "s")
    assert sum(map(len, store.splits.values())) == 2 * 4 and check_store(tmp_path / "s") == []
    assert (store.array("tg-000001-00-02")[:, store.schema.columns("lead_time")] == 1).all()
    files = store.manifest.samples["tg-000001"].files
    assert list(files) == ["tg.nc"] and len(files["tg.nc"]["sha256"]) == 64


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("drivaerml", "raw", "s"), "name must be one of taylor-green"),
        (("drivaerml-volume", "raw", "s"), "raw must be a folder with run_1, ..., got no such fo"),
        (("drivaerml-volume", ".", "s"), "must hold folders run_1, ..., got none"),
        (("drivaerml-volume", ".", "s", "--set", "lags=1"), "must be one of location, cell_to"),
        (("drivaerml-volume", ".", "s", "--set", "box"), "--set must be name=value, got 'box'"),
        (("drivaerml-volume", ".", "s", "--set", "box=["), "--set box must be a YAML value"),
        (("drivaerml-volume", ".", "s", "--card", "c"), "--card must go with mesh"),
        (("drivaernet-surface", ".", "s"), "PressureVTK must be a folder of"),
        (("shift-wing-volume", ".", "s"), "must be a folder with sample_1"),
        (("taylor-green", "nowhere.nc", "s"), "nowhere.nc must be a file or a folder of .nc"),
        (("mesh", ".", "s"), "mesh must have a --card, got none"),
        (("mesh", ".", "s", "--card", "c", "--split", "sorted"), "must not go with mesh"),
        (("mesh", ".", "s", "--card", "card.yaml"), "card.yaml"),
        (("taylor-green", ".", "s", "--shard", "1"), "shard must be i/n"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(
    arguments: tuple[str, ...],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, *arguments) == 2
    said = capsys.readouterr()
    assert sentence in said.err and said.err.count("\n") == 1 and not said.out
    assert not list(tmp_path.iterdir())
