"""The two operations of a coupling: check the arguments, choose an implementation, run it."""

from __future__ import annotations

from torch import Tensor

from slipstream.core.checks import check_like, check_shape
from slipstream.core.shapes import Float
from slipstream.kernels import reference
from slipstream.kernels.membership import Membership, TokenSums
from slipstream.kernels.plan import Impl, make_plan


def slice_points(
    membership: Membership, values: Float[Tensor, "B N H V"], *, impl: Impl = "auto"
) -> TokenSums:
    """Sum the values of the points into slots: numerator (B, H, G, V) and mass (B, H, G).

    Raises ValueError when shape, dtype or device do not fit the membership, and when `impl="fused"`
    cannot be had.
    """
    batch, points = membership.query.shape[:2]
    check_shape("values", values, "B N H V", (batch, points, membership.heads, None))
    check_like("values", values, "query", membership.query)
    make_plan(device_type=values.device.type, impl=impl)
    return reference.slice_points(membership, values)


def deslice_tokens(
    membership: Membership, tokens: Float[Tensor, "B H G V"], *, impl: Impl = "auto"
) -> Float[Tensor, "B N H V"]:
    """Give every point the weighted sum of its slots' tokens; raises as `slice_points` does."""
    batch = membership.query.shape[0]
    check_shape("tokens", tokens, "B H G V", (batch, membership.heads, membership.slices, None))
    check_like("tokens", tokens, "query", membership.query)
    make_plan(device_type=tokens.device.type, impl=impl)
    return reference.deslice_tokens(membership, tokens)
