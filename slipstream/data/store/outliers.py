"""Samples unlike the others of their store: in another unit, shifted, with a spike or another sign.

The statistics of the samples, which the manifest has, are compared on a logarithmic scale with
their median and with their spread, measured by the median distance from it (MAD), which a few
outliers do not move. What an input explains is taken off first: at three times the speed nine times
the pressure is usual. A sample is named only where it stands apart: far beyond the spread, by a
large factor, with a gap between it and the next. Two populations are no outliers, and of fewer than
four samples nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slipstream.data.store.manifest import Manifest
from slipstream.data.store.opposed import opposed
from slipstream.data.store.quantities import Quantity, quantities

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]

LEAST_SAMPLES = 4
_FEW_SAMPLES = 8
"""Below this number the spread is hardly known: the factor must be 1.5 times as large, the gap as
wide as all others lie apart, and coordinates must differ by the factor of a unit."""
_FACTOR = 20.0
_DISTANCE = 8.0
"""In MADs; 8 are 5.4 standard deviations of normally distributed values."""
_GAP = 3.0
_MINORITY, _KNOWN_MINORITY = 0.25, 0.45
"""Outliers are at most this share of the samples; the second where their cause is known."""

_LENGTHS: Mapping[str, tuple[tuple[float, float, str], ...]] = {
    "m": ((1000, 2.2, "mm"), (100, 1.5, "cm"), (39.37, 1.25, "inches"), (0.001, 2.2, "km")),
    "mm": ((0.001, 2.2, "m"), (0.1, 1.5, "cm"), (1000, 2.2, "micrometres")),
}
"""By the unit of coordinates: a factor, how far bodies may differ from it, and its unit."""
_ANY_LENGTH = ((1000, 2.2, "a smaller unit"), (0.001, 2.2, "a larger unit"))
_SHIFTS: tuple[tuple[float, tuple[str, ...], str, str], ...] = (
    (101325, (), "absolute pressure?", "gauge pressure among absolute ones?"),
    (101325 / 1.2, ("m^2/s^2", "m2/s2"), "absolute pressure?", "gauge pressure?"),
    (101.325, ("kPa",), "absolute pressure?", "gauge pressure among absolute ones?"),
    (1.01325, ("bar",), "absolute pressure?", "gauge pressure among absolute ones?"),
    (273.15, ("K", "C", "°C", "degC"), "in kelvin?", "in degrees Celsius?"),
)
"""A shift, the units in which it is known (none for all), and what it means up and down."""


@dataclass(frozen=True)
class Outlier:
    """A sample that is unlike the others in one quantity."""

    sample: str
    field: str
    component: str | None
    """The column where it shows most, as "velocity[2]"; None where all are alike."""
    factor: float
    """How many times the others' median it is; of a shift, in units of their spread."""
    message: str

    def __str__(self) -> str:
        return f"{self.sample}: {self.message}"


def find_outliers(manifest: Manifest) -> list[Outlier]:
    """The outliers, sample after sample in the order of the manifest."""
    if len(manifest.samples) < LEAST_SAMPLES:
        return []
    outliers: list[Outlier] = []
    with np.errstate(all="ignore"):  # values near the largest floats have infinite ranges
        table = _Table.of(manifest)
        for quantity in quantities(manifest.origin):
            if quantity.part == "coords":
                outliers += _unlike_extents(table, quantity)
            else:
                outliers += _unlike_values(table, quantity)
            if quantity.part == "targets" and len(quantity.columns) == 3:
                outliers += _unlike_direction(table, quantity)
    order = {sample: index for index, sample in enumerate(manifest.samples)}
    return sorted(outliers, key=lambda outlier: order[outlier.sample])


