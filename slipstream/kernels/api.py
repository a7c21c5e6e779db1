"""The operations of a coupling: check the arguments, choose an implementation, run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from slipstream.core import runtime
from slipstream.core.checks import autocast_is_on, check_like, check_shape
from slipstream.core.shapes import Float
from slipstream.kernels import chunked_ops, reference
from slipstream.kernels.membership import Axis, Complete, Membership, TokenSums, as_they_are
from slipstream.kernels.operator import is_exporting, is_transformed
from slipstream.kernels.plan import How, Impl, Operation, Plan, Precision, make_plan

if runtime.HAS_TRITON:
    from slipstream.kernels import ops


def slice_points(
    membership: Membership,
    values: Float[Tensor, "B N H V"],
    *,
    impl: Impl = "auto",
    precision: Precision | str | None = None,
) -> TokenSums:
    """Sum the values (B, N, H, V) of the points into slots: numerator (B, H, G, V), mass (B, H, G).

    `impl` says which implementation runs (`Impl` in `kernels/plan.py`), "auto" the fastest.
    `precision` is how the fused kernels multiply, by default "bf16" for bf16 inputs and autocast,
    else "ieee". Raises ValueError when shape, dtype or device do not fit the membership, when the
    dtype does not allow the precision, and when `impl="fused"` cannot be had.
    """
    _check_values(membership, values)
    plan = plan_for(membership, values.shape[-1], impl=impl, precision=precision)
    if plan.family == "reference":
        return _with_dtype(reference.slice_points(membership, values), values)
    membership, values = _as_computed(membership), values.to(compute_dtype(values))
    if plan.family == "chunked":
        return _with_dtype(chunked_ops.slice_points(membership, values), values)
    stats = _statistics(membership, plan)
    numerator, mass, log_normalizer, _ = ops.slice_op(
        membership.query, values, *_slots(membership), stats, str(plan.precision), plan.family,
        membership.over,
    )  # fmt: skip
    normalizer = log_normalizer if membership.over == "points" else None
    return _with_dtype(TokenSums(numerator, mass, normalizer), values)


def deslice_tokens(
    membership: Membership,
    tokens: Float[Tensor, "B H G V"],
    *,
    impl: Impl = "auto",
    precision: Precision | str | None = None,
) -> Float[Tensor, "B N H V"]:
    """Give every point the weighted sum of its slots' tokens (B, H, G, V), as (B, N, H, V).

    `impl` and `precision` are those of `slice_points`, and it raises as that does.
    """
    batch = membership.query.shape[0]
    check_shape("tokens", tokens, "B H G V", (batch, membership.heads, membership.slices, None))
    check_like("tokens", tokens, "query", membership.query)
    width = tokens.shape[-1]
    plan = plan_for(membership, width, impl=impl, precision=precision, deslice=True)
    if plan.family == "reference":
        return reference.deslice_tokens(membership, tokens)
    membership = _as_computed(membership)
    if plan.family == "chunked":
        return chunked_ops.deslice_tokens(membership, tokens)
    out, _ = ops.deslice_op(
        membership.query, tokens, *_slots(membership), membership.statistics, str(plan.precision),
        plan.family,
    )  # fmt: skip
    return out


def couple(
    membership: Membership,
    values: Float[Tensor, "B N H V"],
    mix: Callable[[Tensor], Tensor],
    *,
    epsilon: float = 0.0,
    impl: Impl = "auto",
    precision: Precision | str | None = None,
    complete: Complete = as_they_are,
) -> Float[Tensor, "B N H V"]:
    """Slice the values (B, N, H, V), mix the tokens, deslice them by the same membership.

    The result is that of `slice_points`, `complete`, `tokens(epsilon)`, `mix` and `deslice_tokens`
    one after another; the kernels compute the gradients of slice and deslice together, which is
    faster. `mix` maps tokens (B, H, G, V) to as many; `epsilon` is added to each slot's mass before
    dividing (1e-5 in a Transolver); `complete` makes the sums of all points from
    those of these, where they are not the same. Raises as `slice_points` does.
    """
    handed = [values]
    del values  # as large as the stream: popped, they are the callee's alone, which may free them
    return _couple(membership, handed, mix, epsilon, complete, impl=impl, precision=precision)


def couple_halves(
    joint: Float[Tensor, "B N 2 H D"],
    slots: tuple[Tensor, Tensor | None, Tensor],
    mix: Callable[[Tensor], Tensor],
    *,
    epsilon: float = 0.0,
    impl: Impl = "auto",
    precision: Precision | str | None = None,
    complete: Complete = as_they_are,
) -> tuple[Float[Tensor, "B N H D"], Membership]:
    """`couple` of the query and the values that are the halves of one tensor, and its membership.

    A GPU then writes the gradient of both as one, which the product before them takes on as one.
    `slots` are weight, bias and temperature.
    """
    membership, handed = Membership(joint[:, :, 0], *slots), [joint[:, :, 1]]
    how: How = {"impl": impl, "precision": precision}
    return _couple(membership, handed, mix, epsilon, complete, joint, **how), membership


def _couple(
    membership: Membership,
    handed: list[Tensor],
    mix: Callable[[Tensor], Tensor],
    epsilon: float,
    complete: Complete,
    joint: Tensor | None = None,
    *,
    impl: Impl,
    precision: Precision | str | None,
) -> Tensor:
    """`handed` has the values, which are popped; `joint` those of `couple_halves`."""
    values = handed.pop()
    _check_values(membership, values)
    how: How = {"impl": impl, "precision": precision}
    plan = plan_for(membership, values.shape[-1], impl=impl, precision=precision)
    dtype = _tokens_dtype(compute_dtype(values), values.device)

    def mix_sums(sums: TokenSums) -> Tensor:
        return _mixed(mix, complete(replace(sums, dtype=dtype)), epsilon, membership)

    if plan.family == "reference":
        return reference.couple(membership, values, mix_sums)
    if membership.over == "points":
        return deslice_tokens(membership, mix_sums(slice_points(membership, values, **how)), **how)
    cast = [None if values is membership.query else values.to(compute_dtype(values))]
    del values
    if plan.family == "chunked":
        return chunked_ops.couple(_as_computed(membership), cast.pop(), mix_sums)
    whole = None if joint is None or joint.dtype != compute_dtype(joint) else joint
    return _couple_fused(_as_computed(membership), cast.pop(), mix_sums, plan, whole)


def _couple_fused(
    membership: Membership,
    values: Tensor | None,
    mix: Callable[[TokenSums], Tensor],
    plan: Plan,
    joint: Tensor | None = None,
) -> Tensor:
    """Slice, mix and deslice by the kernels of a GPU; without values, the query is sliced.

    With gradients wanted, the pair operators are used, whose backward is one kernel.
    """
    values = membership.query if values is None else values
    slots, chosen = _slots(membership), (str(plan.precision), plan.family)
    stats = _statistics(membership, plan)
    with_gradients = torch.is_grad_enabled()
    if with_gradients and joint is not None:
        sliced = ops.joint_slice(joint, *slots, stats, *chosen)
    elif with_gradients:
        sliced = ops.pair_slice(membership.query, values, *slots, stats, *chosen)
    else:
        sliced = ops.slice_op(membership.query, values, *slots, stats, *chosen, "slots")
    del values
    numerator, mass, *carriers = sliced
    tokens = mix(TokenSums(numerator, mass))
    if with_gradients:
        return ops.pair_deslice(tokens, *carriers, membership.query, *slots, stats, *chosen)
    return ops.deslice_op(membership.query, tokens, *slots, stats, *chosen)[0]


def with_statistics(
    membership: Membership, *, impl: Impl = "auto", precision: Precision | str | None = None
) -> Membership:
    """The membership together with statistics that its kernels would compute again at every use.

    It saves time where one membership serves several operations, all of this precision, and changes
    no result. Only the blocked kernels need statistics; for others the membership stays as it is.
    """
    plan = plan_for(membership, membership.query.shape[-1], impl=impl, precision=precision)
    return replace(membership, statistics=_statistics(_as_computed(membership), plan))


def plan_for(
    membership: Membership,
    value_width: int,
    *,
    impl: Impl = "auto",
    precision: Precision | str | None = None,
    deslice: bool = False,
) -> Plan:
    """The plan for slicing by this membership, or deslicing, on the device where it is now."""
    query = membership.query
    return _cached_plan(
        query.device, compute_dtype(query), membership.slices, query.shape[-1], value_width,
        membership.over, deslice, impl, precision,
    )  # fmt: skip


def plan_on(
    device: torch.device,
    dtype: torch.dtype,
    *,
    slices: int,
    head_width: int,
    value_width: int,
    how: How,
) -> Plan:
    """The plan for memberships of these sizes, normalised over the slots."""
    impl, precision = how["impl"], how["precision"]
    return _cached_plan(
        device, dtype, slices, head_width, value_width, "slots", False, impl, precision
    )


def _cached_plan(*arguments: Any) -> Plan:
    """`_plan` with a cache, since an eager layer asks for its plan at every call."""
    if torch.compiler.is_compiling() or is_transformed():
        return _plan(*arguments)  # the compiler would warn that it ignores the cache
    try:
        return _known_plan(*arguments)
    except TypeError:  # not hashable: sizes are symbols, or the request is malformed
        return _plan(*arguments)


def _plan(
    device: torch.device,
    dtype: torch.dtype,
    slices: int,
    head_width: int,
    value_width: int,
    over: Axis,
    deslice: bool,
    impl: Impl,
    precision: Precision | str | None,
) -> Plan:
    operation = operation_on(
        device, dtype, slices=slices, head_width=head_width, value_width=value_width, over=over,
        deslice=deslice,
    )  # fmt: skip
    return make_plan(operation, impl=impl, precision=precision)


_known_plan = lru_cache(maxsize=256)(_plan)


def operation_on(
    device: torch.device,
    dtype: torch.dtype,
    *,
    slices: int,
    head_width: int,
    value_width: int,
    over: Axis = "slots",
    deslice: bool = False,
) -> Operation:
    """The operation for `make_plan`, with what is known here of device, export and transforms."""
    on_gpu, compiling = device.type == "cuda", torch.compiler.is_compiling()
    return Operation(
        device=device.type,
        dtype=str(dtype).removeprefix("torch."),
        slices=slices,
        head_width=head_width,
        value_width=value_width,
        over=over,
        deslice=deslice,
        interpreted=runtime.TRITON_INTERPRETED,
        triton=runtime.HAS_TRITON,
        shared_memory=None if compiling or not on_gpu else runtime.shared_memory(device),
        plain=not (is_exporting() if compiling else is_transformed()),
    )


def compute_dtype(tensor: Tensor) -> torch.dtype:
    """The dtype in which PyTorch would multiply this tensor: autocast's where that is on."""
    if autocast_is_on(tensor.device) and tensor.dtype != torch.float64:
        return torch.get_autocast_dtype(tensor.device.type)
    return tensor.dtype


