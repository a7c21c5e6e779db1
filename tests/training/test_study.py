from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from slipstream.cli.study import exit_unless_finished
from slipstream.core.records import read_records
from slipstream.runs.checkpoint import read_checkpoint
from slipstream.runs.folder import RunFolder
from slipstream.runs.study_file import read_planned
from slipstream.runs.sweep import Sweep
from slipstream.training.session import train
from slipstream.training.study import Resources, StudyCell, make_cells, prepare_study, run_study

from .small import same, small

VARIANTS = ("baseline", "mlp-only")
CPU = Resources(device="cpu", parallel=2)


def cells(out: Path, seeds: tuple[int, ...] = (0,), **changes: Any) -> list[StudyCell]:
    return make_cells([small(steps=4, **changes)], VARIANTS, seeds, out)


def test_cells_differ_in_variant_and_seed_alone(tmp_path: Path) -> None:
    found = prepare_study(cells(tmp_path, (0, 5)), tmp_path)
    assert [cell.name for cell in found] == [
        f"poisson {variant} seed {seed}" for variant in VARIANTS for seed in (0, 5)
    ]
    base = found[0].config
    for cell in found:
        model = replace(cell.config.model, variant="baseline")
        assert replace(cell.config, model=model, seed=0) == base
        assert cell.folder.read_config() == cell.config
    assert base.data.store == str((tmp_path / "data" / "poisson").resolve())
    listed = json.loads((tmp_path / "study.json").read_text())["cells"]
    assert [cell["path"] for cell in listed] == [
        f"runs/poisson/{variant}/seed-{seed}" for variant in VARIANTS for seed in (0, 5)
    ]
    prepare_study(make_cells([small(steps=4)], ("untied",), (0,), tmp_path), tmp_path)
    assert len(json.loads((tmp_path / "study.json").read_text())["cells"]) == 5


def test_a_sweep_has_a_folder_for_every_value_and_none_for_what_does_not_depend_on_it(
    tmp_path: Path,
) -> None:
    def made(*values: int) -> list[StudyCell]:
        ratio = Sweep("model.size.key_ratio", values)
        variants = ["baseline", "untied-ln"]
        return prepare_study(make_cells([small()], variants, (0,), tmp_path, [ratio]), tmp_path)

    runs = tmp_path / "runs" / "poisson"
    places = {cell.folder.path.relative_to(runs).as_posix(): cell for cell in made(1, 4)}
    assert list(places) == [
        "baseline/seed-0",
        "untied-ln/model.size.key_ratio=1/seed-0",
        "untied-ln/model.size.key_ratio=4/seed-0",
    ]
    last = list(places.values())[-1]
    assert last.config.model.size.key_ratio == 4 and last.folder.read_config() == last.config
    assert last.name == "poisson untied-ln key_ratio=4 seed 0"
    assert [cell.name for cell in made(4, 2)] == [
        "poisson baseline seed 0",
        "poisson untied-ln key_ratio=4 seed 0",
        "poisson untied-ln key_ratio=2 seed 0",
    ]
    assert len(read_planned(tmp_path)) == 4, "a study is added to"


def test_every_draw_of_a_sweep_is_checked_before_anything_is_trained(tmp_path: Path) -> None:
    too_many = make_cells([small()], ["mlp-only"], (0,), tmp_path, [Sweep("data.points", (16, 64))])
    with pytest.raises(ValueError, match="64"):
        prepare_study(too_many, tmp_path)
    assert not (tmp_path / "runs").exists()


def test_a_study_runs_skips_what_is_done_and_reports_what_fails(tmp_path: Path) -> None:
    """One cell is finished, one is broken, one is in the middle, one is new."""
    ready = prepare_study(cells(tmp_path, (0, 1)), tmp_path)
    done, broken, new, resumed = ready
    train(None, done.folder.path, device="cpu")
    records = done.folder.records_file.read_bytes()
    broken.folder.checkpoint_file(0).write_bytes(b"not a checkpoint")
    train(None, resumed.folder.path, device="cpu")
    newest = resumed.folder.checkpoint_file(4)
    weights = read_checkpoint(newest).part("model")
    newest.unlink()
    resumed.folder.records_file.unlink()
    endings = run_study(ready, tmp_path, CPU)
    assert [ending.status for ending in endings] == ["finished", "failed", "finished", "finished"]
    assert done.folder.records_file.read_bytes() == records
    assert endings[1].reason is not None
    assert "must be a checkpoint" in endings[1].reason and endings[1].reason.endswith("(exit 2)")
    assert same(read_checkpoint(newest).part("model"), weights)
    rows = {(r["variant"], r["seed"]): r for r in read_records(tmp_path / "records.jsonl", "cell")}
    assert len(rows) == 3 and rows["baseline", 1]["status"] == "failed"
    broken.folder.checkpoint_file(0).unlink()
    assert {e.status for e in run_study(ready, tmp_path, CPU)} == {"finished"}
    assert new.folder.model_file.is_file()


