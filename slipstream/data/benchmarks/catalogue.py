"""The nine benchmarks of the paper as data: fields and units, options, splits, statistics.

What their publishers do not state is an option of the reader, with a likely value as its default:
the freestream numbers, the box, where values lie, the offset of the pressure, the sorted splits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipstream.core.checks import check_choice
from slipstream.data.benchmarks.drivaerml import DrivAerML
from slipstream.data.benchmarks.drivaernet import DrivAerNet
from slipstream.data.benchmarks.flow import FREESTREAM, Target
from slipstream.data.benchmarks.raw import RawSource
from slipstream.data.benchmarks.shift import ShiftSuv, ShiftWing
from slipstream.data.benchmarks.taylor_green import TaylorGreenFiles
from slipstream.data.store import (
    PAIRS_OPTION,
    Field,
    Manifest,
    Schema,
    constant_targets,
    find_outliers,
)

Expected = Mapping[str, tuple[float, float]]
"""Mean and standard deviation by channel."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    name: str
    reader: type[RawSource]
    files: Mapping[str, Any] = field(default_factory=dict)
    """What the reader must know about the files: part of the flow, arrays of the targets."""
    settings: Mapping[str, Any]
    """Options of the reader that differ from its defaults."""
    counts: Mapping[str, int]
    """Designs of each split."""
    expected: Expected = field(default_factory=dict)
    """Published statistics of the training split."""
    negative: tuple[str, ...] = ()
    """Channels whose mean is known to be negative."""
    ratio: float
    """Share of a sample's points that the paper draws at each step."""
    steps: int
    """Training steps in the paper."""
    schedule: int | None = None
    """Steps of the paper's cosine decay, where training ends before it does."""

    def source(
        self, raw: Path, *, split: str = "published", options: Mapping[str, Any] | None = None
    ) -> RawSource:
        """The samples below a folder; `split` is "published", "sorted" or the path of lists."""
        for option in options or {}:
            check_choice(f"an option of {self.name}", option, self.options)
        return self._make(raw, split, options or {})

    @property
    def options(self) -> Mapping[str, Any]:
        """All options with their defaults."""
        options = self._make(Path(), "published", {}).options
        return {name: value for name, value in options.items() if name != PAIRS_OPTION}

    @property
    def schema(self) -> Schema:
        """The fields as a model sees them, with default options."""
        return self._make(Path(), "published", {}).seen

    def _make(self, raw: Path, split: str, options: Mapping[str, Any]) -> RawSource:
        given = {name: _as_tuples(value) for name, value in options.items()}
        settings = {**self.files, **self.settings, **given}
        return self.reader(name=self.name, raw=raw, counts=self.counts, split=split, **settings)


def manifest_warnings(manifest: Manifest) -> list[str]:
    """A sentence for all that is unusual in a store, though it may be right.

    Statistics of a benchmark that differ from those published, targets without any variation,
    samples unlike the others.
    """
    unlike = [str(outlier) for outlier in find_outliers(manifest)]
    return [*_unlike_published(manifest), *constant_targets(manifest), *unlike]


def _unlike_published(manifest: Manifest) -> list[str]:
    benchmark, statistics = BENCHMARKS.get(manifest.origin.source), manifest.statistics
    if benchmark is None or statistics is None:
        return []
    channels = manifest.origin.schema.channels
    means = dict(zip(channels, statistics.mean, strict=True))
    spreads = dict(zip(channels, statistics.std, strict=True))
    return unlike_published(benchmark, means, spreads)


def unlike_published(
    benchmark: Benchmark, means: Mapping[str, float], spreads: Mapping[str, float]
) -> list[str]:
    """A sentence for each channel whose mean is more than 3 published standard deviations off,
    whose standard deviation is off by more than a factor of 10, or whose mean has the wrong sign.

    A published 100 +- 10 warns at a mean of 131, and at a standard deviation of 0.9 or 101.
    """
    sentences = []
    for channel, (mean, std) in benchmark.expected.items():
        own_mean, own_std = means[channel], spreads[channel]
        if abs(own_mean - mean) > 3 * std or not std / 10 <= own_std <= std * 10:
            sentences.append(
                f"{channel} has mean {own_mean:.6g} and standard deviation {own_std:.6g} in the"
                f" training split, published are {mean:.6g} and {std:.6g}: is it another quantity"
                " or unit (total, absolute, kinematic)?"
            )
    for channel in benchmark.negative:
        if means[channel] > 0:
            sentences.append(
                f"{channel} has mean {means[channel]:.6g} in the training split, published are"
                " negative ones: is its sign the opposite?"
            )
    return sentences


