"""RUN/evaluations.jsonl: the measured errors of a run's model. Appended, never rewritten.

Schema 1: a record of kind "evaluation" holds the fields of `Evaluation`. RUN/predictions holds the
predictions for pictures: SAMPLE.safetensors in subsets as dense as the draws of the training,
SAMPLE-full.safetensors of the whole sample at once.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Literal

from slipstream.core.checks import check_whole
from slipstream.core.records import append_record, read_records
from slipstream.core.schemas import YOUNGER, parsed
from slipstream.runs.folder import RunFolder
from slipstream.runs.force_records import ForceSection

KIND = "evaluation"


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """On which points a model is measured."""

    split: str = "test"
    full: bool = False
    """All points of a sample at once, instead of draws as in training."""
    repeats: int = 1
    """Independent draws of the points of every sample: they show how much the points matter."""

    def __post_init__(self) -> None:
        check_whole("repeats", self.repeats, 1)

    def on(self, points: int | float | None, rows: Iterable[int] = ()) -> Protocol:
        """The protocol as it applies to a model trained on `points` of each sample.

        `rows` are the row counts of the samples of the split. Where a draw takes all rows of every
        sample, all repeats would be equal: `repeats=4` with 512 points of samples with 400 rows
        becomes `full=True, repeats=1`.
        """
        counts = list(rows)
        whole = self.full or points is None or (isinstance(points, float) and points == 1)
        whole = whole or (bool(counts) and all(_takes_all(points, count) for count in counts))
        return replace(self, full=whole, repeats=1) if whole else self


def _takes_all(points: int | float | None, rows: int) -> bool:
    """Whether a draw has all rows of a sample, see `count_points`."""
    drawn = round(points * rows) if isinstance(points, float) else points
    return drawn is None or max(1, drawn) >= rows


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
    """The mean over samples in each repeat; None where it is not defined or not finite."""
    mean: float | None
    """Mean over the repeats; None unless all are known."""
    std: float | None
    """Standard deviation over the repeats; None unless all are known and there are two."""

    @classmethod
    def of(cls, measure: str, variable: str | None, repeats: Sequence[float | None]) -> Number:
        known = [value for value in repeats if value is not None]
        complete = bool(known) and len(known) == len(repeats)
        mean = statistics.fmean(known) if complete else None
        std = statistics.stdev(known) if complete and len(known) > 1 else None
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
    """The name of the module, as `blocks.3.coupling.slice_slots`."""
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
        """Mean over the heads."""
        return statistics.fmean(getattr(self, kind))


@dataclass(frozen=True)
class Locality:
    """Errors of the best pointwise answer, by variable."""

    kind: Literal["limit", "theory"]
    """"limit": no pointwise model can do better. "theory": the answer of a local theory."""
    errors: dict[str, float]


YardstickKind = Literal["mean", "persistence", "scaling", "inclination", "nearest"]


@dataclass(frozen=True)
class Yardstick:
    """The errors of a prediction that needs no model: what a model must beat."""

    kind: YardstickKind
    """"mean": every target is its mean over the training set. "persistence": the later state is the
    state. "scaling": the state times a constant. "inclination": a fitted function of the wall's
    direction. "nearest": the targets are those of the most similar training sample."""
    definition: str
    errors: dict[str, float | None]
    """The mean over samples, by name of the number."""
    samples: dict[str, dict[str, float | None]]
    """By sample and name of the number."""
    neighbours: dict[str, str]
    """Of "nearest": the training sample whose targets each sample was given."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    experiment: str
    data: str = field(default="", metadata=YOUNGER)
    """The name of the data; older records do not say."""
    variant: str
    seed: int
    step: int
    """The step of the model that was measured, the best of the run."""
    validation: float
    """Error of that model on the validation split, during training."""
    parameters: int
    weights: str
    """Hash of the parameters, see `weights_hash`."""
    data_hash: str
    protocol: Protocol
    points: int | float | None
    """Points of a draw, as in training."""
    device: str
    kernels: str
    definitions: dict[str, str]
    """What each measure is."""
    numbers: tuple[Number, ...]
    samples: dict[str, dict[str, float | None]]
    """The mean over the repeats, by sample and name of the number."""
    left_out: dict[str, int] = field(default_factory=dict, metadata=YOUNGER)
    """How many samples a number leaves out, by its name: there the truth is zero at every point,
    for `composite` once it is normalised. Older records do not say."""
    pictures: tuple[str, ...]
    """Samples whose predictions are in RUN/predictions."""
    files: dict[str, str] = field(default_factory=dict, metadata=YOUNGER)
    """The file of each picture in RUN/predictions; in older records it has the sample's name."""
    slices: tuple[LayerSlices, ...]
    """The slices of every layer that has some, on the sample of the first picture."""
    locality: Locality | None
    """None where the problem has no known pointwise answer."""
    yardsticks: tuple[Yardstick, ...] = field(default=(), metadata=YOUNGER)
    """Older records have none."""
    validation_yardsticks: dict[YardstickKind, float | None] | None = field(
        default=None, metadata=YOUNGER
    )
    """The composite error of each yardstick on the validation split; older records do not say."""
    forces: ForceSection | None = field(default=None, metadata=YOUNGER)
    """Force coefficients, where they were asked for."""


