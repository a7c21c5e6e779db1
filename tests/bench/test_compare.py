"""What `slipstream bench compare` counts, on made coefficients, and variants of a body."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slipstream.bench.compare import Coefficients, Predicted, mean_of, try_splits
from slipstream.bench.half_bodies import write_variant
from slipstream.data.meshes import read_mesh


def made(seed: int, error: float) -> Predicted:
    """True differences of 1 and errors that designs share, besides their own; variants of the first
    thirty differ by a hundredth, and their errors too."""
    draw = np.random.default_rng(0)
    true = draw.normal(0, 1, (200, 3))
    errors = 2 + np.random.default_rng(seed).normal(0, error, (200, 3))
    change = draw.normal(0, 0.01, (30, 3))
    variant = Coefficients(true[:30] + errors[:30] + (1 + error) * change, true[:30] + change)
    return Predicted(Coefficients(true + errors, true), (variant, variant))


def test_what_is_counted() -> None:
    rows = list(try_splits([made(1, 0.3)], samples=80, splits=2, level=0.9, seed=0))
    by = {(r["coefficient"], r["designs"], r["interval"]): r for r in rows}
    assert len(by) == len(rows) == 3 * 4 * 4
    pair, apart = by["cd", "pair", "compare"], by["cd", "pair", "two separate"]
    assert pair["cases"] == 2 * 40 and by["cd", "three at once", "compare"]["cases"] == 20
    assert 0.8 <= pair["covered"] <= 1 and pair["wrong"] <= 0.1
    # Errors that all share are in each separate interval, and cancel in the difference.
    assert pair["decided"] > 0.5 and apart["decided"] == 0 and apart["covered"] == 1
    close, plain = (
        by["cd", "variant, 0.5%", way] for way in ("compare", "compare without distances")
    )
    assert close["median_bound"] < 0.2 * plain["median_bound"] and close["covered"] >= 0.8
    assert by["cd", "three at once", "compare"]["median_bound"] > pair["median_bound"]


def test_models_together_and_smaller_errors() -> None:
    both = mean_of([made(1, 0.3), made(2, 0.3)])
    ratio = both.samples.residuals.std() / made(1, 0.3).samples.residuals.std()
    assert 0.6 < ratio < 0.8, "independent errors of two models shrink by the root of 2"
    fifth = both.with_errors(0.2)
    np.testing.assert_allclose(fifth.samples.residuals, 0.2 * both.samples.residuals, atol=1e-12)
    np.testing.assert_array_equal(fifth.variants[0].true, both.variants[0].true)


def test_a_variant_is_the_body_changed_a_little(tmp_path: Path) -> None:
    for name, change in (("same", 0.0), ("other", 0.02)):
        write_variant(0, 3, change, tmp_path / name)
    same, other = (read_mesh(tmp_path / f"{name}.vtp").points() for name in ("same", "other"))
    size = float(np.linalg.norm(np.ptp(same, axis=0)))
    near = np.linalg.norm(other.mean(0) - same.mean(0)) / size
    assert 0 < near < 0.05 and abs(len(other) - len(same)) < 0.1 * len(same)
