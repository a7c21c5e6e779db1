from __future__ import annotations

from pathlib import Path

import pytest

from slipstream.runs.config import with_store
from slipstream.runs.folder import RunFolder
from slipstream.training.session import train

from .small import small


def test_a_run_and_its_continuation(tmp_path: Path) -> None:
    outcome = train(small(), tmp_path / "r", device="cpu")
    assert outcome.reason == "finished" and (tmp_path / "r" / "data" / "manifest.json").is_file()
    assert train(None, tmp_path / "r", device="cpu") == outcome
    assert train(small(), tmp_path / "r", device="cpu") == outcome


def test_a_store_may_move(tmp_path: Path) -> None:
    train(small(), tmp_path / "r", device="cpu")
    (tmp_path / "r" / "data").rename(tmp_path / "elsewhere")
    moved = with_store(small(), tmp_path / "elsewhere")
    assert train(moved, tmp_path / "r", device="cpu").reason == "finished"


def files(path: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in path.rglob("*") if p.is_file() and p.name != "lock"}


def test_bad_input_changes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "r"
    train(small(), out, device="cpu")
    before = files(out)
    with pytest.raises(ValueError, match=r"seed: 0, 4"):
        train(small(seed=4), out, device="cpu")
    with pytest.raises(ValueError, match="track must be one of tensorboard, wandb"):
        train(small(), out, device="cpu", track=["mlflow"])
    with RunFolder(out).locked(), pytest.raises(ValueError, match="must not be in use"):
        train(small(), out, device="cpu")
    assert files(out) == before


def test_a_run_whose_data_do_not_fit_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be at most the 32 rows"):
        train(small(data__points=33), tmp_path / "r", device="cpu")
    assert [path.name for path in (tmp_path / "r").iterdir()] == ["data"]
    with pytest.raises(ValueError, match="must be a store with a manifest"):
        train(with_store(small(), tmp_path / "no"), tmp_path / "s", device="cpu")
    assert not (tmp_path / "s").exists()
    with pytest.raises(ValueError, match=r"must be a run to continue, got no config.json"):
        train(None, tmp_path / "none", device="cpu")
    assert not (tmp_path / "none").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="must be a run or an empty folder"):
        train(small(), tmp_path / "full", device="cpu")
    assert (tmp_path / "full" / "notes.txt").read_text() == "mine"
