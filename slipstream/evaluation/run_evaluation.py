"""The evaluation of runs: measured once, and recorded in the folder of the run.

The pictures of one experiment show the same sample in all runs: the one on which the baseline has
its median error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from slipstream.core.engine import Engine, Where, as_engine
from slipstream.core.files import remove_partials
from slipstream.core.pool import run_on
from slipstream.core.runtime import device_name
from slipstream.data.batches import Normaliser
from slipstream.data.store import (
    MANIFEST_NAME,
    Store,
    data_hash,
    open_store,
    with_training_samples,
)
from slipstream.evaluation.locality import find_locality
from slipstream.evaluation.measure import definitions, make_dataset, measure
from slipstream.evaluation.predict_sample import predict_sample
from slipstream.evaluation.sample_bodies import ForceRequest
from slipstream.evaluation.sample_forces import measure_forces
from slipstream.evaluation.surface_view import add_faces
from slipstream.evaluation.yardsticks import measure_yardsticks
from slipstream.models.plugins import load_plugin, plugin_files
from slipstream.models.variants import BASELINE
from slipstream.runs.checkpoint import weights_hash
from slipstream.runs.config import RunConfig
from slipstream.runs.evaluation_file import (
    Evaluation,
    LayerSlices,
    Locality,
    Protocol,
    Yardstick,
    append_evaluation,
    prediction_file,
    predictions_of,
    read_evaluations,
)
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import TrainedModel, load_model
from slipstream.runs.prediction_file import write_prediction

WatchSamples = Callable[[str, int, int], None]
"""Called with the run's name, samples measured and samples in all."""


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """How runs are to be evaluated."""

    protocol: Protocol = Protocol()
    pictures: tuple[str, ...] = ()
    """Samples to predict for pictures; empty for the one of median error."""
    device: str = "auto"
    store: Path | None = None
    """Where the data are now, if they were moved since the training."""
    again: bool = False
    """Whether to measure again what has an evaluation already."""
    meshes: Path | None = None
    """The folder that was ingested, for the faces of surfaces in pictures."""
    forces: ForceRequest | None = None
    """How force coefficients are to be made; None for none."""


def evaluate_runs(
    runs: Iterable[RunFolder],
    request: EvaluationRequest,
    watch: WatchSamples = lambda name, done, total: None,
    engine: Where = None,
) -> list[Evaluation]:
    """The evaluation of each run, in the order given; an existing one is read, not repeated.

    On an `engine` each run is a task, once those that choose the pictures are done; `watch` is then
    called with the runs. Raises ValueError where a run has no model, or where its data are missing
    or have changed.
    """
    runs = list(runs)
    known = OfData()
    ordered = sorted(runs, key=_baseline_first)
    with as_engine(engine) as on:
        if on is None:
            evaluations = {run.path: evaluate_run(run, request, known, watch) for run in ordered}
        else:
            evaluations = _on_engine(ordered, request, known, watch, on)
    return [evaluations[run.path] for run in runs]


def evaluate_run(
    run: RunFolder, request: EvaluationRequest, known: OfData, watch: WatchSamples
) -> Evaluation:
    """The evaluation of one run, and what it tells about its data in `known`."""
    trained = load_model(run.path, device=request.device)
    key = _key(trained)
    pictures = request.pictures or known.pictures.get(key, ())
    protocol = _protocol(request, trained, run)
    one = None if request.again else _newest(run, trained, protocol, pictures)
    if one is None:
        store = open_data_of(trained, request.store, run)
        one = _evaluate(run, trained, store, protocol, pictures, watch)
        one = known.added(one, trained, store)
        append_evaluation(run, one)
    elif _lacks_yardsticks(one) and (older := _data_if_there(trained, request.store, run)):
        one = known.added(one, trained, older)
        append_evaluation(run, one)
    if request.forces is not None and _lacks_forces(one, request):
        store = open_data_of(trained, request.store, run)
        told = partial(watch, trained.config.name)
        training = known.training.setdefault(key[1], {})
        section = measure_forces(trained, store, one, request.forces, told, training=training)
        one = replace(one, forces=section)
        append_evaluation(run, one)
    if request.meshes is not None:
        store = open_data_of(trained, request.store, run)
        add_faces(predictions_of(run, one), store, request.meshes)
    known.pictures.setdefault(key, one.pictures)
    return one


