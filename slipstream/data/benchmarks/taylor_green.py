"""Taylor-Green trajectories from HDF5 or NetCDF4 files, to be read as pairs of states.

Two layouts: `u`, `v` and `w` of (member, time, n, n, n), as GenCFD has them, or one array of
(trajectory, time, channel, n, n, n) with the channels u, v, w or rho, u, v, w, p. As in poseidon,
rho = 1 and p = 0 are filled in where a file has none, and p is not part of loss and metric.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.core.checks import check_at_least
from slipstream.core.extras import need
from slipstream.core.files import check_regular
from slipstream.data.benchmarks.raw import RawSource
from slipstream.data.store import PAIRS_OPTION, Cloud, Field, Pairs, Rows, Schema

SUFFIXES = (".nc", ".h5", ".hdf5")
VELOCITY: tuple[str, ...] = ("u", "v", "w")


@dataclass(frozen=True, kw_only=True)
class TaylorGreenFiles(RawSource):
    """A sample is a trajectory; batches hold pairs of its states."""

    states: int
    """Number of states of a trajectory."""
    lags: tuple[int, ...]
    """How many states a pair may lie apart."""
    interval: float
    """Seconds from state to state."""
    length: float
    """Edge of the cube, in metres."""
    array: str = ""
    """The name of the one array; by default the only one with six axes."""

    def __post_init__(self) -> None:
        check_at_least("interval", self.interval, 0)
        check_at_least("length", self.length, 0)
        _ = self.pairs  # it checks states and lags

    @property
    def schema(self) -> Schema:
        return self.pairs.stored((Field("position", "m", components=3),))

    @property
    def seen(self) -> Schema:
        return self.pairs.seen(self.schema.coords)

    @property
    def pairs(self) -> Pairs:
        """The pairs of states; the lead time is in units of the largest one."""
        state = (
            Field("density"),
            Field("velocity", "m/s", components=3),
            Field("pressure", "m^2/s^2", group=None),
        )
        largest = max(self.lags, default=1) if isinstance(self.lags, tuple) else 1
        return Pairs(state, self.states, self.lags, 1 / max(largest, 1), "1")

    @property
    def options(self) -> Mapping[str, Any]:
        return {**super().options, PAIRS_OPTION: self.pairs.to_json()}

    @cached_property
    def designs(self) -> Sequence[str]:
        """Trajectories: the file's name and the number in it."""
        return tuple(
            f"{stem}-{number:06d}"
            for stem, path in self._paths.items()
            for number in range(find_arrays(path, self.array, self.states).trajectories)
        )

    def files(self, sample: str) -> Mapping[str, Path]:
        path = self._paths[sample.rpartition("-")[0]]
        return {path.name: path}

    def read(self, sample: str) -> Cloud:
        stem, _, number = sample.rpartition("-")
        trajectory = read_trajectory(self._paths[stem], self.array, self.states, int(number))
        arrays: dict[str, NDArray[Any]] = {"position": self._grid(trajectory.shape[2:])}
        for k, state in enumerate(trajectory):
            channels = state.reshape(5, -1)
            arrays[f"density@{k}"] = channels[0]
            arrays[f"velocity@{k}"] = channels[1:4].T
            arrays[f"pressure@{k}"] = channels[4]
        return Cloud(self.schema, arrays, {"interval": self.interval})

    @cached_property
    def _paths(self) -> Mapping[str, Path]:
        """The files by name; `raw` is one file, or a folder of files."""
        paths = [self.raw]
        if self.raw.is_dir():
            paths = sorted(p for p in self.raw.iterdir() if p.suffix.lower() in SUFFIXES)
        if not paths or not paths[0].is_file():
            raise ValueError(
                f"{self.raw} must be a file or a folder of {', '.join(SUFFIXES)} files, got none"
            )
        by_stem: dict[str, Path] = {}
        for path in paths:
            if path.stem in by_stem:
                both = f"{by_stem[path.stem].name} and {path.name}"
                raise ValueError(f"{self.raw} must hold one file called {path.stem}, got {both}")
            by_stem[path.stem] = path
        return by_stem

    def _grid(self, shape: Sequence[int]) -> NDArray[np.float64]:
        """Positions in the order of the values: the last axis of the file, z, runs fastest."""
        axes = (np.arange(n) * (self.length / n) for n in shape)
        return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)


@dataclass(frozen=True)
class TrajectoryArrays:
    """The arrays of a file that hold its trajectories."""

    arrays: tuple[str, ...]
    """Names: u, v and w, or one array of all channels."""
    trajectories: int


def find_arrays(path: Path, array: str, states: int) -> TrajectoryArrays:
    """The arrays of a file and the number of trajectories; ValueError says what it has instead."""
    with _opened(path) as file:
        shapes = _shapes(file)
        dtypes = {name: file[name].dtype for name in shapes}
    if not array and set(VELOCITY) <= set(shapes):
        chosen, axes = VELOCITY, "(member, time, n, n, n)"
    else:
        chosen = tuple(n for n, s in shapes.items() if (n == array if array else len(s) == 6))
        axes = "(trajectory, time, 3 or 5 channels, n, n, n)"
        if len(chosen) != 1:
            expected = f"the array {array!r}" if array else "u, v and w, or one array with six axes"
            got = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "none"
            raise ValueError(f"{path} must have {expected}, got {got}")
    first = shapes[chosen[0]]
    channels = () if chosen == VELOCITY else first[2:3]
    for name in chosen:
        good = shapes[name] == (*first[:1], states, *channels, *first[-1:] * 3)
        if not good or channels not in ((), (3,), (5,)):
            raise ValueError(
                f"{path}: {name} must have the axes {axes} with {states} states, got"
                f" {shapes[name]} (states is an option)"
            )
    for name in chosen:
        if dtypes[name].kind not in "fiu":
            raise ValueError(f"{path}: {name} must hold real numbers, got {dtypes[name]}")
    return TrajectoryArrays(chosen, first[0])


def read_trajectory(path: Path, array: str, states: int, number: int) -> Rows:
    """The channels rho, u, v, w, p of every state, (time, 5, n, n, n), float32."""
    names = find_arrays(path, array, states).arrays
    with _opened(path) as file:
        parts = [np.asarray(file[name][number], np.float32) for name in names]
    channels = parts[0] if len(parts) == 1 else np.stack(parts, 1)
    if channels.shape[1] == 5:
        return channels
    complete = np.zeros((len(channels), 5, *channels.shape[2:]), np.float32)
    complete[:, 0], complete[:, 1:4] = 1, channels
    return complete


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    h5py = need("h5py", "hdf5")
    check_regular(path)
    try:
        with h5py.File(path, "r") as file:
            yield file
    except OSError as error:
        raise ValueError(f"{path} must be a whole HDF5 or NetCDF4 file, got {error}") from None


def _shapes(file: Any) -> dict[str, tuple[int, ...]]:
    """The shape of every array, also of those in groups, by its path."""
    shapes: dict[str, tuple[int, ...]] = {}

    def visit(name: str, item: Any) -> None:
        if hasattr(item, "shape"):
            shapes[name] = tuple(item.shape)

    file.visititems(visit)
    return shapes
