"""The training of one run, as a loop that reads like the protocol.

    trainer = Trainer(config, store, RunFolder("runs/a"), World(device))
    outcome = trainer.run()

Everything that the result follows from is in the config, the store and the checkpoint: a run that
is killed at any moment and started again ends with the same weights, bit for bit, on the same kind
of device (and, on a CPU, with as many threads).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from slipstream.core.errors import TrainingStopped
from slipstream.core.records import append_record
from slipstream.core.runtime import commit, derive_seed, device_name
from slipstream.data.batches import Batch, endless, make_normaliser
from slipstream.data.store import Store, data_hash, split_hash
from slipstream.evaluation.evaluate import sample_errors
from slipstream.runs.checkpoint import read_checkpoint, weights_hash, write_checkpoint
from slipstream.runs.config import RunConfig, is_due
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import TrainedModel, build_model, write_model
from slipstream.training.data import once, prepared, training_loader, validation_loader
from slipstream.training.distributed import World
from slipstream.training.losses import loss_of
from slipstream.training.memory import describing_memory
from slipstream.training.optim import (
    learning_rate,
    make_optimizer,
    set_learning_rate,
    update,
)
from slipstream.training.replay import Replayed, why_not_replayed
from slipstream.training.signals import StopRequest, stop_requests
from slipstream.training.sinks import Listener
from slipstream.training.state import Setting, TrainState
from slipstream.training.window import Window


@dataclass(frozen=True)
class Outcome:
    step: int
    reason: Literal["finished", "interrupted"]
    best: dict[str, Any] | None
    """Step, error and by_group of the best validation; None without one."""
    signal: int | None = None
    """That interrupted it."""


class Trainer:
    """All that trains one model. The parts are public, to be looked at and taken out."""

    def __init__(
        self,
        config: RunConfig,
        store: Store,
        folder: RunFolder,
        world: World,
    ) -> None:
        self.config, self.store, self.folder, self.world = config, store, folder, world
        self.listeners: Sequence[Listener] = ()
        """Told every record, on the rank that leads."""
        self.groups = store.schema.target_groups
        self.normaliser = make_normaliser(
            store.schema, store.statistics, coord_scale=config.data.coord_scale
        )
        self.setting = Setting(config, data_hash(store), split_hash(store), world.size)
        self.validation = validation_loader(store, config, world.rank, world.size)
        self.model = build_model(config, store.schema).to(world.device)
        self.state = TrainState(
            self.model,
            make_optimizer(self.model, config.optim),
            training_loader(store, config, world.rank, world.size),
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

    def run(self) -> Outcome:
        """Train from the newest checkpoint, or from the start, to the last step or a signal.

        Raises TrainingStopped where losses or gradients are not finite too often, or the device's
        memory is too small.
        """
        last = self.config.steps
        with stop_requests() as stop, describing_memory(self.config, self.world.device):
            self._begin()
            if self.state.step < last:
                for batch in endless(self.state.loader):
                    self.advance(batch)
                    if self._ends(stop):
                        break
        step, best = self.state.step, self.state.best
        if step == last:
            self._record_once("stop", {"step": step, "reason": "finished"})
            return Outcome(step, "finished", best)
        self._record("stop", {"step": step, "reason": "interrupted"})
        return Outcome(step, "interrupted", best, stop.signal)

    def take_step(self, batch: Batch) -> None:
        """One step of the protocol; nothing in it waits for the device."""
        self.state.step += 1
        set_learning_rate(self.state.optimizer, learning_rate(self.state.step, self.config))
        self._launch(batch)
        self._window.count(batch.rows.shape[0] * batch.rows.shape[1])

    def _launch_one(self, batch: Batch) -> None:
        self._step_on_device(batch.to(self.world.device, self.config.dtype))

    def _step_on_device(self, batch: Batch) -> None:
        """All that the device does in a step."""
        config = self.config
        batch = batch.normalise(self.normaliser)
        with config.autocast(self.world.device):
            prediction = self.network(*batch.inputs)
        loss = loss_of(config.optim.loss, prediction, batch.targets, self.groups)
        self.state.optimizer.zero_grad()
        loss.backward()
        loss = self.world.mean(loss.detach())
        norm, skipped = update(self.model, self.state.optimizer, loss, config.optim.clip)
        self._window.add(loss, norm, skipped)

    def validate(self) -> dict[str, Any]:
        """The errors on the validation split, without autocast; writes the best model so far."""
        given = self.normaliser, self.world.device, self.config.dtype
        batches = (prepared(batch, *given) for batch in once(self.validation))
        mine = sample_errors(self.model, batches, self.groups)
        errors = self.world.gather(mine)
        error = errors.mean()
        best = self.state.best
        found: dict[str, Any] = {
            "step": self.state.step,
            "error": _finite(error),
            "by_group": {name: _finite(value) for name, value in errors.by_group().items()},
        }
        is_best = math.isfinite(error) and (best is None or error < best["error"])
        weights = weights_hash(dict(self.model.named_parameters()))
        if is_best:
            self.state.best = found
            if self.world.leads:
                write_model(self.folder.model_file, self._trained(found))
        self._record("validation", {**found, "best": is_best, "weights": weights})
        return found

    def save(self) -> None:
        """Write a checkpoint of this moment."""
        self.state.skipped += self._window.take_skipped()
        if self.world.leads:
            step = self.state.step
            found = self.state.to_checkpoint(self.setting, self.world.device)
            write_checkpoint(self.folder.checkpoint_file(step), found)
            weights = weights_hash(found.part("model"))
            self._record("checkpoint", {"step": step, "weights": weights})
            self.folder.prune_checkpoints(self.config.keep)
        self.world.wait()

    def _begin(self) -> None:
        if self.world.leads:
            self.folder.drop_partial_files()
        # what a rank finds by itself may be the checkpoint that another is writing just now
        newest = self.world.agree(max(self.folder.checkpoint_steps(), default=None))
        resumed = newest is not None
        if newest is not None:
            path = self.folder.checkpoint_file(newest)
            checkpoint = read_checkpoint(path)
            self.setting.check(checkpoint.state, str(path))
            self.state.load(checkpoint, self.world.device)
        else:
            torch.manual_seed(derive_seed(self.config.seed, "torch"))  # for whoever draws from it
            self.save()
        if self.state.step < self.config.steps:
            self._record("start", {**self._circumstances(), "resumed": resumed})
        self.model.train()
        self._window.reset()

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

    def _ends(self, stop: StopRequest) -> bool:
        """Whether to stop here, having saved. The ranks must agree, which they do when they log."""
        step, last = self.state.step, self.config.steps
        if step == last:
            return True
        if self.world.size > 1:
            wanted = is_due(step, self.config.log_every, last) and self.world.any(bool(stop))
        else:
            wanted = bool(stop)
        if wanted:
            self.save()
        return wanted

    def _report(self) -> None:
        """Read what was gathered on the device and record it; give up on a run that broke down."""
        step = self.state.step
        found = self._window.read()
        self.state.skipped += found.pop("skipped")
        row = {
            "step": step,
            **found,
            "learning_rate": learning_rate(step, self.config),
            "skipped": self.state.skipped,
            "peak_gb": _peak_gb(self.world.device),
            "kernels": self._kernels(),
        }
        row["points_per_second"] *= self.world.size
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

    def _kernels(self) -> str:
        """Which implementation of slice and deslice a step runs."""
        with self.config.autocast(self.world.device):
            return self.model.kernels

    def _trained(self, metric: dict[str, Any]) -> TrainedModel:
        setting, schema = self.setting, self.store.schema
        about = {"data_hash": setting.data_hash, "split_hash": setting.split_hash}
        return TrainedModel(self.model, schema, self.normaliser, self.config, metric, about)

    def _circumstances(self) -> dict[str, Any]:
        """Where this process goes on from, on what, with what."""
        device = self.world.device
        return {
            "step": self.state.step,
            "device": device_name(device),
            "threads": torch.get_num_threads(),
            "processes": self.world.size,
            "precision": self.config.precision,
            "kernels": self._kernels(),
            "launches": f"one by one: {self.one_by_one}" if self.one_by_one else "CUDA graph",
            "log_every": self.config.log_every,
            "parameters": self.model.parameter_count(),
            "commit": commit(),
            "data_hash": self.setting.data_hash,
            "split_hash": self.setting.split_hash,
        }

    def _record_once(self, kind: str, row: dict[str, Any]) -> None:
        """Unless it is there: a run may be killed between its last checkpoint and its end."""
        if not any(row.items() <= found.items() for found in self.folder.history(kind)):
            self._record(kind, row)

    def _record(self, kind: str, row: dict[str, Any]) -> None:
        if not self.world.leads:
            return
        append_record(self.folder.records_file, kind, row)
        for listen in self.listeners:
            listen(kind, row)


def _finite(value: float) -> float | None:
    """JSON has no NaN."""
    return value if math.isfinite(value) else None


def _peak_gb(device: torch.device) -> float | None:
    if device.type != "cuda":
        return None
    return torch.cuda.max_memory_allocated(device) / 1e9
