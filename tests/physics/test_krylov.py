"""Iteration against elimination, and what becomes of systems it is not made for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from slipstream.physics import krylov
from slipstream.physics.bodies import Body, draw_body, ellipsoid, place_apart, sphere, unit
from slipstream.physics.krylov import solve_gmres
from slipstream.physics.panels import influence_matrix
from slipstream.physics.triangles import join

DRAW = torch.Generator().manual_seed(0)
AHEAD = torch.tensor((1.0, 0.2, -0.1), dtype=torch.float64)


def distance(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / other.norm())


def two_close() -> tuple[Body, ...]:
    first, second = (draw_body(family, 0.1, DRAW) for family in ("wing", "car"))
    return place_apart(first, second, gap=0.05, direction=unit(AHEAD))


@pytest.mark.parametrize(
    "bodies",
    [(sphere(),), (ellipsoid((1.0, 0.3, 0.1)),), (draw_body("slender", 0.1, DRAW),), two_close()],
)
def test_bodies_are_solved_to_rounding_by_few_products(
    bodies: tuple[Body, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = join([body.mesh(5) for body in bodies])
    matrix, right = influence_matrix(mesh), -(mesh.normals @ AHEAD)
    expected = torch.linalg.solve(matrix, right)
    monkeypatch.setattr(torch.linalg, "solve", None)
    monkeypatch.setattr(krylov, "MOST", 40)
    found = solve_gmres(matrix, right)
    assert distance(found, expected) < 2e-12
    assert distance(matrix @ found, right) < 1.5e-13, "no worse than it thinks"


def test_iteration_gives_way_to_elimination(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shifting all by one place takes as many products as there are places."""
    shift = torch.eye(120, dtype=torch.float64).roll(1, 0)
    right = torch.zeros(120, dtype=torch.float64)
    right[0] = 2.0
    called = []
    eliminate = torch.linalg.solve
    monkeypatch.setattr(
        torch.linalg, "solve", lambda a, b: (called.append(len(b)), eliminate(a, b))[1]
    )
    assert torch.equal(solve_gmres(shift, right), shift.T @ right) and called == [120]
    small = torch.eye(60, dtype=torch.float64).roll(1, 0)
    assert distance(solve_gmres(small, right[:60]), small.T @ right[:60]) < 1e-14 and called == [
        120
    ]


def test_nothing_one_number_and_an_answer_at_once() -> None:
    one = torch.tensor([[4.0]], dtype=torch.float64)
    assert solve_gmres(one, torch.tensor([2.0], dtype=torch.float64)).tolist() == [0.5]
    assert solve_gmres(one, torch.zeros(1, dtype=torch.float64)).tolist() == [0.0]
    right = torch.arange(1.0, 9.0, dtype=torch.float64)
    assert torch.allclose(solve_gmres(2 * torch.eye(8, dtype=torch.float64), right), right / 2)


def test_what_has_no_solution_is_an_error_as_before() -> None:
    nothing = torch.zeros(4, 4, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="singular"):
        solve_gmres(nothing, torch.ones(4, dtype=torch.float64))
