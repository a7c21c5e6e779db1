from __future__ import annotations

import pickle

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from slipstream import VARIANTS, Size, Transolver
from slipstream.models.coupling import Coupling

SMALL = Size(layers=2, width=16, heads=2, slices=5)
COUPLED = [name for name, variant in VARIANTS.items() if variant.stream != "pointwise"]


def model(variant: str = "baseline", **others: object) -> Transolver:
    return Transolver(3, 2, 4, variant=variant, size=SMALL, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("batch", "points"), [(1, 1), (3, 7)])
def test_shapes_in_and_out(variant: str, batch: int, points: int) -> None:
    out = model(variant)(torch.rand(batch, points, 3), torch.rand(batch, points, 2))
    assert out.shape == (batch, points, 4) and out.isfinite().all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_samples_of_a_batch_do_not_meet(variant: str, draw: torch.Generator) -> None:
    coords, features = torch.rand(3, 6, 3, generator=draw), torch.rand(3, 6, 2, generator=draw)
    m = model(variant)
    alone = torch.cat([m(coords[i : i + 1], features[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(m(coords, features), alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("variant", VARIANTS)
def test_bf16_autocast_stays_near_fp32(variant: str, draw: torch.Generator) -> None:
    coords, features = torch.rand(2, 9, 3, generator=draw), torch.rand(2, 9, 2, generator=draw)
    m = model(variant)
    with torch.autocast("cpu", torch.bfloat16):
        low = m(coords, features)
    exact = m(coords, features)
    assert float((low.detach() - exact.detach()).norm() / exact.detach().norm()) < 0.05
    low.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in m.parameters())


def test_no_features() -> None:
    m = Transolver(2, 0, 1, size=SMALL)
    assert m(torch.rand(1, 5, 2)).shape == (1, 5, 1)
    with pytest.raises(ValueError, match="features must be None for a model of feature_dim 0"):
        m(torch.rand(1, 5, 2), torch.rand(1, 5, 2))


@pytest.mark.parametrize(
    ("coords", "features", "message"),
    [
        (torch.rand(5, 3), torch.rand(5, 2), r"coords must have shape \(B, N, coord_dim\) = "),
        (torch.rand(1, 5, 2), torch.rand(1, 5, 2), r"= \(B, N, 3\), got \(1, 5, 2\)"),
        (torch.rand(1, 0, 3), torch.rand(1, 0, 2), r"every size at least 1, got \(1, 0, 3\)"),
        (torch.rand(1, 5, 3), torch.rand(1, 4, 2), r"features must have .* = \(1, 5, 2\), got \("),
        (torch.rand(1, 5, 3), None, r"features must be a tensor of shape .*, got NoneType"),
        (torch.rand(1, 5, 3).double(), torch.rand(1, 5, 2), "coords must have dtype torch.float32"),
        (torch.rand(1, 5, 3), torch.ones(1, 5, 2).long(), "features must have a floating dtype"),
        (torch.rand(1, 5, 3, device="meta"), torch.rand(1, 5, 2), "coords must be on device cpu"),
    ],
)
def test_bad_inputs(
    no_shape_checks: None, coords: torch.Tensor, features: torch.Tensor | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        model()(coords, features)


def test_bad_arguments(no_shape_checks: None) -> None:
    with pytest.raises(ValueError, match="variant must be one of .* did you mean 'baseline'?"):
        model("basline")
    with pytest.raises(ValueError, match="coord_dim must be a whole number of at least 1, got 0"):
        Transolver(0, 2, 4)
    with pytest.raises(
        ValueError,
        match="impl must be one of auto, fused, single-tile, blocked, chunked, reference, got 'x'",
    ):
        model(impl="x")
    with pytest.raises(ValueError, match="precision must be one of ieee, .*, got 'fp8'"):
        model(precision="fp8")


def test_kernels_says_what_runs_and_why() -> None:
    assert model().kernels == "chunked: no CUDA device (the tensors are on cpu)"
    assert model(impl="reference").kernels == "reference: asked for"
    assert model("mlp-only").kernels == "none: this variant has no coupling"
    too_wide = Transolver(3, 2, 4, size=Size(layers=1, width=514, heads=2), impl="fused")
    with pytest.raises(ValueError, match='got "fused": the kernels take widths up to 256, not 257'):
        too_wide(torch.rand(1, 5, 3), torch.rand(1, 5, 2))


def test_frozen_slice_slices_every_layer_by_the_first_membership() -> None:
    m = model("frozen-slice")
    seen = []
    for module in m.modules():
        if isinstance(module, Coupling):
            module.register_forward_hook(lambda _m, _args, out: seen.append(out[1]))
    m(torch.rand(1, 5, 3), torch.rand(1, 5, 2))
    assert len(seen) == SMALL.layers and all(s is seen[0] for s in seen)


def test_clamped_temperatures_of_linear_no(draw: torch.Generator) -> None:
    coords, features = torch.rand(1, 6, 3, generator=draw), torch.rand(1, 6, 2, generator=draw)
    m = model("untied-ln")
    outputs = []
    for temperature in (0.1, 1e-3, 0.2):
        for name, parameter in m.named_parameters():
            if name.endswith("temperature"):
                parameter.data.fill_(temperature)
        outputs.append(m(coords, features))
    assert torch.equal(outputs[0], outputs[1]) and not torch.equal(outputs[0], outputs[2])


def test_key_ratio_sets_the_slots_of_linear_no() -> None:
    wide = Transolver(3, 2, 4, variant="untied-ln", size=Size(width=16, heads=2, key_ratio=4))
    weights = dict(wide.named_parameters())
    assert weights["blocks.0.coupling.slice_slots.weight"].shape == (32, 8)


@pytest.mark.parametrize("variant", ["baseline", "frozen-slice", "untied-ln"])
def test_activation_checkpointing_changes_nothing(variant: str, draw: torch.Generator) -> None:
    coords, features = torch.rand(1, 6, 3, generator=draw), torch.rand(1, 6, 2, generator=draw)
    m = model(variant)
    gradients = []
    for recompute in (False, True):
        m.zero_grad()
        out = (
            checkpoint(m, coords, features, use_reentrant=False)
            if recompute
            else m(coords, features)
        )
        out.sum().backward()
        gradients.append([p.grad.clone() for p in m.parameters() if p.grad is not None])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize("variant", ["baseline", "untied-ln", "mlp-only"])
def test_recomputing_keeps_one_tensor_of_every_layer(variant: str, draw: torch.Generator) -> None:
    """Not the stream and an update that waits for the next layer's norm."""
    coords, features = torch.rand(1, 64, 3, generator=draw), torch.rand(1, 64, 2, generator=draw)
    kept = {}
    for layers in (2, 5):
        m = Transolver(3, 2, 4, variant, size=Size(width=16, heads=2, slices=4, layers=layers))
        m.recompute = True
        large: dict[int, Tensor] = {}

        def keep(saved: Tensor, large: dict[int, Tensor] = large) -> Tensor:
            if saved.numel() >= 64 * 16:
                large[saved.untyped_storage().data_ptr()] = saved
            return saved

        bf16 = torch.autocast("cpu", torch.bfloat16)
        with bf16, torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
            m(coords, features)
        kept[layers] = len(large)
    assert kept[5] - kept[2] == 5 - 2


@pytest.mark.parametrize("variant", COUPLED)
def test_state_dict_round_trip_does_not_depend_on_impl(variant: str) -> None:
    coords, features = torch.rand(1, 6, 3), torch.rand(1, 6, 2)
    first = model(variant, seed=1)
    second = model(variant, seed=2, impl="reference")
    second.load_state_dict(first.state_dict())
    torch.testing.assert_close(
        first(coords, features), second(coords, features), rtol=1e-5, atol=1e-6
    )
    copied = pickle.loads(pickle.dumps(first))
    assert torch.equal(first(coords, features), copied(coords, features))
