"""What is known of a device: tables fitted to records, and the peak numbers of others.

`tables/h200.toml` and `tables/cpu.toml` are made from the records by `benchmarks/plan.py`, and a
test holds them to it. A GPU without records has the H200's, its rates scaled by peak numbers.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from slipstream.core.checks import check_choice
from slipstream.core.memory import machine_memory
from slipstream.core.runtime import available_cores, device_name, pick_device
from slipstream.planning.workload import Kind

TABLES = Path(__file__).parent / "tables"
RECORDED = "h200"
"""The GPU whose records there are."""
USABLE = 0.95
"""Of a device's memory: the rest is the driver's, and what lies between allocated blocks."""


@dataclass(frozen=True)
class Peaks:
    """Dense products in 1e12 operations a second, and bandwidth in 1e9 bytes a second."""

    bf16: float
    fp32: float
    bandwidth: float


@dataclass(frozen=True)
class Table:
    """The coefficients that were fitted to records, and what these records were of."""

    rates: dict[str, float]
    """Amounts a second, by the names of `predict.amounts`."""
    transients: dict[str, float]
    """Bytes of a point and channel at the peak of a pass, beyond what is counted."""
    workspace: float
    """Bytes that libraries and sums take, whatever the points."""
    seen: dict[str, Any]
    """Ranges and ways of the records."""


@dataclass(frozen=True)
class Device:
    """A device to plan for."""

    name: str
    kind: Kind
    memory: float
    """Bytes."""
    table: Table
    scale: dict[str, float] = field(default_factory=dict)
    """How many times faster than the table, by the first word of a rate or its whole name."""
    cores: int = 1
    timed: bool = True
    """Whether anything is known of its speed."""
    measured: bool = True
    """Whether its own records were fitted."""

    @property
    def usable(self) -> float:
        """Bytes that a step may take."""
        return USABLE * self.memory

    def rate(self, name: str) -> float:
        """Amounts a second."""
        by = self.scale.get(name, self.scale.get(name.partition(" ")[0], 1.0))
        return self.table.rates[name] * by * self.cores


@cache
def read_table(name: str) -> Table:
    content = _toml(name)
    return Table(content["rates"], content["transients"], content["workspace"], content["records"])


def known_devices() -> list[str]:
    """The names that `device_named` knows, besides sizes as "24GB"."""
    return ["auto", "cpu", *_toml("known")]


def device_named(
    name: str = "auto", *, tflops: float | None = None, bandwidth: float | None = None
) -> Device:
    """A device of `known_devices`, one of this machine, or a GPU of so much memory ("24GB").

    `tflops` (dense bf16) and `bandwidth` (GB/s) give the speed of a GPU without records. Raises
    ValueError for a name that is not known.
    """
    for what, given in (("--flops", tflops), ("--bandwidth", bandwidth)):
        if given is not None and not given > 0:
            raise ValueError(f"{what} must be positive, got {given}")
    device = _named(name)
    if tflops is None and bandwidth is None:
        return device
    if device.kind == "cpu":
        raise ValueError("--flops and --bandwidth must be of a GPU, got the device cpu")
    if tflops is None or bandwidth is None:
        raise ValueError("--flops and --bandwidth must be given together, got one of them")
    base = _peaks(RECORDED)
    scale = _scale(Peaks(tflops, base.fp32 * tflops / base.bf16, bandwidth))
    return replace(device, scale=scale, timed=True, measured=False)


def _named(name: str) -> Device:
    size = re.fullmatch(r"(\d+(?:\.\d+)?) ?(GB|GiB)", name)
    if size:
        unit = 1e9 if size[2] == "GB" else 2**30
        return Device(
            f"a GPU of {name}", "cuda", float(size[1]) * unit, read_table(RECORDED),
            timed=False, measured=False,
        )  # fmt: skip
    if name in _toml("known"):
        return _known(name)
    try:
        check_choice("--device", name, [*known_devices(), "24GB"])
    except ValueError:
        if not name.startswith("cuda"):
            raise
    here = pick_device(name)
    if here.type == "cuda":
        return _of_this_machine(here)
    cores = available_cores()
    title = f"this machine's CPU, {cores} core{'s' if cores > 1 else ''}"
    return Device(title, "cpu", machine_memory(), read_table("cpu"), cores=cores)


def _of_this_machine(here: torch.device) -> Device:
    title = device_name(here)
    memory = float(torch.cuda.get_device_properties(here).total_memory)
    for name, facts in _toml("known").items():
        if any(part in title for part in facts["match"]):
            return replace(_known(name), name=title, memory=memory)
    return Device(title, "cuda", memory, read_table(RECORDED), timed=False, measured=False)


def _known(name: str) -> Device:
    memory = 1e9 * float(_toml("known")[name]["memory"])
    if name == RECORDED:
        return Device("NVIDIA H200", "cuda", memory, read_table(name))
    scale = _scale(_peaks(name))
    return Device(name, "cuda", memory, read_table(RECORDED), scale, measured=False)


def _peaks(name: str) -> Peaks:
    facts = _toml("known")[name]
    return Peaks(facts["bf16"], facts["fp32"], facts["bandwidth"])


def _scale(peaks: Peaks) -> dict[str, float]:
    """Rates over those of the GPU that was measured; the host and its launches are the same."""
    base = _peaks(RECORDED)
    return {
        "linear bf16": peaks.bf16 / base.bf16,
        "linear fp32": peaks.fp32 / base.fp32,
        "slices": peaks.bf16 / base.bf16,
        "bytes": peaks.bandwidth / base.bandwidth,
    }


@cache
def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((TABLES / f"{name}.toml").read_text(encoding="utf-8"))
