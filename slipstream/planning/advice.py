"""Which field to change so that a step fits, and the most points that fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from slipstream.planning.devices import Device
from slipstream.planning.predict import Prediction, memory, predict
from slipstream.planning.workload import Memory, Spread, Workload

MEMORY_FIELDS: dict[Memory, tuple[str, str]] = {
    "normal": ("memory=normal", "recompute=false"),
    "recompute": ("memory=normal", "recompute=true"),
    "lean": ("memory=lean", "recompute=false"),
}
FEWEST = 1_000
MOST = 10**12
SHOWN = 6
DOUBLINGS = 10
"""More than 1,024 times as many devices are not proposed."""


@dataclass(frozen=True)
class Option:
    """A way to take the step."""

    changes: tuple[str, ...]
    """Fields and values, as --set takes them; none for the step as it was asked for."""
    work: Workload
    spread: Spread
    device: Device
    prediction: Prediction

    @property
    def fits(self) -> bool:
        return self.prediction.bytes <= self.device.usable

    @cached_property
    def largest(self) -> int:
        """The most points of a sample that fit, to three digits; 0 where none does."""
        return largest_points(self.work, self.device, self.spread)


def options(work: Workload, device: Device, spread: Spread | None = None) -> list[Option]:
    """The step as it was asked for, and changes in the order of their cost in time.

    Of two options that fit, the one with the changes of the other and more is left out unless it
    is faster. After them come smaller batches, more devices and fewer points, which change what a
    step is.
    """
    spread = spread or Spread()
    asked = _option((), work, device, spread)
    tried = [_option(c, w, device, spread) for c, w in _ways(work, device, spread)]
    fitting = [option for option in tried if option.fits]
    useful = [o for o in fitting if not any(_is_better(other, o) for other in fitting)]
    by_cost = sorted(useful, key=lambda o: (o.prediction.seconds or 0, o.prediction.bytes))
    return [asked, *by_cost[:SHOWN], *_smaller(asked, device)]


def largest_options(work: Workload, device: Device, spread: Spread | None = None) -> list[Option]:
    """Each way of keeping memory, recorded or not, at the most points that fit it."""
    spread = spread or Spread()
    found = []
    for graph, (name, each) in product(_graphs(work, device, spread), _memories(work)):
        if graph and each.memory == "lean":
            continue  # lean steps are never recorded
        recorded = each.recorded and not graph
        most = largest_points(replace(each, recorded=recorded), device, spread)
        if most:
            step = replace(each, recorded=recorded, points=most)
            found.append(_option((*name, *graph), step, device, spread))
    return sorted(found, key=lambda option: option.work.points)


def largest_points(work: Workload, device: Device, spread: Spread | None = None) -> int:
    """The most points of a sample whose step fits, to three digits; 0 where none does."""
    spread = spread or Spread()

    def fits(points: int) -> bool:
        mine = spread.share(replace(work, points=points))
        return sum(memory(mine, device).values()) <= device.usable

    low, high = spread.points, MOST
    if not fits(low):
        return 0
    while high - low > max(1, low // 10_000):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return _rounded_down(low)


def _option(changes: tuple[str, ...], work: Workload, device: Device, spread: Spread) -> Option:
    return Option(changes, work, spread, device, predict(work, device, spread))


def _ways(
    work: Workload, device: Device, spread: Spread
) -> Iterator[tuple[tuple[str, ...], Workload]]:
    """Fields that leave points, batch and devices as they are, in all combinations."""
    lower = work.precision == "fp32" and device.kind == "cuda"
    as_products = ("model.dots=null",) if work.dots else ()
    precisions = [(), ("precision=bf16", *as_products)] if lower else [()]
    compiled = [()] if work.compiled else [(), ("compile=true",)]
    for precision, compiling, graph, (memory_change, each) in product(
        precisions, compiled, _graphs(work, device, spread), _memories(work)
    ):
        changes = (*precision, *memory_change, *compiling, *graph)
        if not changes or (graph and each.memory == "lean"):
            continue
        if precision:
            each = replace(each, precision="bf16", dots=None)
        if compiling:
            each = replace(each, compiled=True)
        yield changes, replace(each, recorded=each.recorded and not graph)


def _graphs(work: Workload, device: Device, spread: Spread) -> list[tuple[str, ...]]:
    """The step recorded as a CUDA graph, if it is, and launched one by one."""
    recorded = work.recorded and spread.devices == 1 and device.kind == "cuda"
    return [(), ("cuda_graph=false",)] if recorded else [()]


def _memories(work: Workload) -> Iterator[tuple[tuple[str, ...], Workload]]:
    """The step as it keeps memory now, and as it may keep less or more."""
    yield (), work
    if not work.training:
        return
    now = MEMORY_FIELDS[work.memory]
    for name, fields in MEMORY_FIELDS.items():
        if name == "recompute" and not work.stream_layers:
            continue  # there is nothing to compute again
        changes = tuple(field for field in fields if field not in now)
        if changes:
            yield changes, replace(work, memory=name)


def _is_better(one: Option, other: Option) -> bool:
    """Whether `one` has fewer changes, all of them the other's, and is no slower."""
    slower = (one.prediction.seconds or 0) > (other.prediction.seconds or 0)
    return set(one.changes) < set(other.changes) and not slower


def _smaller(asked: Option, device: Device) -> Iterator[Option]:
    """What makes a step smaller, where it does not fit: batch, devices, points."""
    if asked.fits:
        return
    work, spread = asked.work, asked.spread
    if work.batch > 1:
        one = _option(("batch=1",), replace(work, batch=1), device, spread)
        if one.fits:
            yield one
    for name, each in _memories(work):
        wider = _fewest_devices(each, device, spread)
        if wider is not None:
            yield _option((f"mesh.points={wider.points}", *name), each, device, wider)
    if asked.largest >= FEWEST:
        fewer = replace(work, points=asked.largest)
        yield _option((f"data.points={asked.largest}",), fewer, device, spread)


def _fewest_devices(work: Workload, device: Device, spread: Spread) -> Spread | None:
    """Over twice as many devices, or four times and so on, until a step fits."""
    for doubled in range(1, DOUBLINGS + 1):
        wider = replace(spread, points=spread.points << doubled)
        if wider.points > work.points:
            return None
        if sum(memory(wider.share(work), device).values()) <= device.usable:
            return wider
    return None


def _rounded_down(points: int) -> int:
    """To three digits."""
    unit = 10 ** max(0, len(str(points)) - 3)
    return points // unit * unit
