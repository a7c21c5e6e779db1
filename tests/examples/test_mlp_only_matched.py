"""examples/mlp_only_matched.py: as many parameters as the baseline, and pointwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from slipstream import Size, Transolver
from slipstream.models import load_plugin

EXAMPLE = Path(__file__).parents[2] / "examples" / "mlp_only_matched.py"
SMALL = Size(layers=2, width=64, heads=4, slices=16)

pytestmark = pytest.mark.usefixtures("registry")


def count(size: Size, variant: str) -> int:
    return Transolver(3, 5, 4, variant=variant, size=size, seed=0).parameter_count()


@pytest.mark.parametrize(
    ("size", "tolerance"),
    [*((replace(SMALL, layers=layers), 0.003) for layers in (2, 8)), (Size(layers=4), 0.0005)],
)
def test_it_has_as_many_parameters_as_the_baseline(size: Size, tolerance: float) -> None:
    load_plugin(EXAMPLE)
    base = count(size, "baseline")
    assert count(size, "mlp-only-matched") == pytest.approx(base, rel=tolerance)
    wide = count(size, "mlp-only-wide") / base
    assert abs(wide - 1) > 0.05, "the wide one is no match"


def test_what_it_answers_at_a_point_depends_on_that_point_alone() -> None:
    load_plugin(EXAMPLE)
    model = Transolver(3, 1, 2, variant="mlp-only-matched", size=SMALL, seed=0)
    draw = torch.Generator().manual_seed(0)
    coords, features = torch.rand(1, 9, 3, generator=draw), torch.rand(1, 9, 1, generator=draw)
    whole = model(coords, features)
    alone = model(coords[:, 4:5], features[:, 4:5])
    torch.testing.assert_close(whole[:, 4:5], alone)
    assert not torch.allclose(whole[:, 4], whole[:, 5])
