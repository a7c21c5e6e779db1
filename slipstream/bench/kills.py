"""A test that a run which is killed and resumed ends as one that was not, with SIGKILL.

One run is left alone. Another with the same config is killed at random moments and resumed each
time by the same call. At the end both must have the same weights, moments and best model, bit for
bit.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
from torch import Tensor

from slipstream.runs.checkpoint import read_checkpoint, read_tensors
from slipstream.runs.config import RunConfig
from slipstream.runs.folder import RunFolder
from slipstream.training.session import train

_PATIENCE = 300.0
"""Seconds that a run may take to write its next record."""


@dataclass(frozen=True)
class KillReport:
    kills: int
    steps: tuple[int, ...]
    """The last step that was recorded before each kill."""
    resumed_from: tuple[int, ...]
    """The step from which the run was resumed after each kill."""
    different: tuple[str, ...]
    """Tensors that differ at the end; empty if resuming is exact."""


def kill_and_compare(
    config: RunConfig, out: Path, *, kills: int, seed: int, device: str = "cpu", most: int = 24
) -> KillReport:
    """Train twice in `out`, once undisturbed and once with `kills` kills, and compare.

    Each kill comes 1 to `most` records after the start, plus up to 20 ms. Raises ValueError if the
    run ends before it was killed so often, since it is then too short.
    """
    whole, broken = RunFolder(out / "whole"), RunFolder(out / "broken")
    _finish(config, whole, device)
    draw = random.Random(seed)
    steps: list[int] = []
    for _ in range(kills):
        process = _start(config, broken, device)
        if _wait_for_records(process, broken, draw.randint(1, most)):
            time.sleep(draw.uniform(0, 0.02))
        process.kill()
        process.join()
        if process.exitcode == 0:
            raise ValueError(f"the run must outlast {kills} kills, got its end after {len(steps)}")
        steps.append(_last_step(broken))
    _finish(config, broken, device)
    starts = [row["step"] for row in broken.records() if row["kind"] == "start"]
    return KillReport(kills, tuple(steps), tuple(starts[1:]), tuple(_different(whole, broken)))


def _start(config: RunConfig, folder: RunFolder, device: str) -> BaseProcess:
    # Forked from a server that has imported everything but touched no device.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["slipstream.training.session", "torch._dynamo"])
    process = context.Process(target=train, args=(config, folder.path), kwargs={"device": device})
    process.start()
    return process


def _finish(config: RunConfig, folder: RunFolder, device: str) -> None:
    process = _start(config, folder, device)
    process.join()
    if process.exitcode != 0:
        raise ValueError(f"the run must end well, got exit code {process.exitcode}: {folder.path}")


def _wait_for_records(process: BaseProcess, folder: RunFolder, more: int) -> bool:
    """Wait until there are this many `more` records; False if the process ended before."""
    wanted = _lines(folder.records_file) + more
    until = time.monotonic() + _PATIENCE
    while _lines(folder.records_file) < wanted and process.is_alive():
        if time.monotonic() > until:
            process.kill()
            raise ValueError(f"a run must write records, got none in {_PATIENCE:.0f} s")
        time.sleep(0.001)
    return process.is_alive()


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
