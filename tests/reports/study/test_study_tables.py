from __future__ import annotations

from dataclasses import replace

import pytest

from slipstream.models.variants import VARIANTS
from slipstream.reports.content import Table
from slipstream.reports.draw.pictures import _sweep_points
from slipstream.reports.page.tables import cell_text
from slipstream.reports.study.gather import RunData
from slipstream.reports.study.insight_tables import insight_tables
from slipstream.reports.study.settings import main_groups, sweep
from slipstream.reports.study.study_tables import study_tables
from slipstream.runs.evaluation_file import LayerSlices

from ..made_data import evaluation, run

PAIR = [run("baseline", 0.1), run("baseline", 0.2, 1), run("no-token-attention", 0.12)]


def texts(table: Table) -> list[list[str]]:
    return [[cell_text(cell) for cell in row] for row in table.rows]


def tables(*runs: object) -> dict[str, Table]:
    made = [*study_tables(runs), *insight_tables(runs)]  # type: ignore[arg-type]
    return {table.name: table for table in made}


def test_main_and_ratio() -> None:
    found = tables(*PAIR, run("mlp-only", 0.45), run("mlp-only", 0.6, name="other"))
    main = found["main"]
    assert main.columns == ("experiment", "baseline", "no-token-attention", "mlp-only")
    assert texts(main) == [
        ["poisson", "0.150 ± 0.07", "0.120", "0.450"],
        ["other", "not run", "not run", "0.600"],
    ]
    assert [cell.best for cell in main.rows[0]] == [False, False, True, False]
    assert not any(cell.best for cell in main.rows[1]), "alone, it is best of nothing"
    assert "poisson 200" in main.caption
    assert texts(found["ratio"]) == [["poisson", "0.800×", "3.00×"]]


def test_errors_without_a_model_stand_beside_those_in_validation() -> None:
    measured = evaluation("baseline", p=0.2)
    known = replace(measured, validation_yardsticks={"nearest": 0.7, "mean": 1.0, "scaling": None})
    found = tables(run("baseline", 0.1, evaluation=known), run("mlp-only", 0.2, name="other"))
    assert found["main"].columns[3:] == ("mean of training", "nearest training sample")
    assert [row[3:] for row in texts(found["main"])] == [["1.00", "0.700"], ["-", "-"]]
    assert "without a model" in found["main"].caption
    assert not any(cell.best for cell in found["main"].rows[0][3:])


def test_how_many_seeds_there_are() -> None:
    other = [run(variant, 0.3, name="other") for variant in ("baseline", "no-token-attention")]
    assert "(baseline 2, no-token-attention 1)" in tables(*PAIR)["main"].caption
    assert "(baseline 1 to 2, no-token-attention 1)" in tables(*PAIR, *other)["main"].caption
    assert "(1 each)" in tables(*other)["main"].caption


def test_a_ratio_has_the_spread_of_both() -> None:
    found = tables(*PAIR, run("no-token-attention", 0.18, 1))
    (row,) = texts(found["ratio"])
    spread = ((0.0707 / 0.15) ** 2 + (0.0424 / 0.15) ** 2) ** 0.5
    assert row == ["poisson", f"1.00 ± {spread:.1f}×"]
    one_baseline = tables(PAIR[0], PAIR[2], run("no-token-attention", 0.18, 1))
    assert texts(one_baseline["ratio"]) == [["poisson", "1.50×"]], "whose spread is unknown"


def test_per_variable_and_noise() -> None:
    found = tables(
        run("baseline", 0.1, evaluation=evaluation("baseline", 0, 3, p=0.2, u=0.4)),
        run("baseline", 0.1, 1, evaluation=evaluation("baseline", 1, 3, p=0.3, u=0.4)),
        run("mlp-only", 0.1, evaluation=evaluation("mlp-only", 0, 3, p=0.5)),
    )
    l1, l2 = found["variables-l1"], found["variables-l2"]
    assert texts(l1) == [
        ["poisson", "p", "0.250 ± 0.07", "0.500"],
        ["poisson", "u", "0.400 ± 0", "not run"],
    ]
    assert texts(l2)[0] == ["poisson", "p", "0.500 ± 0.1", "1.00"]
    spread = "±: standard deviation over the seeds."
    assert l1.caption == f"The sum of it. {spread}" and l2.caption == f"The root of it. {spread}"
    assert texts(found["noise"])[0] == ["poisson", "0", "p", "0.2000 ± 0.002", "1 %"]
    assert len(found["noise"].rows) == 4 and "3 independent draws" in found["noise"].caption


def test_a_caption_of_older_records_says_no_spread_of_draws() -> None:
    text = "it; mean and standard deviation over 3 independent draws"
    one = replace(evaluation("baseline", 0, 3, p=0.2), definitions={"L1": text})
    found = tables(run("baseline", 0.1, evaluation=one))
    assert found["variables-l1"].caption == "It; mean over 3 independent draws."


def test_without_repeats_there_is_no_noise() -> None:
    assert "noise" not in tables(run("baseline", 0.1, evaluation=evaluation("baseline", p=0.2)))


