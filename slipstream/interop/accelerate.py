"""`accelerate`: the physics attentions of another package's model, computed by our kernels.

A module is given another class, derived from its own, whose forward is ours. Its parameters,
buffers, hooks and mode stay as they are, so whatever refers to them goes on working.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from slipstream.interop.attention_forward import Attention, physics_attention
from slipstream.interop.recognise import Unlike, looks_alike, recognise, shares_slices
from slipstream.interop.trial import with_constants
from slipstream.kernels.api import plan_on
from slipstream.kernels.plan import Impl, Plan, Precision

_MARK = "_slipstream_attention"
"""The attribute of a replaced class that holds what it computes."""


@dataclass(frozen=True)
class Replaced:
    """A module that our kernels compute now."""

    name: str
    kind: str
    """Its class, as it was."""
    attention: Attention
    plan: Plan
    """What runs without autocast, for parameters as they are now and where they are now."""
    under_autocast: Plan | None
    """What runs under bf16 autocast; None where `precision` does not allow bf16."""

    @property
    def dots(self) -> str:
        """Both plans, in words."""
        if self.under_autocast is None:
            return f"{self.plan}; bf16 autocast is refused with this precision"
        if self.under_autocast == self.plan:
            return str(self.plan)
        return f"{self.plan}; under bf16 autocast {self.under_autocast}"


@dataclass(frozen=True)
class LeftAlone:
    """A module that looks like a physics attention and is computed as before, and why."""

    name: str
    kind: str
    reason: str


@dataclass(frozen=True)
class Accelerated:
    """What `accelerate` has done to a model; `str` says it in lines."""

    replaced: tuple[Replaced, ...]
    left_alone: tuple[LeftAlone, ...]
    _originals: dict[nn.Module, tuple[type[nn.Module], type[nn.Module]]] = field(
        repr=False, compare=False
    )

    def restore(self) -> None:
        """Give every replaced module its own forward back. Copies of the model stay as they are.

        Raises ValueError, and restores nothing, if the class of a module has been changed since.
        """
        for module, (own, ours) in self._originals.items():
            if type(module) not in (own, ours):
                raise ValueError(
                    f"the class of a module must be as accelerate left it, {ours.__qualname__}, got"
                    f" {type(module).__qualname__}: undo what came later first"
                )
        for module, (own, _) in self._originals.items():
            module.__class__ = own

    def __str__(self) -> str:
        if not self.replaced and not self.left_alone:
            return "Nothing replaced: the model has no physics attention of a known package."
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"Replaced {len(self.replaced)} of {len(self.replaced) + len(self.left_alone)}."
        for one in self.replaced:
            a = one.attention
            clamp = "free" if a.clamp is None else f"in [{a.clamp[0]:g}, {a.clamp[1]:g}]"
            yield (
                f"  {one.name} ({one.kind}): {a.heads} heads of {a.head_width}, {a.slices} slices,"
                f" epsilon {a.epsilon:g}, temperatures {clamp}; {one.dots}"
            )
        for other in self.left_alone:
            yield f"  left alone: {other.name} ({other.kind}): {other.reason}"


def accelerate(
    model: nn.Module, *, impl: Impl = "auto", precision: Precision | str | None = None
) -> Accelerated:
    """Compute the physics attentions in a model by our kernels, on their own parameters.

    They are found by their structure, in models of thuml/Transolver, Neural-Solver-Library,
    flashslice and PhysicsNeMo on irregular meshes. Each is replaced only if a small copy of it in
    fp64 gives what our forward gives; the report says which were left alone and why. `impl` and
    `precision` are those of `couple`. Slice weights, where a forward returns them beside its
    output, are None afterwards. Raises ValueError, and replaces nothing, where model is not a
    module, or for an `impl` or `precision` that cannot run.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    sharing = {part for top in model.modules() if shares_slices(top) for part in top.modules()}
    replaced: list[Replaced] = []
    left_alone: list[LeftAlone] = []
    originals = {}
    for name, module in model.named_modules():
        if not looks_alike(module):
            continue
        kind = f"{type(module).__module__}.{type(module).__qualname__}"
        name = name or "the model itself"
        try:
            attention = _found(module, module in sharing)
        except Unlike as reason:
            left_alone.append(LeftAlone(name, kind, str(reason)))
            continue
        text = None if precision is None else str(precision)
        attention = replace(attention, impl=impl, precision=text)
        replaced.append(Replaced(name, kind, attention, *_plans(module, attention)))
        originals[module] = (type(module), accelerated_class(type(module), attention))
    for module, (_, ours) in originals.items():
        module.__class__ = ours
    return Accelerated(tuple(replaced), tuple(left_alone), originals)


def _found(module: nn.Module, is_sharing: bool) -> Attention:
    if hasattr(type(module), _MARK):
        raise Unlike("it has been accelerated already")
    if is_sharing:
        raise Unlike("its model reuses the slice weights of the first layer, which we never form")
    return with_constants(module, recognise(module))


def _plans(module: nn.Module, attention: Attention) -> tuple[Plan, Plan | None]:
    """Without autocast, and under bf16 autocast, which leaves fp64 as it is."""
    parameter = next(module.parameters())
    plan = _plan(parameter.device, parameter.dtype, attention)
    if parameter.dtype == torch.float64:
        return plan, plan
    try:
        return plan, _plan(parameter.device, torch.bfloat16, attention)
    except ValueError:  # as the forward raises it: a precision for fp32 alone
        return plan, None


def _plan(device: torch.device, dtype: torch.dtype, attention: Attention) -> Plan:
    width = attention.head_width
    return plan_on(
        device, dtype, slices=attention.slices, head_width=width, value_width=width,
        how=attention.how,
    )  # fmt: skip


_CLASSES: dict[tuple[type[nn.Module], Attention], type[nn.Module]] = {}


def accelerated_class(own: type[nn.Module], attention: Attention) -> type[nn.Module]:
    """The class `own` with our forward in the place of its own; made once for all its modules."""
    if (own, attention) in _CLASSES:
        return _CLASSES[own, attention]
    members: dict[str, Any] = {
        _MARK: attention, "forward": _forward(attention), "__reduce_ex__": _reduce,
        "__module__": own.__module__, "__doc__": own.__doc__,
    }  # fmt: skip
    ours = _CLASSES[own, attention] = type(own.__name__, (own,), members)
    return ours


def _forward(attention: Attention) -> Callable[..., Any]:
    def forward(self: nn.Module, x: Tensor) -> Tensor:
        return physics_attention(attention, self, x)

    def forward_pair(
        self: nn.Module, x: Tensor, slice_weights_in: Tensor | None = None
    ) -> tuple[Tensor, None]:
        if slice_weights_in is not None:
            raise ValueError("slice_weights_in must be None in an accelerated model, got weights")
        return physics_attention(attention, self, x), None

    return forward_pair if attention.returns_pair else forward


def _reduce(self: Any, protocol: object) -> Any:
    """How an accelerated module is copied and pickled, since its class cannot be imported."""
    own = next(kind for kind in type(self).__mro__ if _MARK in vars(kind)).__bases__[0]
    return _rebuild, (own, getattr(self, _MARK)), self.__getstate__()


def _rebuild(own: type[nn.Module], attention: Attention) -> nn.Module:
    ours = accelerated_class(own, attention)
    return ours.__new__(ours)
