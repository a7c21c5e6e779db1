"""Our command in processes that are forked with everything imported: a start costs two CPU seconds
less than that of an interpreter."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from .blocks import our_arguments


class Forked:
    """`slipstream` with some arguments in a process of its own, as far as a Popen is asked for."""

    def __init__(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        context = multiprocessing.get_context("forkserver")
        what = (list(arguments), log.absolute(), dict(environment), os.getcwd())
        self.process = context.Process(target=_be_slipstream, args=what)
        self.process.start()

    @property
    def returncode(self) -> int | None:
        return self.process.exitcode

    def poll(self) -> int | None:
        self.process.join(0)
        return self.returncode

    def wait(self) -> int:
        self.process.join()
        return self.process.exitcode or 0

    def terminate(self) -> None:
        self.process.terminate()


def _be_slipstream(
    arguments: list[str], log: Path, environment: dict[str, str], folder: str
) -> None:
    import torch

    from slipstream.cli.app import main

    os.chdir(folder)
    os.environ.update(environment)
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the server ignores it
    with log.open("w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        sys.argv = ["slipstream", *arguments]
        main()


def run_ranks(words: list[str]) -> tuple[int, str, str]:
    """`torchrun --nproc-per-node N -m slipstream ...`"""
    count = int(words[words.index("--nproc-per-node") + 1])
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    logs = [Path(f".rank-{rank}.txt") for rank in range(count)]
    ranks = [
        Forked(our_arguments(words) or [], log, {**shared, "RANK": str(k), "LOCAL_RANK": str(k)})
        for k, log in enumerate(logs)
    ]
    code = max(abs(one.wait()) for one in ranks)
    said = "".join(log.read_text() for log in logs)
    for log in logs:
        log.unlink()
    return code, said, ""


def _popen(command: list[str], *, stdout: IO[bytes], env: Mapping[str, str], **_: Any) -> Forked:
    return Forked(our_arguments(command) or [], Path(stdout.name), env)


SUBPROCESS = SimpleNamespace(Popen=_popen, STDOUT=subprocess.STDOUT, DEVNULL=subprocess.DEVNULL)
"""Takes the place of the module where a study starts its runs."""
