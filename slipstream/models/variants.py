"""What the package knows about each variant, their registry, and the constants of the method.

    register_variant(Variant("mean-pool", "the mean over all points", coupling=..., structure=...))

`examples/mean_pool.py` is a complete example; plugins.py loads such files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, get_args

from torch import nn

from slipstream.core.checks import check_choice, check_whole
from slipstream.kernels.plan import How

EPSILON = 1e-5
"""Added to the mass of a slot before dividing, as the authors and thuml do (1e-2 elsewhere)."""

INITIAL_TEMPERATURE = 0.5
LINEAR_NO_TEMPERATURES = (0.1, 2.0)
"""The range to which LinearNO clamps its temperatures; a Transolver's are free."""

INITIAL_WEIGHT_STD = 0.02

Shapes = dict[str, tuple[int, ...]]
"""Name and shape of parameters."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a model is. The defaults are the paper's."""

    layers: int = 8
    """L, the layers of coupling and MLP."""
    width: int = 256
    """C, the channels of the point stream."""
    heads: int = 8
    """H, which must divide the width."""
    slices: int = 32
    """G, the slots per head."""
    mlp_ratio: int = 2
    """The hidden width of a layer's MLP over the width."""
    key_ratio: int = 1
    """For `untied-ln` only: as LinearNO, it has key_ratio x head width slots per head."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            check_whole(name, value, 1)
            if value > _LARGEST[name]:
                raise ValueError(f"{name} must be at most {_LARGEST[name]}, got {value}")
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads = {self.heads}, got {self.width}")

    @property
    def head_width(self) -> int:
        return self.width // self.heads


_LARGEST = {
    "layers": 1024,
    "width": 2**16,
    "heads": 2**12,
    "slices": 2**16,
    "mlp_ratio": 64,
    "key_ratio": 64,
}
"""Far more than any model has: a damaged file that says more is not worth hours of allocation."""

PAPER = Size()

Stream = Literal["coupled", "pointwise", "token-only"]
Mix = Literal["attention", "linear"]
Deslice = Literal["tied", "own"]
Slicing = Literal["each-layer", "first-layer"]
NormalisedOver = Literal["slots", "points"]
Layers = Literal["every", "first", "before", "none"]
"""In which layers a part is; `before` is once, before all layers."""


@dataclass(frozen=True)
class Parts:
    """In which layers the checkpoints of a variant have these parts; the audit counts them."""

    memberships: Layers
    deslice: Layers = "none"
    """Slots of deslice's own."""
    attention: Layers = "none"
    """Attention among the tokens."""


@dataclass(frozen=True)
class Look:
    """How a series is drawn: by colour and marker, so that it can be told without colours."""

    colour: str = ""
    marker: str = ""
    line: str = "-"


_COLOURS = ("#B2182B", "#7B3294", "#44AA99", "#808080", "#DDCC77", "#882255", "#117733")
_MARKERS = ("*", "<", ">", "p", "8")
"""Colours and markers of variants that give none; no built-in variant uses one of these."""


