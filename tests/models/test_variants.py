from __future__ import annotations

import dataclasses

import pytest
import torch

from slipstream import VARIANTS, Size, Transolver
from slipstream.models.structure import check_structure, expected_parameters

from ..theory.common import randomise

SMALL = Size(layers=3, width=16, heads=2, slices=5)
INPUTS = {"coord_dim": 3, "feature_dim": 5, "out_dim": 4}


def build(variant: str, size: Size = SMALL, **others: object) -> Transolver:
    return Transolver(**INPUTS, variant=variant, size=size, **others)  # type: ignore[arg-type]


def names(variant: str) -> set[str]:
    return {name for name, _ in build(variant).named_parameters()}


def test_there_are_ten_and_they_are_frozen() -> None:
    assert len(VARIANTS) == 10
    with pytest.raises(dataclasses.FrozenInstanceError):
        VARIANTS["baseline"].mix = "linear"  # type: ignore[misc]
    described = {dataclasses.astuple(v)[2:8] for v in VARIANTS.values()}
    assert len(described) == 10, "two variants are the same model under two names"


def test_attention_and_tying_are_a_full_grid() -> None:
    cells = {
        (v.mix, v.deslice)
        for v in VARIANTS.values()
        if v.slicing == "each-layer" and v.normalised_over == "slots"
    }
    assert cells == {(m, d) for m in ("attention", "linear") for d in ("tied", "own")}


@pytest.mark.parametrize("variant", VARIANTS)
def test_parameter_counts_are_the_papers(variant: str) -> None:
    count = build(variant, Size()).parameter_count()
    paper = VARIANTS[variant].paper_parameters
    if paper is not None:
        assert abs(count / (paper * 1e6) - 1) < 0.005
    exact = {"baseline": 3_861_316, "untied": 3_869_828, "mlp-only": 2_245_124}
    assert count == exact.get(variant, count)


def test_each_ablation_changes_what_it_says() -> None:
    baseline = names("baseline")
    layers = range(SMALL.layers)
    attention = {f"blocks.{i}.coupling.mix.{m}.weight" for i in layers for m in ("query", "key")}
    own = {
        f"blocks.{i}.coupling.deslice_slots.{part}"
        for i in layers
        for part in ("weight", "bias", "temperature")
    }
    later = {
        name
        for name in baseline
        if name.startswith(("blocks.1.coupling.", "blocks.2.coupling."))
        and ("slice_slots" in name or "coupling.query" in name)
    }
    assert len(later) == 10
    assert baseline - names("no-token-attention") == attention
    assert names("untied") - baseline == own
    assert names("untied-no-token-attention") == baseline - attention | own
    assert baseline - names("frozen-slice") == later
    assert names("frozen-slice-no-token-attention") == baseline - attention - later
    assert not any("coupling" in name for name in names("mlp-only"))
    assert names("mlp-only-wide") == names("mlp-only") < baseline


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_parameter_receives_a_gradient(variant: str, draw: torch.Generator) -> None:
    model = build(variant)
    randomise(model)  # away from the start, where some gradients are as small as rounding
    coords = torch.rand(2, 11, 3, generator=draw, dtype=torch.float64)
    features = torch.rand(2, 11, 5, generator=draw, dtype=torch.float64)
    output = model(coords, features)
    (output * torch.randn(output.shape, generator=draw, dtype=torch.float64)).sum().backward()
    largest = max(float(p.grad.abs().max()) for p in model.parameters() if p.grad is not None)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        # Far above rounding, which is all that a parameter without influence would show.
        assert float(parameter.grad.abs().max()) > 1e-11 * largest, name


def test_shared_parameters_start_equal_and_the_seed_matters() -> None:
    baseline = dict(build("baseline").named_parameters())
    for variant in VARIANTS:
        for name, parameter in build(variant).named_parameters():
            if name in baseline and parameter.shape == baseline[name].shape:
                assert torch.equal(parameter, baseline[name]), (variant, name)
    other = dict(build("baseline", seed=1).named_parameters())
    assert not torch.equal(other["lift.expand.weight"], baseline["lift.expand.weight"])


def test_no_two_matrices_start_equal() -> None:
    matrices = [p for p in build("baseline").parameters() if p.ndim == 2]
    assert len({tuple(p.flatten()[:8].tolist()) for p in matrices}) == len(matrices)


def test_initial_values() -> None:
    parameters = dict(build("baseline", Size()).named_parameters())
    for name, parameter in parameters.items():
        kind = name.rpartition(".")[2]
        if kind == "bias":
            assert not parameter.any()
        elif kind == "temperature":
            assert (parameter == 0.5).all()
        elif "norm" in name:
            assert (parameter == 1).all()
        elif kind == "placeholder":
            assert 0 <= parameter.min() and 0.9 / 256 < parameter.max() < 1 / 256
        else:
            assert abs(float(parameter.detach().std()) - 0.02) < 0.002, name
            assert abs(float(parameter.detach().mean())) < 0.002, name


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ({"width": 250}, "width must be a multiple of heads = 8, got 250"),
        ({"layers": 0}, "layers must be a whole number of at least 1, got 0"),
        ({"slices": 2.5}, "slices must be a whole number of at least 1, got 2.5"),
    ],
)
def test_impossible_sizes(no_shape_checks: None, size: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Size(**size)


def test_what_was_built_is_what_was_asked_for() -> None:
    """The constructor's own check: a model that carries another variant's parts does not pass."""
    frozen = build("frozen-slice")
    frozen.variant = VARIANTS["baseline"]
    with pytest.raises(ValueError, match="model built for 'baseline' is not what its name says: "
                       "blocks.1.coupling.query.bias is missing"):  # fmt: skip
        frozen.check_structure()
    baseline = build("baseline")
    baseline.variant = VARIANTS["no-token-attention"]
    with pytest.raises(ValueError, match="mix.key.weight does not belong to it"):
        baseline.check_structure()
    wide = build("mlp-only-wide")
    wide.variant = VARIANTS["mlp-only"]
    with pytest.raises(ValueError, match=r"has shape \(64,\) instead of \(32,\)"):
        wide.check_structure()


def test_structure_is_checked_at_construction(monkeypatch: pytest.MonkeyPatch) -> None:
    from slipstream.models import coupling

    monkeypatch.setattr(coupling, "TokenLinear", coupling.TokenAttention)
    with pytest.raises(ValueError, match="'no-token-attention' is not what its name says"):
        build("no-token-attention")


def test_structure_can_be_checked_without_a_model() -> None:
    shapes = expected_parameters(VARIANTS["untied"], SMALL, **INPUTS)
    check_structure(dict(shapes), shapes, "the checkpoint")
    with pytest.raises(
        ValueError, match="the checkpoint is not what its name says: lift.contract.bias is m"
    ):
        check_structure({k: v for k, v in shapes.items() if "lift" not in k}, shapes,
                        "the checkpoint")  # fmt: skip
