"""What a calibration measures of one sample, here or by a task on a worker."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from slipstream.core.engine import Engine
from slipstream.core.pool import run_on
from slipstream.data.store import MANIFEST_NAME, Store
from slipstream.evaluation.calibration import band_score
from slipstream.evaluation.force_conventions import Conventions
from slipstream.evaluation.force_reference import FlowReference
from slipstream.evaluation.run_evaluation import open_data_of
from slipstream.evaluation.sample_bodies import Bodies, ForceRequest
from slipstream.inference.likeness_score import POINTS, describe
from slipstream.inference.stored_predictions import MOST_POINTS, PredictedSample, PredictedSamples
from slipstream.runs.band_scale import BandScale, fit_band_scale
from slipstream.runs.ensemble import Ensemble
from slipstream.runs.folder import RunFolder
from slipstream.runs.stored_sample import StoredSample
from slipstream.runs.worker_models import WorkerModels

Result = TypeVar("Result")


@dataclass(frozen=True)
class ScaledField:
    """The columns of one target, and the scale of its band."""

    columns: tuple[int, ...]
    scale: BandScale

    @classmethod
    def fitted(
        cls, models: Ensemble, columns: tuple[int, ...], training: Sequence[PredictedSample]
    ) -> ScaledField:
        own, usual = list(columns), models.first.normaliser.targets.scale
        apart = [one.differing(own) for one in training]
        scale = fit_band_scale(
            [np.linalg.norm(one.residuals(own), axis=1) for one in training],
            [one.known for one in training],
            None if len(models) == 1 else [given for given in apart if given is not None],
            math.hypot(*(usual[column] for column in own)),
        )
        return cls(columns, scale)

    def scores(self, one: PredictedSample) -> tuple[float | None, float]:
        """The relative error, None where the truth is 0 at every point, and the band's score."""
        columns = list(self.columns)
        residuals = one.residuals(columns)
        size = float(np.abs(one.truth[:, columns].astype(np.float64)).sum())
        few = one.described
        scale = self.scale.at(few.known, few.differing(columns))
        error = float(np.abs(residuals).sum() / size) if size > 0 else None
        return error, band_score(residuals[: len(scale)], scale)


@dataclass(frozen=True)
class SampleForces:
    """The coefficients of a sample, and what they were made with."""

    true: Mapping[str, float]
    predicted: Mapping[str, float]
    """Empty where the prediction is not finite."""
    reference: FlowReference
    conventions: Conventions
    definition: str

    @classmethod
    def of(cls, bodies: Bodies, sample: str, values: NDArray[Any]) -> SampleForces | str:
        """Those of predicted values, or why there are none."""
        try:
            body = bodies.read(sample)
            true = body.coefficients(body.truth)
        except (ValueError, OSError) as error:
            return str(error)
        predicted = body.coefficients(values) if np.isfinite(values).all() else {}
        return cls(true, predicted, body.reference, body.conventions, body.definition)


@dataclass(frozen=True)
class SampleScores:
    """By target the relative error and the band's score; and forces, where they are asked for."""

    fields: Mapping[str, tuple[float | None, float]]
    forces: SampleForces | str | None

    @classmethod
    def of(
        cls,
        measured: PredictedSamples,
        fields: Mapping[str, ScaledField],
        bodies: Bodies | None,
        sample: str,
    ) -> SampleScores:
        one = measured.sample(sample)
        forces = None if bodies is None else SampleForces.of(bodies, sample, one.several.mean(0))
        return cls({name: field.scores(one) for name, field in fields.items()}, forces)


@dataclass(frozen=True)
class WorkerSamples:
    """Models and the store that they learned from, by absolute paths, opened on a worker once."""

    places: WorkerModels
    store: Path

    @classmethod
    def of(
        cls, models: Ensemble, runs: Sequence[RunFolder], store: Store, device: str
    ) -> WorkerSamples:
        places = WorkerModels.of(models, [run.path for run in runs], device)
        return cls(places, store.path.absolute())

    def in_order(
        self,
        engine: Engine,
        task: Callable[[str], Result],
        samples: Sequence[str],
        watch: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[Result]:
        """The results of a task on these, in the order of the samples."""
        files = [*self.places.files, self.store / MANIFEST_NAME]
        folder, gpus = self.places.runs[0], self.places.gpus
        found: dict[str, Result] = {}
        results = run_on(engine, task, samples, folder, files=files, gpus=gpus)
        with closing(results):
            for name, result in results:
                found[name] = result
                watch(len(found), len(samples))
        return [found[name] for name in samples]

    @cached_property
    def opened(self) -> PredictedSamples:
        models = self.places.models
        store = open_data_of(models.first, self.store, RunFolder(self.places.runs[0]))
        return PredictedSamples(models, store)


@dataclass(frozen=True)
class FirstPoints:
    """The task to predict a sample of the training, of which few points are wanted."""

    samples: WorkerSamples

    def __call__(self, name: str) -> PredictedSample:
        return self.samples.opened.sample(name).first(MOST_POINTS)


@dataclass(frozen=True)
class Scoring:
    """The task to score a sample."""

    samples: WorkerSamples
    fields: Mapping[str, ScaledField]
    forces: ForceRequest | None

    @cached_property
    def _bodies(self) -> Bodies | None:
        opened = self.samples.opened
        return None if self.forces is None else bodies_of(opened, self.forces)

    def __call__(self, name: str) -> SampleScores:
        return SampleScores.of(self.samples.opened, self.fields, self._bodies, name)


@dataclass(frozen=True)
class Describing:
    """The task to describe a sample as the model sees it, for its likeness."""

    samples: WorkerSamples

    def __call__(self, name: str) -> NDArray[Any]:
        opened = self.samples.opened
        return describe_sample(opened, name)


def describe_sample(opened: PredictedSamples, name: str) -> NDArray[Any]:
    sample = StoredSample(opened.store, name)
    # Rows are stored in random order: the first ones are a random subset.
    return describe(opened.models.first, sample.points(0, min(POINTS, sample.count)))


def bodies_of(opened: PredictedSamples, forces: ForceRequest) -> Bodies:
    return Bodies(opened.models.first, opened.store, forces)
