"""Errors beside the yardsticks, in sentences; samples one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slipstream.cli.evaluation_tables import MOST_SAMPLES, samples_table
from slipstream.evaluation.against_yardsticks import beside_text, copies, unbeaten
from slipstream.evaluation.by_sample import worst_first
from slipstream.evaluation.run_evaluation import EvaluationRequest, evaluate_runs
from slipstream.evaluation.summary import summarise
from slipstream.runs.evaluation_file import (
    Evaluation,
    Yardstick,
    append_evaluation,
    evaluations_file,
    read_evaluations,
)
from slipstream.runs.folder import RunFolder

from ..conftest import Command
from ..reports.made_data import evaluation


def yardstick(kind: str, p: float, u: float, **neighbours: str) -> Yardstick:
    samples = {n: {"composite": 0.0 if of == "same" else 0.5} for n, of in neighbours.items()}
    return Yardstick(kind, "d", {"L1 p": p, "L1 u": u}, samples, neighbours)  # type: ignore[arg-type]


def test_what_is_not_beaten_is_said() -> None:
    summaries = summarise(
        [evaluation("baseline", p=0.2, u=0.4), evaluation("untied", p=0.1, u=0.1)]
    )
    both = [yardstick("mean", 0.9, 0.4), yardstick("nearest", 0.15, 0.3)]
    assert unbeaten(summaries, both) == [
        "baseline does not beat the mean of the training set in L1 u (0.4 against 0.4).",
        "baseline does not beat the nearest training sample in L1 p (0.2 against 0.15),"
        " L1 u (0.4 against 0.3).",
    ]
    first = next(summary for summary in summaries if summary.name == "L1 p")
    assert beside_text(first, both) == "p 0.2; mean of training 0.9; nearest training sample 0.15"


def test_samples_that_are_in_the_training_set_are_named() -> None:
    neighbours = {f"t{k}": "same" for k in range(7)} | {"z": "a"}
    (sentence,) = copies(
        [yardstick("mean", 1.0, 1.0), yardstick("nearest", 1.0, 1.0, **neighbours)]
    )
    assert sentence.endswith("t0 (of same), t1 (of same), t2 (of same), t3 (of same), t4 (of same)"
                             " and 2 more.")  # fmt: skip
    assert copies([yardstick("nearest", 1.0, 1.0, z="a")]) == []


def many(count: int) -> Evaluation:
    rows = {f"s{k}": {"composite": k / 10, "L1 p": k / 5, "L1 u": None} for k in range(count)}
    rows["lost"] = {"composite": None, "L1 p": None, "L1 u": None}
    return replace(evaluation("baseline", p=0.2, u=0.4), samples=rows)


def test_the_worst_samples_come_first() -> None:
    rows = worst_first(many(20))
    assert [row.sample for row in rows[:3]] == ["lost", "s19", "s18"] and len(rows) == 21
    assert rows[1].errors == {"p": pytest.approx(3.8), "u": None}
    table = samples_table("t", many(20))
    assert table.row_count == MOST_SAMPLES and samples_table("t", many(2)).row_count == 3


def test_older_records_get_their_yardsticks(study: Path, command: Command) -> None:
    run = RunFolder(study / "runs/poisson/baseline/seed-0")
    request = EvaluationRequest(device="cpu")
    (first,) = evaluate_runs([run], request)
    evaluations_file(run).unlink()
    append_evaluation(run, replace(first, yardsticks=(), data=""))
    (second,) = evaluate_runs([run], request)
    assert second == first and len(read_evaluations(run)) == 2
    assert evaluate_runs([run], request) == [first] and len(read_evaluations(run)) == 2
    evaluations_file(run).unlink()
    append_evaluation(run, replace(first, yardsticks=(), data=""))
    (gone,) = evaluate_runs([run], replace(request, store=study / "gone"))
    assert gone.yardsticks == () and gone.numbers == first.numbers, "its data are gone"
