"""The state of a training, to a checkpoint and back: all that the next step depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from slipstream.core.schemas import parsed
from slipstream.data.batches import Loader
from slipstream.runs.checkpoint import Checkpoint
from slipstream.runs.config import RunConfig, check_same
from slipstream.training.optim import load_optimizer, optimizer_tensors


@dataclass(frozen=True)
class Provenance:
    """The config, data and number of processes that a checkpoint belongs to."""

    config: RunConfig
    data_hash: str
    split_hash: str
    processes: int

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "config": self.config.to_json()}

    def check(self, state: Mapping[str, Any], where: str) -> None:
        """Raise ValueError where a checkpoint is of another config, other data or other ranks."""
        check_same(parsed(RunConfig, state["config"], place="config"), self.config, where)
        for name, what in (("data_hash", "samples"), ("split_hash", "splits")):
            saved, now = state[name], getattr(self, name)
            if saved != now:
                raise ValueError(
                    f"the store must have the {what} that {where} was trained on (hash"
                    f" {saved[:12]}), got others ({now[:12]})"
                )
        if state["processes"] != self.processes:
            raise ValueError(
                f"the number of processes must be that of {where}, {state['processes']}, got"
                f" {self.processes}"
            )


@dataclass
class TrainState:
    model: nn.Module
    optimizer: torch.optim.AdamW
    loader: Loader
    step: int = 0
    best: dict[str, Any] | None = None
    """Step, error and by_group of the best validation."""
    skipped: int = 0
    """Steps whose loss or gradient was not finite."""

    def to_checkpoint(self, provenance: Provenance, device: torch.device) -> Checkpoint:
        state = {
            "step": self.step,
            "best": self.best,
            "skipped": self.skipped,
            "loader": self.loader.state_dict(),
            **provenance.to_json(),
        }
        parts: dict[str, Mapping[str, Tensor]] = {
            "model": dict(self.model.named_parameters()),
            "optimizer": optimizer_tensors(self.model, self.optimizer),
            "rng": _random_states(device),
        }
        tensors = {f"{part}.{k}": v for part, group in parts.items() for k, v in group.items()}
        return Checkpoint(state, tensors)

    def load(self, checkpoint: Checkpoint, device: torch.device) -> None:
        self.model.load_state_dict(checkpoint.part("model"))
        if checkpoint.part("optimizer"):  # it has no state before the first step
            load_optimizer(self.model, self.optimizer, checkpoint.part("optimizer"))
        self.loader.load_state_dict(checkpoint.state["loader"])
        _set_random_states(checkpoint.part("rng"), device)
        self.step = checkpoint.step
        self.best, self.skipped = checkpoint.state["best"], checkpoint.state["skipped"]


def _random_states(device: torch.device) -> dict[str, Tensor]:
    """The states of torch's generators. Our own draws do not use them; an extension's may."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def _set_random_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    now = torch.get_rng_state()
    saved = states.get("cpu")
    if saved is None or saved.dtype != now.dtype or saved.shape != now.shape:
        raise ValueError("rng.cpu of the checkpoint must be the state of a generator, got another")
    torch.set_rng_state(saved)
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
