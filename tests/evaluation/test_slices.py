from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from slipstream.evaluation import slices
from slipstream.evaluation.slices import chunked_weights, layer_slices, match_slices, probing
from slipstream.kernels.membership import Membership
from slipstream.kernels.reference import weights
from slipstream.models.transolver import Transolver
from slipstream.models.variants import VARIANTS, Size

SIZE = Size(layers=3, width=8, heads=2, slices=4)


def membership(points: int = 50, bias: torch.Tensor | None = None) -> Membership:
    draw = torch.Generator().manual_seed(0)
    return Membership(
        torch.randn(1, points, 2, 4, generator=draw),
        torch.randn(6, 4, generator=draw),
        torch.zeros(6) if bias is None else bias,
        torch.tensor([0.5, 2.0]),
    )


def test_the_numbers_are_those_of_the_weights_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = membership()
    whole = weights(made)[0].double()  # H N G
    monkeypatch.setattr(slices, "CHUNK", 7)
    found = layer_slices("here", made)
    entropy = -(whole * whole.log()).sum(-1).mean(-1)
    mean = whole.mean(1)
    assert found.entropy == pytest.approx(entropy.tolist(), rel=1e-5)
    assert found.effective == pytest.approx((-(mean * mean.log()).sum(-1)).exp().tolist(), rel=1e-5)
    assert found.temperature == (0.5, 2.0) and found.dead == (0, 0)
    parts = list(chunked_weights(made))
    assert [len(part) for part in parts] == [7] * 7 + [1]
    torch.testing.assert_close(torch.cat(parts).transpose(0, 1), weights(made)[0])


def test_uniform_and_dead_slices() -> None:
    made = membership(bias=torch.tensor([0.0, 0, 0, 0, 0, -1e4]))
    flat = Membership(0 * made.query, made.slot_weight, made.slot_bias, made.temperature)
    found = layer_slices("here", flat)
    little = 0.5 * math.log(0.05)  # a hundredth of all weight: rare, but not dead
    biases = torch.tensor([0, 0, 0, 0, 0, little])
    rare = replace(flat, slot_bias=biases, temperature=torch.tensor([0.5, 0.5]))
    assert layer_slices("here", rare).dead == (0, 0)
    assert found.entropy == pytest.approx([math.log(5)] * 2)
    assert found.effective == pytest.approx([5.0, 5.0]) and found.dead == (1, 1)
    assert found.largest_entropy == math.log(6)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_shows_the_memberships_it_slices_by(variant: str) -> None:
    model = Transolver(3, 1, 2, variant, size=SIZE)
    with probing(model, points=5) as probe, torch.no_grad():
        model(torch.rand(1, 9, 3), torch.rand(1, 9, 1))
    names = list(probe.layers)
    if variant.startswith("mlp"):
        assert not names and probe.weights is None
        return
    expected = {
        "frozen-slice": ["blocks.0.coupling.slice_slots"],
        "frozen-slice-no-token-attention": ["blocks.0.coupling.slice_slots"],
        "slice-once": ["once.slots"],
        "untied-ln": [f"blocks.{i}.coupling.deslice_slots" for i in range(3)],
    }
    each = [f"blocks.{i}.coupling.slice_slots" for i in range(3)]
    assert names == expected.get(variant, each)
    assert probe.weights is not None and probe.weights.shape[0] == 5
    torch.testing.assert_close(probe.weights.sum(-1), torch.ones(probe.weights.shape[:2]))


def test_nothing_stays_behind_on_the_model() -> None:
    model = Transolver(3, 0, 1, size=SIZE)
    with probing(model) as probe:
        pass
    model(torch.rand(1, 9, 3))
    assert not probe.layers
    assert not any(module._forward_hooks for module in model.modules())


def test_matching_undoes_a_permutation() -> None:
    draw = np.random.default_rng(0)
    functions = draw.random((200, 6))
    order = draw.permutation(6)
    found = match_slices(functions, 3 * functions[:, order] + 0.01 * draw.random((200, 6)))
    assert {(m.first, m.second) for m in found} == {(int(o), i) for i, o in enumerate(order)}
    assert [m.similarity for m in found] == sorted((m.similarity for m in found), reverse=True)
    assert all(0.99 < m.similarity <= 1 + 1e-12 for m in found)


def test_matching_takes_the_best_sum_and_not_the_best_pair() -> None:
    """Greedy would pair 0 with 0 (1.0), and leave 1 with 1 (0.0)."""
    first = np.array([[1.0, 0.8], [0.0, 0.6]])
    second = np.array([[0.9, 1.0], [math.sqrt(1 - 0.81), 0.0]])
    pairs = {(m.first, m.second) for m in match_slices(first, second)}
    assert pairs == {(0, 1), (1, 0)}


def test_a_slice_that_is_zero_everywhere_matches_nothing() -> None:
    found = match_slices(np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 1.0], [0.0, 1.0]]))
    assert found[-1].similarity == 0


def test_functions_of_other_points_are_refused() -> None:
    with pytest.raises(ValueError, match="same points, got 3 and 4 points"):
        match_slices(np.ones((3, 2)), np.ones((4, 2)))