@dataclass(frozen=True, eq=False)
class _Table:
    """Statistics by sample and column."""

    samples: tuple[str, ...]
    channels: tuple[str, ...]
    mean: Numbers
    std: Numbers
    low: Numbers
    high: Numbers
    inputs: tuple[Numbers, ...]
    """Logarithms of what is one positive number for each sample, as the speed of the inflow."""
    directions: tuple[Numbers, ...]
    """Of what is one vector or number for each sample, as the velocity of the inflow or a load."""

    @classmethod
    def of(cls, manifest: Manifest) -> _Table:
        statistics = [entry.statistics for entry in manifest.samples.values()]
        mean, std, low, high = (
            np.array([getattr(one, kind) for one in statistics])
            for kind in ("mean", "std", "low", "high")
        )
        channels = manifest.origin.schema.channels
        table = cls(tuple(manifest.samples), channels, mean, std, low, high, (), ())
        features = [q for q in quantities(manifest.origin) if q.part == "features"]
        constants = [own for one in features if (own := _input(table, one)) is not None]
        constants += _parameters(manifest)
        logs = (_logarithms(np.linalg.norm(one, axis=1)) for one in constants)
        return replace(
            table,
            inputs=tuple(one for one in logs if np.isfinite(one).all()),
            directions=tuple(one for one in constants if one.shape[1] in (1, 3)),
        )

    def extents(self, quantity: Quantity) -> Numbers:
        """The range of every component."""
        columns = list(quantity.columns)
        return self.high[:, columns] - self.low[:, columns]

    def sizes(self, quantity: Quantity) -> Numbers:
        """The largest absolute value of every component."""
        columns = list(quantity.columns)
        return np.maximum(np.abs(self.low[:, columns]), np.abs(self.high[:, columns]))

    def channel(self, quantity: Quantity, component: int) -> str:
        return self.channels[quantity.columns[component]]


def _input(table: _Table, quantity: Quantity) -> Numbers | None:
    """A feature that is constant within every sample, (samples, components); None of others."""
    constant = table.extents(quantity).max(1) <= 1e-6 * table.sizes(quantity).max(1)
    return table.mean[:, list(quantity.columns)] if constant.all() else None


def _parameters(manifest: Manifest) -> Iterator[Numbers]:
    """The parameters that are a number, or a list of numbers, in every sample: (samples, numbers).

    Of lists that are not equally long their sizes alone.
    """
    entries = list(manifest.samples.values())
    for name in entries[0].parameters:
        values = [entry.parameters.get(name) for entry in entries]
        with suppress(TypeError, ValueError, OverflowError):
            rows = [np.array(value, float).ravel() for value in values]
            alike = len({len(row) for row in rows}) == 1
            yield np.stack(rows) if alike else np.array([[np.linalg.norm(row)] for row in rows])


def _unexplained(logs: Numbers, inputs: Sequence[Numbers]) -> Numbers:
    """The logarithms less once or twice those of the input that explains most, if one does.

    At speeds of 10, 20 and 30 m/s pressures are as 1 to 4 to 9: twice the logarithm of the speed
    explains all of it. Distances are summed, not their median taken, as few may be explained.
    """
    best = logs
    for one in inputs:
        for power in (1, 2):
            rest = logs - power * (one - np.median(one))
            if _mean_distance(rest) < 0.9 * _mean_distance(best):
                best = rest
    return best


def _mean_distance(values: Numbers) -> float:
    known = values[~np.isnan(values)]
    return float(np.abs(known - np.median(known)).mean()) if len(known) else math.inf


def _unlike_extents(table: _Table, quantity: Quantity) -> Iterator[Outlier]:
    by_axis = table.extents(quantity)
    extent = by_axis.max(1)
    logs = _logarithms(extent)
    limit = _limit(logs)
    flags = _apart(logs, limit, share=_KNOWN_MINORITY) | _apart(-logs, limit, share=_KNOWN_MINORITY)
    if not flags.any():
        return
    others = float(np.median(extent[~flags & (extent > 0)]))
    few = len(flags) < _FEW_SAMPLES
    for index in np.flatnonzero(flags):
        factor = float(extent[index]) / others
        axis = int(by_axis[index].argmax())
        alike = by_axis.shape[1] == 1 or _all_axes(by_axis[index], by_axis[~flags])
        cause = _length_cause(quantity.unit, factor) if alike else ""
        if not cause and (few or factor < 1 or flags.sum() > _MINORITY * len(flags)):
            continue
        component = None if alike else table.channel(quantity, axis)
        yield Outlier(
            table.samples[index],
            quantity.name,
            component,
            factor,
            f"{component or quantity.name} extends over {_with_unit(extent[index], quantity)},"
            f" {_times(factor)} the median of the others, {others:.4g}{cause}",
        )


