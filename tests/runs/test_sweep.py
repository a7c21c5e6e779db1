"""Sweeps of any field: which configs they make, and what they refuse."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch

from slipstream import Transolver
from slipstream.experiments import poisson
from slipstream.models.variants import VARIANTS, Size
from slipstream.runs.sweep import (
    Sweep,
    cell_name,
    check_sweeps,
    depends_on,
    folder_name,
    unaffected,
    varied,
)

RATIO = Sweep("model.size.key_ratio", (1, 4))
SMALL = Size(layers=1, width=16, heads=2, slices=3)


def test_a_grid_has_every_combination_once() -> None:
    rates = Sweep("optim.learning_rate", ("1e-3", 0.001, 0.1))
    made = varied(poisson(), [rates, RATIO], "untied-ln")
    assert [(c.optim.learning_rate, c.model.size.key_ratio) for c, _ in made] == [
        (0.001, 1), (0.001, 4), (0.1, 1), (0.1, 4),
    ]  # fmt: skip
    config, swept = made[-1]
    assert swept == {"model.size.key_ratio": 4, "optim.learning_rate": 0.1}
    assert replace(config, model=made[0][0].model, optim=made[0][0].optim) == made[0][0]
    assert [s for _, s in varied(poisson(), [RATIO, rates], "untied-ln")][-1] == swept
    assert cell_name("poisson", "untied-ln", 3, swept) == (
        "poisson untied-ln key_ratio=4 optim.learning_rate=0.1 seed 3"
    )
    assert folder_name(swept) == "model.size.key_ratio=4,optim.learning_rate=0.1"
    assert folder_name({"data.points": None, "optim.loss": "mse"}) == (
        "data.points=null,optim.loss=mse"
    )


def test_a_variant_that_does_not_depend_on_a_field_is_trained_once_with_its_own_value() -> None:
    ((config, swept),) = varied(poisson(), [Sweep("model.size.key_ratio", (2, 4))], "baseline")
    assert swept == {} and config == replace(poisson(), model=config.model)
    assert config.model.size == poisson().model.size
    (said,) = unaffected([RATIO], ["baseline", "untied-ln", "mlp-only"])
    assert said == (
        "baseline, mlp-only are trained once and stand for all values of model.size.key_ratio, on"
        " which they do not depend."
    )
    assert unaffected([Sweep("optim.clip", (1,))], list(VARIANTS)) == []


def sweep_of(name: str, variant: str) -> bool:
    """Whether models of two values of a part differ, in their parameters or in what they answer."""
    value = {"width": 32}.get(name, 2 * getattr(SMALL, name))
    made = [
        Transolver(3, 1, 2, variant=variant, size=size, seed=0)
        for size in (SMALL, replace(SMALL, **{name: value}))
    ]
    shapes = [{n: p.shape for n, p in model.named_parameters()} for model in made]
    if shapes[0] != shapes[1]:
        return True
    draw = torch.Generator().manual_seed(0)
    coords, features = torch.rand(1, 9, 3, generator=draw), torch.rand(1, 9, 1, generator=draw)
    one, other = (model(coords, features) for model in made)
    return not torch.equal(one, other)


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_a_variant_depends_on_is_what_changes_its_models(variant: str) -> None:
    for field in fields(Size):
        assert depends_on(variant, f"model.size.{field.name}") == sweep_of(field.name, variant), (
            field.name
        )


def test_what_a_plug_in_may_depend_on_is_swept() -> None:
    assert depends_on("not-registered-here", "model.size.key_ratio")


@pytest.mark.parametrize(
    ("sweep", "sentence"),
    [
        (("model.size.key_rato", (1,)), "did you mean 'key_ratio'"),
        (("model.size.layers", ("two",)), "model.size.layers must be a whole number, got 'two'"),
        (("model.size.layers", (2, 0)), "layers must be a whole number of at least 1, got 0"),
        (("model.size.width", (30,)), "width must be a multiple of heads = 4, got 30"),
        (("model.size", ({"layers": 2},)), "must be of one field, as model.size.layers"),
        (("seed", (1, 2)), "must not be of seed: --seeds names several"),
        (("model.variant", ("untied",)), "must not be of model.variant: --variants names"),
        (("data.builtin.points", (64, 128)), "so other data are another study"),
        (("data.workers", (0, 1)), "must be of a field that a result depends on, got data.workers"),
        (("model.size.key_ratio", (1, 4)), "must be with a variant that depends on it, got base"),
    ],
)
def test_what_cannot_be_swept(sweep: tuple[str, tuple[object, ...]], sentence: str) -> None:
    with pytest.raises(ValueError, match="sweep") as refused:
        check_sweeps([Sweep(*sweep)], poisson(), ["baseline", "mlp-only"])
    assert sentence in str(refused.value)


def test_a_field_is_swept_once_and_with_a_value() -> None:
    with pytest.raises(ValueError, match="must be swept once, got model.size.key_ratio"):
        check_sweeps([RATIO, RATIO], poisson(), ["untied-ln"])
    with pytest.raises(ValueError, match="must have at least one value"):
        Sweep("optim.clip", ())
