"""Whether the bounds of a calibration hold as often as they promise, on samples never seen.

Models are trained on a built-in problem, one and several together, and all samples of a large test
split are predicted. Then calibration samples are drawn from it, many times, and what they promise
is counted on fresh ones: others in each draw, and, harder, the same ones in all draws, which are
no better than they happen to be. Two problems: `flow`, pressure and velocity on bodies in
potential flow, and `halves`, the pressure on front halves of such bodies, whose drag is not zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from slipstream.bench.half_bodies import REFERENCE, make_store
from slipstream.core.runtime import derive_seed
from slipstream.data.store import ingest
from slipstream.evaluation.calibration import band_score, conformal_quantile, rank
from slipstream.evaluation.measure import variables
from slipstream.evaluation.run_evaluation import open_data_of
from slipstream.evaluation.sample_bodies import ForceRequest
from slipstream.inference.calibrate import CalibrationRequest, calibrate
from slipstream.inference.stored_predictions import PredictedSamples
from slipstream.models.variants import Size
from slipstream.physics.builtin import builtin_config, builtin_source
from slipstream.runs.calibration_file import Calibration
from slipstream.runs.config import DataConfig, ModelConfig, OptimConfig, RunConfig, with_store
from slipstream.runs.ensemble import Ensemble, as_ensemble
from slipstream.runs.folder import RunFolder
from slipstream.training.session import train_whole

Problem = Literal["flow", "halves"]
Split = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Numbers of calibration samples and of fresh ones."""
PROBLEMS: tuple[Problem, ...] = ("flow", "halves")
SPLITS = {"train": 256, "val": 40, "test": 464}
DRAWS = 20
"""Sets of calibration samples."""
FRESH = 224
"""Test samples on which promises are counted."""
_FLOOR = 0.03
"""Added to the spread of the models where a band is measured in it, as a share of the field's."""
_FLOW = {"panels": 720, "bodies": [1, 1], "inflow": "varying"}


@dataclass(frozen=True, kw_only=True)
class CoverageCase:
    problem: Problem
    seeds: int = 5
    steps: int = 2000
    calibration: int = 40
    """Calibration samples of each draw."""
    level: float = 0.9


def measure_coverage(case: CoverageCase, folder: Path) -> Iterator[dict[str, Any]]:
    """A record for a single model and one for all together; what is in FOLDER is used again."""
    store = _store(case.problem, folder)
    config = with_store(_config(case), store)
    runs = []
    for seed in range(case.seeds):
        run = RunFolder(folder / "runs" / f"seed-{seed}")
        train_whole(replace(config, seed=seed), run.path, device="cpu")
        runs.append(run)
    for members in (runs[:1], runs):
        yield _measured(case, folder, members)


def _config(case: CoverageCase) -> RunConfig:
    return RunConfig(
        experiment=case.problem,
        data=DataConfig(problem=None, points=256),
        model=ModelConfig(size=Size(layers=4, width=64, heads=4, slices=16)),
        optim=OptimConfig(warmup=0.01 if case.problem == "flow" else 0.05),
        steps=case.steps,
        batch=4,
        evaluate_every=min(200, case.steps),
    )


def _store(problem: Problem, folder: Path) -> Path:
    if problem == "halves":
        return make_store(folder, SPLITS, seed=0)
    total = sum(SPLITS.values())
    name = "potential-flow-surface"
    config = builtin_config(name, _FLOW)
    source = builtin_source(name, samples=total, points=1024, seed=0, config=config)
    fractions = {split: count / total for split, count in SPLITS.items()}
    ingest(source, folder / "store", seed=0, fractions=fractions)
    return folder / "store"


def _measured(case: CoverageCase, folder: Path, runs: Sequence[RunFolder]) -> dict[str, Any]:
    forces = None
    if case.problem == "halves":
        forces = ForceRequest(folder / "meshes", {**REFERENCE, "drag": None, "lift": None})
    calibration = calibrate(runs, CalibrationRequest(split="test", forces=forces, device="cpu"))
    scores = _scores(calibration)
    splits = _draws(case, len(calibration.samples), fixed=False)
    fixed = _draws(case, len(calibration.samples), fixed=True)
    models = as_ensemble([run.path for run in runs], device="cpu")
    return {
        "problem": case.problem,
        "models": calibration.models,
        "validation": models.first.metric["error"],
        "level": case.level,
        "calibration": case.calibration,
        "draws": DRAWS,
        "fresh": FRESH,
        "expected": rank(case.calibration, case.level) / (case.calibration + 1),
        "deviation": _deviation(case, fixed=False),
        "coverage": {
            name: _counted(case, own, splits, fixed=False) for name, own in scores.items()
        },
        "deviation_fixed": _deviation(case, fixed=True),
        "coverage_fixed": {
            name: _counted(case, own, fixed, fixed=True) for name, own in scores.items()
        },
        "half_widths": _half_widths(case, models, runs[0], calibration, splits),
    }


