"""Real runs, evaluated; the files they leave, and what is refused."""

from __future__ import annotations

import json
import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from slipstream.data.store import open_store
from slipstream.evaluation.predict_sample import predict_sample
from slipstream.evaluation.run_evaluation import EvaluationRequest, evaluate_runs, open_data_of
from slipstream.evaluation.slices import probing
from slipstream.evaluation.summary import summarise
from slipstream.reports.draw.scenes import make_scene
from slipstream.runs.evaluation_file import (
    Number,
    Protocol,
    evaluations_file,
    prediction_file,
    predictions_of,
    read_evaluations,
)
from slipstream.runs.folder import RunFolder, find_runs
from slipstream.runs.model_file import load_model
from slipstream.runs.prediction_file import read_prediction, write_prediction

from .made_runs import edit_file

CPU = EvaluationRequest(device="cpu")


@pytest.fixture
def runs(study: Path) -> list[RunFolder]:
    return list(find_runs(study))


@pytest.fixture
def run(study: Path) -> RunFolder:
    return RunFolder(study / "runs/poisson/baseline/seed-0")


def test_all_runs_are_pictured_on_the_median_sample_of_the_baseline(runs: list[RunFolder]) -> None:
    edit_file(runs[3].model_file, lambda _, tensors: tensors["head.bias"].add_(3))
    rows = evaluate_runs(reversed(runs), CPU)
    assert [row.variant for row in rows] == [
        "no-token-attention", "mlp-only", "baseline", "baseline",
    ]  # fmt: skip
    base = next(row for row in rows if (row.variant, row.seed) == ("baseline", 0))
    errors = sorted((found["composite"], sample) for sample, found in base.samples.items())
    assert [row.pictures for row in rows] == [(errors[2][1],)] * 4
    others = sorted((found["composite"], sample) for sample, found in rows[0].samples.items())
    assert others[2][1] != errors[2][1], "left to itself, the first would have another"
    assert all(prediction_file(run, errors[2][1]).is_file() for run in runs)
    assert [len(row.slices) for row in rows] == [2, 0, 2, 2]


def test_runs_are_tasks_of_an_engine(runs: list[RunFolder], study: Path) -> None:
    """The first of the baseline says of which sample the pictures of all others are."""
    edit_file(runs[3].model_file, lambda _, tensors: tensors["head.bias"].add_(3))
    for run in runs:
        shutil.copytree(run.path, study.parent / "other" / run.path.relative_to(study))
    here = evaluate_runs(reversed(runs), CPU)
    others = [RunFolder(study.parent / "other" / run.path.relative_to(study)) for run in runs]
    watched = list[int]()
    with ThreadPoolExecutor(2) as executor:
        there = evaluate_runs(
            reversed(others), CPU, lambda _, done, total: watched.append(done), executor
        )
    assert there == here and watched == [1, 2, 3, 4]
    assert all(len(read_evaluations(run)) == 1 for run in others)
    (sample,) = here[0].pictures
    for one, other in zip(runs, others, strict=True):
        files = [prediction_file(run, sample).read_bytes() for run in (one, other)]
        assert files[0] == files[1]
        assert not list(other.path.glob(".engine-*"))


def test_the_prediction_is_that_of_the_model_on_every_point(run: RunFolder) -> None:
    (row,) = evaluate_runs([run], EvaluationRequest(device="cpu", protocol=Protocol(full=True)))
    (sample,) = row.pictures
    found = read_prediction(prediction_file(run, sample, full=True))
    trained = load_model(run.path)
    assert trained.config.data.store is not None
    rows = torch.from_numpy(open_store(trained.config.data.store).array(sample).copy())
    torch.testing.assert_close(found.coords, rows[:, :3])
    torch.testing.assert_close(found.truth, rows[:, 4:])
    torch.testing.assert_close(found.values, trained(rows[None, :, :3], rows[None, :, 3:4])[0])
    assert (found.variant, found.sample, found.split) == ("baseline", sample, "test")
    assert found.weights is not None and found.weights.shape == (32, 2, 3)
    error = (found.values - found.truth)[:, 0].abs().sum() / found.truth[:, 0].abs().sum()
    assert found.errors["potential"] == pytest.approx(error.item(), rel=1e-5)


