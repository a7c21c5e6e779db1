"""Time and memory of calls on a device."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

Call = Callable[[], object]


def interleaved_ms(
    calls: dict[str, Call], *, warmup: int = 3, repeats: int = 10, device: str = "cuda"
) -> dict[str, list[float]]:
    """Milliseconds of every repetition of every call, after warming up.

    The calls take turns (A B A B ...), so that a drifting clock rate favours none. On a GPU times
    are taken between events on the device, which is not waited for in between.
    """
    for _ in range(warmup):
        for call in calls.values():
            call()
    if torch.device(device).type != "cuda":
        return _by_the_clock(calls, repeats)
    torch.cuda.synchronize()
    events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {n: [] for n in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            events[name].append((start, end))
    torch.cuda.synchronize()
    return {name: [s.elapsed_time(e) for s, e in pairs] for name, pairs in events.items()}


def _by_the_clock(calls: dict[str, Call], repeats: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(1e3 * (time.perf_counter() - start))
    return times


def median_ms(call: Call, *, warmup: int = 3, repeats: int = 10) -> float:
    return quantile(interleaved_ms({"": call}, warmup=warmup, repeats=repeats)[""], 0.5)


def quantile(values: list[float], share: float) -> float:
    """The value below which this share of the values lies, one of them: no interpolation."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def allocated_gb(device: str) -> float:
    """The memory of all tensors, in 1e9 bytes; 0 on a device that does not count it."""
    if torch.device(device).type != "cuda":
        return 0.0
    torch.cuda.synchronize()
    # Matrix products keep scratch memory from one call to the next. It is freed here, so that each
    # subject is charged for its own.
    getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()
    return torch.cuda.memory_allocated() / 1e9


def peak_gb(call: Call, before: float, device: str) -> float:
    """The most memory allocated during the call, less what was allocated `before` its subject."""
    if torch.device(device).type != "cuda":
        return 0.0
    allocated_gb(device)
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 1e9 - before


def total_gb(device: str) -> float:
    if torch.device(device).type != "cuda":
        return float("inf")
    return torch.cuda.get_device_properties(device).total_memory / 1e9
