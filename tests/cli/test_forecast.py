"""`slipstream forecast` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

from slipstream.runs.folder import RunFolder
from slipstream.training.session import train

from ..conftest import Command

TINY = (
    "--orders", "1", "--steps", "4", "--device", "cpu",
    "--set", "model.size={layers: 1, width: 8, heads: 2, slices: 3}",
)  # fmt: skip


def made(command: Command, out: Path, samples: int) -> Path:
    said = command("data", "make", "poisson", "--samples", samples, "--points", 32, "--out", out)
    assert said.code == 0, said.err
    return out


def test_a_forecast_goes_on_and_answers_other_targets(tmp_path: Path, command: Command) -> None:
    """One training is interrupted; the second call trains nothing."""
    store, out = made(command, tmp_path / "store", 24), tmp_path / "out"
    given = ("forecast", store, "--out", out, *TINY)
    first = command(*given, "--target", 0.05)
    assert first.code == 0, first.err
    assert "3 trainings of 4 steps, 2 at a time: about" in first.err.replace("1 at", "2 at")
    assert "small model (1 layer of width 8, 4 steps)" in first.out.replace("\n", " ")
    runs = [RunFolder(path.parent) for path in sorted(out.rglob("config.json"))]
    assert [len(run.read_config().data.train or ()) for run in runs] == [19, 4, 9]
    before = [run.records_file.read_bytes() for run in runs]
    second = command(*given, "--target", 0.5, "--field", "potential", "--json")
    found = json.loads(second.out)
    assert [run.records_file.read_bytes() for run in runs] == before and not second.err
    assert found["verdict"] in ("never", "unknown") and found["target"] == 0.5
    assert [one["samples"] for one in found["trainings"]] == [4, 9, 19]
    assert set(found["errors"]) == {"19", "38", "76"} and "potential" in found["notes"][0]
    lost = runs[1]
    newest = lost.checkpoint_file(4)
    model = lost.model_file.read_bytes()
    newest.unlink()
    lost.records_file.unlink()
    lost.model_file.unlink()
    train(None, lost.path, device="cpu")
    assert lost.model_file.read_bytes() == model and len(list(out.rglob("config.json"))) == 3
    changed = command(*given, "--steps", 6)
    assert changed.code == 2 and "steps: 4, 6" in changed.err


BAD = (
    (("--target", "1.5"), "--target must be between 0 and 1, got 1.5"),
    (("--target", "0"), "--target must be between 0 and 1, got 0"),
    (("--level", "90"), "--level must be between 0 and 1, got 90"),
    (("--field", "lift"), "--field must be one of potential, field, got 'lift'"),
    (("--orders", "0"), "orders must be a whole number of at least 1, got 0"),
    (("--sizes", "4"), "must have at least 32 samples for 4 subsets"),
    (("--steps", "0"), "--steps must be a whole number of at least 1, got 0"),
    (("--parallel", "0"), "parallel must be a whole number of at least 1, got 0"),
)


def test_bad_input_is_one_sentence(tmp_path: Path, command: Command) -> None:
    store = made(command, tmp_path / "store", 24)
    for options, sentence in BAD:
        said = command("forecast", store, "--out", tmp_path / "out", *options)
        assert said.code == 2 and sentence in said.err and "Traceback" not in said.err, said
        assert not (tmp_path / "out").exists()


def test_a_store_that_cannot_be_forecast_from(tmp_path: Path, command: Command) -> None:
    few = command("forecast", made(command, tmp_path / "few", 8))
    assert few.code == 2 and "at least 3 samples in its split 'val', got 1" in few.err
    none = command("forecast", tmp_path)
    assert none.code == 2 and "must be a store" in none.err
