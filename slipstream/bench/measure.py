"""Time and memory of a call on a CUDA device."""

from __future__ import annotations

from collections.abc import Callable

import torch


def times_ms(call: Callable[[], object], *, warmup: int = 2, repeats: int = 10) -> list[float]:
    """Milliseconds of every repetition, by device events, after warming up."""
    for _ in range(warmup):
        call()
    torch.cuda.synchronize()
    events = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        for _ in range(repeats)
    ]
    for start, end in events:
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in events]


def median_ms(call: Callable[[], object], *, warmup: int = 2, repeats: int = 10) -> float:
    return sorted(times_ms(call, warmup=warmup, repeats=repeats))[repeats // 2]


def peak_gb(call: Callable[[], object]) -> float:
    """Most memory allocated while the call runs, what was there before included, in 1e9 bytes."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 1e9
