"""`slipstream import`, `export-weights` and `slim` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from slipstream import load_model
from slipstream.core.configs import overlay
from slipstream.data.store import open_store
from slipstream.interop.certificate import Parity
from slipstream.interop.import_weights import import_weights
from slipstream.interop.imported_model import as_trained, write_imported
from slipstream.training.session import train

from ..conftest import Command
from ..training.small import small

NAMES = "--inputs=x=m,y=m,z=m,density", "--outputs=potential,u,v,w"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained baseline; its store is in data/."""
    path = tmp_path_factory.mktemp("import") / "run"
    train(small(steps=4), path, device="cpu")
    return path


def exported(run: Path, command: Command, file: Path, to: str = "thuml") -> Path:
    assert command("export-weights", run, "--to", to, "--out", file).code == 0
    return file


def parameters(path: Path) -> dict[str, Tensor]:
    return dict(load_model(path).model.named_parameters())


def test_out_and_back(run: Path, command: Command, tmp_path: Path) -> None:
    said = command("export-weights", run, "--to", "thuml", "--out", tmp_path / "a.pt")
    assert said.code == 0 and "baseline under the names of thuml" in said.out
    assert "The normaliser stays behind" in said.out
    own = load_model(run).normaliser.rows
    assert f"density: shift {own.shift[3]:.9g}, scale {own.scale[3]:.9g}" in said.out
    given = ("--from", "thuml", "--coord-dim", 3, *NAMES, "--out", tmp_path / "a.safetensors")
    said = command("import", tmp_path / "a.pt", *given)
    assert said.code == 0 and "parity not compared: thuml is no installed package" in said.out
    before, after = parameters(run), parameters(tmp_path / "a.safetensors")
    assert all(torch.equal(after[name], before[name]) for name in before)
    schema = load_model(tmp_path / "a.safetensors").schema
    assert [(f.name, f.unit) for f in schema.fields][:4] == [
        ("x", "m"), ("y", "m"), ("z", "m"), ("density", "1"),
    ]  # fmt: skip
    said = command("export-weights", tmp_path / "a.safetensors", "--to", "flashslice", "--out",
                   tmp_path / "b.pt")  # fmt: skip
    assert "No normaliser stays behind" in said.out


def test_json_and_the_fields_of_a_store(run: Path, command: Command, tmp_path: Path) -> None:
    said = command("export-weights", run, "--to", "thuml", "--out", tmp_path / "a.pt", "--json")
    facts, own = json.loads(said.out), load_model(run)
    assert facts["normaliser"]["shift"] == list(own.normaliser.rows.shift)
    assert facts["normaliser"]["columns"] == list(own.schema.channels)
    out = tmp_path / "m.safetensors"
    given = ("--from", "thuml", "--store", run / "data", "--out", out, "--json")
    facts = json.loads(command("import", tmp_path / "a.pt", *given).out)
    assert facts["variant"] == "baseline" and facts["path"] == str(out)
    assert facts["parity"]["compared"] is False
    assert load_model(out).schema.identity() == own.schema.identity()


