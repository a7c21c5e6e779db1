"""A run from its folder to its outcome (lock, data, trainer): the work of `slipstream train`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from slipstream.core.checks import check_choice
from slipstream.core.signals import Interrupted
from slipstream.data.store import IngestProgress
from slipstream.runs.config import RunConfig, check_same, with_store
from slipstream.runs.folder import RunFolder
from slipstream.training.data import open_data
from slipstream.training.distributed import World, join_world
from slipstream.training.sinks import SINKS, Listener, open_sinks
from slipstream.training.trainer import Trainer, TrainingOutcome


def train(
    config: RunConfig | None,
    out: Path,
    *,
    device: str = "auto",
    listeners: Sequence[Listener] = (),
    track: Sequence[str] = (),
    data_progress: Callable[[IngestProgress], None] | None = None,
    ready: Callable[[Trainer], None] = lambda trainer: None,
) -> TrainingOutcome:
    """Train a run in the folder `out`, or continue the one there. None takes the config in `out`.

    `ready` is called on rank 0 with the trainer before it begins.

    The same call after any interruption continues from the newest checkpoint; after the last step
    it only returns the outcome. Raises ValueError, having changed nothing, where the folder holds
    another run or is in use, or the data do not fit; OSError where the disk is full, which leaves
    what was saved before.
    """
    for name in track:
        check_choice("track", name, SINKS)
    folder = RunFolder(out)
    if config is None and not folder.exists:
        raise ValueError(f"{out} must be a run to continue, got no {folder.config_file.name}")
    folder.check_free()
    mesh = (config or folder.read_config()).mesh
    with join_world(device, mesh) as world:
        if not world.leads:
            return _prepare(config, folder, world, data_progress).run()
        with folder.locked():
            trainer = _prepare(config, folder, world, data_progress)
            with open_sinks(track, out, trainer.config.to_json()) as sinks:
                trainer.listeners = (*listeners, *sinks)
                ready(trainer)
                return trainer.run()


def train_whole(
    config: RunConfig,
    out: Path,
    *,
    device: str = "auto",
    ready: Callable[[Trainer], None] = lambda trainer: None,
) -> TrainingOutcome:
    """`train`, for whoever goes on with the finished run: Interrupted where a signal ended it."""
    outcome = train(config, out, device=device, ready=ready)
    if outcome.signal is not None:
        raise Interrupted(outcome.signal)
    return outcome


def _prepare(
    config: RunConfig | None,
    folder: RunFolder,
    world: World,
    data_progress: Callable[[IngestProgress], None] | None,
) -> Trainer:
    """A trainer, after all checks, with its data made and its config written."""
    if folder.exists:
        saved = folder.read_config()
        if config is not None:
            check_same(saved, config, str(folder.path))
        config = config or saved
    assert config is not None
    config.model.check_loaded(str(folder.path))
    data_folder = folder.path / "data"
    if world.leads:
        open_data(config.data, data_folder, data_progress)
    world.wait()  # built-in data are made by one rank, and read by all
    store = open_data(with_store(config, config.data.store or data_folder).data, data_folder)
    trainer = Trainer(config, store, folder, world)
    if world.leads and not folder.exists:
        folder.begin(config)
    world.wait()
    return trainer
