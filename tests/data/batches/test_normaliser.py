from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from slipstream.data.batches import Normaliser, make_normaliser
from slipstream.data.batches.normaliser import Affine
from slipstream.data.store import Field, Schema
from slipstream.data.store.statistics import statistics_of

from ..samples import SCHEMA


def _rows() -> NDArray[np.float32]:
    draw = np.random.default_rng(0)
    rows = draw.normal(5, 3, (4000, 11)).astype(np.float32)
    rows[:, :3] = draw.uniform([-1, -2, 0], [7, 2, 1], (4000, 3))
    rows[:, 6] = 1.2041
    rows[:, 7] += 101325
    return rows


def test_features_and_targets_are_standardised() -> None:
    rows = _rows()
    normaliser = make_normaliser(SCHEMA, statistics_of([rows]))
    found = normaliser.rows.forward(torch.tensor(rows).double())
    varying = [3, 4, 5, 7, 8, 9, 10]
    torch.testing.assert_close(found[:, varying].mean(0), torch.zeros(7).double())
    torch.testing.assert_close(found[:, varying].std(0, correction=0), torch.ones(7).double())


def test_a_constant_channel_becomes_zero_and_comes_back() -> None:
    rows = _rows()
    rows[::2, 6] = np.nextafter(rows[0, 6], 2)  # constant but for rounding
    normaliser = make_normaliser(SCHEMA, statistics_of([rows]))
    found = normaliser.features.forward(torch.tensor(rows[:, 3:7]))
    assert found[:, 3].abs().max() < 1e-6
    assert torch.allclose(normaliser.features.inverse(found)[:, 3], torch.tensor(rows[:, 6]))


@pytest.mark.parametrize(
    ("scale", "extent"), [("common", (1.0, 0.5, 0.125)), ("per-axis", (1.0, 1.0, 1.0))]
)
def test_coordinates_fill_the_box(scale: str, extent: tuple[float, ...]) -> None:
    rows = _rows()
    normaliser = make_normaliser(SCHEMA, statistics_of([rows]), coord_scale=scale)  # type: ignore[arg-type]
    found = normaliser.coords.forward(torch.tensor(rows[:, :3]))
    torch.testing.assert_close(found.amax(0), torch.tensor(extent), rtol=1e-2, atol=0)
    torch.testing.assert_close(-found.amin(0), found.amax(0), rtol=1e-5, atol=1e-6)


def test_a_flat_coordinate() -> None:
    rows = np.zeros((5, 11), np.float32)
    normaliser = make_normaliser(SCHEMA, statistics_of([rows]), coord_scale="per-axis")
    assert normaliser.rows.scale == (1.0,) * 11


def test_no_features() -> None:
    rows = np.ones((5, 2), np.float32)
    schema = Schema((Field("x"),), (), (Field("p"),))
    found = make_normaliser(schema, statistics_of([rows])).features.forward(torch.ones(1, 5, 0))
    assert found.shape == (1, 5, 0)


def test_there_and_back(draw: torch.Generator) -> None:
    normaliser = make_normaliser(SCHEMA, statistics_of([_rows()]))
    x = torch.rand(2, 7, 4, generator=draw)
    y = normaliser.targets.forward(normaliser.targets.inverse(x))
    torch.testing.assert_close(y, x, rtol=0, atol=101325 * 2**-23)
    assert y.dtype == torch.float32
    assert Normaliser.from_json(json.loads(json.dumps(normaliser.to_json()))) == normaliser


def test_what_is_refused(no_shape_checks: None) -> None:
    with pytest.raises(ValueError, match="scale must be positive"):
        Affine((0.0,), (0.0,))
    with pytest.raises(ValueError, match="scale must have 2 numbers like shift, got 1"):
        Affine((0.0, 1.0), (1.0,))
    with pytest.raises(ValueError, match="the last axis must have size 2, got 3"):
        Affine((0.0, 1.0), (1.0, 1.0)).forward(torch.zeros(5, 3))
    with pytest.raises(ValueError, match="coord_scale must be one of common, per-axis, got 'each'"):
        make_normaliser(SCHEMA, statistics_of([_rows()]), coord_scale="each")  # type: ignore[arg-type]
