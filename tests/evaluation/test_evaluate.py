from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from slipstream.data.batches import Batch
from slipstream.data.store import Field, Schema
from slipstream.evaluation.evaluate import sample_errors
from slipstream.metrics import relative_error

SCHEMA = Schema((Field("x"),), (Field("f"),), (Field("y"), Field("z")))


class Sum(nn.Module):
    def forward(self, coords: Tensor, features: Tensor | None) -> Tensor:
        extra = 0 if features is None else features
        return torch.cat((coords + extra, coords), -1)


def batches(schema: Schema = SCHEMA) -> list[Batch]:
    rows = torch.rand(5, 7, schema.width, generator=torch.Generator().manual_seed(0))
    return [
        Batch(rows[:3], schema, ("a", "b", "c"), normalised=True),
        Batch(rows[3:], schema, ("d", "e"), normalised=True),
    ]


def test_they_are_the_metric_sample_by_sample() -> None:
    errors = sample_errors(Sum(), batches(), SCHEMA.target_groups)
    assert list(errors.samples) == list("abcde") and errors.groups == ("y", "z")
    for batch in batches():
        for i, sample in enumerate(batch.samples):
            found = Sum()(batch.coords[i : i + 1], batch.features[i : i + 1])
            one = relative_error(found, batch.targets[i : i + 1], SCHEMA.target_groups)
            assert sum(errors.samples[sample]) / 2 == pytest.approx(one.item(), rel=1e-6)


def test_zero_targets_are_left_out_and_what_is_not_finite_stays() -> None:
    (first, second) = batches()
    first.rows[0, :, 2] = 0
    errors = sample_errors(Sum(), [first], SCHEMA.target_groups)
    assert errors.samples["a"][0] is None
    known = [row[0] for row in errors.samples.values() if row[0] is not None]
    assert errors.by_group()["y"] == pytest.approx(sum(known) / 2)
    second.rows[0, :, 0] = math.inf
    assert not math.isfinite(sample_errors(Sum(), [second], SCHEMA.target_groups).mean())


def test_a_store_without_features_and_the_mode_of_the_model() -> None:
    schema = Schema((Field("x"),), (), (Field("y"), Field("z")))
    model = Sum().train()
    assert math.isfinite(sample_errors(model, batches(schema), schema.target_groups).mean())
    assert model.training
