from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from slipstream.audit.certificate import Certificate, Finding, write_certificate
from slipstream.audit.run_audit import CHECKS
from slipstream.audit.study_audit import certify
from slipstream.cli.audit import audit

from ..evaluation.made_runs import (
    checkpoint,
    cut,
    edit_config,
    edit_file,
    edit_rows,
    edit_weights,
    failures,
    files_of,
    make_run,
    make_study,
    sentence,
)

ALL = ["readable", *CHECKS]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three variants that share data."""
    variants = ("baseline", "frozen-slice", "no-token-attention")
    return make_study(tmp_path_factory.mktemp("made") / "study", variants)


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Path:
    """A copy: the store that its configs name is that of the original."""
    return Path(shutil.copytree(made, tmp_path / "study"))


def across(found: Certificate, name: str = "poisson") -> dict[str, Finding]:
    return {finding.check: finding for finding in found.across[name]}


def failed_across(found: Certificate) -> set[str]:
    parts = found.across.values()
    return {finding.check for part in parts for finding in part if not finding.holds}


def cell(study: Path, variant: str) -> Path:
    return study / "runs/poisson" / variant / "seed-0"


def test_a_study_passes(study: Path, made: Path) -> None:
    found = certify(study)
    assert found.holds
    assert [run.name for run in found.runs] == [
        f"poisson {variant} seed 0"
        for variant in ("baseline", "frozen-slice", "no-token-attention")
    ]
    shared = across(found)["shared start"].sentence
    assert shared.startswith("89 shared parameters")
    assert str(made / "data/poisson") in sentence(found.runs[0], "data")


def test_a_study_that_was_moved_takes_its_data_along(tmp_path: Path) -> None:
    made = make_study(tmp_path / "made", ("mlp-only", "mlp-only-wide"))  # shapes differ
    moved = made.rename(tmp_path / "moved")
    found = certify(moved)
    assert found.holds
    assert str(moved / "data/poisson") in sentence(found.runs[0], "data")


def test_runs_of_other_configs(study: Path) -> None:
    edit_config(cell(study, "frozen-slice"), lambda config: config.update(batch=3, log_every=1))
    found = certify(study)
    assert "configs" in failed_across(found)
    assert across(found)["configs"].sentence.endswith("(there, here) of batch: 2, 3")


def test_runs_of_other_data(study: Path) -> None:
    run = cell(study, "frozen-slice")
    for file in files_of(run):
        edit_file(file, lambda header, _: header.update(data_hash="f" * 64))
    edit_rows(run, "start", 0, {"data_hash": "f" * 64})
    found = certify(study)
    assert failed_across(found) == {"same data"}
    assert "ffffffffffff (runs/poisson/frozen-slice/seed-0)" in across(found)["same data"].sentence


def test_runs_of_other_splits(study: Path) -> None:
    for file in files_of(cell(study, "frozen-slice")):
        edit_file(file, lambda header, _: header.update(split_hash="f" * 64))
    assert "split_hash must be" in across(certify(study))["same data"].sentence


def test_runs_that_started_elsewhere(study: Path) -> None:
    key = "model.lift.expand.weight"
    edit_weights(cell(study, "frozen-slice"), 0, lambda t: t.update({key: t[key] * 2}))
    found = certify(study)
    assert failed_across(found) == {"shared start"}
    said = across(found)["shared start"].sentence
    assert "must have started as runs/poisson/baseline/seed-0" in said
    assert "got others of lift.expand.weight" in said


def test_runs_of_other_seeds_need_not_share_their_start(tmp_path: Path) -> None:
    found = certify(make_study(tmp_path / "study", ("mlp-only",), seeds=(0, 1)))
    assert found.holds
    assert across(found)["shared start"].sentence.startswith("0 shared")


def test_runs_by_other_means(study: Path) -> None:
    run = cell(study, "frozen-slice")
    edit_rows(run, "start", 0, {"device": "an abacus"})
    found = certify(study)
    assert found.holds
    (note,) = across(found)["same means"].notes
    assert "an abacus (runs/poisson/frozen-slice/seed-0)" in note
    edit_rows(run, "start", 0, {"precision": "bf16"})
    edit_config(run, lambda config: config.update(precision="bf16"))
    found = certify(study)
    assert failed_across(found) == {"configs", "same means"}
    assert "precision must be the same in all runs" in across(found)["same means"].sentence
    edit_rows(run, "start", 0, {"processes": 2})
    assert "processes must be the same" in across(certify(study))["same means"].sentence


def test_cells_that_are_missing_unfinished_or_exchanged(study: Path) -> None:
    checkpoint(cell(study, "baseline"), 12).unlink()
    shutil.rmtree(cell(study, "frozen-slice"))
    found = certify(study)
    assert failed_across(found) == {"same steps", "cells"}
    said = across(found, "study")["cells"].sentence
    assert "finished: runs/poisson/baseline/seed-0 must have finished, got step 8" in said
    assert "must be the run poisson frozen-slice seed 0, got no run there" in said
    assert "finished" in failures(found.runs[0])
    shutil.rmtree(cell(study, "baseline"))
    shutil.copytree(cell(study, "no-token-attention"), cell(study, "baseline"))
    said = across(certify(study), "study")["cells"].sentence
    assert "the run poisson baseline seed 0, got poisson no-token-attention seed 0" in said


def test_a_cell_whose_turn_has_not_come(study: Path) -> None:
    run = cell(study, "baseline")
    for file in (*files_of(run), run / "records.jsonl"):
        file.unlink()
    found = certify(study)
    assert failures(found.runs[0]) == {
        "finished": "the run must have finished, got one not begun yet"
    }
    assert "cells" in failed_across(found)


def test_a_study_without_a_list_of_cells(study: Path) -> None:
    (study / "study.json").unlink()
    changes = {"data.store": str(study / "data/poisson"), "model.variant": "mlp-only", "seed": 1}
    make_run(study / "more/mlp", changes)
    found = certify(study)
    assert found.holds
    assert "no run of baseline seed 1" in across(found)["configs"].notes[0]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "must be a JSON object"),
        ("{}", "schema must be 1 or 2, got None"),
        ('{"schema": 1, "cells": 3}', "cells must be a list, got 3"),
        ('{"schema": 1, "cells": [{"experiment": 3}]}', "cells[0].experiment must be text, got 3"),
    ],
)
def test_a_damaged_list_of_cells(study: Path, content: str, sentence: str) -> None:
    (study / "study.json").write_text(content)
    found = certify(study)
    assert failed_across(found) == {"cells"}
    assert sentence in across(found, "study")["cells"].sentence


def test_a_run_that_the_study_does_not_list(study: Path) -> None:
    shutil.copytree(cell(study, "baseline"), study / "runs/copy")
    found = certify(study)
    assert found.holds
    assert across(found, "study")["cells"].notes == (
        "runs that the study does not list: runs/copy",
    )


def test_a_damaged_run_of_a_study(study: Path) -> None:
    cut(cell(study, "baseline") / "config.json")
    found = certify(study)
    assert "config.json must be a JSON object" in failures(found.runs[0])["readable"]
    assert failed_across(found) == {"cells"}


def test_a_folder_that_is_neither(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ValueError, match="must be a run, with a config.json, or a study"):
        certify(tmp_path)
    with pytest.raises(ValueError, match="got no such folder"):
        certify(tmp_path / "none")


def command(*arguments: object) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(audit)
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.output


def test_what_a_killed_audit_left_goes(study: Path) -> None:
    for name in (".certificate.json.7.partial", ".certificate.txt.7.partial", ".mine.7.partial"):
        (study / name).touch()
    write_certificate(certify(study), study)
    assert [file.name for file in study.glob(".*.partial")] == [".mine.7.partial"]


def test_the_command_says_little_and_writes_all(study: Path) -> None:
    code, said = command(study)
    assert code == 0
    lines = said.splitlines()
    assert len(lines) == 4 and all(line.startswith("holds  poisson") for line in lines[:3])
    checks = 3 * len(ALL) + 6
    assert lines[3].startswith(f"{study}: all {checks} checks of 3 runs hold.")
    text = (study / "certificate.txt").read_text()
    assert text.count("  holds  ") == checks and "FAILS" not in text
    assert text.count("  ran    steps 1 to 12: chunked") == 3
    value = json.loads((study / "certificate.json").read_text())
    assert value["schema"] == 1 and value["holds"] and value["versions"]["torch"]
    assert [run["variant"] for run in value["runs"]][0] == "baseline"
    assert value["runs"][0]["implementation"][0]["last"] == 12
    assert command(study)[0] == 0  # its own certificate changes nothing


def test_the_command_fails_naming_the_reason(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    edit_config(run, lambda config: config["model"].update(variant="no-token-attention"))
    code, said = command(run, "--out", tmp_path / "out")
    assert code == 1
    assert "  FAILS  structure: no-token-attention must not have blocks.0.coupling.mix.key" in said
    assert f"2 of {len(ALL)} checks of 1 run do not hold" in said
    assert "  FAILS  memberships: " in (tmp_path / "out/certificate.txt").read_text()
    assert not (run / "certificate.txt").exists()
    code, said = command(run, "--json")
    value = json.loads(said)
    assert code == 1 and not value["holds"]
    assert value == {**json.loads((run / "certificate.json").read_text())}
    failed = [check["check"] for check in value["runs"][0]["checks"] if not check["holds"]]
    assert failed == ["structure", "memberships"]
