"""Models for a task on a worker, which loads them there, on the device that it has."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from slipstream.models.plugins import load_plugin, plugin_files
from slipstream.runs.ensemble import Ensemble, as_ensemble
from slipstream.runs.model_file import model_path


@dataclass(frozen=True)
class WorkerModels:
    """Run folders or model files that predict together, and what a worker must find in them."""

    runs: tuple[Path, ...]
    device: str
    weights: str
    plugins: tuple[Path, ...]

    @classmethod
    def of(cls, models: Ensemble, runs: Sequence[Path], device: str) -> WorkerModels:
        """Those that are loaded here, by their absolute paths."""
        paths = tuple(run.absolute() for run in runs)
        return cls(paths, device, models.weights, tuple(plugin_files()))

    @property
    def files(self) -> list[Path]:
        return [*map(model_path, self.runs), *self.plugins]

    @property
    def gpus(self) -> int:
        """How many of a worker's a task takes."""
        return int(self.device.startswith("cuda"))

    @cached_property
    def models(self) -> Ensemble:
        """Loaded once by each process. ValueError where the worker finds other weights."""
        for file in self.plugins:
            load_plugin(file)
        models = as_ensemble(list(self.runs), device=self.device)
        if models.weights != self.weights:
            raise ValueError(
                f"the worker on {platform.node()} must find the weights {self.weights[:12]} in"
                f" {self.runs[0]}, got {models.weights[:12]}"
            )
        return models
