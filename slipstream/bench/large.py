"""Slice and deslice of very many points at once, compared with the same in chunks.

Token sums of chunks add up, deslice acts on every point separately, and gradients do one or the
other. Both computations therefore agree up to the rounding of sums, unless an offset beyond 2^31
elements overflows.
"""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from slipstream.bench.gate import Tensors, Verdict, Way, autocast, compared, distance
from slipstream.kernels.api import couple, deslice_tokens, slice_points, with_statistics
from slipstream.kernels.membership import Axis, Membership, TokenSums
from slipstream.kernels.plan import How

HEADS, WIDTH = 8, 32
CHUNK = 1 << 20
LIMIT, COUPLED_LIMIT = 1e-2, 3e-2
"""Limits on relative distances. Chunks are rounded to bf16 at another scale, coupled gradients at
other places; a wrong offset makes a distance of 1 or more at the last points."""


def check_in_chunks(
    way: Way, *, over: Axis, points: int, slices: int, device: str, chunk: int = CHUNK
) -> Verdict:
    """Compare outputs and gradients of all points, and separately those of the last points."""
    draw = torch.Generator(device).manual_seed(0)
    dtype = torch.bfloat16 if way.autocast else way.dtype

    def randn(*shape: int, dtype: torch.dtype = way.dtype) -> Tensor:
        return torch.randn(shape, generator=draw, device=device, dtype=dtype)

    query, values = (randn(1, points, HEADS, WIDTH, dtype=dtype) for _ in range(2))
    fixed = {
        "slot_weight": randn(slices, WIDTH) / WIDTH**0.5,
        "slot_bias": randn(slices),
        "temperature": torch.full((HEADS,), 0.5, device=device, dtype=way.dtype),
        "tokens": randn(1, HEADS, slices, WIDTH),
    }
    cotangents = [randn(1, HEADS, slices, WIDTH), randn(1, HEADS, slices)]
    whole = _compute(way, over, [query], [values], fixed, cotangents)
    parts = _compute(way, over, query.split(chunk, 1), values.split(chunk, 1), fixed, cotangents)
    differences = _compare(whole, parts, points % chunk or chunk)
    limits = dict.fromkeys(differences, LIMIT)
    del whole, parts
    if over == "slots":
        apart = _coupled(way, query, values, fixed, together=False)
        for name, tensor in _coupled(way, query, values, fixed, together=True).items():
            pieces = zip(_pieces(tensor, chunk), _pieces(apart[name], chunk), strict=True)
            differences[name] = max(distance(*pair) for pair in pieces)
            limits[name] = COUPLED_LIMIT
    return compared(differences, limits)


def _pieces(tensor: Tensor, chunk: int) -> tuple[Tensor, ...]:
    """A tensor with a row for every point in chunks, since distances are taken in fp64; others
    whole."""
    return tensor.split(chunk, 1) if tensor.ndim == 4 else (tensor,)


def _compute(
    way: Way,
    over: Axis,
    queries: list[Tensor] | tuple[Tensor, ...],
    values: list[Tensor] | tuple[Tensor, ...],
    fixed: Tensors,
    cotangents: list[Tensor],
) -> Tensors:
    """Sums, outputs and gradients by name; those of points have the number of their chunk in it."""
    how: How = {"impl": way.impl, "precision": way.precision}
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in fixed.items()}
    for number, (query, value) in enumerate(zip(queries, values, strict=True)):
        leaves[f"query {number}"] = query.detach().requires_grad_()
        leaves[f"values {number}"] = value.detach().requires_grad_()
    sums: list[TokenSums] = []
    outs: Tensors = {}
    slots = (leaves["slot_weight"], leaves["slot_bias"], leaves["temperature"])
    with autocast(way, str(fixed["tokens"].device)):
        for number in range(len(queries)):
            membership = Membership(leaves[f"query {number}"], *slots)
            membership = with_statistics(membership, **how)
            slicing = membership if over == "slots" else Membership(membership.query, *slots, over)
            sums.append(slice_points(slicing, leaves[f"values {number}"], **how))
            outs[f"out {number}"] = deslice_tokens(membership, leaves["tokens"], **how)
    total = reduce(TokenSums.__add__, sums)
    second = total.mass if total.log_normalizer is None else total.log_normalizer
    outputs = {"numerator": total.numerator, "mass or normalizer": second, **outs}
    # Any cotangent of the outputs will do; the values have the shape and take no more memory.
    of_outs = [value.to(out.dtype) for value, out in zip(values, outs.values(), strict=True)]
    directions = [c.to(t.dtype) for c, t in zip(cotangents, outputs.values(), strict=False)]
    gradients = torch.autograd.grad(
        list(outputs.values()), list(leaves.values()), [*directions, *of_outs]
    )
    named = {f"gradient of {n}": g for n, g in zip(leaves, gradients, strict=True)}
    return {name: tensor.detach() for name, tensor in {**outputs, **named}.items()}


def _coupled(way: Way, query: Tensor, values: Tensor, fixed: Tensors, *, together: bool) -> Tensors:
    """Output and gradients of slice, doubling the tokens, deslice: by `couple`, or one by one."""
    how: How = {"impl": way.impl, "precision": way.precision}
    leaves = {"query": query, "values": values, **fixed}
    del leaves["tokens"]
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in leaves.items()}
    slots = (leaves["slot_weight"], leaves["slot_bias"], leaves["temperature"])
    with autocast(way, str(query.device)):
        membership = with_statistics(Membership(leaves["query"], *slots), **how)
        if together:
            out = couple(membership, leaves["values"], lambda means: 2 * means, **how)
        else:
            means = slice_points(membership, leaves["values"], **how).tokens()
            out = deslice_tokens(membership, 2 * means, **how)
    gradients = torch.autograd.grad(out, list(leaves.values()), values.to(out.dtype))
    named = {f"coupled: gradient of {n}": g for n, g in zip(leaves, gradients, strict=True)}
    return {"coupled: out": out.detach(), **named}


def _compare(whole: Tensors, parts: Tensors, last: int) -> dict[str, float]:
    """Differences by name: the largest over the chunks, and separately that of the last points."""
    differences: dict[str, float] = {}
    for name, tensor in whole.items():
        if not name.endswith(" 0"):
            differences[name] = distance(tensor, parts[name])
            continue
        base = name.removesuffix(" 0")
        chunks = [parts[f"{base} {n}"] for n in range(sum(k.startswith(f"{base} ") for k in parts))]
        pieces = tensor.split(chunks[0].shape[1], 1)
        distances = [distance(piece, chunk) for piece, chunk in zip(pieces, chunks, strict=True)]
        differences[base] = max(distances)
        differences[f"{base}, last {last} points"] = distances[-1]
    return differences
