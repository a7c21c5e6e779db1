"""Finds the fastest tile of every kernel for a list of shapes, by measuring candidates.

Many processes compile the candidates first, since a compilation takes seconds and a measurement
milliseconds. Then one process times them one after another. The result is a tile table.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import lru_cache, partial

import torch
from torch import Tensor

from slipstream.bench.measure import interleaved_ms, quantile
from slipstream.bench.workers import Outcome, device_lost, run_tasks
from slipstream.core import runtime
from slipstream.core.runtime import generator
from slipstream.kernels import launch
from slipstream.kernels.operands import Backward, Operands
from slipstream.kernels.tiles import Tile, TileTable, table_for

ANY = 1_000_000_000
"""A bound above every slice count."""
COMPILE_POINTS = 1 << 13
"""Points when compiling; few, since compiled kernels do not depend on their number."""
JOBS_PER_TASK = 8


@dataclass(frozen=True, kw_only=True)
class TuneCase:
    """One kernel at one shape, and the largest slice count for which its row of the table is."""

    kernel: str
    precision: str
    slices: int
    width: int
    up_to_slices: int
    points: int = 1 << 19

    @property
    def name(self) -> str:
        return f"{self.kernel} {self.precision} G={self.slices} D={self.width}"

    @property
    def heads(self) -> int:
        return max(1, 256 // self.width)

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.precision in ("bf16", "bf16v") else torch.float32


@dataclass(frozen=True)
class Timing:
    tile: Tile
    milliseconds: float


class Inputs:
    """What the kernels of a case read. Points repeat, as drawing millions would take too long."""

    def __init__(self, case: TuneCase, device: str) -> None:
        draw = generator(0, "tune")
        heads, slices, width = case.heads, case.slices, case.width

        def rows() -> Tensor:
            some = torch.randn(1, min(4096, case.points), heads, width, generator=draw)
            full = some.repeat(1, -(-case.points // some.shape[1]), 1, 1)[:, : case.points]
            return full.to(device, case.dtype).contiguous()

        def small(*shape: int) -> Tensor:
            return torch.randn(shape, generator=draw).to(device)

        self.query, self.values, self.gradient = rows(), rows(), rows()
        self.weight, self.bias = small(slices, width) / width**0.5, small(slices)
        self.temperature = torch.full((heads,), 0.5, device=device)
        self.tokens, self.mass = small(1, heads, slices, width), small(1, heads, slices).square()
        self.precision = case.precision
        self.of_slice = Backward.of_slice(self.values, self.tokens, self.mass, self.mass)
        of_deslice = Backward.of_deslice(self.gradient, self.tokens)
        self.of_pair = Backward.of_pair(self.of_slice, of_deslice)
        plain = self.operands()
        self.stats = launch.statistics(plain) if "blocked" in case.kernel else self.mass

    def operands(self, *tiles: Tile) -> Operands:
        chosen = {tile.kernel: tile for tile in tiles}
        return Operands.of(
            self.query, self.weight, self.bias, self.temperature, self.precision, chosen
        )

    def backward_blocked(self, o: Operands, of: Backward) -> object:
        """Both kernels of the backward, which are timed together while the tile of one varies."""
        return launch.backward_blocked(o, of, self.stats)


KERNELS: dict[str, Callable[[Inputs, Operands], object]] = {
    "single-tile/slice_forward": lambda i, o: launch.slice_single_tile(o, i.values),
    "single-tile/deslice_forward": lambda i, o: launch.deslice_single_tile(o, i.tokens),
    "single-tile/backward": lambda i, o: launch.backward_single_tile(o, i.of_slice),
    "single-tile/pair_backward": lambda i, o: launch.backward_single_tile(o, i.of_pair),
    "blocked/statistics": lambda i, o: launch.statistics(o),
    "blocked/slice_forward": lambda i, o: launch.slice_blocked(o, i.values, i.stats),
    "blocked/slice_forward_over_points": lambda i, o: launch.slice_over_points(o, i.values),
    "blocked/deslice_forward": lambda i, o: launch.deslice_blocked(o, i.tokens, i.stats),
    "blocked/backward_points": lambda i, o: i.backward_blocked(o, i.of_slice),
    "blocked/backward_slots": lambda i, o: i.backward_blocked(o, i.of_slice),
    "blocked/pair_backward_points": lambda i, o: i.backward_blocked(o, i.of_pair),
    "blocked/pair_backward_slots": lambda i, o: i.backward_blocked(o, i.of_pair),
}
"""How each kernel is called. A new kernel needs a row here, and is then tuned with the others."""

SINGLE_TILE_SHAPES = {
    "bf16": ((32, 32), (128, 32), (64, 64), (128, 128)),
    "ieee": ((32, 32), (64, 64)),
    "tf32": ((32, 32), (64, 64)),
}
BLOCKED_SHAPES = {
    "bf16": ((64, 32, 64), (256, 32, 256), (1024, 32, ANY), (32, 256, ANY)),
    "ieee": ((256, 32, ANY), (32, 256, ANY)),
    "tf32": ((256, 32, ANY),),
    "bf16v": ((256, 32, ANY),),
    "tf32x3": ((256, 32, ANY),),
}
"""By precision slices and width and, for blocked kernels, the largest slices of the row."""


def tune_cases() -> list[TuneCase]:
    """The shapes of the paper's tables, for every kernel."""
    rows = []
    for kernel in KERNELS:
        if kernel.startswith("single-tile"):
            for precision, shapes in SINGLE_TILE_SHAPES.items():
                rows += [_case(kernel, precision, g, d, g) for g, d in shapes]
        elif kernel.endswith("over_points"):
            rows += [_case(kernel, precision, 32, 32, ANY) for precision in ("bf16", "ieee")]
        else:
            for precision, larger in BLOCKED_SHAPES.items():
                rows += [_case(kernel, precision, g, d, up_to) for g, d, up_to in larger]
    return rows


