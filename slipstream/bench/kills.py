"""A test that a run which is killed and resumed ends as one that was not, with SIGKILL.

One run is left alone. Another with the same config is killed at random moments and resumed each
time by the same call. At the end both must have the same weights, moments and best model, bit for
bit. Of a run in several processes one is killed, drawn at random; the others must then end by
themselves.
"""

from __future__ import annotations

import math
import multiprocessing
import random
import socket
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
from torch import Tensor

from slipstream.core.errors import TrainingStopped
from slipstream.core.runtime import available_cores, take_environment
from slipstream.runs.checkpoint import read_checkpoint, read_tensors
from slipstream.runs.config import RunConfig
from slipstream.runs.folder import RunFolder
from slipstream.training.distributed import leave_world
from slipstream.training.session import train

_PATIENCE = 300.0
"""Seconds that a run may take to write its next record."""
_SAID = 3
"""The exit code of a process that ended with a sentence, as another was gone."""


@dataclass(frozen=True)
class KillReport:
    kills: int
    steps: tuple[int, ...]
    """The last step that was recorded before each kill."""
    resumed_from: tuple[int, ...]
    """The step from which the run was resumed after each kill."""
    different: tuple[str, ...]
    """Tensors that differ at the end; empty if resuming is exact."""
    seconds: tuple[float, ...] = ()
    """From each kill to the end of the last of the other processes; none of a single process."""


def kill_and_compare(
    config: RunConfig,
    out: Path,
    *,
    kills: int,
    seed: int,
    device: str = "cpu",
    most: int = 24,
    processes: int = 1,
) -> KillReport:
    """Train twice in `out`, once undisturbed and once with `kills` kills, and compare.

    Each kill comes 1 to `most` records after the start, plus up to 20 ms. Raises ValueError if the
    run ends before it was killed so often, since it is then too short.
    """
    whole, broken = RunFolder(out / "whole"), RunFolder(out / "broken")
    finish_run(config, whole, device, processes)
    draw = random.Random(seed)
    steps: list[int] = []
    seconds: list[float] = []
    for _ in range(kills):
        ranks = _start(config, broken, device, processes)
        if _wait_for_records(ranks, broken, draw.randint(1, most)):
            time.sleep(draw.uniform(0, 0.02))
        victim = draw.choice(ranks)
        victim.kill()
        since = time.monotonic()
        _end(ranks, within=_PATIENCE)
        if victim.exitcode == 0:
            raise ValueError(f"the run must outlast {kills} kills, got its end after {len(steps)}")
        others = {one.exitcode for one in ranks if one is not victim}
        if others - {_SAID}:
            raise ValueError(f"the other processes must end with a sentence, got codes {others}")
        steps.append(_last_step(broken))
        seconds += [round(time.monotonic() - since, 3)] if processes > 1 else []
    finish_run(config, broken, device, processes)
    starts = [row["step"] for row in broken.records() if row["kind"] == "start"]
    different = _different(whole, broken)
    return KillReport(kills, tuple(steps), tuple(starts[1:]), tuple(different), tuple(seconds))


def _start(
    config: RunConfig, folder: RunFolder, device: str, processes: int = 1
) -> list[BaseProcess]:
    # Forked from a server that has imported everything but touched no device.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["slipstream.training.session", "torch._dynamo"])
    port = _free_port()
    ranks: list[BaseProcess] = []
    for rank in range(processes):
        work = (rank, processes, port, config, folder.path, device)
        ranks.append(context.Process(target=_train_as, args=work))
        ranks[-1].start()
    return ranks


def _train_as(
    rank: int, processes: int, port: int, config: RunConfig, path: Path, device: str
) -> None:
    """Train as one of so many processes, as `torchrun` would have started it."""
    if processes > 1:
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "MASTER_PORT": port}
        take_environment(MASTER_ADDR="127.0.0.1", **{k: str(v) for k, v in place.items()})
        torch.set_num_threads(max(1, available_cores() // processes))
    try:
        train(config, path, device=device)
    except TrainingStopped:
        leave_world(_SAID)
        raise
    leave_world(0)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def finish_run(config: RunConfig, folder: RunFolder, device: str, processes: int = 1) -> None:
    """Train in a process, or several, of its own; ValueError where one does not end well."""
    ranks = _start(config, folder, device, processes)
    _end(ranks)
    codes = [process.exitcode for process in ranks]
    if any(codes):
        raise ValueError(f"the run must end well, got exit codes {codes}: {folder.path}")


def _end(ranks: list[BaseProcess], within: float = math.inf) -> None:
    """Wait for the end of all. Raises ValueError where one is alive after so many seconds."""
    until = time.monotonic() + within
    for process in ranks:
        process.join(None if within == math.inf else max(0.0, until - time.monotonic()))
    if any(process.is_alive() for process in ranks):
        _kill(ranks)
        raise ValueError(f"all processes must end with one, got one alive after {within:.0f} s")


def _kill(ranks: list[BaseProcess]) -> None:
    for process in ranks:
        process.kill()


def _wait_for_records(ranks: list[BaseProcess], folder: RunFolder, more: int) -> bool:
    """Wait until there are this many `more` records; False if a process ended before."""
    wanted = _lines(folder.records_file) + more
    until = time.monotonic() + _PATIENCE
    while _lines(folder.records_file) < wanted and all(one.is_alive() for one in ranks):
        if time.monotonic() > until:
            _kill(ranks)
            raise ValueError(f"a run must write records, got none in {_PATIENCE:.0f} s")
        time.sleep(0.001)
    return all(one.is_alive() for one in ranks)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def _last_step(folder: RunFolder) -> int:
    return max((row["step"] for row in folder.records()), default=0)


def _different(whole: RunFolder, broken: RunFolder) -> list[str]:
    """Names of tensors that differ in the last checkpoints or in the best models."""
    names = []
    folders = (whole, broken)
    checkpoints = [read_checkpoint(f.checkpoint_file(f.checkpoint_steps()[-1])) for f in folders]
    models = [read_tensors(f.model_file, "model")[1] for f in folders]
    for one, other in ((c.tensors for c in checkpoints), models):
        names += [name for name in sorted({*one, *other}) if not _equal(one, other, name)]
    if checkpoints[0].state["best"] != checkpoints[1].state["best"]:
        names.append("the best validation")
    return names


def _equal(one: dict[str, Tensor], other: dict[str, Tensor], name: str) -> bool:
    return name in one and name in other and torch.equal(one[name], other[name])
