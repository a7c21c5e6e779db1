from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from slipstream.audit.run_audit import CHECKS, audit_run
from slipstream.data.store import open_store
from slipstream.models import variants
from slipstream.models.variants import VARIANTS
from slipstream.runs.checkpoint import read_tensors
from slipstream.training import trainer
from slipstream.training.session import train

from ..evaluation.made_runs import (
    Killed,
    checkpoint,
    cut,
    edit_file,
    edit_records,
    edit_rows,
    edit_weights,
    fails,
    failures,
    killed_at,
    make_run,
    make_store,
    notes,
    sentence,
    small,
    stopped_at,
)

ALL = ["readable", *CHECKS]


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_passes(
    variant: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = tmp_path_factory.getbasetemp() / "audited-store"
    changes = {"model.variant": variant, "data.store": make_store(store), "seed": 3}
    found = audit_run(make_run(tmp_path / "run", changes))
    assert failures(found) == {}
    assert [finding.check for finding in found.findings] == ALL
    assert variant in sentence(found, "structure")


def test_the_sentences_say_what_was_seen(run: Path) -> None:
    found = audit_run(run)
    assert sentence(found, "readable") == "config, 15 records, 3 checkpoints, model file"
    assert "49 parameters, 1,462 numbers, exactly those of baseline" in sentence(found, "structure")
    assert sentence(found, "memberships") == (
        "slice memberships in layers 0, 1; deslice slots of their own in no layer; token attention"
        " in layers 0, 1"
    )
    assert sentence(found, "records").startswith("6 train records and 3 validations")
    assert sentence(found, "optimiser") == "12 updates of each of 49 parameters"
    assert str(run / "data") in sentence(found, "data")
    assert "of 1,462 numbers" in sentence(found, "changed")
    (span,) = found.spans
    assert (span.first, span.last, span.precision, span.processes) == (1, 12, "fp32", 1)
    assert span.kernels is not None and span.kernels.startswith("chunked")


def test_every_built_in_variant_says_by_hand_what_must_be_found() -> None:
    """Which is also what its fields say: what a plug-in's variant gets that says nothing."""
    for variant in VARIANTS.values():
        assert variant.parts is not None
        assert replace(variant, parts=None).expected_parts() == variant.parts


def test_a_variant_defined_wrongly_does_not_define_what_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = replace(VARIANTS["no-token-attention"], mix="attention")
    monkeypatch.setitem(variants._registered, wrong.name, wrong)
    run = make_run(tmp_path / "run", {"model.variant": wrong.name})
    said = "token attention of no-token-attention must be in no layer, got layers 0, 1"
    fails(run, "memberships", saying=said)


@pytest.mark.parametrize("decay", [0.0, 5e-5])
@pytest.mark.parametrize("variant", ["no-token-attention", "baseline", "untied", "slice-once"])
def test_one_slice_is_the_averaging_operator_and_passes(
    variant: str, decay: float, tmp_path: Path
) -> None:
    """Nothing that makes a logit can move, unless by weight decay: noted, and nobody's fault."""
    size = {"layers": 2, "width": 8, "heads": 2, "slices": 1}
    changes = {"model.variant": variant, "model.size": size, "optim.weight_decay": decay}
    found = audit_run(make_run(tmp_path / "run", changes))
    assert failures(found) == {}
    said = notes(found)
    assert "weights over a single slot are 1, so no gradient reached " in said
    attends = variant != "no-token-attention" and (decay == 0 or variant == "slice-once")
    assert ("a single token attends to itself alone, so no gradient " in said) == attends
    moved = sentence(found, "changed").split(" of ")
    assert int(moved[0]) < int(moved[1].split()[0])


def test_a_parameter_that_could_move_is_still_blamed_with_one_slice(tmp_path: Path) -> None:
    size = {"layers": 2, "width": 8, "heads": 2, "slices": 1}
    run = make_run(tmp_path / "run", {"model.size": size})
    name = "blocks.1.coupling.values.bias"
    _, first = read_tensors(checkpoint(run, 0), "checkpoint")

    def put_back(tensors: dict[str, torch.Tensor]) -> None:
        tensors[f"model.{name}"] = first[f"model.{name}"]

    edit_weights(run, 12, put_back)
    said = f"1 of 49 parameters have the same bits at step 12 as at step 0: {name}"
    fails(run, "changed", saying=said)


def test_a_resumed_run_passes(tmp_path: Path) -> None:
    """Killed before its first checkpoint, killed after step 6, so that 5 and 6 are taken again,
    stopped at 8, which by then is no step to log, and finished."""
    path = tmp_path / "run"
    with pytest.raises(Killed):
        make_run(path, listeners=[killed_at(2)])
    with pytest.raises(Killed):
        make_run(path, listeners=[killed_at(6)])
    stopped = small({"log_every": 3, "keep": 1})
    assert train(stopped, path, device="cpu", listeners=[stopped_at(8)]).step == 8
    train(stopped, path, device="cpu")
    found = audit_run(path)
    assert failures(found) == {}
    assert "in 3 sessions" in sentence(found, "implementation")
    assert [(span.first, span.last) for span in found.spans] == [(1, 12)]


def test_a_run_killed_before_its_checkpoint_was_recorded_passes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"checkpoint_every": 2})

    def as_if_killed(rows: list[dict[str, Any]]) -> None:
        start = next(row for row in rows if row["kind"] == "start")
        at = next(i for i, r in enumerate(rows) if (r["kind"], r["step"]) == ("checkpoint", 10))
        rows[at] = {**start, "step": 10, "resumed": True}

    edit_records(run, as_if_killed)
    found = audit_run(run)
    assert failures(found) == {}
    assert "the checkpoint of step 10 has no record: the run was killed there" in notes(found)
    edit_rows(run, "start", 10, {"resumed": False})
    fails(run, "weights", saying="the checkpoint of step 10 must have a record of its weights")