def test_a_sample_is_predicted_in_subsets_as_dense_as_in_training(run: RunFolder) -> None:
    """Its 32 points in two subsets of 16."""
    (row,) = evaluate_runs([run], CPU)
    found = read_prediction(prediction_file(run, row.pictures[0]))
    trained = load_model(run.path)
    for part in (slice(0, 16), slice(16, 32)):
        alone = trained(found.coords[None, part], found.features[None, part])[0]
        torch.testing.assert_close(found.values[part], alone)
        with probing(trained.model, 16) as probe:
            trained(found.coords[None, part], found.features[None, part])
        assert found.weights is not None and probe.weights is not None
        torch.testing.assert_close(found.weights[part].float(), probe.weights, rtol=0, atol=1e-3)


@pytest.mark.parametrize("size", [5, 12, 31, 32])
def test_subsets_that_do_not_divide_the_sample(run: RunFolder, size: int) -> None:
    """The last one overlaps: every point is predicted once, and in a subset of that size."""
    edit_file(run.model_file, lambda header, _: header["config"]["data"].update(points=size))
    trained = load_model(run.path)
    store = open_data_of(trained, None, run)
    sample = store.ids("test")[0]
    found, layers = predict_sample(trained, store, sample, Protocol())
    assert len(found.values) == 32 and len(layers) == 2
    last = slice(32 - size, 32)
    alone = trained(found.coords[None, last], found.features[None, last])[0]
    tail = 32 - (32 - 1) // size * size
    torch.testing.assert_close(found.values[-tail:], alone[-tail:])
    assert found.weights is not None and len(found.weights) == 32


def test_what_was_measured_is_not_measured_again(run: RunFolder) -> None:
    first = evaluate_runs([run], CPU)
    assert evaluate_runs([run], CPU) == first and len(read_evaluations(run)) == 1
    evaluate_runs([run], EvaluationRequest(device="cpu", protocol=Protocol(repeats=2)))
    assert len(read_evaluations(run)) == 2
    assert evaluate_runs([run], CPU) == first, "also where it is not the newest"
    evaluate_runs([run], EvaluationRequest(device="cpu", again=True))
    assert len(read_evaluations(run)) == 3
    other = next(s for s in first[0].samples if s not in first[0].pictures)
    evaluate_runs([run], EvaluationRequest(device="cpu", pictures=(other,)))
    assert len(read_evaluations(run)) == 4 and prediction_file(run, other).is_file()
    prediction_file(run, other).unlink()
    evaluate_runs([run], EvaluationRequest(device="cpu", pictures=(other,)))
    assert len(read_evaluations(run)) == 5, "its picture was gone"


def test_what_a_killed_evaluation_left_goes(run: RunFolder) -> None:
    (one,) = evaluate_runs([run], CPU)
    (name,) = one.files.values()
    left, mine = (run.path / "predictions" / f".{n}.7.partial" for n in (name, "mine"))
    for file in (left, mine):
        file.touch()
    evaluate_runs([run], replace(CPU, again=True))
    assert not left.exists() and mine.exists()


def test_each_protocol_keeps_its_predictions(run: RunFolder) -> None:
    """Those of whole samples and of subsets are not the same."""
    (drawn,) = evaluate_runs([run], CPU)
    whole = EvaluationRequest(device="cpu", protocol=Protocol(full=True), pictures=drawn.pictures)
    (full,) = evaluate_runs([run], whole)
    rows = read_evaluations(run)
    (first,), (second,) = (predictions_of(run, one, rows).values() for one in (drawn, full))
    assert first == prediction_file(run, *drawn.pictures) and second != first
    assert not torch.equal(read_prediction(first).values, read_prediction(second).values)
    assert evaluate_runs([run], CPU) == [drawn] and evaluate_runs([run], whole) == [full]


