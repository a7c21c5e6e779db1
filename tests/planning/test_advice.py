"""Which changes are proposed, in which order, and that they are what they say."""

from __future__ import annotations

from dataclasses import replace

from slipstream.planning import Spread, Workload, device_named, largest_options, options, predict
from slipstream.planning.predict import KEPT

H200 = device_named("h200")
BIG = Workload(points=8_000_000, recorded=True)


def test_an_option_is_the_step_with_its_changes() -> None:
    by_changes = {option.changes: option for option in options(BIG, H200)}
    lean = by_changes[("memory=lean",)]
    assert lean.work == replace(BIG, memory="lean")
    assert lean.prediction == predict(lean.work, H200)
    shared = by_changes[("mesh.points=4",)]
    assert shared.work == BIG and shared.spread == Spread(points=4)
    assert shared.prediction.bytes < H200.usable < predict(BIG, H200, Spread(points=2)).bytes


def test_superfluous_changes_are_left_out() -> None:
    """An option with the changes of another that fits, and more, is there only if it is faster."""
    work = replace(BIG, points=4_000_000, precision="fp32", recorded=False)
    found = [option for option in options(work, H200)[1:] if option.spread.devices == 1]
    for option in found:
        for other in found:
            if set(other.changes) < set(option.changes):
                assert (option.prediction.seconds or 0) < (other.prediction.seconds or 0)


def test_fields_are_those_that_differ() -> None:
    recomputed = Workload(points=100_000, memory="recompute", precision="fp32", dots="tf32")
    changes = {change for option in options(recomputed, H200) for change in option.changes}
    assert {"recompute=false", "precision=bf16", "model.dots=null"} <= changes
    assert "memory=normal" not in changes
    lean = replace(recomputed, memory="lean")
    assert any("memory=normal" in option.changes for option in options(lean, H200))


def test_smaller_steps_come_last_and_only_where_none_fits() -> None:
    batch = replace(BIG, points=2_000_000, batch=4, memory="recompute")
    last = [option.changes for option in options(batch, H200)][-5:]
    assert ("batch=1",) in last and last[-1][0].startswith("data.points=")
    fitting = options(replace(BIG, points=100_000), H200)
    assert not any("points=" in change for option in fitting for change in option.changes)


def test_the_largest_are_sorted_and_fit() -> None:
    found = largest_options(BIG, H200)
    points = [option.work.points for option in found]
    assert points == sorted(points) and len(found) == 5
    assert all(option.fits and option.largest >= option.work.points for option in found)
    assert [option.changes for option in found][-1] == ("memory=lean",)


def test_without_layers_of_points_nothing_is_recomputed() -> None:
    once = Workload(points=20_000_000, variant="slice-once")
    changes = {change for option in options(once, H200) for change in option.changes}
    assert "memory=lean" in changes and "recompute=true" not in changes
    kept = {name: predict(replace(once, memory="lean", variant=name), H200).parts[KEPT]
            for name in ("slice-once", "mlp-only", "baseline")}  # fmt: skip
    streams = {name: size / (once.points * 4 * 256) for name, size in kept.items()}
    assert streams == {"slice-once": 2, "mlp-only": 1, "baseline": 9}
