"""Force coefficients of test samples: of the predicted fields and of the true ones, on the meshes.

A store has points without faces, so forces need the meshes that were ingested. Both forces of a
sample are sums over the same faces, by the same conventions, which are those of the true fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from slipstream.data.store import Store
from slipstream.evaluation.neighbours import candidates
from slipstream.evaluation.predict_sample import predict_whole
from slipstream.evaluation.sample_bodies import Bodies, ForceRequest
from slipstream.runs.evaluation_file import Evaluation
from slipstream.runs.force_records import ForceSection, SampleForces, force_errors
from slipstream.runs.model_file import TrainedModel

MOST_TRAINING = 32
"""Training samples whose true coefficients make the mean, evenly over the split."""
Watch = Callable[[int, int], None]
"""Called with samples done and samples in all."""


def measure_forces(
    trained: TrainedModel,
    store: Store,
    evaluation: Evaluation,
    request: ForceRequest,
    watch: Watch = lambda done, total: None,
    *,
    training: dict[str, dict[str, float]] | None = None,
) -> ForceSection:
    """The coefficients of all samples of an evaluation's split, and their errors.

    A sample whose mesh is missing or was changed is left out, with the reason. ValueError where
    there is none left, where the model predicts no pressure, and where coefficients lack a
    reference value. `training` are true coefficients of training samples that are known already;
    those that are found are added.
    """
    bodies = Bodies(trained, store, request)
    samples, left_out = {}, {}
    definition, warnings = "", _Warnings()
    for done, sample in enumerate(evaluation.samples, start=1):
        try:
            body = bodies.read(sample)
        except (ValueError, OSError) as error:
            left_out[sample] = str(error)
            continue
        true = body.coefficients(body.truth)
        values = predict_whole(trained, store, sample, evaluation.protocol).numpy()
        if np.isfinite(values).all():
            samples[sample] = SampleForces(body.coefficients(values), true)
            warnings.add(body.warnings())
            definition = definition or body.definition
        else:
            left_out[sample] = f"the prediction on {sample} must be finite, got NaN or infinity"
        watch(done, len(evaluation.samples))
    if not samples:
        raise ValueError(next(iter(left_out.values()), "forces need test samples, got none"))
    neighbours = next((y.neighbours for y in evaluation.yardsticks if y.neighbours), {})
    known = training if training is not None else {}
    lost = _add_training(known, bodies, store, [neighbours.get(s, "") for s in samples])
    return ForceSection(
        asked=request.asked,
        definition=definition,
        samples=samples,
        errors=force_errors(samples, known, neighbours),
        training=dict(known),
        left_out=left_out,
        warnings=(*warnings.sentences(len(samples)), *lost),
    )


class _Warnings:
    """What may be wrong with samples; sentences that differ in figures only count as one."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, int]] = {}

    def add(self, sentences: Iterable[str]) -> None:
        for text in sentences:
            kind = re.sub(r"[-+]?\d[\d.,e+-]*", "#", text)
            first, count = self._known.get(kind, (text, 0))
            self._known[kind] = (first, count + 1)

    def sentences(self, total: int) -> list[str]:
        """As "open surface: ... (3 of 4 samples, figures of the first)"."""
        return [
            f"{text} ({count} of {total} samples{'' if kind == text else ', figures of the first'})"
            for kind, (text, count) in self._known.items()
        ]


def _add_training(
    known: dict[str, dict[str, float]], bodies: Bodies, store: Store, neighbours: Sequence[str]
) -> list[str]:
    """Add true coefficients of some training samples and of the neighbours; say what is missing."""
    all_samples = candidates(store)
    chosen = np.unique(np.linspace(0, len(all_samples) - 1, MOST_TRAINING).round().astype(int))
    wanted = dict.fromkeys([*(all_samples[i] for i in chosen), *filter(None, neighbours)])
    lost = []
    for sample in wanted:
        try:
            if sample not in known:
                body = bodies.read(sample)
                known[sample] = body.coefficients(body.truth)
        except (ValueError, OSError) as error:
            lost.append(str(error))
    if not lost:
        return []
    return [f"{len(lost)} training samples have no forces, the first: {lost[0]}"]
