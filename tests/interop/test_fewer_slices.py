"""Slices that are dead or doubled on purpose: taking them out changes nothing."""

from __future__ import annotations

import math
from typing import cast

import pytest
import torch
from torch import Tensor

from slipstream.interop.fewer_slices import Limits, fewer_slices
from slipstream.interop.slot_use import slot_uses
from slipstream.interop.token_maps import Clouds, fit_token_maps, without_attention
from slipstream.kernels import reference
from slipstream.models import Constants
from slipstream.models.coupling import Coupling
from slipstream.models.layers import Slots, split_heads
from slipstream.models.transolver import Transolver
from slipstream.models.variants import Size

SIZE = Size(layers=3, width=16, heads=2, slices=8)
VARIANTS = ("baseline", "untied", "frozen-slice")
LIMITS = Limits(drop_unused=1e-3, merge_alike=1 - 1e-6)
EXACT = Constants(epsilon=1e-12)
"""With 1e-5 beside masses of 50, a doubled slice has tokens that are 1e-7 smaller than a whole."""


class Cloud:
    def __init__(self, draw: torch.Generator, dtype: torch.dtype) -> None:
        points = torch.randn(1, 500, 3, generator=draw, dtype=torch.float64)
        self.inputs = (points.to(dtype), None)


def made_clouds(draw: torch.Generator, dtype: torch.dtype = torch.float64) -> Clouds:
    clouds = [Cloud(draw, dtype) for _ in range(2)]
    return lambda: clouds  # type: ignore[return-value]


def model_of(variant: str, draw: torch.Generator, constants: Constants = EXACT) -> Transolver:
    """In every layer slice 2 is dead, and 5 and 7 double 1 in the proportions 1, 1 and 3; the
    numbers are one larger in each layer than in the layer before."""
    model = Transolver(3, 0, 2, variant, size=SIZE, constants=constants).double()
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
            parameter.add_(0.3 * noise if parameter.ndim > 1 else 0.05 * noise)
        for _, layer, slots in all_slots(model):
            slots.temperature.fill_(0.7)
            assert slots.bias is not None
            one, dead, *doubles = (moved(number, layer) for number in (1, 2, 5, 7))
            slots.bias[dead] = -100
            for double, times in zip(doubles, (1, 3), strict=True):
                slots.weight[double] = slots.weight[one]
                slots.bias[double] = slots.bias[one] + 0.7 * math.log(times)
    return model


def moved(number: int, layer: int) -> int:
    return (number + layer) % SIZE.slices


def all_slots(model: Transolver) -> list[tuple[str, int, Slots]]:
    """Name, layer and module."""
    return [
        (name, int(name.split(".")[1]), module)
        for name, module in model.named_modules()
        if isinstance(module, Slots)
    ]


def slimmed(model: Transolver, clouds: Clouds, limits: Limits | None) -> tuple[Tensor, int]:
    """Outputs without attention, and the number of slices."""
    reduced = None if limits is None else fewer_slices(model, clouds, limits)[0]
    weights, _ = fit_token_maps(model, clouds, reduced)
    size = model.size if reduced is None else reduced.model.size
    variant = without_attention(model.variant).name
    slim = Transolver(3, 0, 2, variant, size=size, constants=model.constants)
    slim.to(model.placeholder).load_state_dict(weights)
    (batch, *_) = clouds()
    return slim(*batch.inputs).detach(), size.slices


@pytest.mark.parametrize("variant", VARIANTS)
def test_dead_and_doubled_slices_go_without_a_trace(variant: str, draw: torch.Generator) -> None:
    model, clouds = model_of(variant, draw), made_clouds(draw)
    before, slices = slimmed(model, clouds, None)
    after, fewer = slimmed(model, clouds, LIMITS)
    assert (slices, fewer) == (8, 5)
    error = float((after - before).norm() / before.norm())
    assert error < 1e-9, error
    _, facts = fewer_slices(model, clouds, LIMITS)
    layers = 1 if variant == "frozen-slice" else 3
    assert [(own.dropped, own.merged, own.kept_for_others) for own in facts] == [(1, 2, 0)] * layers


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_in_fp32_and_with_the_paper_s_epsilon(variant: str, draw: torch.Generator) -> None:
    model, clouds = model_of(variant, draw, Constants()).float(), made_clouds(draw, torch.float32)
    before, _ = slimmed(model, clouds, None)
    after, fewer = slimmed(model, clouds, LIMITS)
    assert fewer == 5
    assert float((after - before).norm() / before.norm()) < 1e-6


