"""Finds the fastest tile of every kernel for a list of problems, by trying.

Candidates are compiled first, by many processes at once (a compilation takes seconds, a measurement
milliseconds), then timed one after another in this process. The result is rows for a tile table.
"""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import torch

from slipstream.bench.measure import median_ms
from slipstream.core.runtime import generator
from slipstream.kernels import launch
from slipstream.kernels.launch import Operands
from slipstream.kernels.tiles import Tile


@dataclass(frozen=True)
class TuneCase:
    """One kernel on one problem. `slices` and `width` also bound the row of the table it makes."""

    kernel: str
    precision: str
    slices: int
    width: int
    points: int = 1 << 20
    heads: int = 8

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.precision in ("bf16", "bf16v") else torch.float32


@dataclass(frozen=True)
class Timing:
    case: TuneCase
    tile: Tile
    milliseconds: float


def candidates(case: TuneCase) -> Iterator[Tile]:
    """Every tile worth compiling for a case."""
    single = case.kernel.startswith("single-tile")
    grid_stride = single or "slice_forward" in case.kernel.split("/")[1] or "slots" in case.kernel
    exact = case.precision not in ("bf16", "tf32")
    all_points = (16, 32, 64, 128) if exact else (32, 64, 128)
    slots = (0,) if single else ((16, 32, 64) if exact else (32, 64, 128, 256))
    warps = (2, 4, 8) if single else (4, 8)
    depths = (1, 2, 3) if single else (1, 3)
    for points, slot, warp, stages in itertools.product(all_points, slots, warps, depths):
        columns = min(slot or case.slices, case.slices)
        work = points * max(columns, case.width) / (32 * warp)
        if not 4 <= work <= 160:
            continue  # elements a thread: fewer waste it, more spill
        for per_sm in (4, 8) if grid_stride and "deslice" not in case.kernel else (8,):
            yield Tile(
                kernel=case.kernel, precisions=(case.precision,), slices=case.slices,
                width=case.width, points=points, slots=slot, warps=warp, stages=stages,
                per_sm=per_sm,
            )  # fmt: skip


def prepare(case: TuneCase, device: str = "cuda") -> Callable[[Tile], Callable[[], object]]:
    """Inputs of a case; gives a function from a tile to the call to be timed."""
    draw = generator(0, "tune")
    heads, slices, width = case.heads, case.slices, case.width

    def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        small = torch.randn((1, 4096, *shape[2:]) if len(shape) == 4 else shape, generator=draw)
        full = small.repeat(1, shape[1] // 4096, 1, 1) if len(shape) == 4 else small
        return full.to(device, dtype)

    query = randn(1, case.points, heads, width, dtype=case.dtype)
    values = randn(1, case.points, heads, width, dtype=case.dtype)
    weight, bias = randn(slices, width) / width**0.5, randn(slices)
    temperature = torch.full((heads,), 0.5, device=device)
    tokens = torch.randn(1, heads, slices, width, generator=draw).to(device)
    mass = torch.randn(1, heads, slices, generator=draw).to(device)
    plain = Operands.of(query, weight, bias, temperature, case.precision)
    stats = launch.statistics(plain) if case.kernel.startswith("blocked") else None

    def call(tile: Tile) -> Callable[[], object]:
        o = Operands.of(query, weight, bias, temperature, case.precision, {case.kernel: tile})
        calls: dict[str, Callable[[], object]] = {
            "single-tile/slice_forward": lambda: launch.slice_single_tile(o, values),
            "single-tile/deslice_forward": lambda: launch.deslice_single_tile(o, tokens),
            "single-tile/backward": lambda: launch.backward_single_tile(o, values, tokens, mass),
            "blocked/statistics": lambda: launch.statistics(o),
            "blocked/slice_forward": lambda: launch.slice_blocked(o, values, _given(stats)),
            "blocked/slice_forward_over_points": lambda: launch.slice_over_points(o, values),
            "blocked/deslice_forward": lambda: launch.deslice_blocked(o, tokens, stats),
        }
        if "blocked/backward" in case.kernel:  # both are timed together, one of them varied
            m, total = _given(stats)
            return lambda: launch.backward_blocked(o, values, tokens, mass, (m, total))
        return calls[case.kernel]

    return call


def tune(cases: list[TuneCase], workers: int = 12) -> list[Timing]:
    """All timings, per case from fast to slow; candidates that do not run are left out."""
    jobs = [(case, tile) for case in cases for tile in candidates(case)]
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, maxtasksperchild=None) as pool:
        compiled = pool.map(_compiles, jobs, chunksize=8)
    timings = []
    for case in cases:
        call = prepare(case)
        tiles = [
            tile for (c, tile), works in zip(jobs, compiled, strict=True) if c == case and works
        ]
        found = [Timing(case, tile, median_ms(call(tile), repeats=5)) for tile in tiles]
        timings += sorted(found, key=lambda timing: timing.milliseconds)
        torch.cuda.empty_cache()
    return timings


def as_toml(tile: Tile) -> str:
    lines = ["[[tile]]"]
    for name, value in asdict(tile).items():
        if isinstance(value, str):
            value = f'"{value}"'
        elif isinstance(value, tuple):
            value = "[" + ", ".join(f'"{v}"' for v in value) + "]"
        lines.append(f"{name} = {value}")
    return "\n".join(lines) + "\n"


def _given(stats: torch.Tensor | None) -> torch.Tensor:
    assert stats is not None
    return stats


_PREPARED: dict[TuneCase, Callable[[Tile], Callable[[], object]]] = {}


def _compiles(job: tuple[TuneCase, Tile]) -> bool:
    """Run one candidate once, in a worker; too large for the device is a plain no."""
    case, tile = job
    if case not in _PREPARED:
        _PREPARED.clear()
        _PREPARED[case] = prepare(case)
    try:
        _PREPARED[case](tile)()
        torch.cuda.synchronize()
    except Exception:  # whatever the compiler or the driver raises, the candidate is out
        return False
    return True
