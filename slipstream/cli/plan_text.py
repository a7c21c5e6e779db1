"""What `slipstream plan` says: memory by part, the verdict, what to change, and what it is from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from slipstream.cli.progress import duration
from slipstream.cli.terminal import new_table, plain
from slipstream.planning import Device, Option, loader_bytes, streamed_bytes
from slipstream.planning.devices import USABLE
from slipstream.planning.kept import parameters
from slipstream.planning.outside import without_record
from slipstream.runs.config import RunConfig

if TYPE_CHECKING:
    from rich.table import Table

FITTING = "what would fit"
FASTER = 0.95


def title(option: Option, run: RunConfig, place: Device, *, points: bool = True) -> str:
    """What is planned."""
    work, size, spread = option.work, option.work.size, option.spread
    step = "training" if work.training else "inference"
    how = [work.precision, f"{work.products} dots"]
    how += ["compiled"] * work.compiled + [work.memory] * (work.memory != "normal")
    how += ["recorded as a CUDA graph"] * (work.replayed and spread.devices == 1)
    count = f"{work.points:,} points" if points else "the most points"
    batch = f" x batch {work.batch}" if work.batch > 1 else ""
    where = f"{spread.devices} x {place.name}" if spread.devices > 1 else place.name
    return (
        f"{run.experiment}: {step} of {work.variant}, {size.layers} layers of width {size.width},"
        f" {size.heads} heads, {size.slices} slices; {count}{batch}; {', '.join(how)}; on {where}"
    )


def parts_table(option: Option, place: Device) -> Table:
    """Memory of a device by part, and the time of a step."""
    each = " of each device" if option.spread.devices > 1 else ""
    table = new_table()
    table.add_column(f"memory{each}")
    table.add_column("GB", justify="right")
    for name, size in option.prediction.parts.items():
        table.add_row(plain(name), plain(gigabytes(size)))
    table.add_section()
    table.add_row(plain("together"), plain(gigabytes(option.prediction.bytes)))
    room = f"usable, {100 * USABLE:.0f} % of {gigabytes(place.memory)}"
    table.add_row(plain(room), plain(gigabytes(place.usable)))
    return table


def sentences(option: Option, run: RunConfig, place: Device) -> Iterator[str]:
    """Verdict, time, messages, host."""
    prediction, work = option.prediction, option.work
    yield _verdict(option, place)
    if prediction.seconds is not None:
        yield _time(prediction.seconds, run, training=work.training)
    yield from _messages(option)
    if work.training:
        host = loader_bytes(option.spread.share(work), run.data.workers)
        size = f"{gigabytes(host)} GB" if host >= 1e8 else f"{host / 1e6:.1f} MB"
        yield f"In host memory: batches of {size}, read ahead by {run.data.workers} workers."
    else:
        chunks, elsewhere = (
            gigabytes(streamed_bytes(work, place, parked=parked)) for parked in (True, False)
        )
        yield (
            f"Streamed in chunks: {chunks} GB with the streams on the device, {elsewhere} GB with"
            " them in host memory, a file or computed again."
        )


def is_faster(option: Option, asked: Option) -> bool:
    """Whether a change saves a part of the time that the prediction can tell."""
    new, now = option.prediction.seconds, asked.prediction.seconds
    return new is not None and now is not None and new < FASTER * now


def options_table(options: Sequence[Option], heading: str) -> Table:
    """Changes with their memory and time, and the most points that fit with each."""
    table = new_table()
    table.add_column(heading, no_wrap=True)
    for column in ("GB", "step", "most points"):
        table.add_column(column, justify="right")
    for option in options:
        seconds = option.prediction.seconds
        cells = [" ".join(option.changes) or "nothing", gigabytes(option.prediction.bytes)]
        cells.append("" if seconds is None else short(seconds))
        cells.append(f"{option.largest:,}")
        table.add_row(*map(plain, cells))
    return table


def notes(options: Sequence[Option], place: Device, *, assumed: bool) -> list[str]:
    """What it is from, and what no record tells: of the first option, and of lean memory."""
    said = dict.fromkeys(options[0].prediction.notes)
    for option in options:
        if option.work.memory == "lean":
            said |= dict.fromkeys(without_record(option.work, place))
    if assumed:
        work = options[0].work
        fields = f"{work.inputs} inputs and {work.outputs} outputs of a point are assumed (--store)"
        said[fields] = None
    return [f"  {note}" for note in said]


def as_json_value(
    options: Sequence[Option], run: RunConfig, place: Device, *, assumed: bool
) -> dict[str, Any]:
    """The plan as JSON: the step that was asked for first, bytes and seconds."""
    return {
        "experiment": run.experiment,
        "steps": run.steps,
        "device": {"name": place.name, "memory": place.memory, "usable": place.usable},
        "fields_assumed": assumed,
        "options": [_option_value(option, run) for option in options],
    }


def gigabytes(size: float) -> str:
    """In 1e9 bytes, three digits: 0.0154, 1.27, 61.5, 123."""
    value = size / 1e9
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}" if value >= 0.001 else "0.00"


def short(seconds: float) -> str:
    """As "1.2 ms", "128 ms", "2.1 s"."""
    if seconds >= 1:
        return duration(seconds)
    ms = 1e3 * seconds
    return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"


def _verdict(option: Option, place: Device) -> str:
    needed = gigabytes(option.prediction.bytes)
    verdict = "It fits" if option.fits else "It does not fit"
    most = f"up to {option.largest:,} points" if option.largest else "no number of points"
    return f"{verdict}: {needed} of {gigabytes(place.usable)} GB; as it is, {most} fit."


def _time(seconds: float, run: RunConfig, *, training: bool) -> str:
    if not training:
        return f"A pass takes {short(seconds)}."
    return (
        f"A step takes {short(seconds)}, {run.steps:,} steps {duration(run.steps * seconds)};"
        " validations and waiting for data come on top."
    )


def _messages(option: Option) -> Iterator[str]:
    work, spread = option.work, option.spread
    if spread.points > 1:
        points, size = spread.share(work).points, spread.message_bytes(work)
        yield (
            f"Each device has {points:,} points of a sample; a coupling all-reduces"
            f" {size / 1e3:.1f} KB forward and as many backward."
        )
    if spread.data > 1:
        yield f"A step has {spread.data} x {work.batch} samples."
    if spread.devices > 1 and work.training:
        yield f"Gradients of {4 * parameters(work) / 1e6:.1f} MB are all-reduced once a step."


def _option_value(option: Option, run: RunConfig) -> dict[str, Any]:
    prediction = option.prediction
    seconds = prediction.seconds
    hours = seconds is not None and option.work.training
    return {
        "changes": list(option.changes),
        "fits": option.fits,
        "bytes": round(prediction.bytes),
        "parts": {name: round(size) for name, size in prediction.parts.items()},
        "seconds": seconds,
        "hours": seconds * run.steps / 3600 if hours and seconds is not None else None,
        "largest_points": option.largest,
        "work": asdict(option.work),
        "devices": asdict(option.spread),
        "message_bytes": option.spread.message_bytes(option.work),
        "notes": list(prediction.notes),
    }
