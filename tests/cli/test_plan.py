"""`slipstream plan` as a user meets it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipstream.bench.data import RandomRows
from slipstream.data.store import RowBlocks, ingest
from slipstream.physics.builtin import builtin_source

from ..conftest import Command


class TwoSizes(RandomRows):
    """A source whose second sample has fewer rows."""

    def read(self, sample: str) -> RowBlocks:
        rows = 200 if sample == "1" else self.rows
        return replace(RandomRows(rows), schema=self.schema).read(sample)


def plan(command: Command, *arguments: object) -> dict[str, Any]:
    said = command("plan", *arguments, "--json")
    assert said.code == 0, said.err
    return json.loads(said.out)  # type: ignore[no-any-return]


def test_a_step_that_fits(command: Command) -> None:
    said = command("plan", "--points", "1M", "--device", "h200")
    assert said.code == 0
    page = " ".join(said.out.split())
    for expected in (
        "own: training of baseline, 8 layers of width 256, 8 heads, 32 slices; 1,000,000 points",
        "It fits: ",
        "50,000 steps 1.8 h",
        "kept for the backward pass",
        "8 inputs and 4 outputs of a point are assumed",
    ):
        assert expected in page
    assert "what would fit" not in page and "extrapolated" not in page


def test_what_makes_a_step_fit_is_the_cheapest_first(command: Command) -> None:
    said = plan(command, "--points", "8M", "--device", "h200")
    asked, *others = said["options"]
    assert not asked["fits"] and asked["bytes"] > said["device"]["usable"]
    assert others and all(option["fits"] for option in others)
    fields = [option["changes"] for option in others]
    assert ["memory=lean"] in fields and ["mesh.points=4"] in fields
    assert ["mesh.points=2", "memory=lean"] in fields
    assert fields[-1] == [f"data.points={asked['largest_points']}"]
    whole = [option["seconds"] for option in others if option["changes"][0] == "memory=lean"]
    assert whole == sorted(whole) and whole[0] > asked["seconds"]
    page = command("plan", "--points", "8M", "--device", "h200").out
    assert "It does not fit" in page and "what would fit" in page
    assert "no record of" not in page
    page = command("plan", "--points", "8M", "--device", "h200", "--precision", "fp32").out
    assert "no record of training fp32 eager lean: counted as the nearest" in page


def test_the_config_of_a_run_is_planned(command: Command, tmp_path: Path) -> None:
    """Fields of a file, of --set and of options; the last wins."""
    file = tmp_path / "changes.yaml"
    file.write_text("batch: 2\nmodel: {size: {layers: 4}}\n")
    given = ["--config", file, "--set", "batch=3", "--layers", "6", "--variant", "untied-ln"]
    said = plan(command, "--points", "64k", "--device", "a100-80", *given, "--compile")
    work = said["options"][0]["work"]
    assert (work["points"], work["batch"], work["size"]["layers"]) == (64_000, 3, 6)
    assert work["variant"] == "untied-ln" and work["compiled"] and work["precision"] == "bf16"


def test_a_store_says_points_and_fields(command: Command, tmp_path: Path) -> None:
    source = builtin_source("poisson", samples=4, points=300, seed=0)
    ingest(source, tmp_path / "store", seed=0, fractions={"train": 0.5, "val": 0.25, "test": 0.25})
    said = plan(command, "--store", tmp_path / "store", "--device", "cpu")
    work = said["options"][0]["work"]
    assert work["points"] == 300 and not said["fields_assumed"]
    assert (work["inputs"], work["outputs"]) == (4, 4) and not work["recorded"]
    builtin = plan(command, "--experiment", "poisson", "--device", "cpu")["options"][0]["work"]
    assert builtin["points"] == 256 and builtin["inputs"] == 4


def test_samples_of_different_sizes_are_planned_by_the_largest(
    command: Command, tmp_path: Path
) -> None:
    """Their steps are not recorded."""
    ingest(TwoSizes(300, samples=3), tmp_path / "store", seed=0)
    given = ["--store", tmp_path / "store", "--device", "h200"]
    work = plan(command, *given)["options"][0]["work"]
    assert work["points"] == 300 and not work["recorded"]
    equal = plan(command, *given, "--set", "data.points=200")["options"][0]["work"]
    assert equal["points"] == 200 and equal["recorded"]


def test_many_devices(command: Command) -> None:
    where = ["--device", "h200", "--devices", "4", "--data-devices", "2"]
    page = " ".join(command("plan", "--points", "4M", *where).out.split())
    assert "on 8 x NVIDIA H200" in page and "memory of each device" in page
    assert "1,000,000 points of a sample; a coupling all-reduces 33.8 KB" in page
    said = plan(command, "--points", "4M", *where)["options"][0]
    assert said["message_bytes"] == 33_792 and not said["parts"]["validation"]


def test_largest_and_inference(command: Command) -> None:
    said = plan(command, "--points", "1M", "--device", "24GB", "--largest")
    by_change = {tuple(o["changes"]): o["work"]["points"] for o in said["options"]}
    assert by_change[()] < by_change[("recompute=true",)] < by_change[("memory=lean",)]
    assert all(option["fits"] for option in said["options"])
    page = command("plan", "--points", "1M", "--device", "24GB", "--largest").out
    assert "most points" in page and "no time" in page
    page = command("plan", "--points", "20M", "--device", "h200", "--inference").out
    assert "A pass takes" in page and "Streamed in chunks: 21.8 GB" in page


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--device", "h200"), "--points or --store must say how many points a step draws"),
        (("--points", "many"), "--points must be a whole number"),
        (("--points", "1M", "--device", "h2000"), "did you mean 'h200'"),
        (("--points", "1M", "--memory", "little"), "--memory must be one of normal"),
        (("--points", "1M", "--device", "h200", "--devices", "0"), "--devices must be"),
        (("--points", "3", "--device", "h200", "--devices", "4"), "at most the 3 points"),
        (("--points", "1M", "--precision", "fp64"), "precision must be fp32 or bf16"),
        (("--points", "1M", "--dots", "tf32x3", "--device", "h200"), "dots must be one of"),
        (("--points", "1M", "--set", "model.impl=reference"), "model.impl must be one with"),
        (("--points", "1M", "--device", "24GB", "--flops", "165"), "must be given together"),
        (("--points", "1M", "--device", "cpu", "--flops", "1", "--bandwidth", "1"), "of a GPU"),
        (("--points", "1M", "--device", "24GB", "--flops", "0", "--bandwidth", "1"), "positive"),
        (("--points", "1M", "--experiment", "cars"), "experiment must be one of"),
    ],
)
def test_bad_input_is_one_sentence(
    command: Command, arguments: tuple[str, ...], sentence: str
) -> None:
    said = command("plan", *arguments)
    assert said.code == 2 and sentence in said.err and said.err.count("\n") == 1, said
    assert not said.out