@dataclass(frozen=True)
class Variant:
    """A variant of the ablation grid, or of a plug-in.

    Models are built from these fields, never from the name. Only `name` and `summary` must be
    given, and with `coupling` also `structure`. Raises ValueError where fields contradict each
    other.
    """

    name: str
    """Small letters, digits and hyphens, since folders of runs are named by it."""
    summary: str
    stream: Stream = "coupled"
    """`coupled`: slice and deslice in every layer; `pointwise`: never; `token-only`: once."""
    mix: Mix | None = "attention"
    """What acts on the tokens between slice and deslice; None where there are no tokens."""
    deslice: Deslice | None = "tied"
    """Whether deslice takes the slice's membership or one with its own slots and temperature."""
    slicing: Slicing | None = "each-layer"
    """Which layer's membership is used; None where slicing does not belong to a layer."""
    normalised_over: NormalisedOver | None = "slots"
    """The axis over which the weights of the slice sum to one."""
    widening: int = 1
    """Factor on the MLP ratio."""
    paper_parameters: float | None = None
    """Millions of parameters by the paper, where it gives them."""
    coupling: Callable[[Size, int, How], nn.Module] | None = None
    """Makes a plug-in's coupling for the layer of this number, in place of ours. The module's
    `forward(x, previous)` returns the update of the point stream, (B, N, C) as x, and the
    membership by which it sliced, or None. Initial values are drawn as for every other parameter
    (`layers.py`)."""
    structure: Callable[[Size, int], Shapes] | None = None
    """Names, within `coupling`, and shapes of its parameters in a layer: a second statement, with
    which the model that was built and every checkpoint are compared."""
    parts: Parts | None = None
    """What the audit must find. For the built-in variants it is written by hand, so that a mistake
    in the fields above is noticed. If None, it follows from those fields; for the coupling of a
    plug-in the audit then relies on `structure` alone."""
    unreached: Callable[[Size, int], Mapping[str, str]] | None = None
    """Parameters of `coupling` in a layer that no gradient reaches at this size, with the reason;
    the audit does not expect them to move."""
    budget: str = "not stated"
    """How many numbers pass between points, in terms of L layers, G slices and c channels."""
    ceiling: str = "not stated"
    """Whether the budget bounds what can be learned."""
    look: Look = Look()
    label: str = ""
    """The name in legends and tables; `name` if empty."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise ValueError(
                "the name of a variant must be small letters, digits and hyphens, as"
                f" no-token-attention, got {self.name!r}"
            )
        self._check_fields()
        if self.coupling is not None:  # these fields describe our couplings, not a plug-in's
            for field in ("mix", "deslice", "normalised_over"):
                object.__setattr__(self, field, None)

    @property
    def heading(self) -> str:
        """The label, or else the name."""
        return self.label or self.name

    @property
    def drawn_as(self) -> Look:
        """The look; colour or marker left empty are chosen from a palette by a hash of the name,
        so that they are the same in every report."""
        number = int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:4], "big")
        colour = _COLOURS[number % len(_COLOURS)]
        marker = _MARKERS[number // len(_COLOURS) % len(_MARKERS)]
        look = self.look
        return replace(look, colour=look.colour or colour, marker=look.marker or marker)

    def _check_fields(self) -> None:
        choices = {"mix": Mix, "deslice": Deslice, "slicing": Slicing}
        choices["normalised_over"] = NormalisedOver
        what = f"of variant {self.name!r}"
        check_choice(f"stream {what}", self.stream, get_args(Stream))
        check_whole(f"widening {what}", self.widening, 1)
        if (self.coupling is None) != (self.structure is None):
            one, other = ("coupling", "structure") if self.coupling else ("structure", "coupling")
            raise ValueError(f"{other} {what} must be given beside its {one}, got none")
        if self.coupling is not None and self.stream != "coupled":
            raise ValueError(f"stream {what} must be coupled for a coupling, got {self.stream!r}")
        for field, kind in choices.items():
            value = getattr(self, field)
            needed = self.stream == "coupled" and self.coupling is None
            if value is not None or needed:
                check_choice(f"{field} {what}", value, get_args(kind))

    def make_coupling(self, size: Size, layer: int, how: How) -> nn.Module:
        """The coupling of a plug-in. Raises ValueError where it cannot be built or used."""
        what = f"the coupling of variant {self.name!r}"
        module = self._call("coupling", size, layer, how)
        if not isinstance(module, nn.Module):
            raise ValueError(f"{what} must be a torch.nn.Module, got {type(module).__name__}")
        buffers = sorted(module.state_dict().keys() - dict(module.named_parameters()).keys())
        if buffers:  # checkpoints hold parameters: a resumed run would not be the same
            raise ValueError(f"{what} must keep all its state in parameters, got {buffers[0]}")
        return module

    def declared_shapes(self, size: Size, layer: int) -> Shapes:
        """Names and shapes of the parameters of a plug-in's coupling, by its `structure`."""
        declared: Shapes = self._call("structure", size, layer)
        return {name: tuple(shape) for name, shape in declared.items()}

    def declared_unreached(self, size: Size, layer: int) -> Mapping[str, str]:
        """Parameters of a plug-in's coupling that no gradient reaches, by its `unreached`."""
        return self._call("unreached", size, layer) if self.unreached else {}

    def _call(self, field: str, *given: object) -> Any:
        """Call a function of a plug-in; ValueError if it raises an error."""
        try:
            return getattr(self, field)(*given)
        except Exception as error:
            raise ValueError(
                f"the {field} of variant {self.name!r} must be had without an error, got"
                f" {type(error).__name__}: {error}"
            ) from error

    def uses(self, part: str) -> bool:
        """Whether models of the variant depend on a part of `Size`; those of a plug-in may, on any.

        `untied-ln` has key_ratio x head width slots and no use for `slices`; all others have none
        for `key_ratio`. Pointwise models have neither slots nor heads.
        """
        if self.coupling is not None:
            return True
        over_points = self.normalised_over == "points"
        coupled = self.stream != "pointwise"
        used = {"heads": coupled, "slices": coupled and not over_points, "key_ratio": over_points}
        return used.get(part, True)

    @property
    def has_memberships(self) -> bool:
        """Whether its checkpoints have memberships, so that slice and deslice run in it."""
        parts = self.expected_parts()
        return parts is not None and parts.memberships != "none"

    def expected_parts(self) -> Parts | None:
        """The parts that the audit must find; None for a plug-in's coupling that states none."""
        if self.parts is not None or self.coupling is not None:
            return self.parts
        if self.stream != "coupled":
            one_pass = self.stream == "token-only"
            return Parts("before", attention="every") if one_pass else Parts("none")
        return Parts(
            "every" if self.slicing == "each-layer" else "first",
            deslice="every" if self.deslice == "own" else "none",
            attention="every" if self.mix == "attention" else "none",
        )


