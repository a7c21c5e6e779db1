"""Every check of the audit, seen to fail on a real run that was tampered with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from slipstream.audit.run_audit import audit_run
from slipstream.runs.checkpoint import read_tensors, write_tensors

from ..evaluation.made_runs import (
    Killed,
    checkpoint,
    drop_rows,
    edit_config,
    edit_file,
    edit_rows,
    edit_weights,
    fails,
    failures,
    killed_at,
    make_run,
    notes,
)

TEMPERATURE = "blocks.1.coupling.slice_slots.temperature"


@pytest.mark.parametrize(
    ("claimed", "structure", "memberships"),
    [
        ("no-token-attention", "must not have blocks.0.coupling.mix.key", "token attention"),
        ("frozen-slice", "must not have blocks.1.coupling.", "in layer 0, got layers 0, 1"),
        ("untied", "must have blocks.0.coupling.deslice_slots", "deslice slots of their own"),
        ("slice-once", "must have once.slots.weight", "must be in one place before the layers"),
        ("mlp-only", "must not have blocks.0.coupling", "must be in no layer, got layers 0, 1"),
    ],
)
def test_weights_of_baseline_under_another_name(
    run: Path, claimed: str, structure: str, memberships: str
) -> None:
    edit_config(run, lambda config: config["model"].update(variant=claimed))
    fails(run, "structure", "memberships", saying=structure)
    assert memberships in failures(audit_run(run))["memberships"]
    assert "the model file" in failures(audit_run(run))["structure"]


def test_two_memberships_in_the_last_checkpoint_alone(tmp_path: Path) -> None:
    run = tmp_path / "run"
    make_run(run, {"model.variant": "frozen-slice"})
    name = "coupling.slice_slots.weight"

    def add(_: object, tensors: dict[str, torch.Tensor]) -> None:
        tensors[f"model.blocks.1.{name}"] = tensors[f"model.blocks.0.{name}"] + 1

    edit_file(checkpoint(run, 12), add)
    found = failures(audit_run(run))
    assert "in layer 0, got layers 0, 1 in the checkpoint of step 12" in found["memberships"]
    assert f"frozen-slice must not have blocks.1.{name} (in the ch" in found["structure"]
    assert "the model file" not in found["structure"]


@pytest.mark.parametrize(
    ("change", "saying"),
    [
        (lambda w: w[:1], "temperature (1,) of torch.float32 instead of (2,) of torch.float32"),
        (
            lambda w: w.double(),
            "temperature (2,) of torch.float64 instead of (2,) of torch.float32",
        ),
    ],
)
def test_a_parameter_of_another_shape_or_type(
    run: Path, change: Callable[[torch.Tensor], torch.Tensor], saying: str
) -> None:
    key = f"model.{TEMPERATURE}"
    edit_weights(run, 12, lambda tensors: tensors.update({key: change(tensors[key])}))
    fails(run, "structure", saying=saying)


def test_weights_of_another_precision(run: Path) -> None:
    edit_config(run, lambda config: config.update(precision="fp64"))
    found = failures(audit_run(run))
    wrong = "of torch.float32 instead of (16, 4) of torch.float64"
    assert wrong in found["structure"] and "and 43 more" in found["structure"]
    assert "must have precision fp64, got fp32" in found["implementation"]


def test_another_count_at_the_start(run: Path) -> None:
    edit_rows(run, "start", 0, {"parameters": 1463})
    fails(run, "structure", saying="counted 1,463 numbers instead of 1,462")


def test_a_parameter_that_did_not_move(run: Path) -> None:
    _, first = read_tensors(checkpoint(run, 0), "checkpoint")
    key = f"model.{TEMPERATURE}"
    edit_weights(run, 12, lambda tensors: tensors.update({key: first[key]}))
    still = f"step 0: {TEMPERATURE} (its gradients were about"
    fails(run, "changed", saying=f"1 of 49 parameters have the same bits at step 12 as at {still}")


def test_a_parameter_whose_gradients_were_too_small_to_move_it(run: Path) -> None:
    """Seen on Taylor-Green: slices that are even in a layer make its deslice indifferent."""
    _, first = read_tensors(checkpoint(run, 0), "checkpoint")
    key, moment = f"model.{TEMPERATURE}", f"optimizer.{TEMPERATURE}.exp_avg_sq"
    unmoved = {key: first[key], moment: torch.full((2,), 4e-30)}
    edit_weights(run, 12, lambda tensors: tensors.update(unmoved))
    assert "changed" not in failures(audit_run(run))
    said = f"{TEMPERATURE} did not move: its gradients were about 2e-15, too small"
    assert said in notes(audit_run(run))
    unmoved[moment] = torch.tensor([4e-30, 1e-4])
    edit_weights(run, 12, lambda tensors: tensors.update(unmoved))
    fails(run, "changed", saying="its gradients were about 1e-02")


def test_a_parameter_that_never_had_a_gradient(run: Path) -> None:
    _, first = read_tensors(checkpoint(run, 0), "checkpoint")
    key, moment = f"model.{TEMPERATURE}", f"optimizer.{TEMPERATURE}.exp_avg_sq"
    gone = {key: first[key], moment: torch.zeros(2)}
    edit_weights(run, 12, lambda tensors: tensors.update(gone))
    fails(run, "changed", saying="no gradient came to it")
    assert f"no gradient has come to {TEMPERATURE}" in notes(audit_run(run))


def test_weights_without_their_hashes(run: Path) -> None:
    key = "model.head.bias"
    for step in (8, 12):
        edit_file(checkpoint(run, step), lambda _, t: t.update({key: t[key] + 1}))
    fails(run, "weights", saying="the checkpoint of step 8 must have the weights")
    assert "of its validation record" in failures(audit_run(run))["weights"]


def test_another_seed_of_initial_values(run: Path) -> None:
    edit_config(run, lambda config: config.update(seed=1))
    fails(run, "initial values", "draws", saying="did not start at the values of seed 1: placehold")


def test_one_bit_of_an_initial_value(run: Path) -> None:
    key = "model.lift.expand.bias"
    edit_weights(run, 0, lambda tensors: tensors.update({key: -tensors[key]}))  # -0.0
    fails(run, "initial values", saying="1 of 49 parameters did not start")


def test_initial_values_say_which_torch_drew_them(run: Path) -> None:
    edit_file(checkpoint(run, 0), lambda header, _: header["versions"].update(torch="1.0"))
    found = audit_run(run)
    assert failures(found) == {}
    assert "drawn by torch 1.0" in notes(found)


def test_data_of_another_seed(run: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path / "other", {"data.builtin.seed": 1})
    shutil.rmtree(run / "data")
    shutil.copytree(other / "data", run / "data")
    fails(run, "data", saying="data_hash must be the same everywhere, got ")
    found = failures(audit_run(run))["data"]
    assert f"(the store {run / 'data'})" in found
    assert "seed 1 instead of 0" in found
    assert "the model file must have the normaliser of" in found


def test_data_other_than_the_config_says(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"data.builtin.seed": 1})
    edit_config(run, lambda config: config["data"]["builtin"].update(seed=0))
    fails(run, "data", saying="must hold the data that the config describes, got seed 1 instead of")


def test_other_splits(run: Path) -> None:
    manifest = json.loads((run / "data/manifest.json").read_text())
    splits = manifest["splits"]
    splits["train"][0], splits["val"][0] = splits["val"][0], splits["train"][0]
    (run / "data/manifest.json").write_text(json.dumps(manifest))
    fails(run, "data", saying="split_hash must be the same everywhere")


@pytest.mark.parametrize("place", ["start", "checkpoint", "model"])
def test_a_hash_of_the_data_that_differs_in_one_place(run: Path, place: str) -> None:
    if place == "start":
        edit_rows(run, "start", 0, {"data_hash": "f" * 64})
    else:
        file = checkpoint(run, 8) if place == "checkpoint" else run / "model.safetensors"
        edit_file(file, lambda header, _: header.update(data_hash="f" * 64))
    fails(run, "data", saying="ffffffffffff (the ")


def test_a_store_that_is_gone_or_damaged(run: Path) -> None:
    (run / "data/samples/000000.npy").unlink()
    fails(run, "data", saying="must be whole")
    shutil.rmtree(run / "data")
    found = audit_run(run)
    assert failures(found) == {}
    assert "not compared with the store: the folder data of the run is not there" in notes(found)


def test_another_normaliser(run: Path) -> None:
    def change(header: dict[str, Any], _: object) -> None:
        header["normaliser"]["targets"]["scale"][0] *= 2

    edit_file(run / "model.safetensors", change)
    fails(run, "data", saying="the model file must have the normaliser of")


def test_another_learning_rate(run: Path) -> None:
    rows = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    rate = next(r["learning_rate"] for r in rows if r["kind"] == "train" and r["step"] == 8)
    edit_rows(run, "train", 8, {"learning_rate": rate * (1 + 1e-9)})
    fails(run, "schedule", saying="at step 8 instead of")


@pytest.mark.parametrize("name", ["learning_rate", "warmup"])
def test_another_schedule(run: Path, name: str) -> None:
    edit_config(run, lambda config: config["optim"].update({name: 0.5}))
    fails(run, "schedule", saying="the learning rate must be the config's, got")


def test_a_record_that_is_missing(run: Path) -> None:
    drop_rows(run, "validation", 8)
    fails(run, "records", saying="a validation must be there for every step due, got none of 8")
    drop_rows(run, "train", 6)
    fails(run, "records", saying="a train record must be there for every step due, got none of 6")


def test_a_validation_that_was_not_due(run: Path) -> None:
    edit_config(run, lambda config: config.update(evaluate_every=12))
    fails(run, "records", saying="validations must be where they are due only, got some of 4, 8")


@pytest.mark.parametrize(
    ("change", "saying"),
    [
        ({f"{TEMPERATURE}.step": torch.tensor(11.0)}, f"12 times, got {TEMPERATURE} 11"),
        ({f"{TEMPERATURE}.step": None}, f"every parameter, got none of {TEMPERATURE}"),
        ({"other.step": torch.tensor(12.0)}, "must know the model's parameters only, got other"),
    ],
)
def test_another_state_of_the_optimiser(run: Path, change: dict[str, Any], saying: str) -> None:
    def tamper(_: object, tensors: dict[str, torch.Tensor]) -> None:
        for name, value in change.items():
            tensors.pop(f"optimizer.{name}", None)
            if value is not None:
                tensors[f"optimizer.{name}"] = value

    edit_file(checkpoint(run, 12), tamper)
    fails(run, "optimiser", saying=saying)


def test_skipped_steps_that_were_taken(run: Path) -> None:
    edit_file(checkpoint(run, 12), lambda header, _: header.update(skipped=1))
    fails(
        run,
        "optimiser",
        saying="updated every parameter 11 times, got blocks.0.coupling.mix.key.weight 12",
    )


@pytest.mark.parametrize(
    ("field", "value", "saying"),
    [
        ("seed", 1, "the checkpoint of step 8 must draw with seed 0, got 1"),
        ("batch_size", 1, "the checkpoint of step 8 must draw with batch_size 2, got 1"),
        ("world_size", 2, "the checkpoint of step 8 must draw with world_size 1, got 2"),
        ("position", 1, "the checkpoint of step 8 must have drawn 8 batches, got 7"),
        ("epoch", 1, "the checkpoint of step 8 must have drawn 8 batches, got 5"),
    ],
)
def test_other_draws(run: Path, field: str, value: int, saying: str) -> None:
    edit_file(checkpoint(run, 8), lambda header, _: header["loader"].update({field: value}))
    fails(run, "draws", saying=saying)


def validations(run: Path) -> dict[int, dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    return {row["step"]: row for row in rows if row["kind"] == "validation"}


def test_a_model_that_is_not_the_best(run: Path) -> None:
    rows = validations(run)
    best = min(rows.values(), key=lambda row: row["error"])["step"]
    other = 8 if best != 8 else 12
    header, _ = read_tensors(run / "model.safetensors", "model")
    _, tensors = read_tensors(checkpoint(run, other), "checkpoint")
    weights = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
    header["metric"] = {name: rows[other][name] for name in ("step", "error", "by_group")}
    write_tensors(run / "model.safetensors", "model", header, weights)
    fails(run, "weights", saying=f"the model file must be that of step {best}, whose validation")


def test_a_model_with_other_weights_or_another_error(run: Path) -> None:
    edit_file(run / "model.safetensors", lambda header, _: header["metric"].update(error=0.1))
    fails(run, "weights", saying="the model file must say the error")
    edit_file(run / "model.safetensors", lambda _, t: t.update({"head.bias": t["head.bias"] + 1}))
    fails(run, "weights", saying="of the validation of step")


def test_a_mark_that_is_wrong(run: Path) -> None:
    rows = validations(run)
    edit_rows(run, "validation", 12, {"best": not rows[12]["best"]})
    fails(run, "weights", saying="the validation of step 12")
    edit_rows(run, "validation", 12, {"best": rows[12]["best"]})
    edit_rows(run, "validation", 4, {"best": False})
    fails(run, "weights", saying="after inf at best, must be marked best: True, got False")


def test_a_checkpoint_without_a_record(run: Path) -> None:
    drop_rows(run, "checkpoint", 0)
    fails(run, "weights", saying="the checkpoint of step 0 must have a record of its weights")


def test_a_deleted_checkpoint(run: Path) -> None:
    checkpoint(run, 12).unlink()
    fails(run, "finished", saying="the newest checkpoint must be of step 12, got 8")
    checkpoint(run, 0).unlink()
    fails(run, "readable", "finished", saying="must be the checkpoint of the start, got no such")
    assert (
        "could not be checked: structure, memberships, init" in failures(audit_run(run))["readable"]
    )


def test_a_run_that_is_not_finished(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        make_run(tmp_path / "run", listeners=[killed_at(10)])
    fails(tmp_path / "run", "finished", saying="the newest checkpoint must be of step 12, got 8")


def test_a_run_without_its_last_word(run: Path) -> None:
    drop_rows(run, "stop", 12)
    fails(run, "finished", saying="must have a record that it finished at step 12, got none")


def test_a_config_that_differs_in_one_file(run: Path) -> None:
    edit_file(checkpoint(run, 8), lambda header, _: header["config"].update(batch=3, keep=9))
    fails(run, "config", saying="the checkpoint of step 8 must have the config of config.json")
    assert failures(audit_run(run))["config"].endswith("of batch: 2, 3")


@pytest.mark.parametrize(
    ("field", "value", "saying"),
    [
        ("precision", "bf16", "the start at step 0 must have precision fp32, got bf16"),
        ("processes", 4, "the start at step 0 must have 1 processes, got 4"),
        ("step", 4, "a start must be recorded at step 0, got none for steps 1 to 4"),
    ],
)
def test_a_start_that_is_another(run: Path, field: str, value: Any, saying: str) -> None:
    edit_rows(run, "start", 0, {field: value})
    fails(run, "implementation", saying=saying)


def test_steps_without_a_start(run: Path) -> None:
    drop_rows(run, "start", 0)
    fails(run, "implementation", saying="must be recorded at step 0, got none for steps 1 to 12")