def _check_values(membership: Membership, values: Tensor) -> None:
    batch, points = membership.query.shape[:2]
    check_shape("values", values, "B N H V", (batch, points, membership.heads, None))
    check_like("values", values, "query", membership.query)


def _mixed(
    mix: Callable[[Tensor], Tensor], sums: TokenSums, epsilon: float, membership: Membership
) -> Tensor:
    """The mixed tokens, checked, since `mix` is a function of the caller's."""
    tokens = mix(sums.tokens(epsilon))
    check_shape("the tokens that mix returns", tokens, "B H G V", tuple(sums.numerator.shape))
    check_like("the tokens that mix returns", tokens, "query", membership.query)
    return tokens


def _with_dtype(sums: TokenSums, values: Tensor) -> TokenSums:
    """The sums, told to which dtype their tokens are cast."""
    return replace(sums, dtype=_tokens_dtype(values.dtype, values.device))


def _tokens_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype | None:
    """The dtype of the values; None under autocast, where eager means stay in the sums' fp32."""
    return None if autocast_is_on(device) else dtype


def _as_computed(membership: Membership) -> Membership:
    """The membership with its query in the dtype in which it is multiplied."""
    query = membership.query
    dtype = compute_dtype(query)
    return membership if query.dtype == dtype else replace(membership, query=query.to(dtype))


def _slots(membership: Membership) -> tuple[Tensor, Tensor | None, Tensor]:
    return membership.slot_weight, membership.slot_bias, membership.temperature


def _statistics(membership: Membership, plan: Plan) -> Tensor | None:
    """Statistics for the blocked kernels, the membership's own or new ones; None for others."""
    if plan.family != "blocked" or membership.over == "points":
        return None
    if membership.statistics is not None:
        return membership.statistics
    with torch.no_grad():
        return ops.statistics(membership.query, *_slots(membership), str(plan.precision))
