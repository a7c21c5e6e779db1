from __future__ import annotations

import torch

from slipstream.physics import surface
from slipstream.physics.bodies import icosphere, unit


def test_which_centroids_are_fitted_does_not_depend_on_rounding() -> None:
    """One in ten has several equally near twelfth neighbours: without a rule, rounding decides."""
    centres = unit(icosphere(10).centroids)
    found = surface._nearest(centres, 12)
    assert (found[:, 0] == torch.arange(len(centres))).all()
    draw = torch.Generator().manual_seed(0)
    shaken = centres + 1e-14 * torch.randn(centres.shape, generator=draw, dtype=torch.float64)
    assert torch.equal(surface._nearest(shaken, 12), found)

    def plain(points: torch.Tensor) -> torch.Tensor:
        return torch.cdist(points, points).topk(12, largest=False).indices.sort(1).values

    assert not torch.equal(plain(shaken), plain(centres)), "or this test would show nothing"


def test_the_nearest_of_few_points_are_all_of_them() -> None:
    points = torch.eye(3, dtype=torch.float64)
    assert surface._nearest(points, 12).sort(1).values.tolist() == [[0, 1, 2]] * 3
