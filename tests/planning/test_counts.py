"""What is counted, against the layers themselves, and how it scales."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from slipstream import Size, Transolver
from slipstream.planning import Spread, Workload, device_named, largest_points, predict
from slipstream.planning.counts import counts
from slipstream.planning.kept import kept_bytes, parameters
from slipstream.planning.predict import KEPT

SMALL = Size(layers=3, width=64, heads=4, slices=8)
POINTS = 4096


def saved_bytes(model: Transolver) -> int:
    """Bytes of all tensors with a row for every point that autograd keeps, once each, and not those
    of the inputs."""
    kept: dict[int, int] = {}
    inputs = torch.rand(1, POINTS, 3), torch.rand(1, POINTS, 5)

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if POINTS in tensor.shape:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        output = model(*inputs)
        output.sum()
        return sum(kept.values())


@pytest.mark.parametrize(
    "variant", ["baseline", "untied", "untied-ln", "frozen-slice", "mlp-only-wide", "slice-once"]
)
@pytest.mark.parametrize("memory", ["normal", "recompute"])
def test_kept_bytes_are_those_that_autograd_keeps(variant: str, memory: str) -> None:
    """On a CPU; what the head keeps at the end of the forward pass is counted as a transient."""
    if (variant, memory) == ("frozen-slice", "recompute"):
        pytest.skip("the membership that is handed on is kept by the checkpoint, not by autograd")
    model = Transolver(3, 5, 4, variant=variant, size=SMALL)
    model.recompute = memory == "recompute"
    work = Workload(points=POINTS, size=SMALL, variant=variant, precision="fp32")
    work = replace(work, memory=memory)  # type: ignore[arg-type]
    head = 8 * SMALL.width + 8  # the stream and its norm
    counted = (kept_bytes(work, "cpu") + head) * POINTS
    assert counted == pytest.approx(saved_bytes(model), rel=0.08)


@pytest.mark.parametrize("variant", ["baseline", "untied-ln", "slice-once", "mlp-only"])
def test_parameters_are_those_of_the_model(variant: str) -> None:
    model = Transolver(3, 5, 4, variant=variant, size=SMALL)
    assert parameters(Workload(points=1, size=SMALL, variant=variant)) == model.parameter_count()


def test_operations_are_those_of_the_products() -> None:
    """Of the paper's model: 14 C^2 a layer forward, thrice that in training, and lift and head."""
    work = Workload(points=1)
    ends = 2 * (8 * 512 + 512 * 256 + 256 * 4)
    assert counts(work, "cuda").linear == 3 * (8 * 14 * 256**2 + ends)
    forward = counts(replace(work, training=False), "cuda")
    assert forward.linear == 8 * 14 * 256**2 + ends
    assert forward.slices == 8 * 4 * 2 * 256 * 32


def test_memory_and_time_grow_with_what_is_asked() -> None:
    device, work = device_named("h200"), Workload(points=1 << 20)
    now = predict(work, device)
    for bigger in (
        replace(work, points=1 << 21),
        replace(work, batch=2),
        replace(work, size=Size(layers=16)),
        replace(work, size=Size(width=512, heads=16)),
        replace(work, precision="fp32"),
    ):
        more = predict(bigger, device)
        assert more.bytes > 1.5 * now.bytes
        assert more.seconds and now.seconds and more.seconds > 1.5 * now.seconds
    sliced = predict(replace(work, size=Size(slices=512)), device)
    assert sliced.bytes < 1.05 * now.bytes and sliced.seconds and now.seconds
    assert sliced.seconds > 1.5 * now.seconds


def test_less_is_kept_for_more_time() -> None:
    device, work = device_named("h200"), Workload(points=1 << 20)
    plans = [
        predict(replace(work, memory=memory), device) for memory in ("normal", "recompute", "lean")
    ]
    kept = [plan.parts[KEPT] for plan in plans]
    assert kept == sorted(kept, reverse=True) and plans[2].bytes < plans[1].bytes < plans[0].bytes
    seconds = [plan.seconds or 0 for plan in plans]
    assert seconds == sorted(seconds)


def test_points_are_shared_out() -> None:
    """Each of 4 devices has a quarter; the message is the paper's 33 KB a layer."""
    device, work = device_named("h200"), Workload(points=1_000_001)
    spread = Spread(points=4)
    quarter = predict(replace(work, points=250_001), device)
    shared = predict(work, device, spread)
    assert shared.parts == quarter.parts and shared.seconds == quarter.seconds
    assert spread.message_bytes(work) == 4 * 8 * 32 * 33
    assert Spread(data=4).message_bytes(work) == 0
    with pytest.raises(ValueError, match="--devices must be at most the 3 points"):
        predict(replace(work, points=3), device, spread)


@pytest.mark.parametrize("memory", ["normal", "recompute", "lean"])
def test_the_largest_number_of_points_just_fits(memory: str) -> None:
    device = device_named("24GB")
    work = replace(Workload(points=1), memory=memory)  # type: ignore[arg-type]
    most = largest_points(work, device)
    assert predict(replace(work, points=most), device).bytes <= device.usable
    assert predict(replace(work, points=round(1.02 * most)), device).bytes > device.usable


def test_a_device_without_records_is_scaled_and_says_so() -> None:
    work = Workload(points=1 << 18)
    slow = predict(work, device_named("a100-80"))
    fast = predict(work, device_named("h200"))
    assert slow.parts == fast.parts and slow.seconds and fast.seconds
    assert 1.5 < slow.seconds / fast.seconds < 3.5
    assert any("no measurement" in note for note in slow.notes)
    same = predict(work, device_named("24GB", tflops=989, bandwidth=4800))
    assert same.seconds == pytest.approx(fast.seconds)
    assert predict(work, device_named("24GB")).seconds is None