def _all_axes(extents: Numbers, others: Numbers) -> bool:
    """Whether a sample differs from the others by about the same factor along all axes."""
    typical = np.median(others, axis=0)
    thick = typical > 0.01 * typical.max()
    factors = extents[thick] / typical[thick]
    return bool(factors.max() < 5 * factors.min())


def _length_cause(unit: str, factor: float) -> str:
    for known, width, name in _LENGTHS.get(unit, _ANY_LENGTH):
        if known / width < factor < known * width:
            return f": in {name}?"
    return ""


def _unlike_values(table: _Table, quantity: Quantity) -> Iterator[Outlier]:
    extents, sizes = table.extents(quantity).max(1), table.sizes(quantity).max(1)
    if np.median(extents) <= 1e-6 * np.median(sizes):
        return  # constant within the samples, as a parameter: whatever was set is meant
    shifted = dict(_shifts(table, quantity))
    inputs = table.inputs if quantity.part == "targets" else ()
    # A range far below the size, as that of a temperature, may well be ten times another.
    ranges = np.maximum(extents, 0.05 * float(np.median(sizes)))
    wide, large = (_larger(values, inputs) for values in (ranges, sizes))
    usual = ~(wide | large)
    usual[list(shifted)] = False
    for index in range(len(sizes)):
        if index in shifted:
            yield shifted[index]
        elif large[index] and not wide[index] and extents[index] < 3 * np.median(extents[usual]):
            yield _shift(table, quantity, index, usual, "")
        elif large[index]:
            yield _other_size(table, quantity, index, usual)
        elif wide[index]:
            yield _other_range(table, quantity, index, usual)


def _unlike_direction(table: _Table, quantity: Quantity) -> Iterator[Outlier]:
    columns = list(quantity.columns)
    mean = table.mean[:, columns]
    flags = opposed(mean, table.std[:, columns], table.directions)
    for index in np.flatnonzero(flags):
        vector = ", ".join(f"{value:.3g}" for value in mean[index])
        yield Outlier(
            table.samples[index],
            quantity.name,
            None,
            -1.0,
            f"{quantity.name} is ({vector}) {quantity.unit} on average, against its direction in"
            f" {np.sum(~flags)} of {len(flags)} samples: with the other sign?",
        )


def _larger(values: Numbers, inputs: Sequence[Numbers]) -> Flags:
    """Which stand apart once explained, and are larger than usual as they are."""
    logs = _logarithms(values)
    rest = _unexplained(logs, inputs)
    return _apart(rest, _limit(rest)) & (values > _GAP * np.median(values))


def _other_size(table: _Table, quantity: Quantity, index: int, usual: Flags) -> Outlier:
    sizes = table.sizes(quantity)
    component = int(sizes[index].argmax())
    others = float(np.median(sizes[usual].max(1)))
    column, channel = quantity.columns[component], table.channel(quantity, component)
    low, high = table.low[index, column], table.high[index, column]
    value, factor = (low if -low > high else high), float(sizes[index].max()) / others
    return Outlier(
        table.samples[index],
        quantity.name,
        channel if len(quantity.columns) > 1 else None,
        factor,
        f"{channel} reaches {_with_unit(value, quantity)}: its largest value is {_times(factor)}"
        f" that of the others, {others:.4g}",
    )


