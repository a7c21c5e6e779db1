"""The stream of points in bf16: where it is, and how far it may be from a stream in fp32."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from slipstream.experiments import experiment
from slipstream.models.transolver import Transolver
from slipstream.models.variants import Size

SIZE = Size(layers=3, width=32, heads=4, slices=8)


def streams(
    precision: str, variant: str = "baseline", memory: str = "normal", autocast: bool = True
) -> tuple[list[Tensor], dict[str, Tensor]]:
    """The stream before every layer, and output and gradients of a model."""
    model = Transolver(3, 0, 2, variant=variant, size=SIZE)
    model.stream_precision, model.memory = precision, memory  # type: ignore[assignment]
    seen: list[Tensor] = []
    for block in model.blocks:
        block.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    coords = torch.rand(1, 60, 3, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        output = model(coords)
    output.float().square().sum().backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return seen, {"output": output.detach(), **gradients}


@pytest.mark.parametrize("variant", ["baseline", "untied", "frozen-slice", "mlp-only"])
def test_under_autocast_it_is_bf16_and_near_to_fp32(variant: str) -> None:
    wide, expected = streams("fp32", variant)
    narrow, found = streams("bf16", variant)
    assert {t.dtype for t in wide} == {torch.float32} and len(wide) == len(narrow) == 3
    assert {t.dtype for t in narrow} == {torch.bfloat16}
    assert found["output"].dtype == expected["output"].dtype
    largest = max(float(t.norm()) for t in expected.values())
    for name, tensor in expected.items():
        size = max(float(tensor.norm()), 0.1 * largest)
        assert float((found[name] - tensor).norm()) < 0.05 * size, name
    assert not torch.equal(found["output"], expected["output"])


def test_lean_memory_keeps_it_in_bf16() -> None:
    _, expected = streams("bf16")
    _, found = streams("bf16", memory="lean")
    torch.testing.assert_close(found["output"], expected["output"], rtol=0.02, atol=0.02)


def test_without_autocast_it_changes_nothing() -> None:
    (wide, expected), (narrow, found) = (streams(p, autocast=False) for p in ("fp32", "bf16"))
    assert all(torch.equal(*pair) for pair in zip(wide, narrow, strict=True))
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_a_wrong_one_is_refused(no_shape_checks: None) -> None:
    model = Transolver(3, 0, 2, size=SIZE)
    with pytest.raises(ValueError, match="stream_precision must be one of"):
        model.stream_precision = "fp16"  # type: ignore[assignment]
    config = experiment("poisson")
    assert replace(config, precision="bf16", stream_precision="bf16").stream_precision == "bf16"
    with pytest.raises(ValueError, match="stream_precision must be fp32 where precision is not"):
        replace(config, precision="fp32", stream_precision="bf16")
