"""Is this design like those the model has learned from? A score, plain checks, and a verdict.

The score (likeness_score.py) is compared with those of held-out samples, which are such as the
training's but took no part in it: the verdict is `unusual` where at most a share ALARMS of them
would score as high, and `outside` where the score exceeds all of theirs by more than the largest
exceeds their median. Plain checks are beside it: what is odd by itself makes a design `unusual`, a
parameter or feature farther out than its whole range in training, `outside`.

Of several models that predict together it is asked for the first in the order of their paths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from slipstream.core.engine import Where, as_engine
from slipstream.core.runtime import derive_seed
from slipstream.data.store import Store, data_hash, split_hash
from slipstream.evaluation.calibration import percent
from slipstream.evaluation.neighbours import candidates
from slipstream.evaluation.run_evaluation import open_data_of
from slipstream.inference.likeness_score import POINTS, Neighbourhood, describe
from slipstream.inference.mesh_fields import MeshFields
from slipstream.inference.oddities import far_out
from slipstream.inference.predict import recipe_of
from slipstream.inference.sample_scores import Describing, WorkerSamples, describe_sample
from slipstream.inference.stored_predictions import PredictedSamples
from slipstream.runs.checkpoint import weights_hash
from slipstream.runs.ensemble import Ensemble
from slipstream.runs.folder import RunFolder
from slipstream.runs.likeness_file import NAME, Likeness, read_likeness, write_likeness
from slipstream.runs.model_file import TrainedModel, load_model, model_path
from slipstream.runs.recipe import Recipe

if TYPE_CHECKING:
    from slipstream.inference.calibrate import CalibrationRequest

Verdict = Literal["like training", "unusual", "outside"]
ALARMS = 0.05
"""The share of designs like those of the training that may be called unusual by the score."""
FEWEST_HELD_OUT = 19
"""With fewer held-out samples no rank among them is as rare as ALARMS."""
NAMED = 3
Watch = Callable[[int, int], None]
Described = Callable[[Sequence[str]], list[NDArray[Any]]]


@dataclass(frozen=True)
class MeshLikeness:
    """What is known of one mesh."""

    verdict: Verdict | None
    """None where it cannot be told."""
    reasons: tuple[str, ...] = ()
    """Why the verdict is not `like training`, or why there is none."""
    percentile: float | None = None
    """The share of the samples compared with whose score is less."""
    score: float | None = None
    compared: str = ""
    """With how many samples, of what kind."""
    nearest: tuple[str, ...] = ()
    """The nearest training samples."""
    of: str = ""
    """Hash of the file that it was judged by."""

    @property
    def like(self) -> bool:
        return self.verdict in (None, "like training")


def measure_likeness(
    trained: TrainedModel, store: Store, split: str, described: Described | None = None
) -> Likeness:
    """Describe the training samples, at most 512, and score those of a held-out split; `described`
    gives the descriptions of samples by their names where they are not to be made here.

    ValueError where the training split has less than 2 samples, or the held-out one none.
    """
    training, held_out = candidates(store), tuple(store.splits.get(split, ()))
    if len(training) < 2 or not held_out:
        raise ValueError(
            f"{store.path} must have 2 training samples and one in its split {split!r}, got"
            f" {len(training)} and {len(held_out)}"
        )
    described = described or partial(_describe_here, trained, store)
    descriptions = np.stack(described((*training, *held_out)))
    known = descriptions[: len(training)]
    return Likeness(
        weights=weights_hash(dict(trained.model.named_parameters())),
        data_hash=data_hash(store),
        split_hash=split_hash(store),
        split=split,
        points=POINTS,
        training=training,
        descriptions=known,
        held_out=held_out,
        scores=Neighbourhood(known).scores(descriptions[len(training) :])[0],
    )


def calibrate_likeness(
    runs: Sequence[RunFolder],
    request: CalibrationRequest,
    watch: Watch = lambda done, total: None,
    engine: Where = None,
) -> Path:
    """Measure and write the likeness file of the first of some runs by their paths; on an `engine`
    each sample is a task.

    For several runs one that this run has already stays: it may be of a larger split.
    """
    run = min(runs, key=lambda one: one.path)
    if len(runs) > 1 and not lacks_likeness(run):
        return run.path / NAME
    with as_engine(engine) as on:
        trained = load_model(run.path, device="cpu" if on else request.device)
        store = open_data_of(trained, request.store, run)
        described: Described = partial(_describe_here, trained, store, watch=watch)
        if on is not None:
            there = WorkerSamples.of(Ensemble((trained,)), [run], store, request.device)
            described = partial(there.in_order, on, Describing(there), watch=watch)
        likeness = measure_likeness(trained, store, request.split, described)
    return write_likeness(run.path, likeness)


def _describe_here(
    trained: TrainedModel,
    store: Store,
    names: Sequence[str],
    watch: Watch = lambda done, total: None,
) -> list[NDArray[Any]]:
    opened, rows = PredictedSamples(Ensemble((trained,)), store), []
    for done, name in enumerate(names, start=1):
        rows.append(describe_sample(opened, name))
        watch(done, len(names))
    return rows


def lacks_likeness(run: RunFolder) -> bool:
    """Whether a run has no likeness file of its weights; one that cannot be read is none."""
    weights = weights_hash(dict(load_model(run.path).model.named_parameters()))
    try:
        return read_likeness(run.path, weights) is None
    except (ValueError, OSError):
        return True


class Judge:
    """The likeness file of a model, as a call of `predict` uses it."""

    def __init__(self, runs: Sequence[Path], models: Ensemble, *, strict: bool = False) -> None:
        """A file that is missing, cannot be read or is of other weights makes no verdicts, and
        every mesh says why; where it is to be strict, ValueError says it."""
        folders = [model_path(run).parent for run in runs]
        first = folders.index(min(folders))
        self._trained, self.strict = models.members[first], strict
        self._likeness: Likeness | None = None
        command = f"slipstream calibrate {' '.join(map(str, folders))}"
        self._reason = f"likeness to the training was not calibrated: {command}"
        try:
            weights = weights_hash(dict(self._trained.model.named_parameters()))
            self._likeness = read_likeness(folders[first], weights)
        except (ValueError, OSError) as error:
            self._reason = f"likeness to the training was not calibrated: {error}: {command}"
        if self._likeness is None:
            if strict:
                raise ValueError(f"--strict must have a model that can tell, got {self._reason}")
            return
        self._neighbours = Neighbourhood(self._likeness.descriptions)
        self._reference, self._compared, self._note = _reference(self._likeness, self._neighbours)

    @property
    def of(self) -> str:
        return "" if self._likeness is None else self._likeness.content

    @property
    def recipe(self) -> Recipe:
        return recipe_of(self._trained)

    def judge(self, fields: MeshFields) -> MeshLikeness:
        likeness = self._likeness
        if likeness is None:
            return MeshLikeness(None, (self._reason,))
        own = describe(self._trained, fields.as_points(_chosen(fields.points, likeness.points)))
        scores, order = self._neighbours.scores(own[None])
        score, nearest = float(scores[0]), tuple(likeness.training[k] for k in order[0][:NAMED])
        verdict, below = verdict_of(score, self._reference)
        reasons: tuple[str, ...] = ()
        if verdict != "like training":
            reasons = (
                "what the model sees of it is unlike that of any training sample: farther than"
                f" {share(below)} of {self._compared}; nearest: {', '.join(nearest)}",
            )
        hard = far_out(fields.features, self.recipe)
        if hard:
            verdict = "outside"
        elif fields.oddities and verdict == "like training":
            verdict = "unusual"
        reasons += (*hard, *(text for text in fields.oddities if text not in hard))
        note = (self._note,) if self._note and reasons else ()
        return MeshLikeness(
            verdict, (*reasons, *note), below, score, self._compared, nearest, self.of
        )

    def check(self, likeness: MeshLikeness, mesh: str) -> None:
        """ValueError where it is to be strict and the mesh is not like the training."""
        if self.strict and not likeness.like:
            reasons = "; ".join(likeness.reasons)
            raise ValueError(
                f"{mesh} must be like the training (--strict), got {likeness.verdict}: {reasons}"
            )


def verdict_of(score: float, reference: NDArray[np.float64]) -> tuple[Verdict, float]:
    """The verdict of a score among those of samples that are like the training, and the share of
    these that are below it."""
    below = float((reference < score).mean())
    rank = (1 + int((reference >= score).sum())) / (len(reference) + 1)
    if rank > ALARMS:
        return "like training", below
    most = float(reference.max())
    beyond = score > 2 * most - float(np.median(reference))
    return ("outside" if beyond else "unusual"), below


def share(percentile: float) -> str:
    """In whole percent, rounded down: 100 % is all."""
    return percent(math.floor(100 * percentile + 1e-9) / 100)


def _reference(likeness: Likeness, known: Neighbourhood) -> tuple[NDArray[np.float64], str, str]:
    """The scores that a mesh's is compared with, what they are of, and what must be said."""
    held_out = len(likeness.scores)
    if held_out >= FEWEST_HELD_OUT:
        return likeness.scores, f"{held_out} held-out samples", ""
    both = np.concatenate([likeness.scores, known.own_scores()])
    compared = f"{held_out} held-out and {len(both) - held_out} training samples"
    note = (
        f"with {held_out} held-out samples, fewer than {FEWEST_HELD_OUT}, it cannot be promised"
        f" that at most {percent(ALARMS)} of designs like the training are called unusual"
    )
    return both, compared, note


def _chosen(points: int, most: int) -> NDArray[np.intp] | None:
    """As many points at random as a stored sample is described by; None for all."""
    if points <= most:
        return None
    draw = np.random.default_rng(derive_seed(0, "likeness", points))
    return np.sort(draw.choice(points, most, replace=False)).astype(np.intp)
