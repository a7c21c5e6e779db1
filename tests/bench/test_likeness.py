"""The families of `slipstream bench likeness`, and how detection is counted."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slipstream.bench.likeness import FALSE_ALARMS, _detection
from slipstream.bench.likeness_families import SAME, families_for, make_sample
from slipstream.bench.likeness_views import DISTANCES
from slipstream.physics.potential_flow import PotentialFlow

CONFIG = PotentialFlow(panels=160, bodies=(1, 1), families=("car",))


def test_families_change_what_they_say() -> None:
    families = families_for(CONFIG)
    made = {
        name: make_sample(make(CONFIG, 1, 0), CONFIG, 1, 0, points=400, solved=name == SAME)
        for name, make in families.items()
    }
    own = made[SAME]
    assert own.targets is not None and own.targets.shape == (400, 4)
    size = {name: torch.from_numpy(np.ptp(one.coords.numpy(), 0)) for name, one in made.items()}
    slender = size["twice as slender"] / size[SAME]
    torch.testing.assert_close(slender, torch.tensor([1.0, 0.5, 0.5]), atol=0.06, rtol=0)
    torch.testing.assert_close(made["scaled by 1.3"].coords, 1.3 * own.coords, atol=0.01, rtol=0.01)
    turned = made["turned by 30 degrees"]
    torch.testing.assert_close(turned.coords.norm(dim=1), own.coords.norm(dim=1))
    torch.testing.assert_close(turned.features[:, 3:], own.features[:, 3:])
    cosine = (turned.features[:, :2] * own.features[:, :2]).sum(1)
    torch.testing.assert_close(
        cosine, own.features[:, :2].square().sum(1) * np.cos(np.pi / 6), atol=1e-5, rtol=1e-5
    )
    for name, sample in made.items():
        torch.testing.assert_close(sample.features[:, :3].norm(dim=1), torch.ones(400))
        changed = not torch.equal(sample.features[:, 3:], own.features[:, 3:])
        assert changed == name.startswith("inflow")
    assert {"shape blunt", "shape wing"} <= families.keys() and "shape car" not in families


def test_detection_is_counted_above_the_quantile_of_the_own() -> None:
    own = np.arange(100.0)
    scores = {"val": own[:30], "test": own[30:60], SAME: own[60:], "other": own + 50}
    plain = {name: np.zeros(len(values), bool) for name, values in scores.items()}
    plain["other"][:20] = True
    row = _detection(scores, plain)
    assert FALSE_ALARMS[3] == 0.05 and row["own_samples"] == 100
    # Of the other's 50 to 149, those above the 95th of 0 to 99.
    assert row["families"]["other"]["by_score"][3] == pytest.approx(0.54)
    assert row["families"]["other"]["together"][3] == pytest.approx(0.74)
    assert row["families"]["other"]["by_plain_checks"] == 0.2
    assert row["worst"] == pytest.approx(0.74) and row["worst_family"] == "other"
    assert row["families"]["other"]["auc_of_score"] == pytest.approx(0.875)


@pytest.mark.parametrize("distance", DISTANCES)
def test_every_distance_tells_what_is_far(distance: str) -> None:
    draw = np.random.default_rng(0)
    score = DISTANCES[distance](draw.normal(size=(80, 12)))
    near, far = score(draw.normal(size=(40, 12))), score(draw.normal(size=(40, 12)) * 8)
    assert far.min() > np.median(near) and (far > near.max()).mean() > 0.9