def test_budgets_beside_costs() -> None:
    found = tables(
        *PAIR, run("slice-once", 0.45), run("mlp-only", 0.3),
        run("baseline", 1.0, name="b"), run("no-token-attention", 1.02, name="b"),
        run("slice-once", 2.0, name="b"), run("mlp-only", 1.1, name="b"),
    )  # fmt: skip
    assert texts(found["budgets"]) == [
        ["baseline", "L G c", "no", "reference"],
        ["no-token-attention", "L G c", "no", "-20.0 % to +2.0 %"],
        ["slice-once", "G c", "yes, rank", "2.00× to 3.00×"],
        ["mlp-only", "0", "yes, locality", "1.10× to 2.00×"],
    ]
    assert "2 experiments" in found["budgets"].caption
    assert all("not stated" not in (v.budget, v.ceiling) for v in VARIANTS.values())


def test_locality_beside_what_was_measured() -> None:
    found = tables(
        run("baseline", 0.1, evaluation=evaluation("baseline", p=0.2, u=0.4)),
        run("mlp-only", 0.1, evaluation=evaluation("mlp-only", p=0.5, u=0.5)),
    )
    assert texts(found["locality"]) == [
        ["poisson", "p", "0.200", "0.500", "0.900", "lower limit"],
        ["poisson", "u", "0.400", "0.500", "0.900", "lower limit"],
    ]


def test_slices_layer_by_layer() -> None:
    layer = LayerSlices("x", 16, (0.5, 0.7), (2.0, 2.2), (8.0, 9.0), (0, 3))
    made = replace(evaluation("baseline", p=0.2), slices=(layer, layer))
    found = tables(run("baseline", 0.1, evaluation=made), run("baseline", 0.1, 1, evaluation=made))
    first, second = texts(found["slices"])
    assert first == ["poisson", "baseline", "1", "2.10", "2.77", "8.50", "16", "1.50", "0.600"]
    assert second[2] == "2"


def test_grid_of_attention_and_tying() -> None:
    four = [
        run("baseline", 0.1), run("baseline", 0.102, 1), run("no-token-attention", 0.1),
        run("untied", 0.099), run("untied-no-token-attention", 0.101),
    ]  # fmt: skip
    assert texts(tables(*four, run("untied-ln", 0.2))["grid"]) == [
        ["poisson", "tied", "+0.0 ± 1 %", "-1.0 %"],
        ["poisson", "untied", "-2.0 %", "+0.0 %"],
        ["poisson", "untied, LinearNO", "", "+98.0 %"],
    ]
    assert "grid" not in tables(*four[:-1])


def test_capacity() -> None:
    found = tables(
        run("baseline", 0.1, parameters=200),
        run("mlp-only", 0.3, parameters=120),
        run("mlp-only-wide", 0.29, parameters=224),
    )
    assert texts(found["capacity"]) == [
        ["poisson", "mlp-only", "120", "0.600×", "0.300", "3.00×"],
        ["poisson", "mlp-only-wide", "224", "1.12×", "0.290", "2.90×"],
        ["poisson", "baseline", "200", "1.00×", "0.100", "1.00×"],
    ]


def test_sweeps_are_found_by_the_sizes_of_the_models() -> None:
    runs = [
        *PAIR, run("mlp-only", 0.4),
        run("baseline", 0.11, slices=8), run("no-token-attention", 0.11, slices=8),
        run("baseline", 0.2, layers=2), run("mlp-only", 0.4, layers=2),
        run("no-token-attention", 0.5, slices=99),
    ]  # fmt: skip
    found = tables(*runs)
    assert texts(found["main"]) == [["poisson", "0.150 ± 0.07", "0.120", "0.400"]]
    assert texts(found["sweep-slices"]) == [
        ["poisson", "8", "0.110", "1.00×"],
        ["poisson", "16", "0.150 ± 0.07", "0.800×"],
    ]
    assert texts(found["sweep-layers"]) == [
        ["poisson", "2", "0.200", "2.00×"],
        ["poisson", "4", "0.150 ± 0.07", "2.67×"],
    ]
    assert sweep(runs, "heads") == []
    assert main_groups(runs)[0].size.slices == 16


def test_sizes_may_be_swept_at_another_length() -> None:
    runs = [
        run("baseline", 0.1, steps=400), run("mlp-only", 0.4, steps=400),
        run("baseline", 0.2), run("mlp-only", 0.5), run("untied", 0.2, steps=400),
        run("baseline", 0.3, layers=2), run("mlp-only", 0.6, layers=2),
        run("baseline", 0.1, slices=8, steps=300), run("mlp-only", 0.1, slices=8, steps=300),
        run("baseline", 0.1, slices=9, steps=300),
    ]  # fmt: skip
    found = tables(*runs)
    assert texts(found["main"]) == [["poisson", "0.100", "0.200", "0.400"]]
    assert texts(found["sweep-layers"]) == [
        ["poisson", "2", "0.300", "2.00×"],
        ["poisson", "4", "0.200", "2.50×"],
    ]
    assert "sweep-slices" not in found, "nothing of the usual size is as long"


