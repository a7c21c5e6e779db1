"""Memory by part and seconds of a step: counts of the step over what was fitted to records.

    peak   = parameters + inputs + kept + transient + workspace
    device = sum of (operations or bytes) / rate, + kernels / rate
    step   = the longer of device and host, which launches the kernels

A step that is replayed from a CUDA graph needs no host.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from slipstream.models.sweep_plan import CHUNK as SWEPT
from slipstream.models.sweep_plan import CPU_CHUNK
from slipstream.planning.counts import counts
from slipstream.planning.devices import Device, Table
from slipstream.planning.kept import CHUNK, chunk_bytes, kept_bytes, layer_bytes, parameters
from slipstream.planning.outside import notes
from slipstream.planning.workload import STREAM_BYTES, Kind, Spread, Workload

KEPT, TRANSIENT = "kept for the backward pass", "transient"
PARAMETERS = "parameters, gradients, optimiser"
INPUTS, WORKSPACE, VALIDATION = "inputs", "workspace of libraries", "validation"
LOSS = 6
"""Tensors as wide as the outputs that the loss and its gradient form."""


@dataclass(frozen=True)
class Prediction:
    """What one device needs for one step of its share."""

    parts: dict[str, float]
    """Bytes of memory at the peak, by what they are."""
    seconds: float | None
    """Of a step; None where nothing is known of the device's speed."""
    notes: tuple[str, ...]
    """What the prediction is from, and how far outside of the records it lies."""

    @property
    def bytes(self) -> float:
        return sum(self.parts.values())


def predict(work: Workload, device: Device, spread: Spread | None = None) -> Prediction:
    """The memory and time of a step on each of the devices of `spread`, one without it."""
    spread = spread or Spread()
    mine = spread.share(work)
    seconds = step_seconds(mine, device) if device.timed else None
    return Prediction(memory(mine, device), seconds, notes(mine, device, spread))


def memory(work: Workload, device: Device) -> dict[str, float]:
    """Bytes at the peak of a step, by part."""
    table, kind = device.table, device.kind
    parts = {**_fixed(work, kind), **_of_points(work, kind)}
    parts[TRANSIENT] += _transient(table, work, kind) * transient_unit(work, kind)
    parts[WORKSPACE] = table.workspace
    if work.training and work.trainer:
        parts[VALIDATION] = _validation(work, device, sum(parts.values()))
    return parts


def counted_memory(work: Workload, kind: Kind) -> float:
    """What is counted of the peak, without transients and workspace, which are fitted."""
    return sum(_fixed(work, kind).values()) + sum(_of_points(work, kind).values())


def transient_unit(work: Workload, kind: Kind) -> float:
    """Points times channels that are there at a time."""
    return _rows_at_a_time(work, kind) * work.size.width


def _rows_at_a_time(work: Workload, kind: Kind) -> int:
    return min(work.points, CHUNK[kind]) * work.batch if work.memory == "lean" else work.rows


def transient_name(work: Workload, kind: Kind) -> str:
    """The name of its fitted coefficient."""
    step = "training" if work.training else "inference"
    if work.training and work.memory == "lean" and kind == "cuda":
        step = "lean"
    if work.layer_only:
        return f"layer {step}" + (" folded" if kind == "cpu" and work.folded else "")
    if kind == "cpu":
        return step
    return f"{step} {work.precision} {'compiled' if work.compiled else 'eager'}"


def step_seconds(work: Workload, device: Device) -> float:
    on_device, on_host = amounts(work, device.kind)
    return max(
        sum(amount / device.rate(name) for name, amount in part.items())
        for part in (on_device, on_host)
    )


def amounts(work: Workload, kind: Kind) -> tuple[dict[str, float], dict[str, float]]:
    """How much of each thing the device does, and the host, by the names of the rates."""
    done, rows = counts(work, kind), work.rows
    if kind == "cpu":
        linear, slices, moved = "linear", "slices", "bytes"
    else:
        linear, slices = f"linear {work.precision}", f"slices {work.products}"
        moved = f"bytes {'compiled' if work.compiled else 'eager'}"
    on_device = {
        linear: done.linear * rows, slices: done.slices * rows, moved: done.moved * rows,
        "calls": done.calls,
    }  # fmt: skip
    on_host = {} if work.replayed or kind == "cpu" else {"host calls": done.calls}
    return on_device, on_host