def test_all_layers_keep_as_many_as_the_one_that_needs_most(draw: torch.Generator) -> None:
    model, clouds = model_of("baseline", draw), made_clouds(draw)
    with torch.no_grad():  # the last layer has but one double of its own, and a dead slice
        slots = cast(Slots, model.get_submodule("blocks.2.coupling.slice_slots"))
        slots.weight[moved(7, 2)].add_(torch.randn(8, generator=draw, dtype=torch.float64))
    before, _ = slimmed(model, clouds, None)
    after, fewer = slimmed(model, clouds, LIMITS)
    _, facts = fewer_slices(model, clouds, LIMITS)
    assert fewer == 6 and float((after - before).norm() / before.norm()) < 1e-9
    assert [(own.dropped, own.merged, own.kept_for_others) for own in facts] == [
        (1, 1, 1),
        (1, 1, 1),
        (1, 1, 0),
    ]


def test_a_slice_that_one_head_uses_stays(draw: torch.Generator) -> None:
    """The heads share the slots: what is unused in one may be needed in the other."""
    model, clouds = model_of("baseline", draw), made_clouds(draw)
    with torch.no_grad():
        for _, layer, slots in all_slots(model):
            assert slots.bias is not None
            slots.bias[moved(2, layer)] = -3.0
            slots.temperature.copy_(torch.tensor([0.1, 5.0]))
    uses = slot_uses(model, clouds)
    share = uses["blocks.0.coupling.slice_slots"].share
    assert share[0, 2] < 1e-3 < 2e-2 < share[1, 2]
    facts = fewer_slices(model, clouds, Limits(drop_unused=1e-3))[1]
    assert [own.dropped for own in facts] == [0, 0, 0]


def test_slices_are_alike_only_if_those_of_deslice_are(draw: torch.Generator) -> None:
    model, clouds = model_of("untied", draw), made_clouds(draw)
    with torch.no_grad():
        for name, layer, slots in all_slots(model):
            if "deslice" in name:
                doubles = [moved(5, layer), moved(7, layer)]
                slots.weight[doubles] += torch.randn(2, 8, generator=draw, dtype=torch.float64)
    facts = fewer_slices(model, clouds, LIMITS)[1]
    assert [(own.dropped, own.merged) for own in facts] == [(1, 0)] * 3


def test_use_is_that_of_the_weights(draw: torch.Generator) -> None:
    model, clouds = model_of("baseline", draw), made_clouds(draw)
    coupling = model.get_submodule("blocks.0.coupling")
    assert isinstance(coupling, Coupling) and coupling.query and coupling.slice_slots
    mass, overlap = torch.zeros(2, 8).double(), torch.zeros(8, 8).double()
    with torch.no_grad():
        for batch in clouds():
            x = model.get_submodule("blocks.0.coupling_norm")(model.begin(*batch.inputs).x)
            query = split_heads(coupling.query(x), 2)
            w = reference.weights(coupling.slice_slots(query))[0]  # (H, N, G)
            mass += w.sum(1)
            overlap += torch.einsum("hng,hnk->gk", w, w)
    use = slot_uses(model, clouds)["blocks.0.coupling.slice_slots"]
    torch.testing.assert_close(use.mass, mass)
    torch.testing.assert_close(use.overlap, overlap)
    torch.testing.assert_close(use.share.sum(1), torch.ones(2).double())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"drop_unused": 0.0}, "drop_unused must be above 0 and below 1, got 0"),
        ({"merge_alike": 1.0}, "merge_alike must be above 0 and below 1, got 1"),
        ({"drop_unused": math.nan}, "drop_unused must be above 0 and below 1, got nan"),
    ],
)
def test_limits_without_sense_are_refused(given: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Limits(**given)
    with pytest.raises(ValueError, match=r"below 1 / 8, the share that one of 8 slices has"):
        Limits(drop_unused=0.2).check_slices(8)
