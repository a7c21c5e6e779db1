"""A checkpoint that is not what was written is never continued from in silence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from slipstream.audit.run_audit import audit_run
from slipstream.runs.checkpoint import read_checkpoint, read_tensors, weights_hash, write_tensors
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import load_model

from ..training.small import same, trainer, weights

Tensors = dict[str, torch.Tensor]
CHANGES = {"keep": 3, "checkpoint_every": 2, "optim__learning_rate": 0.01}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 12 steps, of which those after step 8 are still to be taken."""
    path = tmp_path_factory.mktemp("made")
    trainer(path, **CHANGES).run()
    folder = RunFolder(path / "run")
    for step in (10, 12):
        folder.checkpoint_file(step).rename(path / f"{step}")
    shutil.copyfile(path / "10", folder.checkpoint_file(10))
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 0x10
    file.write_bytes(content)


def offset_of(file: Path, name: str) -> int:
    """Where the bytes of a tensor begin."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    return 8 + length + int(header[name]["data_offsets"][0])


@pytest.mark.parametrize(
    "name",
    ["model.head.bias", "optimizer.head.bias.exp_avg", "optimizer.head.bias.step", "rng.cpu"],
)
def test_a_flipped_bit_is_named_with_the_checkpoint_to_go_on_from(path: Path, name: str) -> None:
    folder = RunFolder(path / "run")
    newest, older = (folder.checkpoint_file(step) for step in (10, 8))
    flip(newest, offset_of(newest, name))
    with pytest.raises(ValueError, match="must hold what was written into it") as caught:
        trainer(path, **CHANGES).run()
    hint = f"remove {newest.name} to continue from step 8: {older.name} is whole"
    assert str(newest) in str(caught.value) and str(caught.value).endswith(hint)
    found = {f.check: f.sentence for f in audit_run(folder.path).findings if not f.holds}
    assert "it is damaged" in found["readable"]
    newest.unlink()
    again = trainer(path, **CHANGES)
    again.run()
    whole = read_checkpoint(path / "12")
    assert same(weights(again), whole.part("model"))
    assert folder.checkpoint_file(12).read_bytes() == (path / "12").read_bytes()


def test_a_bit_of_the_header_counts_too(path: Path) -> None:
    newest = RunFolder(path / "run").checkpoint_file(10)
    content = newest.read_bytes().replace(b'\\"skipped\\": 0', b'\\"skipped\\": 1')
    newest.write_bytes(content)
    with pytest.raises(ValueError, match=r"must hold what was written .*to continue from step 8"):
        trainer(path, **CHANGES).run()


def test_all_damaged_checkpoints_are_named(path: Path) -> None:
    folder = RunFolder(path / "run")
    assert folder.checkpoint_steps() == [0, 8, 10]
    files = {step: folder.checkpoint_file(step) for step in (0, 8, 10)}
    for step in (10, 8):
        flip(files[step], -1)
    named = f"remove {files[10].name} and {files[8].name}"
    with pytest.raises(ValueError, match=f"{named} to continue from step 0: .* is whole"):
        trainer(path, **CHANGES).run()
    files[0].write_bytes(b"")
    with pytest.raises(ValueError, match=f"{named} and {files[0].name} to begin again"):
        trainer(path, **CHANGES).run()


def edit_records(folder: RunFolder, change: Callable[[dict[str, Any]], object]) -> None:
    rows = folder.records()
    for row in rows:
        if row["kind"] == "checkpoint":
            change(row)
    folder.records_file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_checkpoint_of_another_run_is_not_taken_for_this_one(path: Path) -> None:
    """Whole in itself, of the same config: only the records know."""
    folder = RunFolder(path / "run")
    newest = folder.checkpoint_file(10)
    header, tensors = read_tensors(newest, "checkpoint")
    tensors["optimizer.head.bias.exp_avg"] += 1
    write_tensors(newest, "checkpoint", header, tensors)
    with pytest.raises(ValueError, match=r"must have the content of its record, .* step 8"):
        trainer(path, **CHANGES).run()
    found = {f.check: f.sentence for f in audit_run(folder.path).findings if not f.holds}
    assert "the checkpoint of step 10 must have the content" in found["weights"]
    tensors["model.head.bias"] += 1
    write_tensors(newest, "checkpoint", header, tensors)
    with pytest.raises(ValueError, match=r"must have the weights of its record, .* step 8"):
        trainer(path, **CHANGES).run()


def as_older_version(file: Path) -> None:
    """The file without the hash of its content."""
    with safe_open(file, framework="pt") as opened:
        header = json.loads(opened.metadata()["slipstream"])
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    del header["content"]
    save_file(tensors, file, {"slipstream": json.dumps(header)})


def test_runs_of_older_versions_resume_with_the_hash_they_have(path: Path) -> None:
    folder = RunFolder(path / "run")
    newest = folder.checkpoint_file(10)
    for step in (0, 8, 10):
        as_older_version(folder.checkpoint_file(step))
    edit_records(folder, lambda row: row.pop("content"))
    older = newest.read_bytes()
    flip(newest, offset_of(newest, "model.head.bias"))
    with pytest.raises(ValueError, match="must have the weights of its record"):
        trainer(path, **CHANGES).run()
    newest.write_bytes(older)
    again = trainer(path, **CHANGES)
    assert again.run().reason == "finished"
    assert same(weights(again), read_checkpoint(path / "12").part("model"))


def test_a_checkpoint_without_a_record_has_its_own_hash(path: Path) -> None:
    """A run may be killed between the two."""
    folder = RunFolder(path / "run")
    rows = [row for row in folder.records() if row["step"] < 10]
    folder.records_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    newest = folder.checkpoint_file(10)
    whole = newest.read_bytes()
    flip(newest, -1)
    with pytest.raises(ValueError, match="must hold what was written into it"):
        trainer(path, **CHANGES).run()
    newest.write_bytes(whole)
    assert trainer(path, **CHANGES).run().reason == "finished"


def test_weights_of_another_dtype_are_refused(path: Path) -> None:
    folder = RunFolder(path / "run")
    newest = folder.checkpoint_file(10)
    header, tensors = read_tensors(newest, "checkpoint")

    def write(name: str, dtype: torch.dtype) -> None:
        changed = {**tensors, name: tensors[name].to(dtype)}
        content = write_tensors(newest, "checkpoint", header, changed)
        part = {k.removeprefix("model."): v for k, v in changed.items() if k.startswith("model.")}
        hashes = {"weights": weights_hash(part), "content": content}
        edit_records(folder, lambda row: row.update(hashes) if row["step"] == 10 else None)

    for name, dtype, sentence in (
        ("model.head.bias", torch.float64, "head.bias must have dtype torch.float32 in fp32, got"),
        ("model.head.bias", torch.bfloat16, "torch.float32 in fp32, got torch.bfloat16"),
        ("optimizer.head.bias.exp_avg", torch.float16, "head.bias.exp_avg must have dtype torch.f"),
        ("optimizer.head.bias.step", torch.int64, "head.bias.step must have dtype torch.float32"),
    ):
        write(name, dtype)
        with pytest.raises(ValueError, match=sentence):
            trainer(path, **CHANGES).run()


def test_a_damaged_model_or_one_of_another_dtype_is_refused(path: Path) -> None:
    model = path / "run" / "model.safetensors"
    header, tensors = read_tensors(model, "model")
    flip(model, -1)
    with pytest.raises(ValueError, match=r"model.safetensors must hold what was written into it"):
        load_model(model)
    write_tensors(model, "model", header, {k: v.double() for k, v in tensors.items()})
    with pytest.raises(
        ValueError, match="must have dtype torch.float32 in fp32, got torch.float64"
    ):
        load_model(model)
