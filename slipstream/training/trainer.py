"""The simplest honest trainer: samples in memory, AdamW, warm-up, cosine decay, relative L1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from slipstream.core.checks import check_at_least, check_whole
from slipstream.core.runtime import generator
from slipstream.core.shapes import Float
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


@dataclass(frozen=True, eq=False)
class Samples:
    """Normalised samples of equally many points, all in memory."""

    coords: Float[Tensor, "S N d"]
    features: Float[Tensor, "S N f"]
    targets: Float[Tensor, "S N k"]

    def __len__(self) -> int:
        return len(self.coords)

    def __getitem__(self, index: Tensor | slice) -> Samples:
        return Samples(self.coords[index], self.features[index], self.targets[index])

    def to(self, device: torch.device) -> Samples:
        return Samples(self.coords.to(device), self.features.to(device), self.targets.to(device))


def fit(
    model: nn.Module,
    samples: Samples,
    groups: Groups,
    config: TrainConfig,
    on_step: Callable[[float], None] = lambda loss: None,
) -> None:
    """Train `model` in place; `on_step` receives the loss of every step.

    Raises FloatingPointError when a loss is not finite: such a run says nothing.
    """
    optimizer = make_optimizer(model, config)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate_factor(step, config)
    )
    model.train()
    for step, index in zip(range(config.steps), shuffled(len(samples), config), strict=False):
        batch = samples[index.to(samples.coords.device)]
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
def validate(
    model: nn.Module, samples: Samples, groups: Groups, batch: int = 16
) -> MeanRelativeError:
    """The relative L1 error over all samples."""
    error = MeanRelativeError(groups)
    model.eval()
    for start in range(0, len(samples), batch):
        part = samples[slice(start, start + batch)]
        error.update(model(part.coords, part.features), part.targets)
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


def shuffled(samples: int, config: TrainConfig) -> Iterator[Tensor]:
    """Batches of sample indices without end, a new order each epoch, from the seed alone."""
    batch = min(config.batch, samples)
    epoch = 0
    while True:
        order = torch.randperm(samples, generator=generator(config.seed, "epoch", epoch))
        for start in range(0, samples - batch + 1, batch):
            yield order[start : start + batch]
        epoch += 1