def test_steps_before_the_first_log_ran_what_the_start_says(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with pytest.raises(Killed):
        make_run(path, {"log_every": 6}, listeners=[killed_at(6)])
    train(None, path, device="cpu")
    found = audit_run(path)
    assert failures(found) == {}
    assert [(span.first, span.last) for span in found.spans] == [(1, 12)]
    edit_rows(path, "start", 0, {"kernels": None})
    found = audit_run(path)
    assert [(span.first, span.last) for span in found.spans] == [(1, 4), (5, 12)]
    assert "steps 1 to 4 were interrupted before a record of their kernels" in notes(found)


def test_a_long_schedule_and_a_long_warm_up_pass(tmp_path: Path) -> None:
    changes = {"schedule": 20, "optim.warmup": 0.34, "log_every": 1}
    found = audit_run(make_run(tmp_path / "run", changes))
    assert failures(found) == {}
    assert "cosine over 20 steps" in sentence(found, "schedule")


def test_a_run_in_double_precision_passes(tmp_path: Path) -> None:
    found = audit_run(make_run(tmp_path / "run", {"precision": "fp64"}))
    assert failures(found) == {}
    assert found.spans[0].precision == "fp64"


def test_skipped_steps_are_no_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, calls = trainer.loss_of, []

    def sometimes_nan(*args: Any) -> torch.Tensor:
        calls.append(1)
        return usual(*args) * (torch.nan if len(calls) == 5 else 1.0)

    monkeypatch.setattr(trainer, "loss_of", sometimes_nan)
    found = audit_run(make_run(tmp_path / "run"))
    assert failures(found) == {}
    assert sentence(found, "optimiser") == "11 updates of each of 49 parameters, 1 steps skipped"


def test_a_change_of_kernels_or_device_is_a_note(run: Path) -> None:
    edit_rows(run, "train", 8, {"kernels": "single-tile"})
    found = audit_run(run)
    assert failures(found) == {}
    assert [(span.first, span.last) for span in found.spans] == [(1, 6), (7, 8), (9, 12)]
    assert "not the same in all steps: kernels" in notes(found)


def test_a_store_that_says_more_about_its_fields_is_the_same_store(run: Path) -> None:
    """As one that was made again by a version that says what a feature was computed as."""
    manifest = run / "data" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["fields"]["features"][0]["computed"] = "distance"
    manifest.write_text(json.dumps(content))
    assert open_store(run / "data").schema.features[0].computed == "distance"
    assert failures(audit_run(run)) == {}
    content["fields"]["features"][0]["unit"] = "m"
    manifest.write_text(json.dumps(content))
    assert "the model file must have the fields of" in failures(audit_run(run))["data"]


@pytest.mark.parametrize(
    ("damage", "saying"),
    [
        (lambda run: cut(checkpoint(run, 0)), "step-00000000.safetensors must be a checkpoint"),
        (lambda run: cut(checkpoint(run, 8)), "step-00000008.safetensors must be a checkpoint"),
        (lambda run: cut(checkpoint(run, 12)), "step-00000012.safetensors must be a checkpoint"),
        (lambda run: cut(run / "model.safetensors"), "model.safetensors must be a model"),
        (lambda run: (run / "model.safetensors").unlink(), "got no such file"),
        (lambda run: cut(run / "config.json"), "config.json must be a JSON object"),
        (lambda run: (run / "config.json").write_text('{"schema": 1}'), "the config of a run"),
        (lambda run: (run / "records.jsonl").unlink(), "must be the records of the run"),
        (lambda run: edit_rows(run, "train", 6, {"kernels": 3}), "line 7: kernels must be text"),
        (
            lambda run: edit_rows(run, "stop", 12, {"step": None}),
            "line 15: step must be a whole",
        ),
        (
            lambda run: edit_file(checkpoint(run, 8), lambda header, _: header.update(step=4)),
            "must be of step 8, got 4",
        ),
        (
            lambda run: edit_file(checkpoint(run, 8), lambda header, _: header.update(config=4)),
            "config must be a mapping with the fields of RunConfig, got 4",
        ),
        (
            lambda run: edit_file(checkpoint(run, 8), lambda h, _: h["loader"].clear()),
            "loader must have the field epoch, got none",
        ),
        (
            lambda run: edit_file(run / "model.safetensors", lambda h, _: h["fields"].clear()),
            "fields must have the field coords, got none",
        ),
    ],
)
def test_a_damaged_file_is_a_finding(
    run: Path, damage: Callable[[Path], None], saying: str
) -> None:
    damage(run)
    found = failures(audit_run(run))
    assert saying in found["readable"], found


def test_a_damaged_record_names_its_line(run: Path) -> None:
    lines = (run / "records.jsonl").read_text().splitlines(keepends=True)
    lines[4] = lines[4][:30] + "\n"
    (run / "records.jsonl").write_text("".join(lines))
    fails(run, "readable", saying="records.jsonl, line 5 must be a JSON object")
    assert "could not be checked: structure, finished" in failures(audit_run(run))["readable"]
