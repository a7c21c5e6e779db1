from __future__ import annotations

import json
import math
import multiprocessing
import os
import resource
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slipstream.core.errors import TrainingStopped
from slipstream.data.batches import endless, make_normaliser
from slipstream.data.store import Store
from slipstream.metrics import relative_error
from slipstream.models import lean
from slipstream.runs.checkpoint import read_checkpoint, weights_hash
from slipstream.runs.model_file import load_model
from slipstream.training import trainer as module
from slipstream.training.trainer import Trainer, TrainingOutcome

from .small import CPU, same, small, trainer, weights


def rows(made: Trainer, kind: str) -> list[dict[str, Any]]:
    return made.folder.history(kind)


def test_a_run_learns_and_leaves_what_it_should(tmp_path: Path) -> None:
    made = trainer(tmp_path, steps=60, evaluate_every=20, optim__learning_rate=0.01, keep=2)
    start = weights(made)
    outcome = made.run()
    assert outcome == TrainingOutcome(60, "finished", outcome.best) and outcome.best is not None
    errors = [row["error"] for row in rows(made, "validation")]
    losses = [row["loss"] for row in rows(made, "train")]
    assert len(errors) == 3 and sum(losses[-3:]) < 0.95 * sum(losses[:3])
    assert outcome.best["error"] == min(errors)
    assert [row["step"] for row in rows(made, "train")] == list(range(2, 61, 2))
    assert made.folder.checkpoint_steps() == [0, 40, 60]
    assert same(read_checkpoint(made.folder.checkpoint_file(0)).part("model"), start)
    assert not any(torch.equal(start[name], w) for name, w in weights(made).items())
    (stop,) = rows(made, "stop")
    assert (stop["step"], stop["reason"]) == (60, "finished")
    for row in rows(made, "checkpoint")[-2:]:
        saved = read_checkpoint(made.folder.checkpoint_file(row["step"])).part("model")
        assert row["weights"] == weights_hash(saved)


def test_records_say_what_ran(tmp_path: Path) -> None:
    made = trainer(tmp_path, precision="bf16")
    made.run()
    (start,) = rows(made, "start")
    assert (start["precision"], start["processes"], start["resumed"]) == ("bf16", 1, False)
    assert start["kernels"].startswith("chunked: no CUDA") and start["log_every"] == 2
    assert start["data_hash"] == made.provenance.data_hash and len(start["split_hash"]) == 64
    for row in rows(made, "train"):
        assert row["kernels"].startswith("chunked: no CUDA") and row["points_per_second"] > 0
        assert math.isfinite(row["loss"]) and row["gradient_norm"] > 0 and row["skipped"] == 0


def test_bf16_is_autocast_of_the_same_parameters(tmp_path: Path) -> None:
    found = []
    for precision in ("fp32", "bf16"):
        made = trainer(tmp_path / precision, precision=precision, steps=4)
        made.run()
        assert all(w.dtype == torch.float32 for w in weights(made).values())
        found.append(weights(made))
    assert not same(*found)
    for name, w in found[0].items():
        torch.testing.assert_close(w, found[1][name], rtol=0, atol=5e-3)


