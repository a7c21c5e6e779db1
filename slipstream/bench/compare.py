"""Are the verdicts of `slipstream compare` right, and how often does it tell more than two separate
intervals? On front halves of bodies in potential flow, whose true differences are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.bench.half_bodies import write_variant
from slipstream.evaluation.calibration import conformal_quantile
from slipstream.evaluation.paired import Groupings, difference_bounds, groupings
from slipstream.evaluation.sample_bodies import ForceRequest
from slipstream.inference.calibrate import CalibrationRequest, calibrate
from slipstream.inference.mesh_fields import InputChoices
from slipstream.inference.predict import Choices, predict
from slipstream.inference.prediction_forces import prediction_forces
from slipstream.runs.folder import RunFolder
from slipstream.runs.force_records import SHOWN
from slipstream.runs.model_file import load_model

CHANGES = (0.005, 0.02)
"""Shares by which variants differ from the design that they are of."""
PAIRS, CLOSE, GROUPS = 40, 20, 10
"""In each split: pairs of fresh designs, variants of each size, baselines with three designs."""
Floats = NDArray[np.float64]
Watch = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Predicted and true coefficients (N, 3) of the same designs."""

    predicted: Floats
    true: Floats

    @property
    def residuals(self) -> Floats:
        return self.predicted - self.true

    def with_errors(self, factor: float) -> Coefficients:
        """The same designs as a model would predict them whose errors are these times a factor."""
        return Coefficients(self.true + factor * self.residuals, self.true)

    def only(self, chosen: NDArray[np.intp]) -> Coefficients:
        return Coefficients(self.predicted[chosen], self.true[chosen])


@dataclass(frozen=True, eq=False)
class Predicted:
    """What one model, or several together, say of the test samples and of their variants."""

    samples: Coefficients
    variants: tuple[Coefficients, ...]
    """By change, each of the first samples."""

    def with_errors(self, factor: float) -> Predicted:
        variants = tuple(one.with_errors(factor) for one in self.variants)
        return Predicted(self.samples.with_errors(factor), variants)


def mean_of(several: Sequence[Predicted]) -> Predicted:
    """Models that predict together: coefficients are linear in the pressure."""

    def mean(parts: Sequence[Coefficients]) -> Coefficients:
        return Coefficients(np.mean([one.predicted for one in parts], 0), parts[0].true)

    variants = zip(*(one.variants for one in several), strict=True)
    return Predicted(mean([one.samples for one in several]), tuple(map(mean, variants)))


def make_variants(folder: Path, numbers: Sequence[int], seed: int, watch: Watch) -> None:
    """FOLDER/CHANGE/NUMBER.vtp of some samples; those that are there are kept."""
    wanted = [(change, number) for change in CHANGES for number in numbers]
    for done, (change, number) in enumerate(wanted, start=1):
        file = folder / str(change) / f"{number:04d}"
        if not file.with_suffix(".vtp").exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            write_variant(seed, number, change, file)
        watch(done, len(wanted))


def predict_all(run: Path, bodies: Path, variants: Path, count: int) -> Predicted:
    """One model on the test samples of BODIES (`half_bodies.make_store`) and on variants of the
    first of them."""
    request = CalibrationRequest(
        split="test", device="cpu", store=bodies / "store", forces=ForceRequest(bodies / "meshes")
    )
    forces = calibrate([RunFolder(run)], request).forces
    assert forces is not None, "they were asked for"
    names = list(forces.residuals["cd"])

    def table(scores: dict[str, dict[str, float | None]]) -> Floats:
        return np.array([[scores[c][name] for c in SHOWN] for name in names], np.float64)

    predicted = table(forces.predicted)
    samples = Coefficients(predicted, predicted - table(forces.residuals))
    trained = load_model(run, device="cpu")
    choices = Choices(InputChoices(accept_undecided=True))
    several = []
    for change in CHANGES:
        rows = []
        for name in names[:count]:
            prediction = predict(trained, variants / str(change) / f"{name}.vtp", choices=choices)
            both = prediction_forces(prediction)
            assert both.true is not None, "the mesh has the true pressure"
            own = both.predicted.coefficients, both.true.coefficients
            rows.append([[one[c] for c in SHOWN] for one in own])
        values = np.array(rows, np.float64)
        several.append(Coefficients(values[:, 0], values[:, 1]))
    return Predicted(samples, tuple(several))


