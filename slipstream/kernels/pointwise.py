"""The operations of a layer that take every point by itself: residual, norm and MLP."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from slipstream.core import runtime
from slipstream.core.shapes import Float
from slipstream.kernels.api import compute_dtype
from slipstream.kernels.operator import is_eager, is_exporting, is_transformed
from slipstream.kernels.pending import Pending, finished
from slipstream.kernels.plan import Impl

if runtime.HAS_TRITON:
    from slipstream.kernels import mlp, norm

_COMPUTED = (torch.float32, torch.bfloat16, torch.float16)
"""The dtypes in which the norm and the MLP have kernels."""


def add_norm(
    stream: Float[Tensor, "*batch C"],
    update: Float[Tensor, "*batch C"] | Pending | None,
    layer: nn.LayerNorm,
    *,
    impl: Impl = "auto",
    reuse: bool = False,
) -> tuple[Float[Tensor, "*batch C"], Float[Tensor, "*batch C"]]:
    """stream + update, and its LayerNorm for a layer that computes in autocast's dtype.

    A single kernel does it on a GPU, and plain PyTorch elsewhere. `reuse` allows the sum to be
    written over the stream, which is done where the kernel runs and no gradient is wanted.
    """
    product, bias = update if isinstance(update, Pending) else (update, None)
    if not _norm_is_fused(stream, product, layer, impl):
        if update is not None:
            stream = stream + finished(update)
        return stream, layer(stream)
    parameters = (bias, layer.weight, layer.bias, layer.eps, compute_dtype(stream))
    wants_gradient = torch.is_grad_enabled() or not is_eager(stream)
    if reuse and product is not None and not wants_gradient and stream.is_contiguous():
        return stream, norm.add_norm_(stream, product, *parameters)
    summed, normed, _ = norm.add_norm(stream, product, *parameters)
    return stream if product is None else summed, normed


def linear_gelu_linear(
    x: Float[Tensor, "*batch C"],
    expand: nn.Linear,
    contract: nn.Linear,
    *,
    tanh: bool,
    impl: Impl = "auto",
) -> Float[Tensor, "*batch K"] | Pending:
    """contract(gelu(expand(x))), where a GPU computes it without the last bias.

    `tanh` chooses the approximate GELU.
    """
    if not _mlp_is_fused(x, expand, contract, impl):
        return contract(F.gelu(expand(x), approximate="tanh" if tanh else "none"))
    dtype = compute_dtype(x)
    products = (expand.weight.to(dtype), expand.bias, contract.weight.to(dtype))
    out, _ = mlp.mlp(x.to(dtype), *products, tanh, torch.is_grad_enabled())
    return Pending(out, contract.bias)


def runs_on_gpu(x: Tensor, impl: Impl) -> bool:
    """Whether kernels for GPUs may compute on this tensor, whatever its sizes."""
    if impl in ("reference", "chunked") or not runtime.HAS_TRITON:
        return False
    if x.device.type != "cuda" and not (runtime.TRITON_INTERPRETED and impl != "auto"):
        return False
    return not (is_exporting() or is_transformed())


def _norm_is_fused(stream: Tensor, update: Tensor | None, layer: nn.LayerNorm, impl: Impl) -> bool:
    """Whether the kernel may stand in for `layer(stream + update)` here."""
    if not runs_on_gpu(stream, impl) or not is_plain(layer):
        return False
    if layer.normalized_shape != (stream.shape[-1],):
        return False
    if update is not None and update.shape != stream.shape:
        return False
    if update is not None and torch.promote_types(stream.dtype, update.dtype) != stream.dtype:
        return False  # the sum would be wider than the stream
    return stream.dtype in _COMPUTED and stream.shape[-1] <= norm.WIDEST


def _mlp_is_fused(x: Tensor, expand: nn.Linear, contract: nn.Linear, impl: Impl) -> bool:
    if not runs_on_gpu(x, impl) or not (is_plain(expand) and is_plain(contract)):
        return False
    return compute_dtype(x) in _COMPUTED and expand.out_features <= mlp.WIDEST


def is_plain(layer: nn.LayerNorm | nn.Linear) -> bool:
    """Whether calling the layer computes what its class does and nothing else: no hooks."""
    if type(layer) not in (nn.LayerNorm, nn.Linear) or layer.weight is None or layer.bias is None:
        return False
    return not has_hooks(layer)


def has_hooks(module: nn.Module) -> bool:
    """Whether hooks, of this module or of all modules, see its inputs or outputs."""
    own = module._forward_hooks or module._forward_pre_hooks
    backward = module._backward_hooks or module._backward_pre_hooks
    return bool(own or backward or _has_any_global_hook())