def test_what_a_killed_process_left_half_written_goes(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    half = made.folder.checkpoint_folder / ".step-00000003.safetensors.partial"
    half.write_bytes(b"half")
    made.run()
    assert not half.exists()


def test_the_loss_of_a_step_is_that_of_its_batch(tmp_path: Path) -> None:
    """Recomputed from the store by hand: normalised values, relative L1 by group."""
    made = trainer(tmp_path, log_every=1, steps=1)
    batch = next(iter(made.state.loader))
    made.state.loader.load_state_dict({**made.state.loader.state_dict(), "position": 0})
    values = np.stack([made.store.array(sample) for sample in batch.samples])
    normal = make_normaliser(made.store.schema, made.store.statistics).rows
    x = normal.forward(torch.from_numpy(values))
    found = made.model(x[..., :3], x[..., 3:4]).detach()
    expected = float(relative_error(found, x[..., 4:], made.groups))
    made.run()
    assert rows(made, "train")[0]["loss"] == pytest.approx(expected, rel=1e-5)


def test_validation_is_in_fp32_on_the_same_points_each_time(tmp_path: Path) -> None:
    made = trainer(tmp_path, data__points=16, precision="bf16")
    first, second = made.validate(), made.validate()
    assert first == second
    fp32 = trainer(tmp_path / "other", data__points=16)
    assert fp32.validate()["error"] == first["error"]
    other = trainer(tmp_path / "third", data__points=16, data__evaluation_seed=1)
    assert other.validate()["error"] != first["error"]


def test_the_best_model_is_kept_not_the_last(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    first = made.validate()
    best = weights(made)
    with torch.no_grad():
        made.model.head.bias += 100.0
    made.state.step = 5
    assert made.validate()["error"] > first["error"]
    assert [row["best"] for row in rows(made, "validation")] == [True, False]
    trained = load_model(made.folder.path)
    assert same(dict(trained.model.named_parameters()), best) and trained.metric["step"] == 0


def test_a_validation_that_is_not_finite_is_never_the_best(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    with torch.no_grad():
        made.model.head.weight[0] = math.inf
    assert made.validate()["error"] is None and made.state.best is None
    assert not made.folder.model_file.exists()


def poison(made: Trainer, steps: set[int]) -> None:
    """Make the input of some steps NaN."""
    take = made.take_step

    def poisoned(batch: Any) -> None:
        if made.state.step + 1 in steps:
            batch = replace(batch, rows=batch.rows * math.nan)
        take(batch)

    made.take_step = poisoned  # type: ignore[method-assign]


def test_steps_that_are_not_finite_are_skipped_and_counted(tmp_path: Path) -> None:
    made = trainer(tmp_path, log_every=1, checkpoint_every=1, keep=20)
    poison(made, {3, 4})
    made.run()
    assert [row["skipped"] for row in rows(made, "train")] == [0, 0, 1] + [2] * 9
    assert rows(made, "train")[2]["loss"] is None
    saved = [read_checkpoint(made.folder.checkpoint_file(step)) for step in (2, 4, 5)]
    assert same(saved[0].part("model"), saved[1].part("model"))
    assert same(saved[0].part("optimizer"), saved[1].part("optimizer"))
    assert not same(saved[1].part("model"), saved[2].part("model"))
    assert all(w.isfinite().all() for w in weights(made).values())


def test_an_infinite_loss_is_skipped_though_its_gradient_is_finite(tmp_path: Path) -> None:
    made = trainer(tmp_path, optim__loss="l1")
    with torch.no_grad():
        made.model.head.bias[0] = math.inf
    before = weights(made)
    made.take_step(next(iter(made.state.loader)))
    assert same(before, weights(made))


def test_too_many_of_them_stop_the_run_with_a_checkpoint(tmp_path: Path) -> None:
    made = trainer(tmp_path, skip_limit=3)
    poison(made, set(range(3, 13)))
    with pytest.raises(
        TrainingStopped, match=r"not finite in 4 steps up to step 6, more than skip_limit = 3"
    ):
        made.run()
    assert [row["reason"] for row in rows(made, "stop")] == ["diverged"]
    steps = made.folder.checkpoint_steps()
    assert steps[-1] == 6 and read_checkpoint(made.folder.checkpoint_file(6)).state["skipped"] == 4


def test_skipped_steps_between_log_and_checkpoint_are_not_forgotten(tmp_path: Path) -> None:
    made = trainer(tmp_path, log_every=4, checkpoint_every=3, keep=20)
    poison(made, {2, 4})
    made.run()
    counts = {s: read_checkpoint(made.folder.checkpoint_file(s)).state["skipped"] for s in (3, 6)}
    assert counts == {3: 1, 6: 2}
    assert rows(made, "train")[-1]["skipped"] == 2
    other = trainer(tmp_path / "other", log_every=5, evaluate_every=3, checkpoint_every=12)
    poison(other, {2})
    other.run()
    assert rows(other, "train")[-1]["skipped"] == 1


def test_points_are_counted_over_the_batch(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    counted: list[int] = []
    made._window.count = counted.append  # type: ignore[method-assign]
    made.take_step(next(endless(made.state.loader)))
    assert counted == [2 * 32]


def test_the_time_of_validations_is_not_that_of_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer(tmp_path, log_every=6, evaluate_every=4)
    validate = made.validate

    def slow() -> dict[str, Any]:
        time.sleep(1.0)
        return validate()

    monkeypatch.setattr(made, "validate", slow)
    made.run()
    seconds = 6 * 2 * 32 / rows(made, "train")[0]["points_per_second"]
    assert seconds < 1.0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_ends_the_run_which_can_go_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Also where all processes of the run get it, the loader's too, and twice."""
    made = trainer(tmp_path, data__workers=2)
    take = made.take_step

    def interrupted(batch: Any) -> None:
        take(batch)
        if made.state.step == 5:
            pids = [os.getpid(), *(child.pid for child in multiprocessing.active_children())]
            assert len(pids) >= 3
            for _ in range(2):  # from another process: workers obey their parent
                subprocess.run(["kill", f"-{int(number)}", *map(str, pids)], check=True)

    made.take_step = interrupted  # type: ignore[method-assign]
    before = signal.getsignal(number)
    outcome = made.run()
    assert (outcome.step, outcome.reason, outcome.signal) == (5, "interrupted", number)
    assert signal.getsignal(number) is before and made.folder.checkpoint_steps()[-1] == 5
    again = trainer(tmp_path)
    assert again.run().reason == "finished"
    whole = trainer(tmp_path / "whole")
    whole.run()
    assert same(weights(again), weights(whole))
    steps = [row["step"] for row in rows(again, "train")]
    assert steps == sorted(set(steps))


def test_ctrl_c_again_while_it_saves_leaves_the_older_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slipstream.core.signals.REPEAT_SECONDS", -1.0)
    made = trainer(tmp_path, checkpoint_every=4)
    take = made.take_step

    def interrupted(batch: Any) -> None:
        take(batch)
        if made.state.step == 5:
            os.kill(os.getpid(), signal.SIGTERM)
            monkeypatch.setattr("slipstream.core.files.publish", interrupted_again)

    def interrupted_again(aside: Path, path: Path) -> None:
        assert aside.is_file()
        os.kill(os.getpid(), signal.SIGINT)

    made.take_step = interrupted  # type: ignore[method-assign]
    # A shell script starts what ends with & with SIGINT ignored, also pytest.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            made.run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert made.folder.checkpoint_steps() == [0, 4]
    assert not list(tmp_path.rglob("*.partial"))
    monkeypatch.undo()
    assert trainer(tmp_path, checkpoint_every=4).run().reason == "finished"


def test_a_finished_run_is_only_told_of(tmp_path: Path) -> None:
    first = trainer(tmp_path)
    outcome = first.run()
    records = first.folder.records_file.read_bytes()
    assert trainer(tmp_path).run() == outcome
    assert first.folder.records_file.read_bytes() == records


def test_the_end_is_recorded_though_the_run_was_killed_right_before(tmp_path: Path) -> None:
    first = trainer(tmp_path)
    first.run()
    lines = first.folder.records_file.read_text().splitlines(keepends=True)
    assert json.loads(lines[-1])["kind"] == "stop"
    first.folder.records_file.write_text("".join(lines[:-1]))
    trainer(tmp_path).run()
    assert [row["reason"] for row in rows(first, "stop")] == ["finished"]


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    """A real limit on the size of files, as a quota is."""
    made = trainer(tmp_path, checkpoint_every=2)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    take = made.take_step

    def limited(batch: Any) -> None:
        take(batch)
        if made.state.step == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))

    made.take_step = limited  # type: ignore[method-assign]
    try:
        with pytest.raises(OSError, match="File too large"):
            made.run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert made.folder.checkpoint_steps() == [0, 2]
    assert not list(made.folder.path.rglob("*.partial"))
    read_checkpoint(made.folder.checkpoint_file(2))
    assert trainer(tmp_path, checkpoint_every=2).run().reason == "finished"


def test_out_of_memory_names_numbers_and_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer(tmp_path, batch=3)

    def too_much(*given: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(module, "loss_of", too_much)
    with pytest.raises(TrainingStopped) as caught:
        made.run()
    for part in ("batch (now 3)", "data.points (now all)", "precision=bf16", "memory=lean,"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model__variant": "mlp-only"}, "model.variant: baseline, mlp-only"),
        ({"optim__learning_rate": 0.5}, "optim.learning_rate: 0.001, 0.5"),
        ({"seed": 3}, "seed: 0, 3"),
        ({"steps": 20}, "steps: 12, 20"),
    ],
)
def test_a_checkpoint_of_another_config_is_refused(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    trainer(tmp_path, steps=12).run()
    found = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=sentence):
        trainer(tmp_path, **{"steps": 12, **changes}).run()
    assert sorted(tmp_path.rglob("*")) == found


def test_a_checkpoint_of_other_data_is_refused(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    made.run()
    other = trainer(tmp_path / "other", data__builtin__seed=1)
    manifest = made.store.manifest
    first, *rest = manifest.splits["val"]
    splits = {"train": (*manifest.splits["train"], first), "val": tuple(rest)}
    moved = Store(made.store.path, replace(manifest, splits=splits))
    for store, what in ((other.store, "samples"), (moved, "splits")):
        with pytest.raises(ValueError, match=f"must have the {what} that"):
            Trainer(made.config, store, made.folder, CPU).run()


def test_what_does_not_change_the_result_may_change(tmp_path: Path) -> None:
    made = trainer(tmp_path, checkpoint_every=5)
    poison(made, set())
    made.run()
    assert trainer(tmp_path, checkpoint_every=2, log_every=3, keep=5).run().reason == "finished"


@pytest.mark.parametrize("variant", ["baseline", "untied-ln", "frozen-slice", "slice-once"])
def test_recomputing_activations_changes_no_bit(tmp_path: Path, variant: str) -> None:
    found = []
    for recompute in (False, True):
        made = trainer(
            tmp_path / str(recompute), model__variant=variant, recompute=recompute, steps=3
        )
        made.run()
        found.append(weights(made))
    assert same(*found)


def test_recomputing_computes_each_layer_twice(tmp_path: Path) -> None:
    for recompute, times in ((False, 1), (True, 2)):
        made = trainer(tmp_path / str(recompute), recompute=recompute)
        calls: list[object] = []
        note = calls.append
        for block in made.model.blocks:
            block.register_forward_pre_hook(lambda module, given, note=note: note(module))
        made.take_step(next(iter(made.state.loader)))
        assert len(calls) == times * len(made.model.blocks)
        calls.clear()
        made.validate()
        assert len(calls) == 2 * len(made.model.blocks), "two batches, nothing twice"


@pytest.mark.parametrize("variant", ["frozen-slice", "untied-ln"])
def test_lean_training_is_normal_training_and_goes_on_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variant: str
) -> None:
    monkeypatch.setitem(lean.CHUNK, "cpu", 9)
    changes: dict[str, Any] = {"model__variant": variant, "precision": "fp64", "steps": 4}
    found = []
    for memory in ("normal", "lean"):
        made = trainer(tmp_path / memory, memory=memory, checkpoint_every=2, **changes)
        made.run()
        found.append(weights(made))
    for name, normal in found[0].items():
        torch.testing.assert_close(found[1][name], normal, rtol=1e-8, atol=1e-10)
    again = tmp_path / "lean/run/checkpoints"
    max(again.iterdir()).unlink()
    made = trainer(tmp_path / "lean", memory="lean", checkpoint_every=2, **changes)
    made.run()
    assert made.folder.history("start")[-1]["resumed"] and same(weights(made), found[1])
    assert load_model(tmp_path / "lean/run").model.memory == "lean"


def test_loaders_workers_change_no_bit(tmp_path: Path) -> None:
    found = []
    for workers in (0, 2):
        made = trainer(tmp_path / str(workers), data__workers=workers, data__points=16, steps=7)
        made.run()
        found.append(weights(made))
    assert same(*found)


def test_small_configs_are_what_they_seem() -> None:
    assert small(optim__clip=1.0).optim.clip == 1.0