def _case(kernel: str, precision: str, slices: int, width: int, up_to: int) -> TuneCase:
    return TuneCase(
        kernel=kernel, precision=precision, slices=slices, width=width, up_to_slices=up_to
    )


def candidates(case: TuneCase) -> Iterator[Tile]:
    """Every tile worth compiling for a case."""
    single = case.kernel.startswith("single-tile")
    exact = case.precision not in ("bf16", "tf32")
    all_points = (16, 32, 64, 128) if exact else (32, 64, 128)
    slots = (0,) if single else ((16, 32, 64) if exact else (32, 64, 128, 256))
    warps = (2, 4, 8) if single else (4, 8)
    depths = (1, 2, 3) if single else (1, 3)
    for points, slot, warp, stages in itertools.product(all_points, slots, warps, depths):
        if slot > max(min(slots), 2 * case.slices - 1):
            continue  # more slots than the next power of two of the slices
        work = points * max(slot or case.slices, case.width) / (32 * warp)
        if not 4 <= work <= 160:
            continue  # elements of a thread: with fewer it idles, with more it spills
        for per_sm in (4, 8) if _splits_points(case.kernel) else (8,):
            yield Tile(
                kernel=case.kernel, precisions=(case.precision,), slices=case.up_to_slices,
                width=case.width, points=points, slots=slot, warps=warp, stages=stages,
                per_sm=per_sm,
            )  # fmt: skip


def _splits_points(kernel: str) -> bool:
    """Whether the kernel sums over points, so that the tile's `per_sm` sets into how many parts."""
    family, name = kernel.split("/")
    return family == "single-tile" or name.startswith("slice_forward") or name.endswith("slots")


def tune(
    cases: Sequence[TuneCase], *, workers: int, device: str = "cuda", repeats: int = 5
) -> Iterator[tuple[TuneCase, Outcome]]:
    """Yield the timings of every case from fast to slow, without candidates that do not run."""
    jobs = [[(case, tile) for tile in candidates(case)] for case in cases]
    tasks = [
        each[k : k + JOBS_PER_TASK] for each in jobs for k in range(0, len(each), JOBS_PER_TASK)
    ]
    runs: dict[TuneCase, list[Tile]] = {case: [] for case in cases}
    for (case, tile), outcome in run_tasks(
        tasks, partial(_run_once, device=device), workers=workers
    ):
        if outcome.error is None:
            runs[case].append(tile)
    time_all = partial(time_tiles, device=device, repeats=repeats)
    timing = [[(case, tuple(tiles)) for case, tiles in runs.items()]]
    for (case, _), outcome in run_tasks(timing, time_all, workers=min(workers, 1)):
        yield case, outcome