def test_older_predictions_are_of_whoever_wrote_last(run: RunFolder) -> None:
    """Records did not name the files: all protocols wrote to that of the sample."""
    (drawn,) = evaluate_runs([run], CPU)
    older = replace(drawn, files={})
    assert list(predictions_of(run, older)) == list(drawn.pictures)
    whole = replace(older, protocol=Protocol(full=True))
    assert predictions_of(run, older, [older, whole]) == {}, "written over"
    assert len(predictions_of(run, whole, [older, whole])) == 1
    repeated = replace(older, protocol=Protocol(repeats=6))
    assert len(predictions_of(run, older, [older, repeated])) == 1, "the same points"
    assert predictions_of(run, older, [older, replace(older, weights="of another")]) == {}


@pytest.mark.parametrize("points", [32, 1.0, None])
def test_no_noise_where_a_draw_is_the_whole_sample(
    run: RunFolder, points: int | float | None
) -> None:
    edit_file(run.model_file, lambda header, _: header["config"]["data"].update(points=points))
    (row,) = evaluate_runs([run], EvaluationRequest(device="cpu", protocol=Protocol(repeats=3)))
    assert row.protocol == Protocol(full=True)
    assert {number.std for number in row.numbers} == {None}
    assert all(text.endswith("all points of a sample at once") for text in row.definitions.values())


def test_older_records_of_whole_samples_have_no_noise(run: RunFolder) -> None:
    evaluate_runs([run], EvaluationRequest(device="cpu", protocol=Protocol(repeats=2)))
    file = evaluations_file(run)
    row = json.loads(file.read_text())
    for number in row["numbers"]:
        number.update(repeats=[number["mean"]] * 2, std=0.0)
    file.write_text(json.dumps(row) + "\n")
    (found,) = read_evaluations(run)
    assert found.protocol == Protocol(full=True) and found.numbers[0].std is None
    assert found.numbers[0].mean == row["numbers"][0]["mean"]
    assert found.definitions["L1"].endswith("16 points of a sample, as in training")


def test_what_is_there_needs_no_data(run: RunFolder) -> None:
    before = evaluate_runs([run], CPU)

    def move(header: dict[str, Any], _: object) -> None:
        header["config"]["data"]["store"] = "/gone"

    edit_file(run.model_file, move)
    assert evaluate_runs([run], CPU) == before


def test_a_model_that_trained_on_is_measured_again(run: RunFolder) -> None:
    evaluate_runs([run], CPU)

    def nudge(_: object, tensors: dict[str, torch.Tensor]) -> None:
        tensors["head.bias"] += 1

    edit_file(run.model_file, nudge)
    evaluate_runs([run], CPU)
    rows = read_evaluations(run)
    assert len(rows) == 2 and rows[0].numbers != rows[1].numbers


def test_a_model_that_broke_down_is_told_and_not_hidden(run: RunFolder) -> None:
    edit_file(run.model_file, lambda _, tensors: tensors["head.bias"].fill_(float("nan")))
    with pytest.raises(ValueError, match="must have finite errors on some sample, got none"):
        evaluate_runs([run], CPU)
    trained = load_model(run.path)
    assert trained.config.data.store is not None
    sample = open_store(trained.config.data.store).ids("test")[0]
    (row,) = evaluate_runs([run], EvaluationRequest(device="cpu", pictures=(sample,)))
    assert {number.mean for number in row.numbers} == {None}
    assert {v for found in row.samples.values() for v in found.values()} == {None} and summarise(
        [row]
    ) == []
    found = read_prediction(prediction_file(run, sample))
    assert set(found.errors.values()) == {None} and found.values.isnan().all()
    assert math.isnan(make_scene({"baseline": found}).fields[0].relative["baseline"])


