"""How far a question lies outside of the records, in sentences."""

from __future__ import annotations

from slipstream.models.variants import BUILT_IN
from slipstream.planning.devices import RECORDED, Device
from slipstream.planning.workload import Spread, Workload

COMPARED = {
    "points": ("fewer points than", "more points than"),
    "layers": ("fewer layers than", "more layers than"),
    "slices": ("fewer slices than", "more slices than"),
    "width": ("a width below", "a width above"),
    "heads": ("fewer heads than", "more heads than"),
}
"""How a number is below and above the range of the records."""


OLDER = "of older kernels: today's take about 15 % less of both to train in bf16"
"""What the newest rows say (1M points in bf16: 54.0 GB and 109.5 ms in place of 61.5 and 127.9),
which are too few to fit all by."""


def notes(work: Workload, device: Device, spread: Spread) -> tuple[str, ...]:
    """What the prediction is from, and what no record tells."""
    said = [*_of_device(device), *_ranges(work, device), *_of_way(work, device)]
    if spread.devices > 1:
        said.append("messages between devices are not in the time")
        said.append("several processes launch their steps one by one, which are not recorded")
    return tuple(said)


def way_of(work: Workload) -> str:
    """How a step is computed, as records name it."""
    step = "training" if work.training else "inference"
    compiled = "compiled" if work.compiled else "eager"
    return f"{step} {work.precision} {compiled} {work.memory}"


def without_record(work: Workload, device: Device) -> list[str]:
    """A sentence where no record is of a step that is computed in this way."""
    way = way_of(work)
    if way in device.table.seen["ways"]:
        return []
    return [f"no record of {way}: counted as the nearest that has one"]


def _of_device(device: Device) -> list[str]:
    if device.measured:
        where = "one H200" if device.kind == "cuda" else "a CPU with two cores"
        rows = f"fitted to {device.table.seen['rows']} rows of the records of {where}"
        return [f"{rows}, {OLDER}" if device.kind == "cuda" else rows]
    said = ["memory by the count of bytes that fits the records of an H200"]
    if device.timed:
        said.append(f"time scaled from the {RECORDED} by peak numbers: a model, no measurement")
    else:
        said.append("no time: the speed of the device is not known (--flops and --bandwidth)")
    return said


def _ranges(work: Workload, device: Device) -> list[str]:
    step, size = "training" if work.training else "inference", work.size
    values = {"points": work.rows, "layers": size.layers, "slices": work.slots}
    values |= {"width": size.width, "heads": size.heads}
    said = []
    for name, value in values.items():
        points = name == "points"
        low, high = device.table.seen[f"{step} points" if points else name]
        below, above = COMPARED[name]
        of = f" of {step}" if points else ""
        if value < low:
            said.append(f"extrapolated: no record{of} with {below} {low:,}")
        if value > high:
            said.append(f"extrapolated: no record{of} with {above} {high:,}")
    if work.batch > 1:
        said.append("no record of a batch of more than one: counted as so many points more")
    return said


def _of_way(work: Workload, device: Device) -> list[str]:
    seen, said = device.table.seen, without_record(work, device)
    if work.variant not in BUILT_IN:
        said.append("the coupling of a plug-in is not known: counted as the baseline's")
    elif work.variant not in seen["variants"]:
        said.append(f"no record of the variant {work.variant} on this kind of device")
    if work.stream == "bf16":
        said.append("a stream in bf16 is counted as one in fp32, which takes more of both")
    if device.kind == "cpu" and work.precision == "bf16":
        said.append("bf16 is as fast as fp32 only on a CPU with units for it")
    if device.kind == "cuda" and work.couplings and work.family in ("reference", "chunked"):
        said.append("no kernels for this size: the reference runs, which takes more of both")
    return said
