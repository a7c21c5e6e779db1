"""Real signals to real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slipstream.core.signals import Interrupted, raising_interrupted

ROOT = Path(__file__).parents[2]


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, in which both signals are as a shell leaves them."""
    start = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    return subprocess.run(
        [sys.executable, "-c", start + code, *arguments],
        capture_output=True, text=True, cwd=ROOT, timeout=60,
    )  # fmt: skip


COMMAND = """
import os, sys, time
from slipstream.cli import app
from slipstream.core import signals

def command(prog_name):
    try:
        BODY
        time.sleep(30)
    finally:
        print("cleaned up", flush=True)

app.app = command
signals.end_on_signals()
app.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_cleans_up_and_ends_with_one_line(number: signal.Signals) -> None:
    """Also where the signal comes twice, as `timeout` sends it."""
    twice = f"for _ in range(2): os.kill(os.getpid(), {int(number)})"
    done = run(COMMAND.replace("BODY", twice))
    assert (done.returncode, done.stdout) == (128 + number, "cleaned up\n")
    sentence = f"stopped by {number.name}; the same command goes on from what is finished"
    assert done.stderr == f"slipstream: {sentence}\n"


def test_ctrl_c_again_ends_at_once() -> None:
    again = """
        signals.REPEAT_SECONDS = -1.0
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            print("SIGTERM again changes nothing", flush=True)
            os.kill(os.getpid(), signal.SIGINT)
"""
    done = run(COMMAND.replace("        BODY\n", again))
    assert (done.returncode, done.stdout) == (130, "SIGTERM again changes nothing\n")


def test_a_signal_in_a_destructor_is_not_swallowed() -> None:
    """Python prints an exception in a destructor, and goes on."""
    fall = """
        class Falls:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGTERM)
        falls = Falls()
        del falls
"""
    done = run(COMMAND.replace("        BODY\n", fall))
    assert done.returncode == 143 and "Exception ignored" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_finished_command_ends_with_its_own_code() -> None:
    """A signal may come while Python frees the last objects, after it has removed all handlers."""
    late = """
        class Late:
            def __del__(self, kill=os.kill, getpid=os.getpid):
                kill(getpid(), 15)
        sys.late = Late()  # which outlives all modules
        sys.exit(0)
"""
    done = run(COMMAND.replace("        BODY\n", late))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_signal_while_a_command_is_imported(tmp_path: Path) -> None:
    """Here the module swallows every exception, as some packages do."""
    text = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException:"
    (tmp_path / "swallows.py").write_text(f"{text}\n    pass\n")
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from slipstream.cli.lazy import _imported
from slipstream.core.signals import raising_interrupted
with raising_interrupted():
    _imported("swallows")
"""
    done = run(code, str(tmp_path))
    assert done.returncode == 130 and done.stderr.startswith("slipstream: stopped by SIGINT")


WORKER = """
import multiprocessing, os, subprocess, sys, time
from slipstream.core.signals import become_worker, starting_workers

def work(pipe, early):
    os.kill(os.getpid(), signal.SIGTERM)  # before it is a worker: blocked
    become_worker()
    pipe.send(os.getpid())
    time.sleep(60)

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    with starting_workers():
        worker = context.Process(target=work, args=(there, True), daemon=True)
        worker.start()
    pid = here.recv()
    for name in ("INT", "TERM") * 5:
        subprocess.run(["kill", f"-{name}", str(pid)], check=True)
    worker.join(0.2)
    print(pid, worker.is_alive(), flush=True)
    if sys.argv[1] == "stop":
        worker.terminate()
        worker.join()
        print(worker.exitcode)
    else:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_leaves_signals_to_its_parent_which_can_stop_it() -> None:
    done = run(WORKER, "stop")
    assert done.stdout.split()[1:] == ["True", "0"], done.stderr


def test_a_worker_ends_when_its_parent_is_killed() -> None:
    done = run(WORKER, "die")  # which returns when the worker has closed its output too
    pid, alive = done.stdout.split()
    assert done.returncode == -signal.SIGKILL and alive == "True"
    with pytest.raises(ProcessLookupError):
        for _ in range(1000):  # its new parent may not have collected it yet
            os.kill(int(pid), 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                raise ProcessLookupError


def test_a_signal_that_other_code_makes_another_exception_of() -> None:
    """One that arrives in a class body, as during an import, becomes a RuntimeError in Python."""

    class Attribute:
        def __set_name__(self, owner: type, name: str) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)

    with pytest.raises(Interrupted, match="SIGTERM") as error, raising_interrupted():
        type("Owner", (), {"attribute": Attribute()})
    assert error.value.code == 143
    with pytest.raises(RuntimeError, match="no signal"), raising_interrupted():
        raise RuntimeError("no signal")
