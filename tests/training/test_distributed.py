"""Real process groups: torchrun, gloo, two processes."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from slipstream.core.runtime import child_environment
from slipstream.runs.checkpoint import read_checkpoint
from slipstream.runs.folder import RunFolder
from slipstream.training.session import train

from .small import same, small

ROOT = Path(__file__).parents[2]


@contextmanager
def torchrun(out: Path, program: str = "slipstream") -> Iterator[subprocess.Popen[str]]:
    """Go on with the run in `out`, in two processes.

    One at a time on this machine: torchrun looks for a free port and takes it later.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["-m", program, "train", "--out", str(out), "--device", "cpu"]
    with (Path(tempfile.gettempdir()) / "slipstream-torchrun.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(
            command, cwd=ROOT, env=child_environment(OMP_NUM_THREADS="1"),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:  # its children have process groups of their own
                for pid in (process.pid, *children(process)):
                    os.kill(pid, signal.SIGKILL)
            process.communicate()


def children(process: subprocess.Popen[str]) -> list[int]:
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in found.split()]


def finish(out: Path, program: str = "slipstream") -> str:
    """What all processes said."""
    with torchrun(out, program) as process:
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said
    return said


def last_weights(out: Path) -> dict[str, torch.Tensor]:
    folder = RunFolder(out)
    return read_checkpoint(folder.checkpoint_file(folder.checkpoint_steps()[-1])).part("model")


COMMON = {
    "steps": 200, "evaluate_every": 10, "checkpoint_every": 2, "keep": 200, "log_every": 1,
    "data__points": 16, "precision": "fp64",
}  # fmt: skip


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes with batch 1."""
    path = tmp_path_factory.mktemp("both") / "run"
    RunFolder(path).begin(small(**COMMON, batch=1))
    finish(path)
    return path


def test_two_processes_are_one_with_twice_the_batch(both: Path, tmp_path: Path) -> None:
    """In fp64: in fp32 the other order of sums turns signs of an L1 gradient, and Adam scales the
    smallest gradients up to steps of full size, 1e-6 to 6e-5 in weights after 20 steps."""
    train(small(**COMMON, batch=2), tmp_path / "alone", device="cpu")
    folders = RunFolder(tmp_path / "alone"), RunFolder(both)
    one, two = (read_checkpoint(f.checkpoint_file(20)).part("model") for f in folders)
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=0, atol=1e-10)
    history = [folder.history() for folder in folders]
    assert [row["kind"] for row in history[0]] == [row["kind"] for row in history[1]]
    losses = [[row["loss"] for row in rows if row["kind"] == "train"] for rows in history]
    errors = [[row["error"] for row in rows if row["kind"] == "validation"] for rows in history]
    assert losses[0][:20] == pytest.approx(losses[1][:20], rel=1e-10)
    assert errors[0][:2] == pytest.approx(errors[1][:2], rel=1e-10)


def test_when_a_rank_dies_all_end_and_the_run_goes_on_exactly(both: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(small(**COMMON, batch=1))
    with torchrun(folder.path) as process:
        until = time.monotonic() + 60
        while len(folder.records()) < 12 and time.monotonic() < until:
            time.sleep(0.005)
        os.kill(children(process)[-1], signal.SIGKILL)
        said, _ = process.communicate(timeout=90)
    assert process.returncode != 0 and not folder.history("stop")
    assert said.count("slipstream: another process of this run ended") == 1, said
    assert "[rank0]: Traceback" not in said
    finish(folder.path)
    assert same(last_weights(both), last_weights(folder.path))
    assert len(folder.history("start")) == 2


def test_a_rank_that_comes_late_to_the_start_joins_the_others(tmp_path: Path) -> None:
    """It used to find the checkpoint that rank 0 had just written, and to go on from that while
    rank 0 waited for it. Both train lean, in chunks of 5 points, as one process does not."""
    folder = RunFolder(tmp_path / "run")
    changes = {"steps": 4, "precision": "fp64"}
    folder.begin(small(**changes, memory="lean", batch=1))
    said = finish(folder.path, "tests.training.late_rank")
    assert said.count("Finished after 4 steps") == 1, "only rank 0 speaks"
    assert [row["resumed"] for row in folder.history("start")] == [False]
    assert folder.history("stop")[0]["reason"] == "finished"
    train(small(**changes, batch=2), tmp_path / "alone", device="cpu")
    alone = last_weights(tmp_path / "alone")
    for name, tensor in last_weights(folder.path).items():
        torch.testing.assert_close(tensor, alone[name], rtol=0, atol=1e-10)


def test_a_preempted_run_of_several_processes_saves(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(small(steps=100_000, log_every=50_000, evaluate_every=50_000, batch=1))
    with torchrun(folder.path) as process:
        until = time.monotonic() + 60
        while not folder.history("start") and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
    assert said.count("saved; the same command continues") == 1 and "[rank" not in said, said
    (stop,) = folder.history("stop")
    assert stop["reason"] == "interrupted" and stop["step"] == folder.checkpoint_steps()[-1] > 0


def test_another_number_of_processes_is_refused(tmp_path: Path) -> None:
    train(small(steps=4), tmp_path / "run", device="cpu")
    with torchrun(tmp_path / "run") as process:
        said, _ = process.communicate(timeout=120)
    assert process.returncode != 0 and "the number of processes must be that of" in said
    assert "Traceback (most recent call last)" not in said.split("slipstream:")[0]


@pytest.mark.parametrize(("size", "ends"), [(1, (0, "said, went on")), (2, (3, "said"))])
def test_one_of_several_processes_leaves_at_once(size: int, ends: tuple[int, str]) -> None:
    code = """
from slipstream.training.distributed import leave_world
print("said", end="")
leave_world(3)
print(", went on", end="")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT,
        env=child_environment(RANK=str(size - 1), WORLD_SIZE=str(size), PYTHONUNBUFFERED=""),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == ends