# Variants that keep the coupling are blue, green or violet; those that lose it are orange.
# Budgets and ceilings are the paper's.
_BUILT_IN = (
    Variant(
        "baseline",
        "Transolver: slice, attention among tokens, deslice",
        paper_parameters=3.87,
        parts=Parts("every", attention="every"),
        budget="L G c",
        ceiling="no",
        look=Look("#000000", "o"),
    ),
    Variant(
        "no-token-attention",
        "one linear map per token; tokens do not interact",
        mix="linear",
        parts=Parts("every"),
        budget="L G c",
        ceiling="no",
        look=Look("#0072B2", "D"),
    ),
    Variant(
        "untied",
        "deslice has its own slots and temperature",
        deslice="own",
        parts=Parts("every", deslice="every", attention="every"),
        budget="L G c",
        ceiling="no",
        look=Look("#56B4E9", "s"),
    ),
    Variant(
        "untied-no-token-attention",
        "own deslice slots, and no attention",
        mix="linear",
        deslice="own",
        parts=Parts("every", deslice="every"),
        budget="L G c",
        ceiling="no",
        look=Look("#332288", "d", "--"),
    ),
    Variant(
        "untied-ln",
        "LinearNO: slice normalised over the points, own deslice, no attention",
        mix="linear",
        deslice="own",
        normalised_over="points",
        paper_parameters=3.85,
        parts=Parts("every", deslice="every"),
        budget="L M c",
        ceiling="no",
        look=Look("#CC79A7", "P"),
    ),
    Variant(
        "frozen-slice",
        "every layer reuses the first layer's membership",
        slicing="first-layer",
        parts=Parts("first", attention="every"),
        budget="L G c",
        ceiling="no",
        look=Look("#009E73", "^"),
    ),
    Variant(
        "frozen-slice-no-token-attention",
        "first layer's membership throughout, and no attention",
        mix="linear",
        slicing="first-layer",
        parts=Parts("first"),
        budget="L G c",
        ceiling="no",
        look=Look("#999933", "v", "--"),
    ),
    Variant(
        "slice-once",
        "slice once, transformer on the tokens, deslice once; no point stream",
        stream="token-only",
        slicing=None,
        paper_parameters=4.37,
        parts=Parts("before", attention="every"),
        budget="G c",
        ceiling="yes, rank",
        look=Look("#D55E00", "X"),
    ),
    Variant(
        "mlp-only",
        "no coupling: a pointwise residual MLP",
        stream="pointwise",
        mix=None,
        deslice=None,
        slicing=None,
        normalised_over=None,
        paper_parameters=2.25,
        parts=Parts("none"),
        budget="0",
        ceiling="yes, locality",
        look=Look("#E69F00", "o"),
    ),
    Variant(
        "mlp-only-wide",
        "mlp-only with twice the MLP ratio: the capacity control",
        stream="pointwise",
        mix=None,
        deslice=None,
        slicing=None,
        normalised_over=None,
        widening=2,
        paper_parameters=4.35,
        parts=Parts("none"),
        budget="0",
        ceiling="yes, locality",
        look=Look("#8C5A00", "h", "--"),
    ),
)

BASELINE = "baseline"
"""The variant with which all others are compared."""
POINTWISE = "mlp-only"
"""The variant without any coupling."""
BUILT_IN = frozenset(variant.name for variant in _BUILT_IN)
_registered = {variant.name: variant for variant in _BUILT_IN}
VARIANTS: Mapping[str, Variant] = MappingProxyType(_registered)
"""By name, in the order of tables: the built-in ones, then others as they were registered."""


def register_variant(variant: Variant) -> None:
    """Make a variant known by its name; registering the same one again changes nothing.

    Raises ValueError if a built-in variant, or another registered one, has the name.
    """
    if variant.name in BUILT_IN:
        raise ValueError(
            f"the name of a variant must not be that of a built-in one, got {variant.name!r}"
        )
    if _registered.setdefault(variant.name, variant) != variant:
        raise ValueError(
            f"the name of a variant must be new, got {variant.name!r}, which is registered already"
        )


def forget_variant(name: str) -> None:
    """Undo the registration of a variant, for a plug-in that failed after it."""
    assert name not in BUILT_IN
    _registered.pop(name, None)


def variant_named(name: str) -> Variant:
    try:
        check_choice("variant", name, VARIANTS)
    except ValueError as error:
        raise ValueError(f"{error} (--plugin FILE loads variants of your own)") from None
    return VARIANTS[name]


def variant_or_default(name: str) -> Variant:
    """The variant; where it is not registered, one with all defaults.

    Reports use it: they are made from records, possibly without the plug-in of a run.
    """
    return VARIANTS.get(name) or Variant(name, "not known here")


def headings(names: Iterable[str]) -> list[str]:
    """The names of variants in legends and tables."""
    return [variant_or_default(name).heading for name in names]


def in_table_order(names: Iterable[str]) -> list[str]:
    """Names of variants, once each, in the order of tables; unknown ones last."""
    wanted = set(names)
    return [*(n for n in VARIANTS if n in wanted), *sorted(n for n in wanted if n not in VARIANTS)]
