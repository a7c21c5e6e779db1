"""How long a step will take on a CPU: measured on a few points before the training begins."""

from __future__ import annotations

import time
from dataclasses import replace

import torch

from slipstream.core.runtime import generator
from slipstream.data.store import Schema
from slipstream.runs.config import RunConfig
from slipstream.runs.model_file import build_model

FIRST_POINTS = 512
ENOUGH_SECONDS = 0.3
"""A pass that takes this long is taken for proportional to its points."""


def step_seconds(config: RunConfig, schema: Schema, points: float) -> float:
    """Estimated seconds of a step with `points` points, all samples of its batch together.

    Forward and backward passes of a model of its own run on more and more random points, until
    there are `points` or a pass takes 0.3 s; the last one counts, in proportion to its points. The
    state of torch's random numbers stays as it is.
    """
    device, total = torch.device("cpu"), max(1, round(points))
    count = min(total, FIRST_POINTS)

    def one_pass() -> float:
        started = time.perf_counter()
        with config.autocast(device):
            coords = _random(count, schema.coord_dim, config)
            features = _random(count, schema.feature_dim, config) if schema.features else None
            prediction = model(coords, features)
        prediction.float().abs().mean().backward()
        return time.perf_counter() - started

    with torch.random.fork_rng(devices=()):  # which PyTorch's layers draw from when they are made
        model = build_model(config, schema).train()
        one_pass()  # which also starts threads and allocates
        while (seconds := one_pass()) < ENOUGH_SECONDS and count < total:
            count = min(total, 4 * count)
    return seconds * total / count


def fp32_seconds(config: RunConfig, schema: Schema, points: float) -> float | None:
    """The same in fp32 for a config in bf16; None for others.

    A CPU without bf16 units emulates them: one with AVX2 alone took 12.5 s where fp32 took 0.7.
    """
    if config.precision != "bf16":
        return None
    plain = replace(config, precision="fp32", stream_precision="fp32")
    return step_seconds(plain, schema, points)


def _random(count: int, width: int, config: RunConfig) -> torch.Tensor:
    values = torch.rand((1, count, width), generator=generator(0, "probe", width))
    return values.to(config.dtype)
