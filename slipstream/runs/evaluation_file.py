"""RUN/evaluations.jsonl: what a run's model was measured to be. Appended, never rewritten.

Schema 1: a record of kind "evaluation" holds the fields of `Evaluation`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Literal

from slipstream.core.checks import check_whole
from slipstream.core.configs import from_json
from slipstream.core.records import append_record, read_records
from slipstream.runs.folder import RunFolder

KIND = "evaluation"


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """On which points a model is measured."""

    split: str = "test"
    full: bool = False
    """All points of a sample at once, instead of draws as in training."""
    repeats: int = 1
    """Independent draws of the points of every sample: how much the points matter."""

    def __post_init__(self) -> None:
        check_whole("repeats", self.repeats, 1)

    def on(self, points: int | float | None) -> Protocol:
        """As it comes out for a model trained on so many points of a sample: where a sample is
        taken whole, nothing is drawn, and a repeat would only say so."""
        whole = self.full or points is None or (isinstance(points, float) and points == 1)
        return replace(self, full=whole, repeats=1) if whole else self


def number_name(measure: str, variable: str | None) -> str:
    """As "composite" or "L1 pressure"."""
    return measure if variable is None else f"{measure} {variable}"


@dataclass(frozen=True)
class Number:
    """A mean over samples, and its spread over the repeats."""

    measure: str
    """composite, L1 or L2."""
    variable: str | None
    """None for the mean over groups."""
    repeats: tuple[float | None, ...]
    """The mean of each repeat; None where it is not defined or not finite."""
    mean: float | None
    """Over the repeats; None unless all are known."""
    std: float | None
    """Likewise, and None with fewer than two."""

    @classmethod
    def of(cls, measure: str, variable: str | None, repeats: Sequence[float | None]) -> Number:
        known = [value for value in repeats if value is not None]
        whole = bool(known) and len(known) == len(repeats)
        mean = statistics.fmean(known) if whole else None
        std = statistics.stdev(known) if whole and len(known) > 1 else None
        return cls(measure, variable, tuple(repeats), mean, std)

    @property
    def name(self) -> str:
        return number_name(self.measure, self.variable)

    @property
    def relative_std(self) -> float | None:
        return self.std / self.mean if self.std is not None and self.mean else None


@dataclass(frozen=True)
class LayerSlices:
    """The slices of one layer, by head; means are over the points of one sample."""

    name: str
    """Of the module, as `blocks.3.coupling.slice_slots`."""
    slices: int
    temperature: tuple[float, ...]
    entropy: tuple[float, ...]
    """Mean over the points of the entropy of a point's weights, in nats; at most ln G."""
    effective: tuple[float, ...]
    """Effective number of slices: the exponential of the entropy of the mean weights."""
    dead: tuple[int, ...]
    """Slices whose mean weight is below 1 % of 1 / G."""

    @property
    def largest_entropy(self) -> float:
        return math.log(self.slices)

    def mean(self, kind: Literal["temperature", "entropy", "effective", "dead"]) -> float:
        """Over the heads."""
        return statistics.fmean(getattr(self, kind))


@dataclass(frozen=True)
class Locality:
    """Errors of a pointwise answer, by variable."""

    kind: Literal["limit", "theory"]
    """"limit": nothing pointwise is better. "theory": what local theory gives."""
    errors: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    experiment: str
    variant: str
    seed: int
    step: int
    """Of the model that was measured: the best one."""
    validation: float
    """Its error on the validation split, in training."""
    parameters: int
    weights: str
    """Hash of the parameters."""
    data_hash: str
    protocol: Protocol
    points: int | float | None
    """Of a draw, as in training."""
    device: str
    kernels: str
    definitions: dict[str, str]
    """What each measure is."""
    numbers: tuple[Number, ...]
    samples: dict[str, dict[str, float | None]]
    """By sample and name of the number, the mean over the repeats."""
    pictures: tuple[str, ...]
    """Samples whose predictions are in RUN/predictions."""
    slices: tuple[LayerSlices, ...]
    """Of every layer that has some, on the first of the pictures."""
    locality: Locality | None
    """Where the physics tells what a pointwise answer reaches."""


def evaluations_file(run: RunFolder) -> Path:
    return run.path / "evaluations.jsonl"


def prediction_file(run: RunFolder, sample: str) -> Path:
    return run.path / "predictions" / f"{sample}.safetensors"


def append_evaluation(run: RunFolder, evaluation: Evaluation) -> None:
    append_record(evaluations_file(run), KIND, asdict(evaluation))


def read_evaluations(run: RunFolder) -> list[Evaluation]:
    """Oldest first; ValueError naming file and field where one cannot be read."""
    file = evaluations_file(run)
    names = [field.name for field in fields(Evaluation)]
    found = []
    for row in read_records(file, KIND) if file.is_file() else []:
        own = {name: row[name] for name in names if name in row}
        try:
            found.append(from_json(Evaluation, own))
        except ValueError as error:
            raise ValueError(
                f"{file} must hold evaluations, got one that is none: {error}"
            ) from None
    return found
