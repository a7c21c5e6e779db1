"""The training of one run.

    trainer = Trainer(config, store, RunFolder("runs/a"), World(device))
    outcome = trainer.run()

Everything that the result depends on is in the config, the store and the checkpoint: a run that is
killed at any moment and started again ends with the same weights, bit for bit, on the same kind of
device (and, on a CPU, with equally many threads).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from signal import Signals
from typing import Any, Literal

import torch

from slipstream.core.errors import TrainingStopped
from slipstream.core.records import append_record
from slipstream.core.runtime import commit, derive_seed, device_name
from slipstream.data.batches import Batch, endless, make_normaliser
from slipstream.data.store import Store, constant_targets, data_hash, split_hash
from slipstream.evaluation.evaluate import sample_errors
from slipstream.models.plugins import plugin_of
from slipstream.models.sharding import shard_points
from slipstream.runs.checkpoint import weights_hash, write_checkpoint
from slipstream.runs.config import RunConfig, is_due
from slipstream.runs.folder import RunFolder
from slipstream.runs.integrity import read_newest_checkpoint
from slipstream.runs.make_recipe import make_recipe
from slipstream.runs.model_file import TrainedModel, build_model, check_weights, write_model
from slipstream.runs.recipe import Recipe
from slipstream.runs.take_over import TakenOver, take_over
from slipstream.training.data import first_epoch, normalised_on, training_loader, validation_loader
from slipstream.training.distributed import World
from slipstream.training.losses import loss_of
from slipstream.training.memory import describing_memory
from slipstream.training.optim import (
    freeze,
    learning_rate,
    make_optimizer,
    set_learning_rate,
    update,
)
from slipstream.training.replay import Replayed, why_not_replayed
from slipstream.training.signals import StopRequest, stop_requests
from slipstream.training.sinks import Listener
from slipstream.training.state import Provenance, TrainState
from slipstream.training.window import Window


@dataclass(frozen=True)
class TrainingOutcome:
    step: int
    reason: Literal["finished", "interrupted"]
    best: dict[str, Any] | None
    """Step, error and by_group of the best validation; None without one."""
    signal: int | None = None
    """The signal that interrupted the run."""


class Trainer:
    """Trains one model. Its parts (model, state, loaders) are public, for inspection and reuse."""

    def __init__(
        self,
        config: RunConfig,
        store: Store,
        folder: RunFolder,
        world: World,
    ) -> None:
        self.config, self.store, self.folder, self.world = config, store, folder, world
        self.listeners: Sequence[Listener] = ()
        """Called with every record, on rank 0."""
        self.on_step: Callable[[int], None] = lambda step: None
        """Called with the number of every step, after what is due with it is done."""
        self.groups = store.schema.target_groups
        self.normaliser = make_normaliser(
            store.schema, store.statistics, coord_scale=config.data.coord_scale
        )
        self.provenance = Provenance(config, data_hash(store), split_hash(store), world.size)
        self.validation = validation_loader(store, config, *world.data, world.part)
        self.model = build_model(config, store.schema)
        self.taken_over: TakenOver | None = None
        """What a run takes from a trained model, where it starts from one now."""
        if config.initial is not None and not folder.checkpoint_steps():
            self.taken_over = take_over(config, store.schema, self.normaliser)
            self.model.load_state_dict(self.taken_over.weights)
        self.model.to(world.device)
        freeze(self.model, config.optim)
        if world.points is not None:
            shard_points(self.model, world.points)
        self.state = TrainState(
            self.model,
            make_optimizer(self.model, config.optim),
            training_loader(store, config, *world.data, world.part),
        )
        self.network = world.wrap(self.model)
        if config.compile:
            self.network = torch.compile(self.network)  # type: ignore[assignment]
        self._window = Window(world.device)
        equal_counts = self.state.loader.dataset.counts_are_equal
        self.one_by_one = why_not_replayed(config, world, equal_counts=equal_counts)
        """Why the steps are launched one by one; None where one is recorded and replayed."""
        self._launch = (
            self._launch_one
            if self.one_by_one
            else Replayed(self._step_on_device, world.device, config.dtype)
        )

    def run(self) -> TrainingOutcome:
        """Train from the newest checkpoint, or from the start, to the last step or a signal.

        Raises TrainingStopped where losses or gradients are not finite too often, or the device's
        memory is too small.
        """
        last = self.config.steps
        with stop_requests() as stop, describing_memory(self.config, self.world.device):
            self._begin()
            try:
                if self.state.step < last:
                    for batch in endless(self.state.loader):
                        self.advance(batch)
                        self.on_step(self.state.step)
                        if self._ends(stop):
                            break
            finally:
                self.state.loader.stop_workers()
                self.validation.stop_workers()
            step, best = self.state.step, self.state.best
            if step == last:
                self._record_once("stop", {"step": step, "reason": "finished"})
                return TrainingOutcome(step, "finished", best)
            self._record("stop", {"step": step, "reason": "interrupted"})
            return TrainingOutcome(step, "interrupted", best, stop.signal)

    def take_step(self, batch: Batch) -> None:
        """One training step; the host does not wait for the device."""
        self.state.step += 1
        set_learning_rate(self.state.optimizer, learning_rate(self.state.step, self.config))
        self._launch(batch)
        self._window.count(batch.rows.shape[0] * batch.rows.shape[1])

    def _launch_one(self, batch: Batch) -> None:
        self._step_on_device(batch.to(self.world.device, self.config.dtype))

    def _step_on_device(self, batch: Batch) -> None:
        """The part of a step that runs on the device, and that a CUDA graph can record."""
        config = self.config
        batch = batch.normalise(self.normaliser)
        with config.autocast(self.world.device):
            prediction = self.network(*batch.inputs)
        kind, complete = config.optim.loss, self.world.complete
        loss = loss_of(kind, prediction, batch.targets, self.groups, complete)
        self.state.optimizer.zero_grad()
        self.world.backward(loss)
        loss = self.world.mean(loss.detach())
        norm, skipped = update(self.model, self.state.optimizer, loss, config.optim.clip)
        self._window.add(loss, norm, skipped)

    def validate(self) -> dict[str, Any]:
        """The errors on the validation split, without autocast; writes the best model so far."""
        place = self.normaliser, self.world.device, self.config.dtype
        batches = (normalised_on(batch, *place) for batch in first_epoch(self.validation))
        own = sample_errors(self.model, batches, self.groups, complete=self.world.complete)
        errors = self.world.gather(own)
        error = errors.mean()
        best = self.state.best
        metric: dict[str, Any] = {
            "step": self.state.step,
            "error": _finite(error),
            "by_group": {name: _finite(value) for name, value in errors.by_group().items()},
        }
        is_best = math.isfinite(error) and (best is None or error < best["error"])
        weights = weights_hash(dict(self.model.named_parameters()))
        if is_best:
            self.state.best = metric
            if self.world.leads:
                write_model(self.folder.model_file, self._trained(metric))
        self._record("validation", {**metric, "best": is_best, "weights": weights})
        return metric

    def save(self) -> None:
        """Write a checkpoint of the current state."""
        self.state.skipped += self._window.take_skipped()
        if self.world.leads:
            step = self.state.step
            checkpoint = self.state.to_checkpoint(self.provenance, self.world.device)
            content = write_checkpoint(self.folder.checkpoint_file(step), checkpoint)
            weights = weights_hash(checkpoint.part("model"))
            self._record("checkpoint", {"step": step, "weights": weights, "content": content})
            self.folder.prune_checkpoints(self.config.keep)
        self.world.wait()

    def _begin(self) -> None:
        if self.world.leads:
            self.folder.drop_partial_files()
        # Rank 0 decides: another rank may list the folder before or after rank 0 writes to it.
        newest = self.world.agree(max(self.folder.checkpoint_steps(), default=None))
        resumed = newest is not None
        if newest is not None:
            path = self.folder.checkpoint_file(newest)
            checkpoint = read_newest_checkpoint(self.folder, newest)
            self.provenance.check(checkpoint.state, str(path))
            check_weights(checkpoint.part("model"), self.config, self.store.schema, str(path))
            self.state.load(checkpoint, self.world.device)
        else:
            # Our own draws do not use torch's global generator; a user's layers may (dropout).
            torch.manual_seed(derive_seed(self.config.seed, "torch"))
            self.save()
        if self.state.step < self.config.steps:
            if self.world.leads:
                self.recipe  # noqa: B018 - made now, so that what is wrong with the data is said now
            self._record("start", {**self._circumstances(), "resumed": resumed})
        self.model.train()
        if self.world.size > 1 and self.state.step < self.config.steps:
            self._settle()
        self._window.reset()

    def _settle(self) -> None:
        """Let all processes compute once as in a step, without taking one."""
        blank = self.state.loader.dataset.blank(self.config.batch)
        with self.config.autocast(self.world.device):
            inputs = blank.to(self.world.device, self.config.dtype).inputs
            self.world.settle(self.network, inputs)

    def advance(self, batch: Batch) -> None:
        """A step, and what is due after it."""
        config = self.config
        self.take_step(batch)
        step, last = self.state.step, config.steps
        if is_due(step, config.log_every, last):
            self._report()
        validates = is_due(step, config.evaluate_every, last)
        every = config.checkpoint_every
        saves = is_due(step, every, last) if every else validates
        with self._window.paused():
            if validates:
                self.validate()
            if saves:
                self.save()

    def mean_loss(self) -> float | None:
        """Of the steps since the last report; None where there are none. Waits for the device."""
        return self._window.mean_loss()

    def _ends(self, stop: StopRequest) -> bool:
        """Whether to stop after this step; saves if a signal asks for it.

        All ranks decide alike: a signal may reach some of them a step earlier than others.
        """
        if self.state.step == self.config.steps:
            return True
        number = self.world.largest(stop.signal or 0)
        if number:
            stop.signal = Signals(number)
            self.save()
        return bool(number)

    def _report(self) -> None:
        """Record the means since the last report; stop a run with too many skipped steps."""
        step = self.state.step
        means = self._window.read(self.world.total)
        self.state.skipped += means.pop("skipped")
        row = {
            "step": step,
            **means,
            "learning_rate": learning_rate(step, self.config),
            "skipped": self.state.skipped,
            "peak_gb": self._peak_gb(),
            "kernels": self._kernels(),
        }
        self._record("train", row)
        if self.state.skipped > self.config.skip_limit:
            self.save()
            self._record("stop", {"step": step, "reason": "diverged"})
            raise TrainingStopped(
                f"the loss or its gradient was not finite in {self.state.skipped} steps up to"
                f" step {step}, more than skip_limit = {self.config.skip_limit}; the weights"
                " before them are in the newest checkpoint (a smaller optim.learning_rate or"
                " precision=fp32 may help)"
            )

    def _peak_gb(self) -> float | None:
        """Of the process that needs most; None without a GPU."""
        device = self.world.device
        if device.type != "cuda":
            return None
        return self.world.largest(torch.cuda.max_memory_allocated(device)) / 1e9

    def _kernels(self) -> str:
        """Which implementation of slice and deslice a step runs."""
        with self.config.autocast(self.world.device):
            return self.model.kernels

    def _trained(self, metric: dict[str, Any]) -> TrainedModel:
        provenance, schema = self.provenance, self.store.schema
        about = {"data_hash": provenance.data_hash, "split_hash": provenance.split_hash}
        return TrainedModel(
            self.model, schema, self.normaliser, self.config, metric, about, self.recipe
        )

    @cached_property
    def recipe(self) -> Recipe:
        """How the inputs of the model are made; it goes into the model file."""
        return make_recipe(self.store, self.config.data.points)

    def _circumstances(self) -> dict[str, Any]:
        """The step this process starts from, the device, kernels and data it runs with."""
        device, plugin = self.world.device, plugin_of(self.config.model.variant)
        warnings = constant_targets(self.store.manifest)
        initial = self._initial_values()
        return {
            "step": self.state.step,
            "device": device_name(device),
            "threads": torch.get_num_threads(),
            "processes": self.world.size,
            **({"mesh": self._mesh()} if self.world.points is not None else {}),
            "precision": self.config.precision,
            "kernels": self._kernels(),
            "launches": f"one by one: {self.one_by_one}" if self.one_by_one else "CUDA graph",
            "log_every": self.config.log_every,
            "parameters": self.model.parameter_count(),
            "commit": commit(),
            **({"plugin": asdict(plugin)} if plugin else {}),
            "data_hash": self.provenance.data_hash,
            "split_hash": self.provenance.split_hash,
            **({"warnings": warnings} if warnings else {}),
            **({"initial": initial} if initial else {}),
        }

    def _initial_values(self) -> list[str]:
        """Sentences on the model that this run starts from, and on what is frozen."""
        config, said = self.config, list[str]()
        if self.taken_over is not None and config.initial is not None:
            said += self.taken_over.sentences(config.initial)
        frozen = config.optim.frozen(name for name, _ in self.model.named_parameters())
        if frozen:
            said.append(f"{len(frozen)} parameters are frozen ({', '.join(config.optim.freeze)}).")
        return said

    def _mesh(self) -> dict[str, int]:
        return {"data": self.world.data.ranks, "points": self.world.part.ranks}

    def _record_once(self, kind: str, row: dict[str, Any]) -> None:
        """Record a row unless it is there already.

        A run may be killed after its last checkpoint and before, or after, it records its end.
        """
        if not any(row.items() <= record.items() for record in self.folder.history(kind)):
            self._record(kind, row)

    def _record(self, kind: str, row: dict[str, Any]) -> None:
        if not self.world.leads:
            return
        append_record(self.folder.records_file, kind, row)
        for listen in self.listeners:
            listen(kind, row)


def _finite(value: float) -> float | None:
    """None for NaN and infinities, which JSON does not have."""
    return value if math.isfinite(value) else None
