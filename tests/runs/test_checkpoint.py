from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from slipstream.runs.checkpoint import (
    Checkpoint,
    read_checkpoint,
    read_tensors,
    weights_hash,
    write_checkpoint,
    write_tensors,
)
from tests.training.small import small

STATE = {
    "step": 7,
    "best": {"step": 4, "error": 0.5, "by_group": {"pressure": 0.5, "shear": None}},
    "skipped": 0,
    "loader": {"epoch": 1, "position": 2, "seed": 0, "samples": 4, "batch_size": 1}
    | {"shuffle": True, "even": True, "rank": 0, "world_size": 1},
    "config": json.loads(json.dumps(small().to_json())),
    "data_hash": "a",
    "split_hash": "b",
    "processes": 1,
}


def made() -> Checkpoint:
    return Checkpoint(
        dict(STATE),
        {
            "model.w": torch.randn(2, 3).t(),
            "optimizer.w.step": torch.tensor(3.0),
            "rng.cpu": torch.arange(5, dtype=torch.uint8),
        },
    )


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    before = made()
    write_checkpoint(tmp_path / "c", before)
    after = read_checkpoint(tmp_path / "c")
    assert after.step == 7 and STATE.items() <= after.state.items()
    assert before.tensors.keys() == after.tensors.keys()
    for name, tensor in before.tensors.items():
        found = after.tensors[name]
        assert torch.equal(tensor, found) and tensor.dtype == found.dtype
    assert list(after.part("optimizer")) == ["w.step"]
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_what_was_there_stays_when_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tmp_path / "c", made())
    before = (tmp_path / "c").read_bytes()

    def full(aside: Path, path: Path) -> None:
        raise OSError(28, "No space left on device", str(aside))

    monkeypatch.setattr("slipstream.core.files.publish", full)
    with pytest.raises(OSError, match="No space left"):
        write_checkpoint(tmp_path / "c", made())
    assert (tmp_path / "c").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with pytest.raises(ValueError, match="must be a checkpoint, got no such file"):
        read_checkpoint(path)
    path.write_bytes(b"no safetensors at all")
    with pytest.raises(ValueError, match="must be a checkpoint, got"):
        read_checkpoint(path)
    save_file({"w": torch.ones(2)}, path)
    with pytest.raises(ValueError, match="got a file of another program"):
        read_checkpoint(path)
    write_tensors(path, "model", {}, {})
    with pytest.raises(ValueError, match="must be a checkpoint, got model"):
        read_checkpoint(path)
    write_tensors(path, "mod\x1b[31mel", {}, {})
    with pytest.raises(ValueError, match=r"must be a checkpoint, got mod\\x1b\[31mel$"):
        read_checkpoint(path)
    write_tensors(path, "checkpoint", {"step": 1}, {})
    with pytest.raises(ValueError, match="it must have the field best, got none"):
        read_checkpoint(path)
    write_tensors(path, "checkpoint", {**STATE, "schema": 99}, {})
    with pytest.raises(ValueError, match="schema must be at most 1, got 99"):
        read_checkpoint(path)


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    write_checkpoint(path, made())
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match="must be a checkpoint, got"):
        read_tensors(path, "checkpoint")


def test_the_hash_is_of_names_shapes_and_bits() -> None:
    w = {"a": torch.zeros(2, 3), "b": torch.ones(())}
    same = {"b": torch.ones(()), "a": torch.zeros(3, 2).t()}
    assert weights_hash(w) == weights_hash(same)
    for other in (
        {"a": torch.zeros(3, 2), "b": torch.ones(())},
        {"c": torch.zeros(2, 3), "b": torch.ones(())},
        {"a": -torch.zeros(2, 3), "b": torch.ones(())},
        {"a": torch.zeros(2, 3), "b": torch.zeros(())},
        {"a": torch.zeros(2, 3).double(), "b": torch.ones(())},
    ):
        assert weights_hash(w) != weights_hash(other)