@pytest.mark.usefixtures("forked_runs")
def test_a_run_that_another_process_trains_is_left_to_it(tmp_path: Path) -> None:
    ready = prepare_study(cells(tmp_path), tmp_path)
    with ready[0].folder.locked():
        held, free = run_study(ready, tmp_path, CPU)
        assert ready[0].folder.in_use and not ready[1].folder.in_use
    assert (held.status, held.reason) == ("running", "another process trains it")
    assert free.status == "finished" and not ready[0].folder.records()
    assert not ready[0].folder.in_use
    assert [e.status for e in run_study(ready, tmp_path, CPU)] == ["finished", "finished"]


@pytest.mark.usefixtures("forked_runs")
def test_a_run_whose_records_cannot_be_read_fails_alone(tmp_path: Path) -> None:
    ready = prepare_study(cells(tmp_path), tmp_path)
    ready[0].folder.records_file.write_text("{}\n")
    broken, whole = run_study(ready, tmp_path, CPU)
    assert broken.status == "failed" and "line 1: field 'schema' must" in str(broken.reason)
    assert whole.status == "finished"


@pytest.mark.usefixtures("forked_runs")
def test_a_cell_that_was_killed_before_its_config_does_not_block_the_others(tmp_path: Path) -> None:
    first, _ = cells(tmp_path)
    first.folder.checkpoint_folder.mkdir(parents=True)
    (first.folder.path / ".config.json.7.partial").touch()
    ready = prepare_study(cells(tmp_path), tmp_path)
    assert [e.status for e in run_study(ready, tmp_path, CPU)] == ["finished", "finished"]


def test_a_cell_that_holds_something_else_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    _, second = cells(tmp_path)
    second.folder.path.mkdir(parents=True)
    (second.folder.path / "thesis.tex").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="must be a run or an empty folder, got thesis.tex"):
        prepare_study(cells(tmp_path), tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_another_config_is_refused_before_anything_runs(tmp_path: Path) -> None:
    prepare_study(cells(tmp_path), tmp_path)
    with pytest.raises(ValueError, match=r"optim.clip: 5.0, 1.0"):
        prepare_study(cells(tmp_path, (0, 1), optim__clip=1.0), tmp_path)
    assert not (tmp_path / "runs" / "poisson" / "baseline" / "seed-1").exists()


def test_a_killed_run_is_said_to_be(tmp_path: Path) -> None:
    config = small(steps=100_000, log_every=1, evaluate_every=50_000)
    ready = prepare_study(make_cells([config], ["baseline"], (0,), tmp_path), tmp_path)
    folder: RunFolder = ready[0].folder

    def kill() -> None:
        while len(folder.records()) < 5:
            time.sleep(0.05)
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = file.read_bytes().split(b"\0")
                if str(folder.path).encode() in words:
                    os.kill(int(file.parent.name), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    (ending,) = run_study(ready, tmp_path, CPU)
    thread.join()
    assert (ending.status, ending.reason) == ("failed", "it was ended by SIGKILL (exit -9)")


def test_a_signal_goes_to_the_runs_which_save(tmp_path: Path) -> None:
    config = small(steps=100_000, log_every=1, evaluate_every=50_000)
    ready = prepare_study(make_cells([config], VARIANTS, (0,), tmp_path), tmp_path)
    folder: RunFolder = ready[0].folder

    def interrupt() -> None:
        while len(folder.records()) < 5:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    endings = run_study(ready, tmp_path, Resources(device="cpu", parallel=1))
    assert [ending.status for ending in endings] == ["interrupted", "waiting"]
    assert [ending.signal for ending in endings] == [signal.SIGINT] * 2
    with pytest.raises(typer.Exit) as ended:
        exit_unless_finished(endings)
    assert ended.value.exit_code == 130
    (stop,) = folder.history("stop")
    assert stop["reason"] == "interrupted" and folder.checkpoint_steps()[-1] == stop["step"] > 0


def test_the_end_of_the_time_is_like_a_signal(tmp_path: Path) -> None:
    config = small(steps=100_000, log_every=1, evaluate_every=50_000)
    ready = prepare_study(make_cells([config], VARIANTS, (0,), tmp_path), tmp_path)
    endings = run_study(ready, tmp_path, Resources(device="cpu", minutes=0.02))
    assert [ending.status for ending in endings] == ["interrupted", "waiting"]
    with pytest.raises(ValueError, match="minutes must be positive, got 0.0"):
        Resources(minutes=0.0)