def time_tiles(
    job: tuple[TuneCase, tuple[Tile, ...]], *, device: str, repeats: int
) -> list[Timing]:
    """Timings from fast to slow of the tiles whose results agree twice; raises if there is none."""
    case, tiles = job
    inputs, timings = Inputs(case, device), []
    for tile in tiles:
        call = partial(KERNELS[case.kernel], inputs, inputs.operands(tile))
        try:
            if not _same(call(), call()):
                continue  # a race, as where a copy overwrites what is still being read
            times = interleaved_ms({"": call}, warmup=2, repeats=repeats, device=device)[""]
        except Exception:  # whatever the driver raises, the candidate is left out
            if device_lost():
                raise
            continue
        timings.append(Timing(tile, quantile(times, 0.5)))
    if not timings:
        raise RuntimeError("no candidate runs")
    return sorted(timings, key=lambda timing: timing.milliseconds)


def _same(one: object, other: object) -> bool:
    """Whether two results, tensors or tuples of them, agree to the bit."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return torch.equal(one, other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return all(map(_same, one, other))
    return one is other


def _run_once(job: tuple[TuneCase, Tile], *, device: str) -> None:
    """Compile one candidate by running it once; it raises if it is too large for the device."""
    case, tile = job
    inputs = _few_inputs(replace(case, points=COMPILE_POINTS), device)
    KERNELS[case.kernel](inputs, inputs.operands(tile))
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


@lru_cache(maxsize=1)
def _few_inputs(case: TuneCase, device: str) -> Inputs:
    return Inputs(case, device)


def tuned_table(winners: Sequence[Tile], device: torch.device) -> str:
    """The table in use with the winners in place of its rows, as a file for GPUs like this one."""
    present = table_for(runtime.shared_memory(device))
    versions = ", ".join(f"{name} {version}" for name, version in runtime.versions().items())
    comment = (
        f"{runtime.device_name(device)}, {versions}, {datetime.now(UTC):%Y-%m-%d}, commit"
        f" {runtime.commit()}.\nSwept: {len(winners)} rows; the others are those of"
        f" {present.name!r}."
    )
    major, minor = torch.cuda.get_device_capability(device)
    table = replace(
        present,
        architecture=10 * major + minor,
        shared_memory=runtime.shared_memory(device),
        tiles=merge(present.tiles, winners),
    )
    return as_toml(table, comment)


def merge(present: Iterable[Tile], winners: Sequence[Tile]) -> tuple[Tile, ...]:
    """The present rows with the winners in place of those of the same kernel and bounds.

    Rows with smaller bounds come first, since the first row that fits is taken.
    """
    won = {(t.kernel, p, t.slices, t.width) for t in winners for p in t.precisions}
    kept = []
    for tile in present:
        rest = tuple(
            p for p in tile.precisions if (tile.kernel, p, tile.slices, tile.width) not in won
        )
        kept += [replace(tile, precisions=rest)] if rest else []
    kernels = list(dict.fromkeys(tile.kernel for tile in [*kept, *winners]))
    rows = sorted(
        [*winners, *kept],
        key=lambda t: (kernels.index(t.kernel), t.slices * t.width, t.width),
    )
    return tuple(rows)


def as_toml(table: TileTable, comment: str) -> str:
    """A tile table as TOML, with a comment that says where its numbers come from."""
    head = "".join(f"# {line}\n" for line in comment.splitlines())
    facts = f"architecture = {table.architecture}\nshared_memory = {table.shared_memory}\n"
    return "\n".join([head, facts, *(_row(tile) for tile in table.tiles)])


def _row(tile: Tile) -> str:
    defaults = {field.name: field.default for field in fields(tile)}
    lines = ["[[tile]]"]
    for name, value in asdict(tile).items():
        if name in ("slots", "spills") and value == defaults[name]:
            continue
        if isinstance(value, str):
            value = f'"{value}"'
        elif isinstance(value, tuple):
            value = "[" + ", ".join(f'"{v}"' for v in value) + "]"
        lines.append(f"{name} = {value}")
    return "\n".join(lines) + "\n"