@dataclass(frozen=True)
class _Task:
    """Evaluates a run on a worker, which loads the plug-ins first."""

    request: EvaluationRequest
    known: OfData
    plugins: tuple[Path, ...]

    def __call__(self, place: tuple[Path, Path]) -> tuple[Evaluation, OfData]:
        """Of the run and the store at some places."""
        for file in self.plugins:
            load_plugin(file)
        run, store = place
        request = replace(self.request, store=store)
        return evaluate_run(RunFolder(run), request, self.known, _unwatched), self.known


def _on_engine(
    runs: Sequence[RunFolder],
    request: EvaluationRequest,
    known: OfData,
    watch: WatchSamples,
    engine: Engine,
) -> dict[Path, Evaluation]:
    """First the run of each experiment that chooses the pictures, then all others."""
    loaded = {run.path: load_model(run.path, device="cpu") for run in runs}
    firsts = {_key(loaded[run.path]): run.path for run in reversed(runs)}
    waves = [
        [run for run in runs if (run.path in firsts.values()) == first] for first in (True, False)
    ]
    evaluations: dict[Path, Evaluation] = {}
    for wave in waves:
        task = _Task(_absolute(request), known, tuple(plugin_files()))
        places = {
            (run.path.absolute(), _place(loaded[run.path], request.store, run).absolute()): run.path
            for run in wave
        }
        if not places:
            continue
        run, store = next(iter(places))
        files = [RunFolder(run).model_file, store / MANIFEST_NAME, *task.plugins]
        gpus = int(request.device.startswith("cuda"))
        results = run_on(engine, task, list(places), run, files=files, gpus=gpus)
        with closing(results):
            for place, (one, of_data) in results:
                path = places[place]
                evaluations[path] = one
                known.update(of_data)
                watch(loaded[path].config.name, len(evaluations), len(runs))
    return evaluations


def _unwatched(name: str, done: int, total: int) -> None:
    """A worker has nobody to tell."""


def _absolute(request: EvaluationRequest) -> EvaluationRequest:
    """Workers have other working folders."""
    meshes, forces = request.meshes, request.forces
    return replace(
        request,
        meshes=None if meshes is None else meshes.absolute(),
        forces=None if forces is None else forces.absolute(),
    )


def _key(trained: TrainedModel) -> tuple[str, str]:
    """The pictures of one experiment on the same data are of the same samples."""
    return trained.config.experiment, trained.about["data_hash"]


def _lacks_yardsticks(one: Evaluation) -> bool:
    """Whether a record is from before all of them were measured."""
    return not one.yardsticks or one.validation_yardsticks is None


def _lacks_forces(one: Evaluation, request: EvaluationRequest) -> bool:
    asked = request.forces.asked if request.forces else None
    return request.again or one.forces is None or one.forces.asked != asked


class OfData:
    """What an evaluation says about its data alone: the same for all runs on them."""

    def __init__(self) -> None:
        self._localities: dict[tuple[str, str], Locality | None] = {}
        self._yardsticks: dict[tuple[str, str, Normaliser], tuple[Yardstick, ...]] = {}
        self.training: dict[str, dict[str, dict[str, float]]] = {}
        """True force coefficients of training samples, by the hash of the data and sample."""
        self.pictures: dict[tuple[str, str], tuple[str, ...]] = {}
        """The samples of the pictures, by experiment and hash of the data."""

    def update(self, other: OfData) -> None:
        """What another one knows, where this one does not."""
        self._localities = other._localities | self._localities
        self._yardsticks = other._yardsticks | self._yardsticks
        self.training = other.training | self.training
        self.pictures = other.pictures | self.pictures

    def added(self, one: Evaluation, trained: TrainedModel, store: Store) -> Evaluation:
        """The evaluation with the limits of pointwise models and with the yardsticks."""
        split = one.protocol.split
        place = (one.data_hash, split)
        if place not in self._localities:
            self._localities[place] = _locality(store, one.protocol)
        validation = self._measured(one, trained, store, "val")
        return replace(
            one,
            data=store.manifest.origin.source,
            locality=self._localities[place],
            yardsticks=self._measured(one, trained, store, split),
            validation_yardsticks={own.kind: own.errors["composite"] for own in validation},
        )

    def _measured(
        self, one: Evaluation, trained: TrainedModel, store: Store, split: str
    ) -> tuple[Yardstick, ...]:
        if not store.splits.get(split):
            return ()
        key = (one.data_hash, split, trained.normaliser)
        if key not in self._yardsticks:
            self._yardsticks[key] = measure_yardsticks(store, trained.normaliser, split)
        return self._yardsticks[key]