def test_of_two_sweeps_of_sizes_the_longer_counts() -> None:
    runs = [run("baseline", 0.2), run("untied", 0.2), run("baseline", 0.3, layers=2)]
    longer = [run("baseline", 0.1, steps=400), run("baseline", 0.15, layers=2, steps=400)]
    found = texts(tables(*runs, *longer)["sweep-layers"])
    assert [row[2] for row in found] == ["0.150", "0.100"]


def test_the_main_runs_stay_in_their_sweep() -> None:
    """Whatever else there is of their size and length."""
    runs = [run("baseline", 0.2), run("mlp-only", 0.5), run("baseline", 0.3, layers=2)]
    found = texts(tables(*runs, run("baseline", 0.9))["sweep-layers"])
    assert [row[2] for row in found] == ["0.300", "0.200"]


def test_a_sweep_is_drawn_without_runs_that_failed() -> None:
    runs = [
        run("baseline", 0.2), run("baseline", 1.1, slices=8), run("baseline", 0.1, slices=64),
        run("untied", 0.2), run("untied", 0.2, slices=8), run("mlp-only", 0.5),
    ]  # fmt: skip
    points = _sweep_points(runs, "slices", ("baseline", "untied", "mlp-only"))
    found = [(point.variant, point.at) for point in points]
    assert found == [("untied", 8), ("baseline", 16), ("untied", 16), ("baseline", 64)]


def test_a_baseline_alone() -> None:
    found = tables(run("baseline", 0.1))
    assert set(found) == {"main", "budgets"}


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "baseline"])
def test_a_variant_alone_has_nothing_to_be_compared_to(variant: str) -> None:
    assert set(tables(run(variant, 0.1))) == {"main"}


def test_a_second_run_of_a_cell_is_of_another_length() -> None:
    runs = [
        run("baseline", 0.2), run("baseline", 0.1, steps=400),
        run("slice-once", 0.3), run("slice-once", 0.4, steps=400),
        run("mlp-only", 0.6), run("untied", 0.15, steps=400),
        run("baseline", 0.1, steps=800), run("untied", 0.3, steps=800),
    ]  # fmt: skip
    found = tables(*runs)
    assert texts(found["main"]) == [["poisson", "0.100", "0.150", "0.400"]], "the longer of two"
    table = found["sweep-steps"]
    assert table.columns == ("experiment", "steps", "baseline", "untied", "slice-once")
    assert texts(table) == [
        ["poisson", "200", "0.200", "not run", "1.50×"],
        ["poisson", "400", "0.100", "1.50×", "4.00×"],
        ["poisson", "800", "0.100", "3.00×", "not run"],
    ]
    assert not sweep(runs, "slices")


def test_runs_of_different_length_are_compared_where_no_cell_comes_twice() -> None:
    found = tables(run("baseline", 0.2), run("mlp-only", 0.6, steps=400))
    assert len(found["main"].rows) == 1 and "poisson 200" in found["main"].caption
    assert "sweep-steps" not in found


def test_a_sweep_keeps_to_the_length_of_the_main_group() -> None:
    runs = [run("baseline", 0.2), run("mlp-only", 0.6)]
    runs += [run("baseline", 0.3, slices=8, steps=400), run("baseline", 0.25, slices=64)]
    (swept,) = sweep(runs, "slices")
    assert [group.at("slices") for group in swept] == sorted([runs[0].size.slices, 64])


def test_without_a_baseline_in_the_main_group_there_is_no_sweep() -> None:
    runs = [run("mlp-only", 0.6), run("untied", 0.2), run("baseline", 0.3, slices=8)]
    assert not sweep(runs, "slices")


def test_a_sweep_says_what_is_on_other_data() -> None:
    def on(data: str, **size: int) -> list[RunData]:
        starts = ({"parameters": 1, "device": "a CPU", "data_hash": data},)
        made = [run("baseline", 0.1, **size), run("mlp-only", 0.2, **size)]
        return [replace(each, starts=starts) for each in made]

    main = [*on("a"), replace(run("untied", 0.1), starts=on("a")[0].starts)]
    swept = [*on("b", steps=4000), *on("a", steps=400), *on("b", slices=8)]
    found = tables(*main, *swept)
    assert found["sweep-steps"].caption.endswith(" On other data: poisson 4,000 steps.")
    assert found["sweep-slices"].caption.endswith(" On other data: poisson G = 8.")
    assert "other data" not in tables(*main, *swept[2:4])["sweep-steps"].caption
    bare = [run(variant, 0.1) for variant in ("mlp-only", "untied", "slice-once")]
    bare = [replace(each, starts=main[0].starts) for each in bare]
    swept = [*on("b", steps=4000), *on("b", steps=400)]
    caption = tables(*bare, *swept)["sweep-steps"].caption
    assert caption.endswith("data: poisson 400 steps, poisson 4,000 steps."), "than the main ones"
    unknown = [run("baseline", 0.1, steps=4000), run("mlp-only", 0.1, steps=4000)]
    assert "other data" not in tables(*main, *unknown)["sweep-steps"].caption