def loader_bytes(work: Workload, workers: int) -> float:
    """Host memory of the batches that are read ahead, two for each worker, and the pinned one."""
    return (2 * workers + 2) * work.rows * 4 * (work.inputs + work.outputs)


def streamed_bytes(work: Workload, device: Device, *, parked: bool) -> float:
    """The peak of a prediction in chunks, whose streams wait on the device or elsewhere.

    A chunk needs what a pass over it needs; its stream waits in fp32, twice where the first
    layer's membership is kept. Where it waits elsewhere, or is computed again, three streams of a
    chunk are on their way.
    """
    chunk = SWEPT["cuda"] if device.kind == "cuda" else CPU_CHUNK
    copies = 2 if work.description.slicing == "first-layer" else 1
    small = replace(work, points=min(work.points, chunk), training=False, trainer=False)
    rows = work.points if parked else 3 * small.points
    waiting = copies * STREAM_BYTES * work.size.width * rows * work.batch
    return waiting + sum(memory(small, device).values())


def _fixed(work: Workload, kind: Kind) -> dict[str, float]:
    """Parts that hardly depend on the points, and the inputs."""
    count = parameters(work)
    numbers = 1 + work.training + 2 * (work.training and work.trainer)
    inputs = work.rows * 4 * work.inputs
    if work.layer_only or (kind == "cpu" and not work.trainer):
        inputs = 0  # those of a layer are counted as its stream, of a CPU they were there before
    if work.trainer:  # rows as they came and normalised, and the loss
        inputs = work.rows * 4 * (2 * (work.inputs + work.outputs) + LOSS * work.outputs)
    own = 0 if kind == "cpu" and not work.trainer else 1
    return {PARAMETERS: 4.0 * count * (numbers - 1 + own), INPUTS: inputs}


def _of_points(work: Workload, kind: Kind) -> dict[str, float]:
    """What is kept, and what is counted of the transients."""
    hidden = work.element * work.hidden
    if work.layer_only:
        return {KEPT: kept_bytes(work, kind) * work.rows, TRANSIENT: 0.0}
    if not work.training:
        tensors = 1 if work.compiled else 2
        stream = STREAM_BYTES * work.size.width
        return {KEPT: 0.0, TRANSIENT: work.rows * (stream + tensors * hidden)}
    kept = kept_bytes(work, kind) * work.rows
    stream = STREAM_BYTES * work.size.width
    if work.memory == "lean":  # the gradient of a stream takes the place of the stream behind it
        beside = hidden if kind == "cpu" else 0  # on a GPU a coefficient of its own has it
        chunk = _rows_at_a_time(work, kind) * (chunk_bytes(work, kind) + beside)
        return {KEPT: kept, TRANSIENT: chunk}
    again = layer_bytes(work, kind, 0) - stream if work.memory == "recompute" else 0.0
    return {KEPT: kept, TRANSIENT: work.rows * (hidden + again * bool(work.stream_layers))}


def _validation(work: Workload, device: Device, step: float) -> float:
    """What a validation needs besides a step, in fp32 and in one pass.

    A recorded step keeps its memory to itself; otherwise a validation may use it.
    """
    kind, table = device.kind, device.table
    passing = replace(
        work, training=False, trainer=False, precision="fp32", dots=None, compiled=False,
        memory="normal", recorded=False,
    )  # fmt: skip
    transient = _transient(table, passing, kind)
    needed = sum(_of_points(passing, kind).values()) + transient * transient_unit(passing, kind)
    if work.replayed and kind == "cuda":
        return needed
    return max(0.0, needed - step)


def _transient(table: Table, work: Workload, kind: Kind) -> float:
    """Bytes of a point and channel; those of a normal step where lean ones have no record."""
    normal = replace(work, memory="normal")
    known = table.transients.get(transient_name(work, kind))
    return table.transients[transient_name(normal, kind)] if known is None else known