def evaluations_file(run: RunFolder) -> Path:
    return run.path / "evaluations.jsonl"


def prediction_file(run: RunFolder, sample: str, *, full: bool = False) -> Path:
    """The file of a sample's predictions: of the whole sample at once, or in subsets."""
    return run.path / "predictions" / f"{sample}{'-full' if full else ''}.safetensors"


def predictions_of(
    run: RunFolder, evaluation: Evaluation, among: Iterable[Evaluation] = ()
) -> dict[str, Path]:
    """The existing files of an evaluation's predictions, by sample.

    `among` are all evaluations of the run, oldest first. Two evaluations may name the same file,
    and the later one overwrote it: such a file is left out if the later evaluation was of another
    model or at other points.
    """
    last_writers = {name: one for one in among for name in _files(one).values()}
    files = {}
    for sample, name in _files(evaluation).items():
        file = run.path / "predictions" / name
        if file.is_file() and predicts_alike(last_writers.get(name, evaluation), evaluation):
            files[sample] = file
    return files


def predicts_alike(one: Evaluation, other: Evaluation) -> bool:
    """Whether both predict a sample with the same model at the same points, repeats aside."""
    return one.weights == other.weights and one.protocol.full == other.protocol.full


def _files(evaluation: Evaluation) -> dict[str, str]:
    return {s: evaluation.files.get(s, f"{s}.safetensors") for s in evaluation.pictures}


def append_evaluation(run: RunFolder, evaluation: Evaluation) -> None:
    append_record(evaluations_file(run), KIND, asdict(evaluation))


def read_evaluations(run: RunFolder) -> list[Evaluation]:
    """All evaluations of a run, oldest first; ValueError names file and field of a bad one."""
    file = evaluations_file(run)
    names = [field.name for field in fields(Evaluation)]
    evaluations = []
    for row in read_records(file, KIND) if file.is_file() else []:
        own = {name: row[name] for name in names if name in row}
        try:
            evaluations.append(_without_equal_repeats(parsed(Evaluation, own)))
        except ValueError as error:
            raise ValueError(
                f"{file} must hold evaluations, got one that is none: {error}"
            ) from None
    return evaluations


def _without_equal_repeats(one: Evaluation) -> Evaluation:
    """Older records repeat samples that were taken whole: all repeats are equal, so one is kept."""
    same = all(len(set(number.repeats)) == 1 for number in one.numbers)
    known = any(number.mean is not None for number in one.numbers)
    if one.protocol.repeats == 1 or not (same and known):
        return one
    numbers = [Number.of(n.measure, n.variable, n.repeats[:1]) for n in one.numbers]
    text = {k: re.sub(r"; mean[^;]* independent draws$", "", v) for k, v in one.definitions.items()}
    protocol = replace(one.protocol, full=True, repeats=1)
    return replace(one, protocol=protocol, numbers=tuple(numbers), definitions=text)
