from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from slipstream import Membership, TokenSums, deslice_tokens, slice_points
from slipstream.kernels.membership import Axis

from .cases import B, D, G, H, N, V, membership, tokens, values

GOOD = {
    "query": torch.zeros(B, N, H, D),
    "slot_weight": torch.zeros(G, D),
    "slot_bias": torch.zeros(G),
    "temperature": torch.ones(H),
}


def test_sizes() -> None:
    m = Membership(**GOOD)
    assert (m.heads, m.slices, m.over) == (H, G, "slots")


@pytest.mark.parametrize(
    ("name", "bad", "message"),
    [
        (
            "query",
            torch.zeros(0, N, H, D),
            r"query must have shape .* at least 1, got \(0, 5, 3, 2",
        ),
        ("query", torch.zeros(N, H, D), r"query must have shape \(B, N, H, D\) .*got \(5, 3, 2\)"),
        ("query", torch.zeros(B, N, 2, D), "query must have 1 or H = 3 heads .* got 2"),
        (
            "query",
            torch.zeros(B, N, H, D).long(),
            "query must have a floating dtype, got torch.int",
        ),
        ("slot_weight", torch.zeros(G, 7), r"slot_weight .* \(G, D\) = \(G, 2\), got \(4, 7\)"),
        ("slot_weight", torch.zeros(2, G, D), r"slot_weight .* = \(3, G, 2\), got \(2, 4, 2\)"),
        ("slot_weight", torch.zeros(5, H, G, D), r"slot_weight .* = \(2, 3, G, 2\), got \(5, 3"),
        (
            "slot_weight",
            torch.zeros(D),
            r"shape \(G, D\) or \(H, G, D\) or \(B, H, G, D\), got \(2",
        ),
        ("slot_weight", None, "slot_weight must have shape .* got NoneType"),
        ("slot_weight", torch.zeros(G, D).double(), "slot_weight must have dtype torch.float32"),
        ("slot_weight", torch.zeros(G, D, device="meta"), "slot_weight must be on device cpu like"),
        ("slot_bias", torch.zeros(3), r"slot_bias must have shape \(G\) = \(4\), got \(3,\)"),
        ("slot_bias", torch.zeros(2, G), r"slot_bias must have shape \(H, G\) = \(3, 4\), got \(2"),
        ("slot_bias", torch.zeros(G).half(), "slot_bias must have dtype torch.float32 like query"),
        ("temperature", torch.ones(()), r"temperature must have shape \(H\) = \(H\), got \(\)"),
        ("temperature", torch.ones(H).double(), "temperature must have dtype torch.float32"),
        ("statistics", torch.ones(2, B, H, 1), r"statistics must have .* = \(2, 2, 3, 5\), got"),
        ("over", "heads", "over must be one of slots, points, got 'heads'"),
    ],
)
def test_bad_memberships(no_shape_checks: None, name: str, bad: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Membership(**{**GOOD, name: bad})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (torch.zeros(B, N + 1, H, V).double(), r"values must have shape .* = \(2, 5, 3, V\), got"),
        (torch.zeros(B, N, 1, V).double(), r"values must have shape .* = \(2, 5, 3, V\), got"),
        (torch.zeros(B, N, H, 0).double(), "every size at least 1"),
        (torch.zeros(B, N, H, V), "values must have dtype torch.float64 like query, got torch.fl"),
        (torch.zeros(B, N, H, V).double().to("meta"), "values must be on device cpu like query"),
    ],
)
def test_bad_values(no_shape_checks: None, bad: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        slice_points(membership(), bad)


def test_bad_tokens(no_shape_checks: None) -> None:
    with pytest.raises(ValueError, match=r"tokens must have shape .* = \(2, 3, 4, V\), got"):
        deslice_tokens(membership(), torch.zeros(B, H, G + 1, V).double())
    with pytest.raises(ValueError, match="tokens must have dtype torch.float64 like query"):
        deslice_tokens(membership(), torch.zeros(B, H, G, V))


def test_fused_is_refused_with_the_reason() -> None:
    reason = "the kernels take float32, bfloat16, float16, not float64"
    with pytest.raises(ValueError, match=reason):
        slice_points(membership(), values(), impl="fused")
    with pytest.raises(ValueError, match=reason):
        deslice_tokens(membership(), tokens(), impl="fused")


def test_sums_of_different_kinds_do_not_add() -> None:
    over_slots = slice_points(membership("slots"), values())
    over_points = slice_points(membership("points"), values())
    with pytest.raises(ValueError, match="normalised over the same axis"):
        over_slots + over_points
    with pytest.raises(ValueError, match=r"numerator of shape \(2, 3, 4, 3\), got \(1, 3, 4, 3\)"):
        over_slots + TokenSums(over_slots.numerator[:1], over_slots.mass[:1])


@pytest.mark.parametrize("over", ["slots", "points"])
def test_ranks_exchange_their_sums(over: Axis) -> None:
    """Two ranks with uneven shares of the points, whose messages are added up by hand."""
    whole = membership(over)
    parts = [replace(whole, query=whole.query[:, span]) for span in (slice(0, 1), slice(1, None))]
    sums = [
        slice_points(part, values()[:, span])
        for part, span in zip(parts, (slice(0, 1), slice(1, None)), strict=True)
    ]
    tops = [s.log_normalizer for s in sums if s.log_normalizer is not None]
    messages: list[Tensor] = []

    def largest(_: Tensor) -> Tensor:
        return torch.maximum(*tops)

    def collect(message: Tensor) -> Tensor:
        messages.append(message)
        return message

    for own in sums:
        own.reduced(collect, largest)
    reduced = sums[0].reduced(lambda _: messages[0] + messages[1], largest)
    expected = slice_points(whole, values())
    torch.testing.assert_close(reduced.numerator, expected.numerator, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(reduced.mass, expected.mass, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(reduced.log_normalizer, expected.log_normalizer)
