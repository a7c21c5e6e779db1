"""A function of tensors as a PyTorch operator that is called directly in eager mode.

`torch.compile`, `torch.export` and fake tensors need an operator. Calling one through PyTorch's
dispatcher costs about as much as the launch of a kernel, so where none of the three is at work the
function runs directly, with the same gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from slipstream.core import runtime

Save = Callable[[Any, tuple[Any, ...], Any], None]
Gradients = Callable[..., tuple[Tensor | None, ...]]


class Operator:
    """Called like the function that it is made of, whose first argument must be a tensor."""

    def __init__(self, name: str, function: Callable[..., Any], fake: Callable[..., Any]) -> None:
        schema = torch.library.infer_schema(function, mutates_args=())
        if runtime.TRITON_INTERPRETED:
            function = _without_bf16(function, fake)
        self.function = function
        torch.library.define(name, schema, tags=torch.Tag.pt2_compliant_tag)
        torch.library.impl(name, ("cpu", "cuda"))(function)
        torch.library.register_fake(name)(fake)
        self.name = name
        namespace, short = name.split("::")
        self.registered = getattr(getattr(torch.ops, namespace), short).default
        self.direct: Callable[..., Any] = function

    def set_gradients(self, save: Save, gradients: Gradients) -> None:
        """`save` keeps what `gradients` needs, as with `torch.library.register_autograd`."""
        gradients = _without_second_derivatives(gradients)
        torch.library.register_autograd(self.name, gradients, setup_context=save)
        function = self.function

        class Direct(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *arguments: Any) -> Any:
                output = function(*arguments)
                save(ctx, arguments, output)
                return output

            backward = staticmethod(gradients)

        self.direct = Direct.apply

    def __call__(self, *arguments: Any) -> Any:
        if torch.compiler.is_compiling():
            return self.registered(*arguments)
        if forward_ad._current_level >= 0:
            raise NotImplementedError(
                "forward-mode derivatives are not among what the kernels can do; impl must be"
                ' "reference" for them'
            )
        if not is_eager(arguments[0]):
            return self.registered(*arguments)
        return self.direct(*arguments) if torch.is_grad_enabled() else self.function(*arguments)


def _without_second_derivatives(gradients: Gradients) -> Gradients:
    """The same gradients, which raise an error when they are differentiated themselves.

    PyTorch would otherwise take them for constants and leave out a part of second derivatives.
    """

    def checked(ctx: Any, *incoming: Tensor) -> tuple[Tensor | None, ...]:
        with torch.no_grad():
            outputs = gradients(ctx, *incoming)
        if not torch.is_grad_enabled():
            return outputs
        message = (
            b"second derivatives are not among what the kernels can do; impl must be"
            b' "reference" for them'
        )
        marked = [None if o is None else o.detach().requires_grad_() for o in outputs]
        return tuple(torch._C._functions.DelayedError(message, len(marked))(*marked))  # type: ignore[arg-type]

    return checked


def operator(name: str, fake: Callable[..., Any]) -> Callable[[Callable[..., Any]], Operator]:
    """Make the decorated function an operator; `fake` gives the shapes of its results."""
    return lambda function: Operator(name, function, fake)


def _without_bf16(function: Callable[..., Any], fake: Callable[..., Any]) -> Callable[..., Any]:
    """The function for Triton's interpreter: bf16 inputs are computed on in fp32, then rounded.

    The interpreter truncates to bf16, where a GPU rounds to the nearest.
    """

    def widened(argument: Any) -> Any:
        if isinstance(argument, Tensor) and argument.dtype == torch.bfloat16:
            return argument.float()
        return argument

    def call(*arguments: Any) -> Any:
        if not any(isinstance(a, Tensor) and a.dtype == torch.bfloat16 for a in arguments):
            return function(*arguments)
        wide, expected = function(*map(widened, arguments)), fake(*arguments)
        if isinstance(wide, Tensor):
            return wide.to(expected.dtype)
        return tuple(w.to(like.dtype) for w, like in zip(wide, expected, strict=True))

    return call


def is_exporting() -> bool:
    """Whether `torch.export` is at work; `torch.compiler.is_exporting()` of torch 2.11 also says so
    in code that is merely compiled."""
    return torch.compiler._is_exporting_flag


def is_transformed() -> bool:
    """Whether a function transform (`torch.func`) or forward-mode differentiation is active."""
    return forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active()


def is_eager(tensor: Tensor) -> bool:
    """Whether the tensor is a plain one, and nothing but autograd observes what is computed."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return type(tensor) in (Tensor, nn.Parameter) and torch._C._len_torch_dispatch_stack() == 0
