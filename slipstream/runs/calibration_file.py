"""RUN/calibration.json: the errors of a run's model on samples that it has not learned from.

Schema 3: the fields of `Calibration`. All scores are stored, so that bounds of any level can be
made of them (`evaluation/calibration.py`). A calibration is of the weights whose hash it has. That
of several runs that predict together is calibration-HASH.json beside one of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from slipstream.core.files import json_text, naming_file, read_json, remove_partials, write_text
from slipstream.core.schemas import YOUNGER, parsed
from slipstream.runs.band_scale import BandScale

NAME = "calibration.json"
SCHEMA = 3
Scores = dict[str, float | None]
"""By sample; None where a score is infinite, since the prediction is not finite."""
Range = tuple[float, float]


@dataclass(frozen=True)
class FieldScores:
    """The scores of one target."""

    errors: Scores
    """Relative L1 error over all points; samples whose truth is 0 at every point are not here."""
    band: Scores
    """`band_score`: the half-width, in units of `scale` at each point, with `band_share` of the
    points within."""
    scale: BandScale
    unit: str
    """Of the field as stored, and of its scale."""


@dataclass(frozen=True)
class ForceScores:
    """The residuals of force coefficients, and what the coefficients were made with."""

    residuals: dict[str, Scores]
    """Predicted less true, by coefficient (cd, cl, cs) and sample: with its sign, so that errors
    that two designs have in common cancel in their difference."""
    ranges: dict[str, Range]
    """Least and largest area, density and speed of reference among the samples."""
    drag: tuple[float, float, float]
    """Unit vector."""
    lift: tuple[float, float, float]
    mirror: str | None
    conventions: dict[str, tuple[str, ...]]
    """Forms of pressure and shear, and the shear's traction: all that samples have."""
    definition: str
    """Reference values and conventions of the first sample, for people."""
    left_out: dict[str, str]
    """Why samples have no coefficients."""
    predicted: dict[str, Scores] = dataclasses.field(default_factory=dict, metadata=YOUNGER)
    """The predicted coefficients themselves: how far samples are apart."""

    def sizes(self) -> dict[str, Scores]:
        """|predicted - true|, by coefficient and sample."""
        return {
            name: {sample: None if one is None else abs(one) for sample, one in own.items()}
            for name, own in self.residuals.items()
        }


@dataclass(frozen=True)
class Calibration:
    weights: str
    """Hash of the parameters, see `weights_hash`."""
    data_hash: str
    split_hash: str
    split: str
    density: str
    """Where the tokens came from, as in `slipstream predict --density`."""
    samples: tuple[str, ...]
    models: int
    """How many predict together."""
    band_share: float
    fields: dict[str, FieldScores]
    forces: ForceScores | None
    """None where coefficients were not asked for."""


def calibration_file(folders: Sequence[Path], weights: str) -> Path:
    """Beside the model; of several that predict together beside the first, in the order of their
    paths, under a name of its own."""
    if len(folders) == 1:
        return folders[0] / NAME
    return min(folders) / f"calibration-{weights[:12]}.json"


def write_calibration(folders: Sequence[Path], calibration: Calibration) -> Path:
    """`folders` are those of the runs that predict together."""
    file = calibration_file(folders, calibration.weights)
    remove_partials(file.parent, file.name)
    content = {"schema": SCHEMA, "calibration": asdict(calibration)}
    write_text(file, json_text(content, spread=("calibration",)))
    return file


def read_calibration(folders: Sequence[Path], weights: str) -> Calibration | None:
    """The calibration of the models in these folders; None where there is none.

    ValueError where the file is none of this package, or of other weights.
    """
    file = calibration_file(folders, weights)
    if not file.exists():
        return None
    content = read_json(file)
    if content.get("schema") != SCHEMA:
        raise ValueError(f"{file}: schema must be {SCHEMA}, got {content.get('schema')!r}")
    with naming_file(file):
        calibration = parsed(Calibration, content.get("calibration"), place="calibration")
        _check_scores(calibration)
    if calibration.weights != weights:
        raise ValueError(
            f"{file} must be of the model's weights, hash {weights[:12]}, got"
            f" {calibration.weights[:12]}: the model was trained further or replaced since"
        )
    return calibration


def _check_scores(calibration: Calibration) -> None:
    named: list[tuple[str, Scores]] = []
    for name, field in calibration.fields.items():
        named += [(f"errors of {name}", field.errors), (f"band of {name}", field.band)]
        if not (field.scale.spread > 0 and field.scale.low <= field.scale.high):
            raise ValueError(
                f"the scale of {name} must have a spread above 0 and low <= high, got {field.scale}"
            )
    for place, scores in named:
        for sample, score in scores.items():
            if score is not None and score < 0:
                raise ValueError(f"{place}: the score of {sample} must be at least 0, got {score}")
    if calibration.forces is not None:
        named += [(f"residuals of {n}", own) for n, own in calibration.forces.residuals.items()]
    for place, scores in named:
        for sample in scores:
            if sample not in calibration.samples:
                raise ValueError(f"{place}: a sample must be one of samples, got {sample!r}")
