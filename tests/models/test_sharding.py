"""One sample's points over the ranks of a process group: outputs and gradients as of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from slipstream import Transolver, register_variant
from slipstream.kernels.membership import TokenSums
from slipstream.models import Size, SteppedCoupling, Variant
from slipstream.models.sharding import shard_points

from ..ranks import in_ranks
from .sharded import check_variants

MEAN_POOL = Path(__file__).parents[2] / "examples" / "mean_pool.py"


@pytest.mark.untraced
def test_shards_are_one_model(tmp_path: Path) -> None:
    """Two and three ranks; even, uneven and empty shards; fp64, fp32, bf16; compiled, streamed."""
    in_ranks(3, tmp_path, check_variants, str(MEAN_POOL))


class WholeCloud(nn.Module):
    """A coupling without steps: it must see all points at once."""

    def __init__(self, size: Size, layer: int, how: object) -> None:
        super().__init__()
        self.values = nn.Linear(size.width, size.width, bias=False)

    def forward(self, x: Tensor, previous: Any) -> tuple[Tensor, None]:
        return self.values(x).mean(1, keepdim=True).expand_as(x), None


class OwnForward(SteppedCoupling):
    """One with steps that does not let `SteppedCoupling.forward` take them."""

    def __init__(self, size: Size, layer: int, how: object) -> None:
        super().__init__()
        self.values = nn.Linear(size.width, size.width, bias=False)

    def forward(self, x: Tensor, previous: Any = None) -> tuple[Tensor, None]:
        return self.values(x), None


@pytest.mark.parametrize("coupling", [WholeCloud, OwnForward])
def test_a_coupling_that_keeps_its_sums_to_itself_is_refused(
    no_shape_checks: None, registry: None, coupling: Any
) -> None:
    def structure(size: Size, layer: int) -> dict[str, tuple[int, ...]]:
        return {"values.weight": (size.width, size.width)}

    register_variant(Variant("own-way", "made up", coupling=coupling, structure=structure))
    model = Transolver(3, 0, 1, "own-way", size=Size(layers=1, width=8, heads=2, slices=3))
    message = "the coupling of variant 'own-way' must be a SteppedCoupling with the forward of that"
    with pytest.raises(ValueError, match=message):
        shard_points(model, object())  # type: ignore[arg-type]
    assert not model.may_be_empty and model(torch.rand(1, 5, 3)).shape == (1, 5, 1)


def test_sums_are_completed_once_and_before_the_division() -> None:
    """One process stands in for two with the same points: sums twice as large, equal outputs."""
    model = Transolver(3, 0, 1, size=Size(layers=2, width=8, heads=2, slices=3)).double()
    coords = torch.rand(2, 7, 3, dtype=torch.float64)

    def twice(sums: TokenSums) -> TokenSums:
        return sums + sums

    for block in model.blocks:
        block.coupling.complete_sums = twice  # type: ignore[union-attr]
    doubled = model(coords)
    for block in model.blocks:
        del block.coupling.complete_sums  # type: ignore[union-attr]
    torch.testing.assert_close(model(coords.repeat(1, 2, 1))[:, :7], doubled)
