"""Constants of a model: every way to compute it respects them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
import torch
from torch import Tensor

from slipstream.models import Constants, Size
from slipstream.models.lean import lean_forward
from slipstream.models.steps import Steps
from slipstream.models.transolver import Transolver
from slipstream.runs.config import ModelConfig

SIZE = Size(layers=2, width=16, heads=2, slices=5)
OTHERS = [
    Constants(epsilon=3.0),
    Constants(temperatures=(0.6, 0.8)),
    Constants(activation="gelu-tanh"),
    Constants(causal=True),
]
ALL = Constants(epsilon=3.0, temperatures=(0.6, 0.8), activation="gelu-tanh", causal=True)


def model_of(constants: Constants, variant: str, impl: Any = "auto") -> Transolver:
    model = Transolver(2, 1, 3, variant, size=SIZE, impl=impl, constants=constants).double()
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if not name.endswith("temperature"):
                weight.add_(torch.randn(weight.shape, generator=draw, dtype=weight.dtype) * 0.4)
    return model


def inputs() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(2)
    coords, features = (
        torch.randn(1, 33, width, generator=draw, dtype=torch.float64) for width in (2, 1)
    )
    return coords, features


@pytest.mark.parametrize("constants", OTHERS, ids=lambda one: next(iter(one.differing())))
@pytest.mark.parametrize("variant", ["baseline", "frozen-slice", "slice-once"])
def test_every_constant_changes_what_is_computed(constants: Constants, variant: str) -> None:
    plain, other = (model_of(one, variant)(*inputs()) for one in (Constants(), constants))
    assert float((plain - other).detach().abs().max()) > 1e-6


@pytest.mark.parametrize("variant", ["baseline", "untied", "frozen-slice", "slice-once"])
def test_folding_steps_and_lean_memory_respect_them(variant: str) -> None:
    expected = gradients(model_of(ALL, variant, "reference"))
    model = model_of(ALL, variant)
    for got in (gradients(model), gradients(model, lean=True), [in_steps(model)]):
        for one, other in zip(got, expected, strict=False):
            torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


def gradients(model: Transolver, lean: bool = False) -> list[Tensor]:
    """The outputs, then the gradient of every parameter."""
    model.zero_grad()
    out = lean_forward(model, *inputs(), chunk=10) if lean else model(*inputs())
    out.square().sum().backward()
    return [
        out.detach(),
        *(weight.grad for weight in model.parameters() if weight.grad is not None),
    ]


@torch.no_grad()
def in_steps(model: Transolver) -> Tensor:
    steps = Steps(model)
    stream = steps.begin(*inputs())
    for layer in range(steps.couplings):
        stream, sums = steps.sums(layer, stream)
        stream = steps.apply(layer, stream, steps.mixed(layer, sums))
    return steps.finish(stream)


def test_a_clamped_temperature_has_no_gradient() -> None:
    model = model_of(Constants(temperatures=(0.6, 0.8)), "baseline")
    gradients(model)
    gradient = model.get_parameter("blocks.0.coupling.slice_slots.temperature").grad
    assert gradient is not None and not gradient.any()


def test_configs_without_constants_are_those_of_today() -> None:
    from slipstream.core.schemas import parsed

    older = asdict(ModelConfig())
    del older["constants"]
    assert parsed(ModelConfig, older).constants == Constants()
    newer = asdict(ModelConfig(constants=ALL)) | {"plugin": None}
    assert parsed(ModelConfig, newer).constants == ALL


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"epsilon": -1.0}, "epsilon must be a finite number of at least 0, got -1"),
        ({"temperatures": (2.0, 1.0)}, "temperatures must be null or a lowest above 0"),
    ],
)
def test_constants_without_sense_are_refused(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Constants(**given)
