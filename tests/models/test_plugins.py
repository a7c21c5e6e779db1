"""Variants of one's own: what a plug-in may be, and what is refused with a sentence."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from slipstream import VARIANTS, Size, Transolver, register_variant
from slipstream.models import Look, Parts, Variant, load_plugin
from slipstream.models.plugins import Plugin, plugin_files, plugin_of
from slipstream.models.structure import unreached_parameters
from slipstream.models.variants import BUILT_IN, in_table_order, variant_or_default

from ..theory.common import randomise

MEAN_POOL = Path(__file__).parents[2] / "examples" / "mean_pool.py"
SMALL = Size(layers=2, width=8, heads=2, slices=3)

pytestmark = pytest.mark.usefixtures("registry")


class Halves(nn.Module):
    """A coupling that is none; `kept` is a parameter without any use."""

    def __init__(self, size: Size, layer: int, how: Any) -> None:
        super().__init__()
        self.kept = nn.Parameter(torch.empty(size.width))

    def forward(self, x: Tensor, previous: object) -> tuple[Tensor, None]:
        return x / 2 + 0 * self.kept, None


def shapes(size: Size, layer: int) -> dict[str, tuple[int, ...]]:
    return {"kept": (size.width,)}


def halves(**changes: Any) -> Variant:
    return replace(Variant("halves", "x", coupling=Halves, structure=shapes), **changes)


def gradients(model: Transolver) -> dict[str, float]:
    """The largest of each parameter, in fp64, away from the initial values."""
    randomise(model)
    output = model(torch.rand(2, 11, 3, dtype=torch.float64))
    (output * torch.randn(output.shape, dtype=torch.float64)).sum().backward()
    return {n: 0.0 if p.grad is None else float(p.grad.abs().max())
            for n, p in model.named_parameters()}  # fmt: skip


def test_the_example_is_short_and_complete() -> None:
    assert len(MEAN_POOL.read_text().splitlines()) <= 60
    assert load_plugin(MEAN_POOL) == ("mean-pool",) == load_plugin(str(MEAN_POOL)), "twice"
    variant = VARIANTS["mean-pool"]
    assert list(VARIANTS)[-1] == "mean-pool" and variant.label == "mean pool"
    assert (variant.mix, variant.deslice, variant.normalised_over) == (None, None, None)
    assert variant.budget == "L c" and variant.look == Look("#B2182B", "*")
    plugin = plugin_of("mean-pool")
    assert plugin is not None and plugin.file == "mean_pool.py" and len(plugin.sha256 or "") == 64
    assert plugin_of("baseline") is None and plugin_files() == [MEAN_POOL.resolve()]


def test_the_example_computes_the_mean_and_every_parameter_is_used() -> None:
    load_plugin(MEAN_POOL)
    model = Transolver(3, 0, 1, variant="mean-pool", size=SMALL)
    assert model.kernels == "none: the coupling of this variant is a plug-in's own"
    assert min(gradients(model).values()) > 1e-9
    coupling: Any = model.blocks[0].coupling
    x = torch.rand(1, 5, 8, dtype=torch.float64)
    update, membership = coupling(x, None)
    assert membership is None
    assert torch.allclose(update[0, 3], coupling.output(coupling.values(x[0].mean(0))))
    again = Transolver(3, 0, 1, variant="mean-pool", size=SMALL, seed=1)
    shared = Transolver(3, 0, 1, variant="baseline", size=SMALL, seed=1)
    name = "blocks.1.coupling.values.weight"
    assert torch.equal(again.get_parameter(name), shared.get_parameter(name)), "initial values"


def test_a_variant_of_fields_alone_needs_no_coupling() -> None:
    made = Variant("frozen-untied", "x", deslice="own", slicing="first-layer")
    register_variant(made)
    register_variant(made)
    assert made.expected_parts() == Parts("first", deslice="every", attention="every")
    model = Transolver(3, 0, 1, variant="frozen-untied", size=SMALL)
    assert min(gradients(model).values()) > 1e-9
    assert model.kernels.startswith("chunked") and plugin_of("frozen-untied") == Plugin()


def test_what_is_not_said_has_a_default() -> None:
    one, other = halves(), halves(name="thirds")
    assert one.heading == "halves" and one.budget == one.ceiling == "not stated"
    assert one.expected_parts() is None
    look = one.drawn_as
    assert look == variant_or_default("halves").drawn_as, "the same wherever it is drawn"
    assert (look.colour, look.marker) != (other.drawn_as.colour, other.drawn_as.marker)
    assert look.colour not in {VARIANTS[name].drawn_as.colour for name in BUILT_IN}
    assert look.marker not in {VARIANTS[name].drawn_as.marker for name in BUILT_IN}
    assert halves(look=Look(marker="o")).drawn_as == replace(look, marker="o")
    assert VARIANTS["untied"].drawn_as == VARIANTS["untied"].look
    assert in_table_order(["b", "mlp-only", "a", "baseline", "b"]) == [
        "baseline",
        "mlp-only",
        "a",
        "b",
    ]


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_with_one_slice_exactly_these_have_no_gradient(name: str) -> None:
    """One slot per head: of `untied-ln`, whose slots are as many as a head is wide, width 1."""
    size = replace(SMALL, slices=1, heads=8 if name == "untied-ln" else 2)
    unreached = unreached_parameters(VARIANTS[name], size)
    assert bool(unreached) == (VARIANTS[name].stream != "pointwise")
    found = gradients(Transolver(3, 0, 1, variant=name, size=size))
    largest = max(found.values())
    assert {n for n, value in found.items() if value < 1e-13 * largest} == unreached.keys()
    assert unreached_parameters(VARIANTS[name], replace(size, slices=2, heads=2)) == {}


def test_a_plug_in_says_itself_what_no_gradient_reaches() -> None:
    told = halves(unreached=lambda size, layer: {"kept": f"unused in {layer}"})
    assert unreached_parameters(told, SMALL) == {
        "blocks.0.coupling.kept": "unused in 0",
        "blocks.1.coupling.kept": "unused in 1",
    }
    assert unreached_parameters(halves(), replace(SMALL, slices=1)) == {}


def test_a_plug_in_that_slices_says_which_kernels_run() -> None:
    register_variant(halves(parts=Parts("every")))
    assert Transolver(3, 0, 1, variant="halves", size=SMALL).kernels.startswith("chunked")
    register_variant(halves(name="thirds", parts=Parts("none")))
    assert Transolver(3, 0, 1, variant="thirds", size=SMALL).kernels.startswith("none")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Mean Pool"}, "the name of a variant must be small letters, digits and hyphens"),
        ({"name": "../up"}, "must be small letters"),
        ({"structure": None}, "structure of variant 'halves' must be given beside its coupling"),
        ({"coupling": None, "mix": "linear"}, "coupling of variant 'halves' must be given beside"),
        ({"stream": "pointwise"}, "stream of variant 'halves' must be coupled for a coupling"),
        ({"stream": "couple"}, "stream of variant 'halves' must be one of coupled, pointwise"),
        ({"widening": 0}, "widening of variant 'halves' must be a whole number of at least 1"),
        ({"slicing": "never"}, "slicing of variant 'halves' must be one of each-layer, first-la"),
        (
            {"coupling": None, "structure": None, "mix": None},
            "mix of variant 'halves' must be one of attention, linear, got None",
        ),
    ],
)
def test_fields_that_contradict(
    no_shape_checks: None, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        halves(**changes)


def test_names_that_are_taken() -> None:
    with pytest.raises(ValueError, match="must not be that of a built-in one, got 'baseline'"):
        register_variant(halves(name="baseline"))
    register_variant(halves())
    register_variant(halves())
    with pytest.raises(ValueError, match="must be new, got 'halves', which is registered already"):
        register_variant(halves(widening=2))
    assert VARIANTS["halves"] == halves()


class Counting(Halves):
    def __init__(self, size: Size, layer: int, how: Any) -> None:
        super().__init__(size, layer, how)
        self.register_buffer("seen", torch.zeros(1))


def broken(size: Size, layer: int, how: Any) -> nn.Module:
    raise KeyError("layers")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"coupling": broken},
            "coupling of variant 'halves' must be had without an error, got K",
        ),
        ({"coupling": lambda size, layer, how: 3}, "must be a torch.nn.Module, got int"),
        ({"coupling": Counting}, "must keep all its state in parameters, got seen"),
        (
            {"structure": lambda size, layer: {"gone": (3,)}},
            "'halves' is not what its name says: blocks.0.coupling.gone is missing; ",
        ),
    ],
)
def test_couplings_that_cannot_be_used(
    no_shape_checks: None, changes: dict[str, Any], message: str
) -> None:
    register_variant(halves(**changes))
    with pytest.raises(ValueError, match=re.escape(message)):
        Transolver(3, 0, 1, variant="halves", size=SMALL)


BAD = {
    "x = (": "'(' was never closed, line 2",
    "x = 1 / 0": "ZeroDivisionError: division by zero, line 2",
    "import no_such_module": "ModuleNotFoundError: No module named 'no_such_module', line 2",
    "raise SystemExit": "SystemExit, line 2",
    "x = 1": "it must register a new variant (slipstream.register_variant)",
    "register_variant(Variant('baseline', 'x'))": "that of a built-in one, got 'baseline', line 2",
    "register_variant(Variant('good', 'x')); raise KeyError('a\\nb')": "KeyError: 'a",
    "register_variant(Variant('Bad', 'x'))": "small letters, digits and hyphens",
}


@pytest.mark.parametrize(("code", "sentence"), BAD.items())
def test_files_that_cannot_be_loaded(tmp_path: Path, code: str, sentence: str) -> None:
    before, file = list(VARIANTS), tmp_path / "bad.py"
    file.write_text(f"from slipstream.models import Variant, register_variant\n{code}\n")
    for _ in range(2):
        with pytest.raises(ValueError, match=re.escape(sentence)) as raised:
            load_plugin(file)
        assert str(raised.value).startswith(f"the plug-in {file} cannot be loaded: ")
        assert "\n" not in str(raised.value)
    assert list(VARIANTS) == before and plugin_files() == []


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="gone.py must be a Python file, got no such file"):
        load_plugin(tmp_path / "gone.py")
    with pytest.raises(ValueError, match="must be a regular file, got a folder"):
        load_plugin(tmp_path)


def test_a_second_file_of_the_same_variant_is_refused(tmp_path: Path) -> None:
    load_plugin(MEAN_POOL)
    other = tmp_path / "mean_pool.py"
    other.write_bytes(MEAN_POOL.read_bytes())
    assert load_plugin(other) == ("mean-pool",), "the same file elsewhere"
    other.write_text(f"{MEAN_POOL.read_text()}\n# changed\n")
    with pytest.raises(ValueError, match="must be new, got 'mean-pool', which is registered alr"):
        load_plugin(other)
    assert "mean-pool" in VARIANTS, "that of the first"
