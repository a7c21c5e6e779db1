"""The calibration of a model, or of several that predict together: their errors on samples of a
split, predicted as by `predict`.

Bounds hold for a new design only where its prediction is made as those of the calibration were: all
points, with tokens as `--density auto` chooses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.store import PAIRS_OPTION, Store, data_hash, split_hash
from slipstream.evaluation.calibration import BAND_SHARE, band_score
from slipstream.evaluation.measure import variables
from slipstream.evaluation.run_evaluation import open_data_of
from slipstream.evaluation.sample_bodies import Bodies, Body, ForceRequest
from slipstream.inference.stored_predictions import PredictedSample, PredictedSamples
from slipstream.runs.band_scale import fit_band_scale
from slipstream.runs.calibration_file import (
    Calibration,
    FieldScores,
    ForceScores,
    Scores,
    read_calibration,
)
from slipstream.runs.ensemble import Ensemble, as_ensemble
from slipstream.runs.folder import RunFolder
from slipstream.runs.force_records import SHOWN

_REFERENCE = ("area", "density", "speed")
Watch = Callable[[int, int], None]
"""Called with samples done and samples in all."""


@dataclass(frozen=True, kw_only=True)
class CalibrationRequest:
    split: str = "val"
    device: str = "auto"
    store: Path | None = None
    """Where the data are now, if they were moved since the training."""
    forces: ForceRequest | None = None
    """How force coefficients are to be made; None for none."""


def calibrate(
    runs: Sequence[RunFolder],
    request: CalibrationRequest,
    watch: Watch = lambda done, total: None,
) -> Calibration:
    """Measure the scores of all samples of a split, of one run or of several that predict together.

    ValueError where a run has no model, its data are missing or have changed, runs have learned
    from other data than the first, the split is empty or that of the training, and where forces
    are asked for and no sample has them.
    """
    models = as_ensemble([run.path for run in runs], device=request.device)
    store = open_data_of(models.first, request.store, runs[0])
    _check_same_data(models, runs)
    samples = _samples(store, request.split)
    measured = PredictedSamples(models, store)
    names = variables(models.first.schema)
    fields = {name: _Field(measured, name, columns) for name, columns in names.items()}
    forces = (
        None if request.forces is None else _Forces(Bodies(models.first, store, request.forces))
    )
    for done, name in enumerate(samples, start=1):
        one = measured.sample(name)
        for field in fields.values():
            field.add(one)
        if forces is not None:
            forces.add(name, one.several.mean(0))
        watch(done, len(samples))
    return Calibration(
        weights=models.weights,
        data_hash=data_hash(store),
        split_hash=split_hash(store),
        split=request.split,
        density="auto",
        samples=samples,
        models=len(models),
        band_share=BAND_SHARE,
        fields={name: field.scores() for name, field in fields.items()},
        forces=None if forces is None else forces.scores(),
    )


def lacks_calibration(run: RunFolder, request: CalibrationRequest) -> bool:
    """Whether a run has no calibration of its weights, or none of the coefficients that are asked;
    one that cannot be read is none."""
    weights = as_ensemble(run.path, device="cpu").weights
    try:
        known = read_calibration([run.path], weights)
    except (ValueError, OSError):
        return True
    return known is None or (request.forces is not None and known.forces is None)


def _check_same_data(models: Ensemble, runs: Sequence[RunFolder]) -> None:
    """A sample that one of the models has learned from is no calibration sample."""
    for run, model in zip(runs, models.members, strict=True):
        for kind in ("data_hash", "split_hash"):
            expected, got = models.first.about[kind], model.about[kind]
            if expected != got:
                raise ValueError(
                    f"runs that are calibrated together must have learned from the same data and"
                    f" splits, hash {expected[:12]} of {runs[0].path}, got {got[:12]} of {run.path}"
                )


def _samples(store: Store, split: str) -> tuple[str, ...]:
    if split == "train":
        raise ValueError("split must be one that the model has not learned from, got 'train'")
    if not store.splits.get(split):
        have = ", ".join(name for name, ids in store.splits.items() if ids) or "none"
        raise ValueError(f"{store.path} must have samples in its split {split!r}, got {have}")
    if PAIRS_OPTION in store.manifest.origin.options:
        raise ValueError(
            f"samples of a calibration must be independent of each other, got {store.path}, whose"
            " samples are pairs of states of the same trajectories"
        )
    return tuple(store.splits[split])


class _Field:
    """The scores of one target, a sample after another."""

    def __init__(self, measured: PredictedSamples, name: str, columns: tuple[int, ...]) -> None:
        first = measured.models.first
        scales = [first.normaliser.targets.scale[column] for column in columns]
        self._columns, self._errors, self._band = list(columns), Scores(), Scores()
        self._unit = next(t.unit for t in first.schema.targets if t.name == name)
        training = measured.training
        apart = [one.differing(self._columns) for one in training]
        self._scale = fit_band_scale(
            [np.linalg.norm(one.residuals(self._columns), axis=1) for one in training],
            [one.known for one in training],
            None if len(measured.models) == 1 else [own for own in apart if own is not None],
            math.hypot(*scales),
        )

    def add(self, one: PredictedSample) -> None:
        residuals, size = (
            one.residuals(self._columns),
            float(np.abs(one.truth[:, self._columns].astype(np.float64)).sum()),
        )
        if size > 0:
            self._errors[one.name] = _stored(float(np.abs(residuals).sum() / size))
        few = one.described
        scale = self._scale.at(few.known, few.differing(self._columns))
        self._band[one.name] = _stored(band_score(residuals[: len(scale)], scale))

    def scores(self) -> FieldScores:
        return FieldScores(self._errors, self._band, self._scale, self._unit)


class _Forces:
    """The residuals of coefficients, a sample after another."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._residuals: dict[str, Scores] = {name: {} for name in SHOWN}
        self._predicted: dict[str, Scores] = {name: {} for name in SHOWN}
        self._used: list[Body] = []
        self._left_out: dict[str, str] = {}

    def add(self, sample: str, values: NDArray[Any]) -> None:
        try:
            body = self._bodies.read(sample)
            true = body.coefficients(body.truth)
        except (ValueError, OSError) as error:
            self._left_out[sample] = str(error)
            return
        predicted = body.coefficients(values) if np.isfinite(values).all() else {}
        for name, residuals in self._residuals.items():
            value = predicted.get(name, math.inf)
            residuals[sample] = _stored(value - true[name])
            self._predicted[name][sample] = _stored(value)
        self._used.append(body)

    def scores(self) -> ForceScores:
        if not self._used:
            raise ValueError(next(iter(self._left_out.values())))
        first = self._used[0]
        axes = first.reference.axes
        return ForceScores(
            residuals=self._residuals,
            ranges={name: own for name in _REFERENCE if (own := self._range(name)) is not None},
            drag=_three(axes[0]),
            lift=_three(axes[2]),
            mirror=first.reference.mirror,
            conventions={
                name: tuple(sorted({getattr(b.conventions, name).value for b in self._used}))
                for name in ("pressure", "shear", "traction")
            },
            definition=first.definition,
            left_out=self._left_out,
            predicted=self._predicted,
        )

    def _range(self, name: str) -> tuple[float, float] | None:
        values = [getattr(body.reference, name) for body in self._used]
        known = [float(value) for value in values if value is not None]
        return (min(known), max(known)) if known else None


def _three(axis: NDArray[Any]) -> tuple[float, float, float]:
    return float(axis[0]), float(axis[1]), float(axis[2])


def _stored(score: float) -> float | None:
    """None for what is not finite, see `Scores`."""
    return score if math.isfinite(score) else None
