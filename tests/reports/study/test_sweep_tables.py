"""Tables of fields that a study swept, from runs that were never trained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slipstream.core.configs import overlay
from slipstream.reports.draw.pictures import _points_of
from slipstream.reports.page.tables import cell_text
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.settings import main_groups, sweep
from slipstream.reports.study.sweep_tables import sweep_tables

from ..made_data import run

RATIO = "model.size.key_ratio"


def swept(one: RunData, *fields: str, seconds: float = 10.0, **values: Any) -> RunData:
    """The run of a study that sweeps these fields; `optim__clip=1` is the value of optim.clip."""
    given = {name.replace("__", "."): value for name, value in values.items()}
    changed = overlay(one.config, given)
    return replace(one, config=changed, swept_fields=fields, swept=given, seconds=seconds)


def texts(runs: list[RunData]) -> dict[str, list[list[str]]]:
    return {t.name: [[cell_text(c) for c in row] for row in t.rows] for t in sweep_tables(runs)}


def test_a_baseline_that_was_trained_once_is_beside_every_value() -> None:
    runs = [
        *(swept(run("baseline", error, seed), RATIO) for seed, error in enumerate((0.19, 0.21))),
        *(
            swept(run("untied-ln", 0.4 / ratio, parameters=100 * ratio, key_ratio=ratio), RATIO,
                  seconds=30.0 * ratio)
            for ratio in (4, 1, 2)
        ),
    ]  # fmt: skip
    assert [group.at("key_ratio") for group in sweep(runs, "key_ratio")[0]] == [1, 2, 4]
    assert main_groups(runs)[0].at("key_ratio") == 4, "the value that is listed first"
    found = texts(runs)
    assert found.keys() == {"sweep-key_ratio", "sweep-key_ratio-cost"}
    assert found["sweep-key_ratio"] == [
        ["poisson", "1", "0.200 ± 0.01", "2.00×"],
        ["poisson", "2", "0.200 ± 0.01", "1.00×"],
        ["poisson", "4", "0.200 ± 0.01", "0.500×"],
    ]
    cost = found["sweep-key_ratio-cost"]
    assert cost[0][:5] == ["poisson", "1", "baseline", "100", "10.0 ± 0"]
    assert [row[3:] for row in cost[1::2]] == [
        ["100", "30.0", "0.400", "2.00×"],
        ["200", "60.0", "0.200", "1.00×"],
        ["400", "120", "0.100", "0.500×"],
    ]


def test_a_sweep_of_the_optimiser_and_of_words() -> None:
    loss = "optim.loss"
    runs = [
        swept(run(variant, error, loss == "mse"), loss, optim__loss=value)
        for value, error in (("relative-l1", 0.1), ("mse", 0.2))
        for variant in ("baseline", "untied")
    ]
    assert texts(runs)["sweep-optim.loss"] == [
        ["poisson", "mse", "0.200", "1.00×"],
        ["poisson", "relative-l1", "0.100", "1.00×"],
    ]
    (groups,) = sweep(runs, loss)
    points = _points_of(groups, loss, ["baseline"])
    assert [(p.at, p.label, p.error) for p in points] == [(0, "mse", 0.2), (1, "relative-l1", 0.1)]


def test_a_grid_has_a_row_for_every_combination_and_says_which() -> None:
    clip = "optim.clip"
    runs = [
        swept(run("baseline", layers * value / 10, layers=layers), clip, "model.size.layers",
              optim__clip=float(value))
        for layers in (4, 2)
        for value in (1, 3)
    ]  # fmt: skip
    found = texts(runs)
    assert found["sweep-layers"] == [
        ["poisson", "optim.clip = 1.0", "2", "0.200"],
        ["poisson", "optim.clip = 1.0", "4", "0.400"],
        ["poisson", "optim.clip = 3.0", "2", "0.600"],
        ["poisson", "optim.clip = 3.0", "4", "1.20"],
    ]
    assert [row[1:] for row in found["sweep-optim.clip"]] == [
        ["L = 4", "1.0", "0.400"],
        ["L = 4", "3.0", "1.20"],
        ["L = 2", "1.0", "0.200"],
        ["L = 2", "3.0", "0.600"],
    ]


def test_without_a_baseline_there_are_errors_alone() -> None:
    runs = [
        swept(run(variant, 0.1 * ratio, key_ratio=ratio), RATIO)
        for variant in ("untied-ln", "mlp-only")
        for ratio in (1, 2)
    ]
    once = [one for one in runs if one.variant != "mlp-only" or one.size.key_ratio == 1]
    assert texts(once)["sweep-key_ratio"] == [
        ["poisson", "1", "0.100", "0.100"],
        ["poisson", "2", "0.200", "0.100"],
    ]


def test_fields_that_no_study_swept_are_no_sweep() -> None:
    runs = [run("baseline", 0.1), run("baseline", 0.2)]
    runs[1] = replace(runs[1], config=overlay(runs[1].config, {"optim.clip": 1.0}))
    assert texts(runs) == {}
