"""The evaluation of runs: measured, written beside the run, and not done again where it is there.

The runs of one experiment are pictured on the same sample: the one of median error of the baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slipstream.core.runtime import device_name
from slipstream.data.store import Store, data_hash, open_store
from slipstream.evaluation.locality import locality
from slipstream.evaluation.measure import definitions, make_dataset, measure
from slipstream.evaluation.predict_sample import predict_sample
from slipstream.models.variants import BASELINE
from slipstream.runs.checkpoint import weights_hash
from slipstream.runs.evaluation_file import (
    Evaluation,
    LayerSlices,
    Locality,
    Protocol,
    append_evaluation,
    prediction_file,
    predictions_of,
    read_evaluations,
)
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import TrainedModel, load_model
from slipstream.runs.prediction_file import write_prediction

Watch = Callable[[str, int, int], None]
"""Told the run's name, samples measured and samples in all."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    protocol: Protocol = Protocol()
    pictures: tuple[str, ...] = ()
    """Samples to predict on; none for the one of median error."""
    device: str = "auto"
    store: Path | None = None
    """Where the data are now, if not where the run found them."""
    again: bool = False
    """Measure also what is there."""


def evaluate_runs(
    runs: Iterable[RunFolder], wanted: Wanted, watch: Watch = lambda name, done, total: None
) -> list[Evaluation]:
    """The evaluation of each run, in their order, new or as it was.

    Raises ValueError where a run has no model or its data are gone or not what it was trained on.
    """
    runs = list(runs)
    found: dict[Path, Evaluation] = {}
    local: dict[str, Locality | None] = {}
    chosen: dict[tuple[str, str], tuple[str, ...]] = {}
    for run in sorted(runs, key=_baseline_first):
        trained = load_model(run.path, device=wanted.device)
        key = (trained.config.experiment, trained.about["data_hash"])
        pictures = wanted.pictures or chosen.get(key, ())
        protocol = _protocol(wanted, trained, run)
        one = None if wanted.again else _newest(run, trained, protocol, pictures)
        if one is None:
            store = open_data_of(trained, wanted.store, run)
            if key[1] not in local:
                local[key[1]] = _locality(store, protocol)
            one = _evaluate(run, trained, store, protocol, pictures, watch)
            one = replace(one, locality=local[key[1]])
            append_evaluation(run, one)
        chosen.setdefault(key, one.pictures)
        found[run.path] = one
    return [found[run.path] for run in runs]


def _baseline_first(run: RunFolder) -> tuple[bool, int]:
    config = run.read_config()
    return config.model.variant != BASELINE, config.seed


def _protocol(wanted: Wanted, trained: TrainedModel, run: RunFolder) -> Protocol:
    """As it comes out for a run; where its data are gone, by its config alone."""
    points = trained.config.data.points
    try:
        store = open_store(_place(trained, wanted.store, run))
    except (ValueError, OSError):  # which is told where they are needed
        return wanted.protocol.on(points)
    samples = store.splits.get(wanted.protocol.split, ())
    return wanted.protocol.on(points, [store.rows(sample) for sample in samples])


def _newest(
    run: RunFolder, trained: TrainedModel, protocol: Protocol, pictures: Sequence[str]
) -> Evaluation | None:
    """The newest evaluation of this very model by this protocol, with these pictures."""
    weights = weights_hash(dict(trained.model.named_parameters()))
    before = read_evaluations(run)
    for one in reversed(before):
        there = len(predictions_of(run, one, before)) == len(one.pictures)
        same = one.weights == weights and one.protocol == protocol
        if same and there and set(pictures) <= set(one.pictures):
            return one
    return None


def _evaluate(
    run: RunFolder,
    trained: TrainedModel,
    store: Store,
    protocol: Protocol,
    pictures: Sequence[str],
    watch: Watch,
) -> Evaluation:
    """Measure, and write the predictions."""
    dataset = make_dataset(store, trained, protocol)
    for sample in pictures:
        if sample not in dataset.samples:
            raise ValueError(
                f"samples must be of the split {protocol.split!r} of {store.path}, got {sample!r}"
            )
    config = trained.config
    measured = measure(trained, dataset, protocol, lambda done, all: watch(config.name, done, all))
    pictures = tuple(pictures) or (measured.median_sample(),)
    files = {sample: prediction_file(run, sample, full=protocol.full) for sample in pictures}
    slices: list[LayerSlices] = []
    for sample, file in files.items():
        prediction, layers = predict_sample(trained, store, sample, protocol)
        write_prediction(file, prediction)
        slices = slices or layers
    return Evaluation(
        experiment=config.experiment,
        variant=config.model.variant,
        seed=config.seed,
        step=trained.metric["step"],
        validation=trained.metric["error"],
        parameters=trained.model.parameter_count(),
        weights=weights_hash(dict(trained.model.named_parameters())),
        data_hash=data_hash(store),
        protocol=protocol,
        points=config.data.points,
        device=device_name(next(trained.model.parameters()).device),
        kernels=trained.model.kernels,
        definitions=definitions(trained.schema, protocol, config.data.points),
        numbers=tuple(measured.numbers()),
        samples=measured.samples(),
        pictures=pictures,
        files={sample: file.name for sample, file in files.items()},
        slices=tuple(slices),
        locality=None,
    )


def _locality(store: Store, protocol: Protocol) -> Locality | None:
    measures = protocol.split == "test" and store.splits.get("test")
    return locality(store) if measures else None


def _place(trained: TrainedModel, store: Path | None, run: RunFolder) -> Path:
    return store or Path(trained.config.data.store or run.path / "data")


def open_data_of(trained: TrainedModel, store: Path | None, run: RunFolder) -> Store:
    """The store that a run was trained on; ValueError where it has moved or is another."""
    place = _place(trained, store, run)
    if not place.is_dir():
        raise ValueError(
            f"the store of {run.path} must be at {place}, got no such folder (--store says where"
            " it is now)"
        )
    found = open_store(place)
    if data_hash(found) != trained.about["data_hash"]:
        raise ValueError(
            f"{place} must hold the data that {run.path} was trained on, hash"
            f" {trained.about['data_hash'][:12]}, got {data_hash(found)[:12]}"
        )
    return found
