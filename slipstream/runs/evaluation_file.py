"""RUN/evaluations.jsonl: what a run's model was measured to be. Appended, never rewritten.

A record of kind "evaluation" holds: experiment, variant, seed, step, weights (hash), data_hash;
protocol (split, full, repeats), points of a draw, device, kernels; definitions of the measures;
numbers (measure, variable, mean, std, repeats); samples (composite error of each); pictures
(samples whose predictions are in RUN/predictions); slices (per layer, on the first of them);
locality (kind and errors of a pointwise answer, where the physics tells them, or null).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipstream.core.records import append_record, read_records
from slipstream.runs.folder import RunFolder

KIND = "evaluation"
_KEYS = (
    "protocol",
    "numbers",
    "samples",
    "pictures",
    "slices",
    "definitions",
    "weights",
    "locality",
)


def evaluations_file(run: RunFolder) -> Path:
    return run.path / "evaluations.jsonl"


def prediction_file(run: RunFolder, sample: str) -> Path:
    return run.path / "predictions" / f"{sample}.safetensors"


def append_evaluation(run: RunFolder, row: Mapping[str, Any]) -> dict[str, Any]:
    """Write it, and give it as it is read again."""
    append_record(evaluations_file(run), KIND, row)
    return read_evaluations(run)[-1]


def read_evaluations(run: RunFolder) -> list[dict[str, Any]]:
    """Oldest first; ValueError naming file and line where one cannot be read."""
    file = evaluations_file(run)
    rows = read_records(file, KIND) if file.is_file() else []
    for row in rows:
        absent = [key for key in _KEYS if key not in row]
        if absent:
            raise ValueError(f"{file}: an evaluation must hold {absent[0]}, got none")
    return rows