def test_data_that_moved_or_are_others(study: Path, run: RunFolder) -> None:
    config = json.loads(run.config_file.read_text())
    store = Path(config["config"]["data"]["store"])
    moved = study / "elsewhere"
    shutil.copytree(store, moved)

    def move(header: dict[str, Any], _: object) -> None:
        header["config"]["data"]["store"] = str(study / "gone")

    edit_file(run.model_file, move)
    with pytest.raises(ValueError, match=r"must be at .*gone, got no such folder \(--store"):
        evaluate_runs([run], CPU)
    evaluate_runs([run], EvaluationRequest(device="cpu", store=moved))
    edit_file(run.model_file, lambda header, _: header.update(data_hash="0" * 64))
    with pytest.raises(ValueError, match="was trained on, hash 000000000000, got"):
        evaluate_runs([run], EvaluationRequest(device="cpu", store=moved, again=True))
    assert len(read_evaluations(run)) == 1


def test_a_sample_of_another_split(run: RunFolder) -> None:
    trained = load_model(run.path)
    assert trained.config.data.store is not None
    other = open_store(trained.config.data.store).ids("train")[0]
    with pytest.raises(ValueError, match=f"of the split 'test' of .*, got '{other}'"):
        evaluate_runs([run], EvaluationRequest(device="cpu", pictures=(other,)))
    assert not evaluations_file(run).exists()


def test_a_corrupt_line_is_named(run: RunFolder) -> None:
    evaluate_runs([run], CPU)
    file = evaluations_file(run)
    row = json.loads(file.read_text())
    del row["numbers"]
    file.write_text(json.dumps(row) + "\n")
    with pytest.raises(
        ValueError,
        match="evaluations.jsonl must hold evaluations, got .* must have the field numbers",
    ):
        read_evaluations(run)
    file.write_text("{\n")
    with pytest.raises(ValueError, match="evaluations.jsonl"):
        read_evaluations(run)


def test_a_damaged_prediction_is_named(run: RunFolder, tmp_path: Path) -> None:
    (row,) = evaluate_runs([run], CPU)
    file = prediction_file(run, row.pictures[0])
    found = read_prediction(file)
    write_prediction(tmp_path / "again.safetensors", found)
    assert (tmp_path / "again.safetensors").read_bytes() == file.read_bytes()
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(ValueError, match="must be a prediction, got"):
        read_prediction(file)
    with pytest.raises(ValueError, match="must be a prediction, got model"):
        read_prediction(run.model_file)


def once_of(number: Number) -> Number:
    return Number.of(number.measure, number.variable, number.repeats[:1])


def test_seeds_are_summarised(runs: list[RunFolder]) -> None:
    rows = evaluate_runs(runs, EvaluationRequest(device="cpu", protocol=Protocol(repeats=2)))
    found = {(s.variant, s.name): s for s in summarise(rows)}
    both = found["baseline", "L1 field"]
    assert both.seeds == (0, 1) and both.std == pytest.approx(
        abs(both.values[0] - both.values[1]) / 2**0.5
    )
    assert both.mean == pytest.approx(sum(both.values) / 2) and both.noise is not None
    numbers = [n for row in rows[:2] for n in row.numbers if n.name == "L1 field"]
    assert both.noise == max(number.relative_std or 0 for number in numbers)
    assert both.draw_std == pytest.approx(sum(n.std or 0 for n in numbers) / 2)
    assert both.draw_relative_std == pytest.approx(sum(n.relative_std or 0 for n in numbers) / 2)
    once = {s.name: s for s in summarise([replace(rows[0], numbers=(once_of(numbers[0]),))])}
    assert once["L1 field"].draw_std is None and once["L1 field"].draw_relative_std is None
    alone = found["mlp-only", "composite"]
    assert alone.std is None and alone.values[0] == rows[2].numbers[0].mean
    unknown = Number.of("composite", None, (None, None))
    rows[0] = replace(rows[0], numbers=(unknown, *rows[0].numbers[1:]))
    assert {s.seeds for s in summarise(rows) if s.name == "composite"} == {(1,), (0,)}
