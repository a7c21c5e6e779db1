"""Functions in a process group of gloo, a process a rank, forked from a server that has imported
everything already: three of them take two seconds, where torchrun takes nine."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


def in_ranks(size: int, folder: Path, work: Callable[..., None], *arguments: Any) -> None:
    """Call `work(rank, *arguments)` in so many processes; AssertionError with what one raised."""
    context = multiprocessing.get_context("forkserver")
    ranks = [
        context.Process(target=_be_rank, args=(rank, size, folder, work, arguments))
        for rank in range(size)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    said = "\n".join(file.read_text() for file in sorted(folder.glob("rank-*.txt")))
    assert [process.exitcode for process in ranks] == [0] * size, said


def _be_rank(
    rank: int, size: int, folder: Path, work: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    torch.set_num_threads(1)
    code = 1
    try:
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/group", rank=rank, world_size=size,
            timeout=timedelta(seconds=60),
        )  # fmt: skip
        work(rank, *arguments)
        dist.barrier()
        code = 0
    except BaseException:
        (folder / f"rank-{rank}.txt").write_text(traceback.format_exc())
    os._exit(code)  # see slipstream.training.distributed.leave_world