def _baseline_first(run: RunFolder) -> tuple[bool, int]:
    config = run.read_config()
    return config.model.variant != BASELINE, config.seed


def _protocol(request: EvaluationRequest, trained: TrainedModel, run: RunFolder) -> Protocol:
    """The protocol as it applies to a run; where its data are missing, judged by its config."""
    points = trained.config.data.points
    try:
        store = open_store(_place(trained, request.store, run))
    except (ValueError, OSError):  # `open_data_of` raises a sentence if the data are needed
        return request.protocol.on(points)
    samples = store.splits.get(request.protocol.split, ())
    return request.protocol.on(points, [store.rows(sample) for sample in samples])


def _newest(
    run: RunFolder, trained: TrainedModel, protocol: Protocol, pictures: Sequence[str]
) -> Evaluation | None:
    """The newest evaluation of the same weights by the same protocol, with these pictures."""
    weights = weights_hash(dict(trained.model.named_parameters()))
    earlier = read_evaluations(run)
    for one in reversed(earlier):
        complete = len(predictions_of(run, one, earlier)) == len(one.pictures)
        same = one.weights == weights and one.protocol == protocol
        if same and complete and set(pictures) <= set(one.pictures):
            return one
    return None


def _evaluate(
    run: RunFolder,
    trained: TrainedModel,
    store: Store,
    protocol: Protocol,
    pictures: Sequence[str],
    watch: WatchSamples,
) -> Evaluation:
    """Measure, and write the predictions."""
    dataset = make_dataset(store, trained, protocol)
    for sample in pictures:
        if sample not in dataset.samples:
            raise ValueError(
                f"samples must be of the split {protocol.split!r} of {store.path}, got {sample!r}"
            )
    config = trained.config
    measured = measure(trained, dataset, protocol, partial(watch, config.name))
    pictures = tuple(pictures) or (measured.median_sample(),)
    files = {sample: prediction_file(run, sample, full=protocol.full) for sample in pictures}
    slices: list[LayerSlices] = []
    for sample, file in files.items():
        remove_partials(file.parent, file.name)
        tokens = measured.tokens.get(sample)
        prediction, layers = predict_sample(trained, store, sample, protocol, tokens)
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
        left_out=measured.left_out(),
        pictures=pictures,
        files={sample: file.name for sample, file in files.items()},
        slices=tuple(slices),
        locality=None,
    )


def _locality(store: Store, protocol: Protocol) -> Locality | None:
    has_test = protocol.split == "test" and store.splits.get("test")
    return find_locality(store) if has_test else None


def _place(trained: TrainedModel, store: Path | None, run: RunFolder) -> Path:
    return store_of(run, trained.config, store)


def store_of(run: RunFolder, config: RunConfig, moved: Path | None = None) -> Path:
    """Where the data of a run are: at `moved`, if it is given, else where its config says."""
    return moved or Path(config.data.store or run.path / "data")


def _data_if_there(trained: TrainedModel, store: Path | None, run: RunFolder) -> Store | None:
    try:
        return open_data_of(trained, store, run)
    except (ValueError, OSError):  # moved, removed or changed since
        return None


def open_data_of(trained: TrainedModel, store: Path | None, run: RunFolder) -> Store:
    """The store that a run was trained on; ValueError where it has moved or has other data."""
    place = _place(trained, store, run)
    if not place.is_dir():
        raise ValueError(
            f"the store of {run.path} must be at {place}, got no such folder (--store says where"
            " it is now)"
        )
    opened = open_store(place)
    if data_hash(opened) != trained.about["data_hash"]:
        raise ValueError(
            f"{place} must hold the data that {run.path} was trained on, hash"
            f" {trained.about['data_hash'][:12]}, got {data_hash(opened)[:12]}"
        )
    return with_training_samples(opened, trained.config.data.train)