@dataclass(frozen=True)
class Split:
    """One calibration and the fresh designs that it is tried on."""

    known: Coefficients
    level: float
    column: int
    """Which coefficient."""

    def paired(self, grouped: Groupings) -> Floats:
        """The bounds of the differences to a baseline, as `compare` has them."""
        bounds = difference_bounds(
            self.known.residuals[:, self.column].tolist(), self.level, grouped
        )
        return np.array(bounds or [np.inf] * len(grouped.own))

    def separate(self, level: float) -> float:
        """What two intervals of a level of their own add up to."""
        bound = conformal_quantile(list(np.abs(self.known.residuals[:, self.column])), level)
        return np.inf if bound is None else 2 * bound


def try_splits(
    models: Sequence[Predicted], *, samples: int, splits: int, level: float, seed: int
) -> Iterator[dict[str, Any]]:
    """A row for each coefficient, kind of designs and way to make the interval, over all splits of
    all models, each of which is used alone."""
    outcomes: dict[tuple[str, str, str], list[tuple[bool, bool, bool, float]]] = {}
    for number, predicted in enumerate(models):
        draw = np.random.default_rng((seed, number))
        for _ in range(splits):
            order = draw.permutation(len(predicted.samples.true))
            known, fresh = predicted.samples.only(order[:samples]), order[samples:]
            for kind, designs in _cases(predicted, fresh, draw):
                others = len(designs.true) - 1
                near = groupings(
                    samples, others, predicted=known.predicted, designs=designs.predicted
                )
                alike = groupings(samples, others)
                for column, name in enumerate(SHOWN):
                    for way, bounds in _ways(Split(known, level, column), near, alike):
                        own = _judged(designs, bounds, column)
                        outcomes.setdefault((name, kind, way), []).append(own)
    for (name, kind, way), rows in outcomes.items():
        yield {"coefficient": name, "designs": kind, "interval": way, **_shares(rows)}


def _cases(
    predicted: Predicted, fresh: NDArray[np.intp], draw: np.random.Generator
) -> Iterator[tuple[str, Coefficients]]:
    chosen = draw.permutation(fresh)
    for number in range(min(PAIRS, len(chosen) // 2)):
        yield "pair", predicted.samples.only(chosen[2 * number : 2 * number + 2])
    for number in range(min(GROUPS, len(chosen) // 4)):
        yield "three at once", predicted.samples.only(chosen[4 * number : 4 * number + 4])
    for change, variants in zip(CHANGES, predicted.variants, strict=True):
        for at in chosen[chosen < len(variants.true)][:CLOSE]:
            first, second = predicted.samples.only(at[None]), variants.only(at[None])
            both = (
                np.concatenate([getattr(one, part) for one in (first, second)])
                for part in ("predicted", "true")
            )
            yield f"variant, {change:.1%}", Coefficients(*both)


def _ways(split: Split, near: Groupings, alike: Groupings) -> Iterator[tuple[str, Floats]]:
    yield "compare", split.paired(near)
    yield "compare without distances", split.paired(alike)
    others, rest = len(near.own), 1 - split.level
    yield "two separate", np.full(others, split.separate(split.level))
    corrected = round(1 - rest / (others + 1), 6)
    yield "two separate, corrected", np.full(others, split.separate(corrected))


def _judged(designs: Coefficients, bounds: Floats, column: int) -> tuple[bool, bool, bool, float]:
    """Whether all true differences are within the bounds, any is decided, and any wrongly; and the
    first bound."""
    told, true = (
        values[1:, column] - values[0, column] for values in (designs.predicted, designs.true)
    )
    decided = np.abs(told) > bounds
    wrong = decided & (np.sign(told) != np.sign(true))
    held = bool((np.abs(told - true) <= bounds).all())
    return held, bool(decided.any()), bool(wrong.any()), float(bounds[0])


def _shares(rows: Sequence[tuple[bool, bool, bool, float]]) -> dict[str, Any]:
    held, decided, wrong, bounds = (np.array(column) for column in zip(*rows, strict=True))
    middle = float(np.median(bounds))
    return {
        "cases": len(rows),
        "covered": round(float(held.mean()), 4),
        "decided": round(float(decided.mean()), 4),
        "wrong": round(float(wrong.mean()), 4),
        "median_bound": round(middle, 5) if np.isfinite(middle) else None,
    }