def _scores(calibration: Calibration) -> dict[str, NDArray[np.float64]]:
    """The scores of all samples by what they are of, in the order of the samples."""
    named: dict[str, Mapping[str, float | None]] = {}
    for name, field in calibration.fields.items():
        named |= {f"error of {name}": field.errors, f"band of {name}": field.band}
    if calibration.forces is not None:
        named |= calibration.forces.sizes()
    order = calibration.samples
    return {
        name: np.array([math.inf if own[sample] is None else own[sample] for sample in order])
        for name, own in named.items()
    }


def _draws(case: CoverageCase, total: int, *, fixed: bool) -> list[Split]:
    """With the same fresh samples in every draw, or with others."""
    splits = []
    order = np.random.default_rng(derive_seed(0, "coverage")).permutation(total)
    for draw in range(DRAWS):
        random = np.random.default_rng(derive_seed(draw, "coverage draw"))
        if fixed:
            chosen = random.choice(order[FRESH:], case.calibration, replace=False)
            splits.append((chosen, order[:FRESH]))
        else:
            own = random.permutation(total)
            splits.append((own[: case.calibration], own[-FRESH:]))
    return splits


def _counted(
    case: CoverageCase,
    scores: NDArray[np.float64],
    splits: Sequence[Split],
    *,
    fixed: bool,
) -> dict[str, Any]:
    shares = []
    for calibration, fresh in splits:
        bound = conformal_quantile(list(scores[calibration]), case.level)
        assert bound is not None, "there are enough samples for the level"
        shares.append(float(np.mean(scores[fresh] <= bound)))
    mean = float(np.mean(shares))
    expected = rank(case.calibration, case.level) / (case.calibration + 1)
    return {
        "mean": mean,
        "least": min(shares),
        "most": max(shares),
        "within": bool(abs(mean - expected) <= 2 * _deviation(case, fixed=fixed)),
    }


def _deviation(case: CoverageCase, *, fixed: bool) -> float:
    """Standard deviation of the mean coverage over the draws: calibration samples are few, and
    their coverage has a beta distribution; so are fresh ones, binomially. Where these are fixed,
    the pool of the others has only so many sets of calibration samples that are different."""
    n = case.calibration
    share = rank(n, case.level) / (n + 1)
    beta, binomial = share * (1 - share) / (n + 2), share * (1 - share) / FRESH
    if not fixed:
        return math.sqrt((beta + binomial) / DRAWS)
    return math.sqrt(binomial + beta / min(DRAWS, (SPLITS["test"] - FRESH) / n))


def _half_widths(
    case: CoverageCase,
    models: Ensemble,
    run: RunFolder,
    calibration: Calibration,
    splits: Sequence[Split],
) -> dict[str, dict[str, float]]:
    """Mean half-width over the points of the fresh samples, over the field's spread in training, of
    bands of one width, in units of the models' spread, and as calibrated."""
    samples = PredictedSamples(models, open_data_of(models.first, None, run))
    predicted = [samples.sample(name).described for name in calibration.samples]
    widths: dict[str, dict[str, float]] = {}
    for name, columns in variables(models.first.schema).items():
        own, scale = list(columns), calibration.fields[name].scale
        apart = [one.differing(own) for one in predicted]
        units = {
            "one width": [np.full(len(one.known), scale.spread) for one in predicted],
            "spread of the models": [a + _FLOOR * scale.spread for a in apart if a is not None],
            "fitted": [
                scale.at(*pair) for pair in zip([p.known for p in predicted], apart, strict=True)
            ],
        }
        residuals = [one.residuals(own) for one in predicted]
        widths[name] = {
            kind: _mean_width(case, residuals, each, splits) / scale.spread
            for kind, each in units.items()
            if each
        }
    return widths


def _mean_width(
    case: CoverageCase,
    residuals: Sequence[NDArray[np.float64]],
    units: Sequence[NDArray[np.float64]],
    splits: Sequence[Split],
) -> float:
    scores = np.array([band_score(r, unit) for r, unit in zip(residuals, units, strict=True)])
    means = np.array([unit.mean() for unit in units])
    bounds = [conformal_quantile(list(scores[own]), case.level) or math.inf for own, _ in splits]
    widths = [bound * means[fresh].mean() for bound, (_, fresh) in zip(bounds, splits, strict=True)]
    return float(np.mean(widths))