def _other_range(table: _Table, quantity: Quantity, index: int, usual: Flags) -> Outlier:
    extents = table.extents(quantity)
    component = int(extents[index].argmax())
    others = float(np.median(extents[usual].max(1)))
    channel, factor = table.channel(quantity, component), float(extents[index].max()) / others
    column = quantity.columns[component]
    return Outlier(
        table.samples[index],
        quantity.name,
        channel if len(quantity.columns) > 1 else None,
        factor,
        f"{channel} ranges from {table.low[index, column]:.4g} to"
        f" {_with_unit(table.high[index, column], quantity)}: its range is {_times(factor)} that"
        f" of the others, {others:.4g}",
    )


def _shifts(table: _Table, quantity: Quantity) -> Iterator[tuple[int, Outlier]]:
    """The samples that are shifted by a number that is known, as the pressure of the air."""
    for component, column in enumerate(quantity.columns):
        mean, std = table.mean[:, column], table.std[:, column]
        middle, typical = float(np.median(mean)), float(np.median(std))
        steps, mad = mean - middle, _mad(mean)
        alike = (std < 5 * typical) & (std > typical / 5)
        nearer = np.minimum(np.abs(mean), abs(middle))
        for known, units, up, down in _SHIFTS:
            near = np.abs(np.abs(steps) - known) < 0.05 * known
            flags = near & alike & (nearer < known / 2)  # 300 and 573 K are both absolute
            if units and quantity.unit not in units or not 3 * typical < known > 8 * mad:
                continue
            if not flags.any() or flags.sum() > _KNOWN_MINORITY * len(flags):
                continue
            for index in map(int, np.flatnonzero(flags)):
                cause = up if steps[index] > 0 else down
                yield index, _shift(table, quantity, index, ~flags, f": {cause}", component)


def _shift(
    table: _Table, quantity: Quantity, index: int, usual: Flags, cause: str,
    component: int | None = None,
) -> Outlier:  # fmt: skip
    if component is None:
        component = int(table.sizes(quantity)[index].argmax())
    column, channel = quantity.columns[component], table.channel(quantity, component)
    mean, others = table.mean[index, column], float(np.median(table.mean[usual, column]))
    spread = float(np.median(table.std[usual, column]))
    return Outlier(
        table.samples[index],
        quantity.name,
        channel if len(quantity.columns) > 1 else None,
        float(abs(mean - others)) / (spread or 1.0),
        f"{channel} has the mean {_with_unit(mean, quantity)}, {abs(mean - others):.6g}"
        f" {'above' if mean > others else 'below'} that of the others, {others:.4g}, while its"
        f" spread is like theirs{cause}",
    )


def _logarithms(values: Numbers) -> Numbers:
    """Of positive numbers; NaN of zeros, which are not compared."""
    return np.log(np.where(values > 0, values, np.nan))


def _mad(values: Numbers) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(np.abs(known - np.median(known)))) if len(known) else math.nan


def _limit(logs: Numbers) -> float:
    """How far from the median a logarithm must be."""
    few = 1.5 if len(logs) < _FEW_SAMPLES else 1.0
    return max(math.log(few * _FACTOR), _DISTANCE * _mad(logs))


def _apart(logs: Numbers, limit: float, *, share: float = _MINORITY) -> Flags:
    """Which are farther above the median than the limit, a minority with a gap below it."""
    known = ~np.isnan(logs)
    nothing = np.zeros(len(logs), bool)
    if known.sum() < max(LEAST_SAMPLES, len(logs) / 2):
        return nothing
    steps = np.where(known, logs - np.median(logs[known]), -np.inf)
    flags = steps > limit
    for index in sorted(np.flatnonzero(flags), key=lambda i: steps[i]):
        below = steps[~flags & known]
        width = below.max() - below.min() if len(logs) < _FEW_SAMPLES else 0.0
        if steps[index] - below.max() >= max(math.log(_GAP), width):
            break
        flags[index] = False
    return flags if flags.sum() <= share * len(logs) else nothing


def _times(factor: float) -> str:
    return f"{factor:.3g} times" if factor >= 1 else f"1/{1 / factor:.3g} of"


def _with_unit(value: float, quantity: Quantity) -> str:
    return f"{value:.4g}" + ("" if quantity.unit == "1" else f" {quantity.unit}")
