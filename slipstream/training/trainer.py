"""The simplest honest trainer: batches of a store, AdamW, warm-up, cosine decay, relative L1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from slipstream.core.checks import check_at_least, check_whole
from slipstream.data.batches import Batch, PointDataset
from slipstream.data.loader import Loader, Share
from slipstream.data.normalize import make_normaliser
from slipstream.data.store import Store
from slipstream.metrics import Groups, MeanRelativeError, relative_error


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The paper's protocol, but for the number of steps and the batch."""

    steps: int
    batch: int = 4
    learning_rate: float = 1e-3
    warmup: float = 0.01
    """Share of the steps over which the learning rate rises linearly."""
    weight_decay: float = 5e-5
    """On matrices only: not on biases, norms, temperatures and the placeholder."""
    clip: float = 5.0
    """Largest norm of the gradient."""
    seed: int = 0
    """Order of the samples."""

    def __post_init__(self) -> None:
        check_whole("steps", self.steps, 1)
        check_whole("batch", self.batch, 1)
        check_at_least("learning_rate", self.learning_rate, 0)
        check_at_least("warmup", self.warmup, 0)


def training_batches(store: Store, config: TrainConfig, device: torch.device) -> Iterator[Batch]:
    """Normalised batches of the split "train", all points of a sample, without end: a new order
    each epoch, from the seed alone."""
    dataset = PointDataset(store, "train", seed=config.seed)
    loader = Loader(dataset, Share(batch_size=config.batch))
    normaliser = make_normaliser(store.schema, store.statistics)
    while True:
        for batch in loader:
            yield batch.to(device).normalise(normaliser)


def evaluation_batches(
    store: Store, split: str, device: torch.device, batch: int = 16
) -> Iterator[Batch]:
    """Every sample of a split once, normalised as in training."""
    share = Share(batch_size=batch, shuffle=False, even=False)
    normaliser = make_normaliser(store.schema, store.statistics)
    for part in Loader(PointDataset(store, split), share):
        yield part.to(device).normalise(normaliser)


def fit(
    model: nn.Module,
    batches: Iterable[Batch],
    groups: Groups,
    config: TrainConfig,
    on_step: Callable[[float], None] = lambda loss: None,
) -> None:
    """Train `model` in place on normalised batches, one a step; `on_step` receives every loss.

    Raises FloatingPointError when a loss is not finite: such a run says nothing.
    """
    optimizer = make_optimizer(model, config)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate_factor(step, config)
    )
    model.train()
    for step, batch in zip(range(config.steps), batches, strict=False):
        prediction = model(batch.coords, batch.features)
        loss = relative_error(prediction, batch.targets, groups, check_values=False)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()
        schedule.step()
        value = loss.item()
        if not math.isfinite(value):
            raise FloatingPointError(f"the loss of step {step + 1} is {value}")
        on_step(value)


@torch.no_grad()
def validate(model: nn.Module, batches: Iterable[Batch], groups: Groups) -> MeanRelativeError:
    """The relative L1 error over all samples of the batches."""
    error = MeanRelativeError(groups)
    model.eval()
    for batch in batches:
        error.update(model(batch.coords, batch.features), batch.targets)
    return error


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    return torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": config.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=config.learning_rate,
    )


def learning_rate_factor(step: int, config: TrainConfig) -> float:
    """Linear warm-up, then a cosine to zero at the last step."""
    warmup = max(1, round(config.warmup * config.steps))
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / max(1, config.steps - warmup)
    return 0.5 * (1 + math.cos(math.pi * progress))
