"""DrivAerML (Ashton et al. 2024): 484 notchback cars, scale-resolving OpenFOAM, kinematic units.

run_<i>/boundary_<i>.vtp            cell data pMeanTrim, wallShearStressMeanTrim
run_<i>/volume_<i>.vtu.00.part ...  byte-parts of one file: pMeanTrim, UMeanTrim
run_<i>/drivaer_<i>.stl             the body
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from slipstream.data.benchmarks.flow import FlowSource
from slipstream.data.benchmarks.raw import numbered_folders
from slipstream.data.store import RowBlocks, Splits

RUNS = 500
ABSENT = {167, 211, 218, 221, 248, 282, 291, 295, 316, 325, 329, 364, 370, 376, 403, 473}
"""Numbers of runs that were never published."""


@dataclass(frozen=True, kw_only=True)
class DrivAerML(FlowSource):
    @cached_property
    def designs(self) -> Sequence[str]:
        return tuple(numbered_folders(self.raw, "run_"))

    def design_named(self, text: str) -> str:
        return f"run_{text}" if text.isdecimal() else text

    def published(self) -> Splits:
        return published_splits()

    def files(self, sample: str) -> Mapping[str, Path]:
        if self.part == "surface":
            return self.by_name(self._file(sample, "boundary_{}.vtp"))
        return self.by_name(*self._volume(sample), self._file(sample, "drivaer_{}.stl"))

    def read(self, sample: str) -> RowBlocks:
        if self.part == "surface":
            return self.read_surface(sample, self._file(sample, "boundary_{}.vtp"))
        body = self._file(sample, "drivaer_{}.stl")
        return self.read_volume(sample, self._volume(sample), body)

    def _file(self, sample: str, pattern: str) -> Path:
        return self.raw / sample / pattern.format(sample.removeprefix("run_"))

    def _volume(self, sample: str) -> Sequence[Path]:
        """The file if its parts were joined, else its parts, of which there are at least two."""
        whole = self._file(sample, "volume_{}.vtu")
        if whole.is_file():
            return (whole,)
        parts = {whole.with_name(f"{whole.name}.{part:02d}.part") for part in range(2)}
        return sorted(parts | set(whole.parent.glob(f"{whole.name}.*.part")))


def published_splits() -> Splits:
    """The lists of Emmi AI's AB-UPT: 400, 34 and 50 runs of a permutation seeded with 42."""
    drawn = torch.randperm(RUNS, generator=torch.Generator().manual_seed(42)) + 1
    runs = [f"run_{number}" for number in drawn.tolist() if number not in ABSENT]
    return {"train": tuple(runs[:400]), "val": tuple(runs[450:]), "test": tuple(runs[400:450])}