def _as_tuples(value: Any) -> Any:
    """Lists, as YAML has them, become tuples."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _flow(
    part: str, unit: str, pressure: str, vector: str, *, prefix: bool = False
) -> dict[str, Any]:
    """Pressure, then shear stress on a surface or velocity in a volume, by names of arrays."""
    if part == "surface":
        second = Field("wall_shear_stress", unit, components=3)
    else:
        second = Field("velocity", "m/s", components=3)
    targets = (Target(Field("pressure", unit), pressure), Target(second, vector, prefix))
    return {"part": part, "targets": targets}


_DRIVAERML: dict[str, Any] = {
    "reader": DrivAerML,
    "counts": {"train": 400, "val": 34, "test": 50},
}
_DRIVAERML_AIR = (1.2041, 38.889, 0.0, 0.0, 0.0)
_DRIVAERNET: dict[str, Any] = {
    "reader": DrivAerNet,
    "settings": {"location": "point", "freestream": (1.2, 30.0, 0.0, 0.0, 0.0)},
    "counts": {"train": 5825, "val": 1148, "test": 1154},
}
_SUV: dict[str, Any] = {
    "reader": ShiftSuv,
    "counts": {"train": 798, "val": 100, "test": 100},
    "steps": 50_000,
}
_SUV_RUNS = {
    "folder": "AeroSUV_full_scale_estate_transient",
    "corrupted": (845,),
    "pressure_offset": 101325.0,
}
_WING: dict[str, Any] = {
    "reader": ShiftWing,
    "settings": {
        "folder": "OnShape_luminary_crm_version001",
        "location": "point",
        "freestream": FREESTREAM,
    },
    "counts": {"train": 8377, "val": 1000, "test": 1000},
}

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            name="taylor-green",
            reader=TaylorGreenFiles,
            settings={
                "states": 26,
                "lags": tuple(range(7)),
                "interval": 0.08,
                "length": 2 * math.pi,
            },
            counts={"train": 9640, "val": 120, "test": 240},
            ratio=1.0,
            steps=250_000,
        ),
        Benchmark(
            name="shift-wing-surface",
            files=_flow("surface", "Pa", "Pressure (Pa)", "Wall Shear Stress", prefix=True),
            ratio=0.1,
            steps=250_000,
            **_WING,
        ),
        Benchmark(
            name="shift-wing-volume",
            files=_flow("volume", "Pa", "Pressure (Pa)", "Velocity (m/s)"),
            ratio=0.046,
            steps=140_000,
            schedule=250_000,
            **_WING,
        ),
        Benchmark(
            name="drivaernet-surface",
            files=_flow("surface", "m^2/s^2", "p", "wallShearStress"),
            expected={"pressure": (-93.41, 120.79)},
            negative=("wall_shear_stress[0]",),
            ratio=0.5,
            steps=184_000,
            **_DRIVAERNET,
        ),
        Benchmark(
            name="drivaernet-volume",
            files=_flow("volume", "m^2/s^2", "p", "U"),
            expected={
                "pressure": (-62.41, 94.24),
                "velocity[0]": (21.87, 12.11),
                "velocity[1]": (-0.238, 3.98),
                "velocity[2]": (0.674, 3.90),
            },
            ratio=0.02,
            steps=180_000,
            **_DRIVAERNET,
        ),
        Benchmark(
            name="shift-suv-surface",
            files=_flow("surface", "Pa", "pressure_average", "wall_shear_stress_average"),
            settings={"location": "cell", **_SUV_RUNS},
            ratio=0.092,
            **_SUV,
        ),
        Benchmark(
            name="shift-suv-volume",
            files=_flow("volume", "Pa", "pressure_average", "velocity_average"),
            settings={"location": "point", **_SUV_RUNS},
            ratio=0.0059,
            **_SUV,
        ),
        Benchmark(
            name="drivaerml-surface",
            files=_flow("surface", "m^2/s^2", "pMeanTrim", "wallShearStressMeanTrim"),
            settings={
                "location": "cell",
                "freestream": _DRIVAERML_AIR,
                "box": ((-1.5, -1.4, -0.32), (5.0, 1.4, 1.4)),
            },
            expected={
                "pressure": (-229.77, 269.35),
                "wall_shear_stress[0]": (-1.2005, 2.077),
                "wall_shear_stress[1]": (0.0015, 1.356),
                "wall_shear_stress[2]": (-0.0720, 1.114),
            },
            negative=("wall_shear_stress[0]",),
            ratio=0.03,
            steps=50_000,
            **_DRIVAERML,
        ),
        Benchmark(
            name="drivaerml-volume",
            files=_flow("volume", "m^2/s^2", "pMeanTrim", "UMeanTrim"),
            settings={
                "location": "cell",
                "freestream": _DRIVAERML_AIR,
                "box": ((-3.5, -2.25, -0.32), (8.5, 2.25, 3.0)),
            },
            expected={
                "velocity[0]": (16.79, 16.41),
                "velocity[1]": (-0.038, 8.64),
                "velocity[2]": (0.408, 6.65),
            },
            ratio=0.002,
            steps=19_000,
            **_DRIVAERML,
        ),
    )
}


def benchmark_source(
    name: str, raw: Path, *, split: str = "published", options: Mapping[str, Any] | None = None
) -> RawSource:
    """The samples of a benchmark below a folder, ready to be ingested."""
    check_choice("benchmark", name, BENCHMARKS)
    return BENCHMARKS[name].source(raw, split=split, options=options)
