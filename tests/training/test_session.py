from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import pytest

from slipstream.cli.run_config import Changes, make_config
from slipstream.core.signals import Interrupted
from slipstream.runs.config import with_store
from slipstream.runs.folder import RunFolder
from slipstream.training.session import train, train_whole
from slipstream.training.trainer import Trainer

from .small import small


def test_a_run_and_its_continuation(tmp_path: Path) -> None:
    outcome = train(small(), tmp_path / "r", device="cpu")
    assert outcome.reason == "finished" and (tmp_path / "r" / "data" / "manifest.json").is_file()
    assert train(None, tmp_path / "r", device="cpu") == outcome
    assert train(small(), tmp_path / "r", device="cpu") == outcome


def test_nobody_goes_on_with_a_run_that_a_signal_ended(tmp_path: Path) -> None:
    def stop(step: int) -> None:
        if step == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    def ready(trainer: Trainer) -> None:
        trainer.on_step = stop

    with pytest.raises(Interrupted):
        train_whole(small(), tmp_path / "r", device="cpu", ready=ready)
    assert RunFolder(tmp_path / "r").checkpoint_steps()[-1] == 5
    assert train_whole(small(), tmp_path / "r", device="cpu").reason == "finished"


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


def test_an_infinite_number_is_refused_before_there_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="optim.learning_rate must be a finite number, got inf"):
        train(
            make_config("poisson", Changes(settings=["optim.learning_rate=.inf"])), tmp_path / "r"
        )
    (tmp_path / "c.yaml").write_text("optim: {weight_decay: .inf}")
    with pytest.raises(ValueError, match="optim.weight_decay must be a finite number, got inf"):
        train(make_config("poisson", Changes(tmp_path / "c.yaml")), tmp_path / "r")
    assert [path.name for path in tmp_path.iterdir()] == ["c.yaml"]


def test_a_folder_that_a_killed_start_left_is_begun_again(tmp_path: Path) -> None:
    """As older versions left it: the folder of checkpoints was made before the config."""
    out = tmp_path / "r"
    (out / "checkpoints").mkdir(parents=True)
    (out / "lock").touch()
    (out / ".config.json.7.partial").write_text("{")
    assert train(small(), out, device="cpu").reason == "finished"
    assert not list(out.rglob("*.partial"))


def _start(out: Path, together: Barrier, end: Event, said: SimpleQueue[str]) -> None:
    together.wait()
    try:
        # The run that starts does not end before the other processes have tried.
        train(small(), out, device="cpu", listeners=[lambda kind, row: end.wait()])
        said.put("finished")
    except ValueError as error:
        said.put(str(error))


def test_of_processes_that_start_a_run_at_the_same_moment_one_runs(tmp_path: Path) -> None:
    context, count = multiprocessing.get_context("forkserver"), 3
    together, end, said = context.Barrier(count), context.Event(), context.SimpleQueue()
    processes = [
        context.Process(target=_start, args=(tmp_path / "r", together, end, said))
        for _ in range(count)
    ]
    for process in processes:
        process.start()
    refused = [said.get() for _ in range(count - 1)]
    end.set()
    assert said.get() == "finished"
    for process in processes:
        process.join()
    in_use = f"{tmp_path / 'r'} must not be in use, got a live process that trains there: "
    assert all(sentence.startswith(in_use) for sentence in refused)
    assert len(RunFolder(tmp_path / "r").history("start")) == 1
