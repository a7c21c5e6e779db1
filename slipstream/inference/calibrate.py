"""The calibration of a model, or of several that predict together: their errors on samples of a
split, predicted as by `predict`.

Bounds hold for a new design only where its prediction is made as those of the calibration were: all
points, with tokens as `--density auto` chooses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from slipstream.core.engine import Where, as_engine
from slipstream.data.store import PAIRS_OPTION, Schema, Store, data_hash, split_hash
from slipstream.evaluation.calibration import BAND_SHARE
from slipstream.evaluation.force_reference import FlowReference
from slipstream.evaluation.measure import variables
from slipstream.evaluation.run_evaluation import open_data_of
from slipstream.evaluation.sample_bodies import ForceRequest
from slipstream.inference.sample_scores import (
    FirstPoints,
    SampleForces,
    SampleScores,
    ScaledField,
    Scoring,
    WorkerSamples,
    bodies_of,
)
from slipstream.inference.stored_predictions import PredictedSample, PredictedSamples
from slipstream.runs.calibration_file import (
    Calibration,
    FieldScores,
    ForceScores,
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
    engine: Where = None,
) -> Calibration:
    """Measure the scores of all samples of a split, of one run or of several that predict together.

    On an `engine` each sample is a task, and each of the training samples by which bands are
    scaled. ValueError where a run has no model, its data are missing or have changed, runs have
    learned from other data than the first, the split is empty or that of the training, and where
    forces are asked for and no sample has them.
    """
    with as_engine(engine) as on:
        models = as_ensemble([run.path for run in runs], device="cpu" if on else request.device)
        store = open_data_of(models.first, request.store, runs[0])
        _check_same_data(models, runs)
        samples = _samples(store, request.split)
        measured = PredictedSamples(models, store)
        bodies = None if request.forces is None else bodies_of(measured, request.forces)
        names = variables(models.first.schema)
        if on is None:
            fields = _scaled(models, names, measured.training)
            scores = {}
            for done, name in enumerate(samples, start=1):
                scores[name] = SampleScores.of(measured, fields, bodies, name)
                watch(done, len(samples))
        else:
            there = WorkerSamples.of(models, runs, store, request.device)
            chosen = measured.training_names()
            fields = _scaled(models, names, there.in_order(on, FirstPoints(there), chosen))
            forces = None if request.forces is None else request.forces.absolute()
            task = Scoring(there, fields, forces)
            own = there.in_order(on, task, samples, watch)
            scores = dict(zip(samples, own, strict=True))
    return Calibration(
        weights=models.weights,
        data_hash=data_hash(store),
        split_hash=split_hash(store),
        split=request.split,
        density="auto",
        samples=samples,
        models=len(models),
        band_share=BAND_SHARE,
        fields={
            name: _field_scores(name, field, scores, models.first.schema)
            for name, field in fields.items()
        },
        forces=None if request.forces is None else _force_scores(scores),
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


def _scaled(
    models: Ensemble, names: Mapping[str, tuple[int, ...]], training: Sequence[PredictedSample]
) -> dict[str, ScaledField]:
    return {name: ScaledField.fitted(models, columns, training) for name, columns in names.items()}


def _field_scores(
    name: str, field: ScaledField, scores: Mapping[str, SampleScores], schema: Schema
) -> FieldScores:
    both = {sample: own.fields[name] for sample, own in scores.items()}
    return FieldScores(
        {sample: _stored(error) for sample, (error, _) in both.items() if error is not None},
        {sample: _stored(band) for sample, (_, band) in both.items()},
        field.scale,
        next(target.unit for target in schema.targets if target.name == name),
    )


def _force_scores(scores: Mapping[str, SampleScores]) -> ForceScores:
    """The residuals of coefficients, sample by sample; ValueError where no sample has any."""
    left_out = {name: own.forces for name, own in scores.items() if isinstance(own.forces, str)}
    used = {n: own.forces for n, own in scores.items() if isinstance(own.forces, SampleForces)}
    if not used:
        raise ValueError(next(iter(left_out.values())))
    predicted = {
        name: {sample: own.predicted.get(name, math.inf) for sample, own in used.items()}
        for name in SHOWN
    }
    first = next(iter(used.values()))
    axes = first.reference.axes
    references = [own.reference for own in used.values()]
    return ForceScores(
        residuals={
            name: {sample: _stored(value - used[sample].true[name]) for sample, value in of.items()}
            for name, of in predicted.items()
        },
        ranges={name: own for name in _REFERENCE if (own := _range(references, name)) is not None},
        drag=_three(axes[0]),
        lift=_three(axes[2]),
        mirror=first.reference.mirror,
        conventions={
            name: tuple(sorted({getattr(own.conventions, name).value for own in used.values()}))
            for name in ("pressure", "shear", "traction")
        },
        definition=first.definition,
        left_out=left_out,
        predicted={
            name: {sample: _stored(value) for sample, value in of.items()}
            for name, of in predicted.items()
        },
    )


def _range(references: Sequence[FlowReference], name: str) -> tuple[float, float] | None:
    known = [float(v) for one in references if (v := getattr(one, name)) is not None]
    return (min(known), max(known)) if known else None


def _three(axis: NDArray[Any]) -> tuple[float, float, float]:
    return float(axis[0]), float(axis[1]), float(axis[2])


def _stored(score: float) -> float | None:
    """None for what is not finite, see `Scores`."""
    return score if math.isfinite(score) else None
