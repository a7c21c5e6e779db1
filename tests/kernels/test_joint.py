"""Query and values as halves of one tensor: the same numbers, and one gradient."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from slipstream.kernels import ops
from slipstream.kernels.api import couple, couple_halves
from slipstream.kernels.membership import Membership
from slipstream.kernels.pending import finished
from slipstream.kernels.plan import How
from slipstream.models.coupling import Coupling
from slipstream.models.layers import draw_initial_values
from slipstream.models.variants import Size, variant_named

from .parity import DEVICE

POINTS, HEADS, WIDTH = 37, 2, 16
HOW: How = {"impl": "fused", "precision": None}


def couplings(slices: int, impl: str, joined: bool) -> dict[str, Tensor]:
    """The output of a coupling, and the gradients of all that goes into it."""
    draw = torch.Generator().manual_seed(0)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw).to(DEVICE).requires_grad_()

    joint, weight = numbers(2, POINTS, 2, HEADS, WIDTH), numbers(slices, WIDTH)
    bias, temperature = numbers(HEADS, slices), torch.rand(HEADS, generator=draw) + 0.5
    temperature = temperature.to(DEVICE).requires_grad_()
    slots, how = (weight, bias, temperature), {"epsilon": 1e-5, "impl": impl}
    if joined:
        out, membership = couple_halves(joint, slots, torch.tanh, **how)  # type: ignore[arg-type]
    else:
        membership = Membership(joint[:, :, 0], *slots)
        out = couple(membership, joint[:, :, 1], torch.tanh, **how)  # type: ignore[arg-type]
    assert torch.equal(membership.query, joint[:, :, 0])
    out.square().sum().backward()
    leaves = {"joint": joint, "weight": weight, "bias": bias, "temperature": temperature}
    return {"out": out.detach(), **{n: t.grad for n, t in leaves.items() if t.grad is not None}}


@pytest.mark.parametrize(("slices", "impl"), [(16, "single-tile"), (5, "blocked"), (40, "blocked")])
def test_the_gradient_in_one_tensor_is_that_of_two_to_the_bit(slices: int, impl: str) -> None:
    apart, joined = (couplings(slices, impl, joined) for joined in (False, True))
    assert len(apart) == 5 and joined.keys() == apart.keys()
    assert all(torch.equal(joined[name], tensor) for name, tensor in apart.items())


def test_where_no_kernel_runs_it_makes_no_difference() -> None:
    apart, joined = (couplings(5, "reference", joined) for joined in (False, True))
    assert all(torch.equal(joined[name], tensor) for name, tensor in apart.items())


def test_without_triton_the_fallback_stacks_its_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = couplings(16, "single-tile", True)
    monkeypatch.setattr(ops, "_family_here", lambda *_: "chunked")
    chunked = couplings(16, "single-tile", True)
    for name, tensor in fused.items():
        torch.testing.assert_close(chunked[name], tensor, rtol=1e-4, atol=1e-4)


def test_operator_passes_opcheck() -> None:
    joint = torch.randn(1, 6, 2, HEADS, WIDTH, device=DEVICE, requires_grad=True)
    weight = torch.randn(16, WIDTH, device=DEVICE, requires_grad=True)
    temperature = torch.ones(HEADS, device=DEVICE, requires_grad=True)
    arguments = (joint, weight, None, temperature, None, "ieee", "single-tile")
    torch.library.opcheck(ops.joint_slice.registered, arguments)


class Doubled(Coupling):
    """A coupling of one's own, which changes what the one it is made of returns."""

    def forward(self, x: Tensor, previous: Membership | None = None) -> tuple[Tensor, Membership]:
        update, membership = super().forward(x, previous)
        return 2 * update, membership


def test_what_is_put_round_a_coupling_is_called() -> None:
    """Hooks of it and of its layers, and the `forward` of a class that is derived from it."""
    size = Size(layers=1, width=2 * WIDTH, heads=2, slices=16)
    x = torch.randn(1, 5, 2 * WIDTH, device=DEVICE)
    for place in ("", "query", "values", "output", "slice_slots"):
        coupling = Coupling(variant_named("baseline"), size, 0, HOW).to(DEVICE)
        draw_initial_values(coupling, 0)
        plain = finished(coupling.pending(x, None)[0])
        seen: list[int] = []
        coupling.get_submodule(place).register_forward_hook(lambda *_, seen=seen: seen.append(1))
        update, _ = coupling.pending(x, None)
        assert seen == [1] and isinstance(update, Tensor), place
        torch.testing.assert_close(update, plain, rtol=1e-4, atol=1e-6)
    doubled = Doubled(variant_named("baseline"), size, 0, HOW).to(DEVICE)
    draw_initial_values(doubled, 0)
    torch.testing.assert_close(doubled.pending(x, None)[0], 2 * plain, rtol=1e-4, atol=1e-6)
