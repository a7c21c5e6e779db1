"""Which view of a design, and which distance, tells unseen families from the training's.

For each setting a small model is trained on built-in potential flow about one body. Samples of the
training's own family, which the model has not seen, and of families that differ in one known thing
(likeness_families.py) get a score by each view and distance: detection is the share of a family
whose score exceeds that of 95 % of the unseen samples of the training's own, by the score alone and
together with the plain checks of `slipstream predict`. Beside it are the verdicts of `predict`, by
its 64 held-out samples alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from slipstream.bench.likeness_families import SAME, FamilySample, families_for, make_sample
from slipstream.bench.likeness_views import DISTANCES, VIEWS, see
from slipstream.core.configs import overlay
from slipstream.core.records import append_record
from slipstream.core.runtime import commit
from slipstream.data.store import Store, open_store
from slipstream.inference.likeness import verdict_of
from slipstream.inference.likeness_score import Neighbourhood
from slipstream.inference.oddities import (
    far_out,
    unusual_features,
    unusual_parameters,
    unusual_places,
)
from slipstream.physics.builtin import builtin_config
from slipstream.physics.potential_flow import PotentialFlow
from slipstream.runs.config import RunConfig
from slipstream.runs.model_file import TrainedModel, load_model
from slipstream.training.session import train_whole

PROBLEM = "potential-flow-surface"
SETTINGS: dict[str, dict[str, Any]] = {
    "one shape": {"families": ["car"]},
    "four shapes": {},
    "four shapes, varying inflow": {"inflow": "varying", "speed": [0.8, 1.2]},
}
"""What the training is drawn from."""
CHOSEN = (VIEWS[0], "local")
"""View and distance of `slipstream predict`."""
FALSE_ALARMS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
_OWN = ("val", "test", SAME)
"""Samples that are like the training."""
_PANELS, _POINTS, _SEED = 720, 2048, 7
_SOLVED = 24
"""Samples of a family whose flow is computed, to say how wrong the model is there."""
Scores = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class _Seen:
    """The samples of one family."""

    views: dict[str, NDArray[np.float64]]
    plain: NDArray[np.bool_]
    """Whether a plain check calls each unusual."""
    far: NDArray[np.bool_]
    """Whether one calls it outside."""
    error: float
    """Median relative L1 error of the model."""


def config_of(base: RunConfig, setting: str, steps: int) -> RunConfig:
    """`base` is the experiment of PROBLEM."""
    settings = {"panels": _PANELS, "bodies": [1, 1], **SETTINGS[setting]}
    samples = {"train": 256, "val": 64, "test": 256}
    builtin = {"samples": samples, "points": _POINTS, "settings": settings}
    changes = {"data.builtin": builtin, "steps": steps, "evaluate_every": steps // 5}
    return overlay(base, changes)


def measure_setting(
    setting: str, base: RunConfig, work: Path, out: Path, *, samples: int, steps: int, device: str
) -> Iterator[dict[str, Any]]:
    """Train, unless WORK has the run already, and yield every record as it is written."""
    run = work / setting.replace(", ", "-").replace(" ", "-")
    train_whole(config_of(base, setting, steps), run, device=device)
    trained, store = load_model(run, device=device), open_store(run / "data")
    config = builtin_config(PROBLEM, {"panels": _PANELS, "bodies": [1, 1], **SETTINGS[setting]})
    assert isinstance(config, PotentialFlow), "the config of the problem"
    seen = {split: _see_split(trained, store, split) for split in ("train", "val", "test")}
    for family, make in families_for(config).items():
        drawn = [make(config, _SEED, k) for k in range(samples)]
        made = [
            make_sample(scene, config, _SEED, k, points=_POINTS, solved=k < _SOLVED)
            for k, scene in enumerate(drawn)
        ]
        seen[family] = _see(trained, made)
    common = {"setting": setting, "commit": commit(), "steps": steps}
    plain = {name: own.plain for name, own in seen.items()}
    for view in VIEWS:
        for distance in DISTANCES:
            scores = _scores(seen, view, distance)
            name = f"{setting} | {view} | {distance}"
            row = {"name": name, "view": view, "distance": distance, **_detection(scores, plain)}
            yield append_record(out, "likeness", {**row, **common})
    verdicts = {"name": f"{setting} | verdicts", **_verdicts(seen)}
    yield append_record(out, "likeness-verdicts", {**verdicts, **common})


def _see_split(trained: TrainedModel, store: Store, split: str) -> _Seen:
    columns = [store.schema.columns(part) for part in ("coords", "features", "targets")]
    rows = (torch.from_numpy(np.array(store.array(name))) for name in store.splits[split])
    return _see(trained, [FamilySample(*(own[:, c] for c in columns)) for own in rows])


def _see(trained: TrainedModel, samples: list[FamilySample]) -> _Seen:
    recipe = trained.recipe
    assert recipe is not None, "a run of this version has one"
    views: dict[str, list[NDArray[np.float64]]] = {view: [] for view in VIEWS}
    plain, far, errors = [], [], []
    for sample in samples:
        for view, vector in see(trained, sample.coords, sample.features).items():
            views[view].append(vector)
        columns = np.split(
            sample.features.numpy(), np.cumsum([f.components for f in recipe.features])[:-1], 1
        )
        features = dict(zip((f.name for f in recipe.features), columns, strict=True))
        features |= {feature.name: features[feature.name][0] for feature in recipe.parameters}
        parameters = {feature.name: features[feature.name] for feature in recipe.parameters}
        far.append(bool(far_out(features, recipe)))
        odd = unusual_places(sample.coords.numpy(), recipe, "")
        odd += unusual_features(features, recipe, "") + unusual_parameters(parameters, recipe)
        plain.append(bool(odd) or far[-1])
        if sample.targets is not None:
            wrong = trained.as_stored(sample.coords, sample.features) - sample.targets
            errors.append(float(wrong.abs().sum() / sample.targets.abs().sum()))
    stacked = {view: np.stack(own) for view, own in views.items()}
    return _Seen(stacked, np.array(plain), np.array(far), float(np.median(errors)))


def _scores(seen: Mapping[str, _Seen], view: str, distance: str) -> Scores:
    score = DISTANCES[distance](seen["train"].views[view])
    return {name: score(own.views[view]) for name, own in seen.items() if name != "train"}


def _detection(scores: Scores, plain: Mapping[str, NDArray[np.bool_]]) -> dict[str, Any]:
    """Detection of each family at each share of false alarms by the score alone, and together with
    the plain checks, which then count as a score above all others."""
    both = {name: np.where(plain[name], np.inf, own) for name, own in scores.items()}
    families: dict[str, dict[str, Any]] = {}
    for name, values in scores.items():
        if name not in _OWN:
            families[name] = {
                "samples": len(values),
                "by_score": _detected(scores, name),
                "together": _detected(both, name),
                "by_plain_checks": round(float(plain[name].mean()), 4),
                "auc_of_score": round(_area(_own(scores), values), 4),
            }
    at = FALSE_ALARMS.index(0.05)
    worst = min(families, key=lambda name: families[name]["together"][at])
    alarms = np.concatenate([plain[name] for name in _OWN])
    return {
        "false_alarms": list(FALSE_ALARMS),
        "own_samples": len(alarms),
        "false_alarms_of_plain_checks": round(float(alarms.mean()), 4),
        "families": families,
        "worst_family": worst,
        "worst": families[worst]["together"][at],
        "mean": round(float(np.mean([f["together"][at] for f in families.values()])), 4),
    }


def _own(scores: Scores) -> NDArray[np.float64]:
    return np.sort(np.concatenate([scores[name] for name in _OWN]))


def _detected(scores: Scores, name: str) -> list[float]:
    own = _own(scores)
    limits = (np.quantile(own, 1 - share, method="higher") for share in FALSE_ALARMS)
    return [round(float((scores[name] > limit).mean()), 4) for limit in limits]


def _area(own: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """The probability that a sample of the family scores higher than one of the training's."""
    below = np.searchsorted(own, values, "left") + np.searchsorted(own, values, "right")
    return float(below.mean()) / (2 * len(own))


def _verdicts(seen: Mapping[str, _Seen]) -> dict[str, Any]:
    """What `slipstream predict` would say: by the score alone, by plain checks, and by both."""
    view = CHOSEN[0]
    neighbours = Neighbourhood(seen["train"].views[view])
    held_out = neighbours.scores(seen["val"].views[view])[0]
    families = {}
    for name, own in seen.items():
        if name in ("train", "val"):
            continue
        scores = neighbours.scores(own.views[view])[0]
        verdicts = [verdict_of(float(score), held_out)[0] for score in scores]
        unusual = np.array([verdict != "like training" for verdict in verdicts])
        outside = np.array([verdict == "outside" for verdict in verdicts])
        families[name] = {
            "samples": len(scores),
            "by_score": int(unusual.sum()),
            "by_plain_checks": int(own.plain.sum()),
            "by_both": int((unusual | own.plain).sum()),
            "outside": int((outside | own.far).sum()),
            "outside_by_score": int(outside.sum()),
            "median_error": round(own.error, 4),
        }
    return {"held_out": len(held_out), "view": view, "families": families}
