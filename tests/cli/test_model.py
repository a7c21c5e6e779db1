"""`slipstream model` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstream import load_model
from slipstream.runs.checkpoint import read_tensors, write_tensors

from ..conftest import Command
from ..training.small import trainer


@pytest.fixture
def made(tmp_path: Path) -> Path:
    trainer(tmp_path, steps=4).run()
    return tmp_path


def test_a_page_and_json(made: Path, command: Command) -> None:
    run = made / "run"
    page = command("model", run)
    assert page.code == 0 and page.out == f"{load_model(run)}\n"
    facts = json.loads(command("model", run / "model.safetensors", "--json").out)
    assert facts["variant"] == "baseline" and facts["metric"]["step"] == 4
    assert facts["recipe"]["data"]["source"] == "poisson" and not facts["recipe_added"]
    assert facts["fields"]["features"][0]["name"] == "density" and len(facts["lacking"]) == 2


def test_an_older_file_is_completed_once(made: Path, command: Command) -> None:
    file = made / "run" / "model.safetensors"
    whole = file.read_bytes()
    header, tensors = read_tensors(file, "model")
    recipe = header.pop("recipe")
    write_tensors(file, "model", header, tensors)
    assert "--store STORE" in " ".join(command("model", made / "run").out.split())
    said = command("model", made / "run", "--store", made / "data")
    assert said.code == 0 and "what it lacked was added from" in said.out
    assert read_tensors(file, "model")[0]["recipe"] == recipe
    completed = file.read_bytes()
    assert len(completed) == len(whole)
    again = command("model", made / "run", "--store", made / "data")
    assert "lacks nothing that a store could add" in again.out
    assert file.read_bytes() == completed


def test_bad_input_is_one_sentence(made: Path, command: Command) -> None:
    for arguments, words in (
        ((made / "none",), "must be a model, got no such file"),
        ((made / "data",), "must be a model, got no such file"),
        ((made / "run" / "config.json",), "must be a model, got"),
    ):
        said = command("model", *arguments)
        assert said.code == 2 and words in said.err and said.err.count("\n") == 1
    file = made / "run" / "model.safetensors"
    header, tensors = read_tensors(file, "model")
    del header["recipe"]
    write_tensors(file, "model", header, tensors)
    before = file.read_bytes()
    said = command("model", made / "run", "--store", made / "none")
    assert said.code == 2 and "must be a store with a manifest.json" in said.err
    assert file.read_bytes() == before
    file.write_bytes(before[:-9])
    assert command("model", file).code == 2
