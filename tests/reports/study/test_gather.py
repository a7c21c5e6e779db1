"""What a report knows of a study, and what it says where something is missing or damaged."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from slipstream.core.records import append_record
from slipstream.evaluation.run_evaluation import EvaluationRequest, evaluate_runs
from slipstream.reports.study.gather import RunData, _newest, _other_data, _other_settings, gather
from slipstream.reports.study.settings import main_groups, sweep
from slipstream.runs.config import MeshConfig
from slipstream.runs.evaluation_file import Protocol
from slipstream.runs.folder import RunFolder
from slipstream.runs.prediction_file import read_prediction

from ...evaluation.made_runs import cut, edit_records, edit_rows
from ..made_data import run


def cell(study: Path, variant: str, seed: int = 0) -> Path:
    return study / f"runs/poisson/{variant}/seed-{seed}"


def test_a_whole_study(study: Path) -> None:
    found = gather([study])
    assert found.problems == ()
    assert [run.name for run in found.runs] == [
        "poisson baseline seed 0",
        "poisson baseline seed 1",
        "poisson no-token-attention seed 0",
        "poisson mlp-only seed 0",
    ]
    first = found.runs[0]
    assert first.finished and first.status == "finished" and first.parameters == 1462
    assert len(first.checks) == 14 and all(check.holds for check in first.checks)
    assert len(first.predictions()) == 1 and first.curve.reached == 12


def test_of_several_evaluations_the_newest_counts(study: Path) -> None:
    file = cell(study, "baseline") / "evaluations.jsonl"
    row = json.loads(file.read_text())
    with file.open("a") as lines:
        lines.write(json.dumps({**row, "device": "another"}) + "\n")
    newest = gather([study]).runs[0].evaluation
    assert newest is not None and newest.device == "another"


def evaluated(study: Path, *protocols: Protocol, pictures: tuple[str, ...] = ()) -> None:
    for protocol in protocols:
        wanted = EvaluationRequest(device="cpu", protocol=protocol, pictures=pictures)
        evaluate_runs([RunFolder(cell(study, "baseline"))], wanted)


def test_looking_at_something_else_does_not_take_the_noise_away(study: Path) -> None:
    """It was evaluated with two repeats before."""
    before = gather([study]).runs[0]
    (sample,) = before.predictions()
    values = read_prediction(before.predictions()[sample]).values
    other = next(s for s in before.evaluation.samples if s != sample)  # type: ignore[union-attr]
    evaluated(study, Protocol(full=True), Protocol(repeats=2))
    evaluated(study, Protocol(), pictures=(other,))
    found = gather([study]).runs[0]
    assert len(found.evaluations) == 3 and found.evaluation == before.evaluation
    assert list(found.predictions()) == [sample, other], "also what was looked at"
    torch.testing.assert_close(read_prediction(found.predictions()[sample]).values, values)
    evaluated(study, Protocol(repeats=3))
    newest = gather([study]).runs[0].evaluation
    assert newest is not None and newest.protocol == Protocol(repeats=3)


def test_whole_samples_count_where_nothing_was_drawn(study: Path) -> None:
    (cell(study, "baseline") / "evaluations.jsonl").unlink()
    evaluated(study, Protocol(full=True))
    found = gather([study]).runs[0]
    assert found.evaluation is not None and found.evaluation.protocol.full
    assert len(found.predictions()) == 1
    evaluated(study, Protocol())
    drawn = gather([study]).runs[0].evaluation
    assert drawn is not None and not drawn.protocol.full


def test_an_evaluation_of_another_split_is_none_of_the_test_split(study: Path) -> None:
    file = cell(study, "baseline") / "evaluations.jsonl"
    row = json.loads(file.read_text())
    other = json.dumps({**row, "protocol": {**row["protocol"], "split": "val"}}) + "\n"
    with file.open("a") as lines:
        lines.write(other)
    found = gather([study])
    assert found.problems == () and found.runs[0].evaluation is not None
    assert found.runs[0].evaluation.protocol.split == "test"
    file.write_text(other)
    found = gather([study])
    assert found.runs[0].evaluation is None
    assert "not evaluated: poisson baseline seed 0" in found.problems[0]


def test_an_evaluation_of_an_older_model_is_left_out(study: Path) -> None:
    edit_rows(cell(study, "baseline"), "validation", 12, {"best": True, "weights": "of another"})
    for model in study.rglob("model.safetensors"):
        model.unlink()
    found = gather([study])
    assert found.runs[0].evaluation is None and found.runs[1].evaluation is not None
    assert found.problems == (
        "trained further since the evaluation, which is left out: poisson baseline seed 0"
        f" (slipstream evaluate {study})",
    )


def test_one_run_alone(study: Path) -> None:
    found = gather([cell(study, "baseline")])
    assert len(found.runs) == 1 and "was not audited" in found.problems[0]


def test_what_is_missing_is_said(study: Path) -> None:
    shutil.rmtree(cell(study, "mlp-only"))
    (study / "certificate.json").unlink()
    (cell(study, "no-token-attention") / "evaluations.jsonl").unlink()
    edit_records(cell(study, "baseline", 1), lambda rows: rows[:-1])  # its stop
    problems = gather([study]).problems
    said = "\n".join(problems)
    assert len(problems) == 4
    assert f"{study} was not audited (slipstream audit {study})" in said
    assert "poisson mlp-only seed 0 is missing: no run at" in said
    assert f"not evaluated: poisson no-token-attention seed 0 (slipstream evaluate {study})" in said
    assert "poisson baseline seed 1 is not finished, step 12 of 12 validated" in said


def test_a_folder_of_studies_is_read_as_its_studies(study: Path) -> None:
    parent = study.parent / "studies"
    for name in ("a", "b"):
        shutil.copytree(study, parent / name)
    shutil.copytree(cell(study, "baseline", 1), parent / "alone")
    shutil.rmtree(cell(parent / "b", "mlp-only"))
    (parent / "b/certificate.json").unlink()
    found = gather([parent])
    said = found.problems
    assert all(each.checks for each in found.runs if (parent / "a") in each.folder.path.parents)
    missing = f"poisson mlp-only seed 0 is missing: no run at {cell(parent / 'b', 'mlp-only')}"
    assert said.count(missing) == 1
    unaudited = [each.split(" was not audited")[0] for each in said if "not audited" in each]
    assert unaudited == [str(parent / "b"), str(parent)], "of the latter, the run alone"
    shutil.move(parent / "a/certificate.json", parent)
    said = gather([parent]).problems
    assert not any("not audited" in each for each in said), "they were audited as one"
    assert any("mlp-only seed 0 is missing" in each for each in said)


def test_a_corrupt_record_line_is_named_and_the_rest_is_told(study: Path) -> None:
    file = cell(study, "baseline") / "records.jsonl"
    lines = file.read_text().splitlines()
    lines[2] = "{" + lines[2]
    file.write_text("\n".join(lines) + "\n")
    found = gather([study])
    assert len(found.runs) == 3
    (said,) = found.problems
    assert said.startswith("left out, as it cannot be read: ") and "records.jsonl" in said
    assert "line 3" in said


def test_a_run_not_begun_and_a_failed_one(study: Path) -> None:
    for name in ("records.jsonl", "evaluations.jsonl"):
        (cell(study, "mlp-only") / name).unlink()

    def diverged(rows: list[dict[str, object]]) -> None:
        rows[-1]["reason"] = "diverged"

    edit_records(cell(study, "no-token-attention"), diverged)
    said = "\n".join(gather([study]).problems)
    assert "poisson mlp-only seed 0 is not begun" in said
    assert "poisson no-token-attention seed 0 is not finished" in said
    assert "it was diverged" in said


def interrupted(study: Path, *endings: tuple[str, str | None]) -> str:
    """What is said of a run that was interrupted, and how its study says that it ended then."""

    def stop(rows: list[dict[str, object]]) -> None:
        rows[-1]["reason"] = "interrupted"

    edit_records(cell(study, "mlp-only"), stop)
    for status, reason in endings:
        row = {"experiment": "poisson", "variant": "mlp-only", "seed": 0, "status": status}
        append_record(study / "records.jsonl", "cell", {**row, "reason": reason})
        append_record(study / "records.jsonl", "cell", {**row, "seed": 1, "status": "finished"})
    (said,) = (each for each in gather([study]).problems if "mlp-only" in each)
    return said


def test_why_a_run_failed_is_told(study: Path) -> None:
    reason = "step-00000004.safetensors must be a checkpoint, got 3 bytes (exit 2)"
    said = interrupted(study, ("interrupted", None), ("failed", f"slipstream: {reason}"))
    begin = "poisson mlp-only seed 0 is not finished, step 12 of 12 validated"
    assert said == f"{begin}: it failed: {reason}"
    alone = gather([cell(study, "mlp-only")]).problems
    assert f"{begin}: it failed: {reason}" in alone, "also without the rest of its study"


def test_a_failure_that_was_not_the_last_try_is_not_told(study: Path) -> None:
    said = interrupted(study, ("failed", "no memory"), ("interrupted", None))
    assert said.endswith("validated: it was interrupted")

    def later(rows: list[dict[str, object]]) -> None:
        rows[-1]["time"] = "2099-01-01T00:00:00+00:00"

    edit_records(cell(study, "mlp-only"), later)
    assert interrupted(study, ("failed", "no memory")).endswith("validated: it was interrupted")
    (study / "records.jsonl").write_text("{\n")
    assert "for a reason that cannot be read" in interrupted(study)


def test_of_two_runs_of_a_cell_the_newer_counts(study: Path, tmp_path: Path) -> None:
    again = Path(shutil.copytree(study, tmp_path / "again"))
    shutil.rmtree(again / "runs/poisson/baseline")

    def later(rows: list[dict[str, object]]) -> None:
        for row in rows:
            row["time"] = "2099-01-01T00:00:00+00:00"

    edit_records(cell(again, "mlp-only"), later)
    edit_records(cell(study, "no-token-attention"), later)
    for order in ([study, again], [again, study]):
        found = gather(order)
        kept = {run.name: run.folder.path for run in found.runs}
        assert len(kept) == len(found.runs) == 4
        assert kept["poisson mlp-only seed 0"] == cell(again, "mlp-only")
        assert kept["poisson no-token-attention seed 0"] == cell(study, "no-token-attention")
        said = f"{cell(again, 'mlp-only')} counts, {cell(study, 'mlp-only')} does not"
        assert f"poisson mlp-only seed 0 was run again: {said}" in found.problems


def test_a_run_of_another_config_or_other_data_is_not_the_same_again() -> None:
    first = run("baseline", 0.1)
    runs = [
        first, run("baseline", 0.1, steps=400), run("baseline", 0.1, layers=9),
        replace(first, config=replace(first.config, batch=first.config.batch + 1)),
        replace(first, starts=({"time": "2099", "data_hash": "of other data"},)),
    ]  # fmt: skip
    problems: list[str] = []
    assert _newest(runs, problems) == runs and problems == []
    workers = replace(first.config, data=replace(first.config.data, workers=9))
    assert len(_newest([*runs, replace(first, config=workers)], problems)) == len(runs)


def test_runs_on_other_data_are_told_and_compared_among_themselves() -> None:
    def on(data: str, each: RunData) -> RunData:
        return replace(each, starts=({"time": "2099", "data_hash": data},))

    first = [on("a", run("baseline", 0.1)), on("a", run("mlp-only", 0.2))]
    second = [on("b", run("baseline", 0.3)), on("b", run("baseline", 0.31, 1))]
    second += [on("b", run("mlp-only", 0.6)), on("b", run("untied", 0.3))]
    (said,) = _other_data([*first, *second])
    assert said == (
        "poisson: runs are of 2 different data, 2 runs of 200 steps in nowhere; 4 runs of 200 steps"
        " in nowhere; only runs of the same data are compared"
    )
    (said,) = _other_data([*first, on("b", run("baseline", 0.3, steps=400, width=64))])
    assert "2 runs of 200 steps in nowhere; 1 run of 400 steps in nowhere;" in said
    assert list(_other_data([*first, on("b", run("baseline", 0.3, name="other"))])) == []
    for runs in ([*first, *second], [*second, *first]):
        (main,) = main_groups(runs)
        assert {one.data_hash for one in main.runs} == {"b"} and len(main.runs) == 4
        shorter = [on("c", run(v, 0.5, steps=100)) for v in ("baseline", "mlp-only", "untied")]
        fewer = [on("d", run(v, 0.9, steps=100)) for v in ("baseline", "mlp-only")]
        for others in ([*shorter, *fewer], [*fewer, *shorter]):
            (swept,) = sweep([*others, *runs], "steps")
            assert [len(group.variants) for group in swept] == [3, 3]
            assert {one.data_hash for one in swept[0].runs} == {"c"}
    not_begun = replace(run("untied-ln", 0.1), starts=())
    (main,) = main_groups([*second, not_begun])
    assert len(main.runs) == 5, "of one that has not begun nothing is known"


def test_runs_of_other_settings_are_told_and_no_seeds_of_one_group() -> None:
    def faster(each: RunData) -> RunData:
        optim = replace(each.config.optim, learning_rate=0.5)
        return replace(each, config=replace(each.config, optim=optim))

    runs = [run("baseline", 0.1), run("mlp-only", 0.2), faster(run("baseline", 0.9, 1))]
    (main,) = main_groups(runs)
    assert [one.config.seed for one in main.runs] == [0, 0]
    (said,) = _other_settings(runs)
    assert said == (
        "poisson: runs differ in optim.learning_rate (0.001, 0.5); only runs of the same settings"
        " are compared"
    )
    assert sweep([*runs, faster(run("baseline", 0.1, steps=400))], "steps") == []
    often = replace(runs[0].config, seed=1, evaluate_every=7, compile=True, log_every=3)
    (main,) = main_groups([*runs[:2], replace(runs[0], config=often)])
    assert len(main.runs) == 3, "these change no result"


def test_other_sizes_are_told_but_for_those_that_are_swept() -> None:
    runs = [run("baseline", 0.1, width=w, heads=h) for w, h in ((64, 4), (32, 4), (64, 2))]
    (said,) = _other_settings(runs)
    assert said == (
        "poisson: runs differ in model.size.width (64, 32), model.size.heads (4, 2); only runs of"
        " the same settings are compared"
    )
    swept = [run("baseline", 0.1, slices=s, layers=n) for s, n in ((8, 4), (16, 4), (8, 2))]
    assert list(_other_settings(swept)) == []


def test_a_batch_is_that_of_all_processes() -> None:
    one, two = run("baseline", 0.1), run("baseline", 0.2, 1)
    starts = ({**(two.starts[0] if two.starts else {}), "processes": 2},)
    two = replace(two, starts=starts)
    (said,) = _other_settings([one, two])
    batch = one.config.batch
    assert f"poisson: runs differ in batch ({batch}, {2 * batch});" in said
    alone = replace(one, config=replace(one.config, batch=2 * batch))
    assert list(_other_settings([alone, two])) == [], "two processes with half of it each"
    shared = replace(two, config=replace(two.config, mesh=MeshConfig(points=2)))
    assert list(_other_settings([one, shared])) == [], "two processes with half of its points"


def test_a_study_on_other_data_is_told(study: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(study, again)

    def on_other_data(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            if row["kind"] == "start":
                row["data_hash"] = "of other data"

    for variant in ("baseline", "mlp-only"):
        edit_records(cell(again, variant), on_other_data)
    (said,) = (each for each in gather([study, again]).problems if "2 different data" in each)
    assert f"; 2 runs of 12 steps in {again};" in said
    assert not any("different data" in said for said in gather([study]).problems)


def test_a_damaged_certificate_config_or_list_of_cells(study: Path) -> None:
    cut(cell(study, "mlp-only") / "config.json")
    cut(study / "certificate.json")
    (study / "study.json").write_text("{}")
    said = "\n".join(gather([study]).problems)
    assert "config.json must be a JSON object" in said
    assert "certificate.json" in said and "schema must be 1 or 2, got None" in said


def test_a_certificate_that_does_not_hold_is_told(study: Path) -> None:
    file = study / "certificate.json"
    found = json.loads(file.read_text())
    found.update(holds=False, verdict="it does not")
    file.write_text(json.dumps(found))
    assert gather([study]).problems == ("the audit: it does not",)


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be the folder of a run or a study, got no such"):
        gather([tmp_path / "gone"])
    with pytest.raises(ValueError, match="must have runs that can be read, got none"):
        gather([tmp_path])
