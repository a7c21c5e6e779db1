from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.metrics import Errors, ErrorSums, error_sums, pick, relative_error

GROUPS = {"p": (0,), "u": (1, 2)}
NAN = float("nan")


def pair(samples: int = 3, points: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    shape = (2, samples, points, 3)
    prediction, target = torch.randn(shape, generator=draw, dtype=torch.float64)
    return prediction, target


def errors_of(
    prediction: torch.Tensor, target: torch.Tensor, names: str = "ab", order: Any = 1
) -> Errors:
    return Errors.of(error_sums(prediction, target, GROUPS, order=order), GROUPS, list(names))


def by_hand(
    prediction: torch.Tensor, target: torch.Tensor, order: int, keep: list[list[int]]
) -> list[list[float]]:
    """One number at a time, for the points in `keep[sample]`."""
    rows = []
    for s, points in enumerate(keep):
        row = []
        for channels in GROUPS.values():
            pairs = [(prediction[s, n, c].item(), target[s, n, c].item())
                     for n in points for c in channels]  # fmt: skip
            difference = sum(abs(p - t) ** order for p, t in pairs) ** (1 / order)
            row.append(difference / sum(abs(t) ** order for _, t in pairs) ** (1 / order))
        rows.append(row)
    return rows


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("masked", [False, True])
def test_against_the_formula(order: int, masked: bool) -> None:
    prediction, target = pair()
    keep = [[0, 1, 5], [2], [0, 3]] if masked else [list(range(6))] * 3
    mask = torch.zeros(3, 6, dtype=torch.bool)
    for sample, points in enumerate(keep):
        mask[sample, points] = True
    if masked:
        prediction[~mask], target[~mask] = NAN, NAN  # what does not count cannot matter
    sums = error_sums(prediction, target, GROUPS, order=order, mask=mask if masked else None)  # type: ignore[arg-type]
    errors, defined = sums.relative()
    expected = by_hand(prediction, target, order, keep)
    torch.testing.assert_close(errors, torch.tensor(expected, dtype=torch.float64))
    assert defined.all()
    mean = relative_error(prediction, target, GROUPS, order=order, mask=mask if masked else None)  # type: ignore[arg-type]
    torch.testing.assert_close(mean, errors.mean())


@given(cut=st.integers(1, 5), order=st.sampled_from([1, 2]))
@settings(max_examples=10)
def test_chunks_of_points_add_up(cut: int, order: int) -> None:
    prediction, target = pair()
    parts = [
        error_sums(prediction[:, part], target[:, part], GROUPS, order=order)  # type: ignore[arg-type]
        for part in (slice(cut), slice(cut, None))
    ]
    whole = error_sums(prediction, target, GROUPS, order=order)  # type: ignore[arg-type]
    torch.testing.assert_close((parts[0] + parts[1]).relative(), whole.relative())


def test_streaming_over_batches_is_the_mean_over_samples() -> None:
    prediction, target = pair(samples=5)
    parts = errors_of(prediction[2:], target[2:], "cde"), errors_of(prediction[:2], target[:2])
    metric = Errors.joined(GROUPS, parts)
    assert list(metric.samples) == list("abcde")
    errors, _ = error_sums(prediction, target, GROUPS).relative()
    assert math.isclose(metric.mean(), errors.mean().item(), rel_tol=1e-12)
    assert metric.by_group() == pytest.approx({"p": errors[:, 0].mean().item(),
                                               "u": errors[:, 1].mean().item()})  # fmt: skip


def test_channels_in_no_group_do_not_count() -> None:
    prediction, target = pair()
    before = relative_error(prediction, target, {"u": (1, 2)}, check_values=False)
    prediction[..., 0] = NAN
    after = relative_error(prediction, target, {"u": (1, 2)}, check_values=False)
    assert torch.equal(before, after)


def test_a_zero_target_is_an_error_or_a_skip_but_never_a_nan() -> None:
    prediction, target = pair()
    target[1, :, 1:] = 0
    with pytest.raises(ValueError, match="only zeros for sample 1, group 'u'"):
        relative_error(prediction, target, GROUPS)
    prediction.requires_grad_()
    skipped = relative_error(prediction, target, GROUPS, on_zero="skip")
    rows = by_hand(prediction.detach(), pair()[1], 1, [list(range(6))] * 3)
    kept = [e for s, row in enumerate(rows) for g, e in enumerate(row) if (s, g) != (1, 1)]
    assert skipped.item() == pytest.approx(sum(kept) / 5)
    skipped.backward()
    assert prediction.grad is not None and prediction.grad.isfinite().all()

    metric = errors_of(prediction.detach(), target, "abc")
    assert metric.samples["b"][1] is None and metric.mean() == pytest.approx(sum(kept) / 5)
    assert metric.by_group()["u"] == pytest.approx((rows[0][1] + rows[2][1]) / 2)


def test_all_targets_zero_gives_zero_loss_not_nan() -> None:
    prediction = torch.ones(1, 4, 3, requires_grad=True)
    loss = relative_error(prediction, torch.zeros(1, 4, 3), GROUPS, check_values=False)
    loss.backward()
    assert loss.item() == 0 and prediction.grad is not None and not prediction.grad.any()


@pytest.mark.parametrize("order", [1, 2])
def test_the_loss_differentiates(order: int) -> None:
    prediction, target = pair()
    prediction.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: relative_error(x, target, GROUPS, order=order),
        (prediction,),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("order", [1, 2])
def test_a_perfect_prediction_has_finite_gradients(order: int) -> None:
    _, target = pair()
    prediction = target.clone().requires_grad_()
    loss = relative_error(prediction, target, GROUPS, order=order)  # type: ignore[arg-type]
    loss.backward()
    assert loss.item() == 0 and prediction.grad is not None and prediction.grad.isfinite().all()


def test_low_precision_is_summed_in_fp32() -> None:
    prediction, target = torch.full((1, 40000, 1), 2.0), torch.full((1, 40000, 1), 1.0)
    error = relative_error(prediction.half(), target.half(), {"p": (0,)})
    assert error.item() == 1 and error.dtype == torch.float32


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("where", ["prediction", "target"])
@pytest.mark.parametrize("bad", [NAN, float("inf")])
def test_nan_and_infinity_are_named(where: str, bad: float, order: Any) -> None:
    arguments = dict(zip(("prediction", "target"), pair(), strict=True))
    arguments[where][1, 2, 0] = bad
    message = f"{where} must be finite, got 1 NaN or infinite of 54 values"
    with pytest.raises(ValueError, match=message):
        relative_error(**arguments, groups=GROUPS, order=order)
    assert not math.isfinite(errors_of(**arguments, names="abc", order=order).mean())


def test_a_nan_prediction_is_a_nan_loss_for_the_training_loop() -> None:
    prediction, target = pair()
    prediction[0, 0, 0] = NAN
    assert relative_error(prediction, target, GROUPS, check_values=False).isnan()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prediction": torch.zeros(3, 6, 2)}, r"prediction must have shape .* = \(3, 6, 3\), got"),
        ({"target": torch.zeros(6, 3)}, r"target must have shape \(S, N, K\)"),
        ({"target": torch.zeros(3, 0, 3)}, "every size at least 1"),
        ({"prediction": torch.zeros(3, 6, 3).long()}, "prediction must have a floating dtype"),
        ({"prediction": torch.zeros(3, 6, 3, device="meta")}, "prediction must be on device cpu"),
        ({"groups": {}}, "groups must name at least one group"),
        ({"groups": {"p": (3,)}}, r"groups\['p'\] must hold channels from 0 to 2, got \(3,\)"),
        ({"groups": {"p": ()}}, r"groups\['p'\] must hold channels from 0 to 2, got \(\)"),
        ({"order": 3}, "order must be one of 1, 2, got '3'"),
        ({"mask": torch.ones(3, 5).bool()}, r"mask must have shape \(S, N\) = \(3, 6\), got"),
        ({"mask": torch.ones(3, 6)}, "mask must have dtype torch.bool, got torch.float32"),
        ({"on_zero": "nan"}, "on_zero must be one of error, skip, got 'nan'"),
    ],
)
def test_bad_arguments(no_shape_checks: None, changes: dict[str, object], message: str) -> None:
    prediction, target = (t.float() for t in pair())
    arguments = {"prediction": prediction, "target": target, "groups": GROUPS, **changes}
    with pytest.raises(ValueError, match=message):
        relative_error(**arguments)  # type: ignore[arg-type]


def test_bad_use_of_the_accumulators(no_shape_checks: None) -> None:
    assert math.isnan(Errors(("p", "u"), {}).mean())
    with pytest.raises(ValueError, match=r"must have groups \('p',\), got \('u',\)"):
        Errors.joined(("p",), [Errors(("p",), {}), Errors(("u",), {})])
    one, two = (ErrorSums(torch.ones(1, 1), torch.ones(1, 1), order) for order in (1, 2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must have order 1, got 2"):
        one + two


def test_channels_are_picked_in_their_order() -> None:
    rows = torch.arange(12.0).reshape(2, 1, 6)
    for channels in ((0,), (1, 2, 3), (4, 1), (0, 2, 5), (3, 2)):
        assert torch.equal(pick(rows, channels), rows[..., list(channels)])


def test_a_group_may_have_channels_that_lie_apart() -> None:
    prediction, target = torch.rand(2, 5, 4) + 1, torch.rand(2, 5, 4) + 1
    found = relative_error(prediction, target, {"a": (0, 3)})
    kept = [0, 3]
    expected = relative_error(prediction[..., kept], target[..., kept], {"a": (0, 1)})
    torch.testing.assert_close(found, expected)
