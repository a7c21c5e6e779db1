"""The calibration of a run's model: its errors on samples of a split, predicted as by `predict`.

Bounds hold for a new design only where its prediction is made as those of the calibration were: all
points, with tokens as `--density auto` chooses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slipstream.data.batches import count_points
from slipstream.data.store import Store, data_hash, split_hash
from slipstream.evaluation.calibration import BAND_SHARE, band_score
from slipstream.evaluation.measure import variables
from slipstream.evaluation.run_evaluation import open_data_of
from slipstream.evaluation.sample_bodies import Bodies, Body, ForceRequest
from slipstream.inference.densities import token_points
from slipstream.runs.calibration_file import Calibration, FieldScores, ForceScores, Scores
from slipstream.runs.checkpoint import weights_hash
from slipstream.runs.folder import RunFolder
from slipstream.runs.force_records import SHOWN
from slipstream.runs.model_file import TrainedModel, load_model
from slipstream.runs.stored_sample import StoredSample
from slipstream.runs.streaming import PhysicalPoints, Streaming, gather
from slipstream.runs.tokens import Tokens

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
    run: RunFolder, request: CalibrationRequest, watch: Watch = lambda done, total: None
) -> Calibration:
    """Measure the scores of all samples of a split.

    ValueError where the run has no model, its data are missing or have changed, the split is empty
    or that of the training, and where forces are asked for and no sample has them.
    """
    trained = load_model(run.path, device=request.device)
    store = open_data_of(trained, request.store, run)
    samples = _samples(store, request.split)
    fields = {name: _Field(trained, name, columns) for name, columns in _channels(trained).items()}
    forces = None if request.forces is None else _Forces(Bodies(trained, store, request.forces))
    for done, name in enumerate(samples, start=1):
        sample = StoredSample(store, name)
        values = predict_stored(trained, sample).numpy().astype(np.float64)
        truth = sample.rows(0, sample.count).targets[0].numpy().astype(np.float64)
        for field in fields.values():
            field.add(name, values, truth)
        if forces is not None:
            forces.add(name, values)
        watch(done, len(samples))
    return Calibration(
        weights=weights_hash(dict(trained.model.named_parameters())),
        data_hash=data_hash(store),
        split_hash=split_hash(store),
        split=request.split,
        density="auto",
        samples=samples,
        band_share=BAND_SHARE,
        fields={name: field.scores() for name, field in fields.items()},
        forces=None if forces is None else forces.scores(),
    )


def _samples(store: Store, split: str) -> tuple[str, ...]:
    if split == "train":
        raise ValueError("split must be one that the model has not learned from, got 'train'")
    if not store.splits.get(split):
        have = ", ".join(name for name, ids in store.splits.items() if ids) or "none"
        raise ValueError(f"{store.path} must have samples in its split {split!r}, got {have}")
    return tuple(store.splits[split])


def _channels(trained: TrainedModel) -> dict[str, tuple[int, ...]]:
    return variables(trained.schema)


@torch.no_grad()
def predict_stored(trained: TrainedModel, sample: StoredSample) -> Tensor:
    """The targets at all rows of a sample, as stored (N, K), as `predict` makes them of a mesh."""
    recipe, rows = trained.recipe, sample.count
    points = trained.config.data.points
    draw = recipe.points.draw.most if recipe else count_points(points, rows, sample.name)
    chosen = token_points(rows, draw, "auto")
    streaming = Streaming(trained, normalised=True)
    values, write = gather(rows, 1, trained.schema.target_dim, trained.config.dtype)
    if chosen.subsets:
        coords, features = sample.rows(0, rows).inputs
        several = [
            streaming.encode(
                PhysicalPoints.of(coords[:, own], None if features is None else features[:, own])
            )
            for own in map(torch.from_numpy, chosen.subsets)
        ]
        streaming.decode(sample.points(), Tokens.mean(several, chosen.text), write)
    else:
        streaming.predict(sample.points(), write)
    whole = values.to(trained.device)
    return trained.normaliser.targets.inverse(whole)[0].float().cpu()


class _Field:
    """The scores of one target, a sample after another."""

    def __init__(self, trained: TrainedModel, name: str, columns: tuple[int, ...]) -> None:
        scales = [trained.normaliser.targets.scale[column] for column in columns]
        self._columns, self._scale = list(columns), math.hypot(*scales)
        self._unit = next(t.unit for t in trained.schema.targets if t.name == name)
        self._errors: Scores = {}
        self._band: Scores = {}

    def add(self, sample: str, values: NDArray[Any], truth: NDArray[Any]) -> None:
        residuals, true = (values - truth)[:, self._columns], truth[:, self._columns]
        size = float(np.abs(true).sum())
        if size > 0:
            self._errors[sample] = _stored(float(np.abs(residuals).sum()) / size)
        self._band[sample] = _stored(band_score(residuals, self._scale))

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