def test_an_imported_model_is_slimmed_and_tuned(
    run: Path, command: Command, tmp_path: Path
) -> None:
    """Also one with the constants of PhysicsNeMo, which fine-tuning and `--from` keep."""
    changes = {"model.constants": {"epsilon": 0.01, "temperatures": [0.5, 5.0]}, "steps": 2}
    other = {"data.store": str(run / "data"), "data.problem": None, "data.builtin": None}
    train(overlay(small(), {**changes, **other}), tmp_path / "run", device="cpu")
    out, store = tmp_path / "m.safetensors", ("--store", run / "data")
    file = exported(tmp_path / "run", command, tmp_path / "a.mdlus", "physicsnemo")
    imported = import_weights(file)
    trained = as_trained(imported, fields=open_store(run / "data").schema)
    write_imported(out, trained, imported, Parity(compared=False, reason="it takes seconds"))
    slim = ("slim", out, *store, "--device", "cpu", "--steps", 5)
    said = command(*slim, "--merge-alike", 0.5, "--out", tmp_path / "s")
    assert said.code == 0 and "Slices of every layer: 3 -> 1." in said.out, said
    assert "layer 1: 0 dropped, 2 merged" in said.out
    slimmed = load_model(tmp_path / "s")
    assert slimmed.model.variant.name == "no-token-attention" and slimmed.model.size.slices == 1
    assert slimmed.model.constants == load_model(out).model.constants
    facts = json.loads((tmp_path / "s" / "slim.json").read_text())
    assert facts["slices"]["number"] == [3, 1] and facts["steps"] == 5
    assert facts["validation"].keys() == {"before", "closed form", "fine-tuned"}
    train_from = ("train", "poisson", "--from", out, *store, "--show")
    config = json.loads(command(*train_from).out)
    assert config["model"]["constants"]["epsilon"] == 0.01
    said = command(*train_from, "--set", "model.constants={epsilon: 1e-5}")
    assert said.code == 2 and "model.constants must be that of the model to start" in said.err


def test_bad_input_is_one_sentence_and_nothing_is_lost(
    run: Path, command: Command, tmp_path: Path
) -> None:
    file = exported(run, command, tmp_path / "a.pt")
    whole = file.read_bytes()
    (tmp_path / "notes.pt").write_text("hello")
    out, old = tmp_path / "m.safetensors", tmp_path / "old.safetensors"
    old.write_text("mine")
    given = ("import", file, "--from", "thuml", "--out")
    slim = ("slim", run, "--store", run / "data", "--out", tmp_path / "s")
    for arguments, words in (
        (("import", tmp_path / "no.pt", "--out", out), "must be a file of weights, got no such"),
        (("import", tmp_path / "notes.pt", "--out", out), "one that begins with b'hello'"),
        (("import", run / "model.safetensors", "--out", out), "got a model of Slipstream"),
        (("import", tmp_path, "--out", out), "must be a regular file, got a folder"),
        ((*given, out), "--coord-dim must say how many of the 4 inputs"),
        ((*given, tmp_path / "m.pt"), "--out must end in .safetensors, got 'm.pt'"),
        ((*given, old), "a file that exists (--overwrite replaces it)"),
        ((*given, tmp_path / "no" / "m.safetensors"), "--out must be in a folder that exists"),
        ((*given, out, "--coord-dim", 3, "--inputs", "x,y"), "--inputs must be 4 names, got 2"),
        ((*given, out, "--store", run / "data", *NAMES), "must not be given beside --store"),
        ((*given, out, "--store", run / "data", "--coord-dim", 2), "must be those of the model, 2"),
        (("import", file, "--from", "thumb", "--out", out), "did you mean 'thuml'?"),
        (("export-weights", run, "--to", "thuml", "--out", file), "a file that exists"),
        (("export-weights", run, "--to", "thuml", "--out", tmp_path / "b.txt"), "must end in .pt"),
        (("export-weights", tmp_path, "--to", "thuml", "--out", tmp_path / "b.pt"), "got no such"),
        (
            ("export-weights", run, "--to", "physicsnemo", "--out", tmp_path / "b.pt"),
            "epsilon must",
        ),
        ((*slim, "--drop-unused", 0.5), "drop_unused must be below 1 / 3"),
        ((*slim, "--merge-alike", 1), "merge_alike must be above 0 and below 1"),
        ((*slim, "--learning-rate", -1), "learning_rate must be at least 0"),
    ):
        said = command(*arguments)
        assert said.code == 2 and words in said.err and said.err.count("\n") == 1, said
    assert file.read_bytes() == whole and old.read_text() == "mine"
    assert not out.exists() and not (tmp_path / "s").exists()
    assert command(*given, old, "--coord-dim", 3, "--overwrite").code == 0
    assert load_model(old).model.variant.name == "baseline"
