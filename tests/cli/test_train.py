"""`slipstream train` and `study` as a user meets them: real processes, exit codes and streams."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slipstream import load_model
from slipstream.cli.app import main
from slipstream.cli.run_config import Changes, make_config
from slipstream.evaluation.compare import NOTHING
from slipstream.runs.folder import RunFolder

from ..conftest import Command
from .test_cli import slipstream

TINY = (
    "--set", "steps=6", "--set", "evaluate_every=3", "--set", "batch=2",
    "--set", 'data.builtin.samples={"train": 4, "val": 2}', "--set", "data.builtin.points=16",
    "--set", "model.size={layers: 1, width: 8, heads: 2, slices: 3}", "--device", "cpu",
)  # fmt: skip


def test_train_then_again_then_load(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = slipstream("train", "poisson", "--out", str(out), "--variant", "mlp-only", *TINY)
    assert done.returncode == 0, done.stderr
    assert "Best validation error" in done.stdout and "Finished after 6 steps" in done.stdout
    assert "step 6 of 6: loss " in done.stderr and "━" not in done.stderr, "lines, no bar"
    again = slipstream("train", "--out", str(out), "--json")
    assert json.loads(again.stdout)["reason"] == "finished"
    trained = load_model(out)
    assert trained.config.model.variant == "mlp-only" and trained.metric["step"] in (3, 6)


def test_train_from_a_model_takes_its_variant_and_size(tmp_path: Path, command: Command) -> None:
    out, store = tmp_path / "run", tmp_path / "run" / "data"
    first = ("train", "poisson", "--out", str(out), "--variant", "untied", *TINY)
    assert command(*first).code == 0
    more = ("train", "own", "--from", str(out), "--store", str(store), "--device", "cpu")
    few = (*TINY[:6], "--set", "data.points=16", "--set", "data.workers=0")
    done = command(*more, *few, "--out", str(tmp_path / "more"))
    assert done.code == 0, done.err
    assert "parameters start at the values of" in done.err
    assert load_model(tmp_path / "more").config.model.variant == "untied"
    other = command(*more, "--variant", "mlp-only", "--out", str(tmp_path / "other"))
    assert other.code == 2 and "model.variant must be that of the model" in other.err


Call = Callable[..., str]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """What a command prints, in this process."""

    def call(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["slipstream", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capsys.readouterr().out

    return call


def test_list_and_show(called: Call) -> None:
    rows = json.loads(called("train", "--list", "--json"))
    assert {"drivaerml-surface", "poisson", "own"} <= {row["name"] for row in rows}
    assert "184,000" in called("train", "--list")
    given = ("train", "drivaerml-volume", "--show", "--seed", "7", "--set", "optim.clip=1")
    config = json.loads(called(*given))
    assert (config["steps"], config["seed"], config["optim"]["clip"]) == (19_000, 7, 1.0)


def test_files_and_settings_overlay_an_experiment(tmp_path: Path, called: Call) -> None:
    (tmp_path / "c.yaml").write_text(
        "steps: 7\nmodel:\n  size: {layers: 3}\noptim.clip: 2\noptim.weight_decay: 1e-4\n"
    )
    given = ("train", "poisson", "--show", "--config", str(tmp_path / "c.yaml"))
    config = json.loads(called(*given, "--set", "steps=9", "--set", "evaluate_every=9"))
    assert (config["steps"], config["model"]["size"]["layers"]) == (9, 3)
    assert config["optim"]["weight_decay"] == 1e-4, "which YAML takes for text"
    assert config["optim"]["clip"] == 2.0 and config["model"]["size"]["width"] == 64


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("train",), "an experiment or --out of a run to continue must be given, got neither"),
        (("train", "poison", "--out", "r"), "did you mean 'poisson'?"),
        (("train", "poisson"), "--out must name the folder of the run, got none"),
        (("train", "--out", "r"), "r must be a run to continue, got no config.json"),
        (("train", "--out", "r", "--seed", "1"), "an experiment must be named to change its con"),
        (("train", "poisson", "--out", "r", "--set", "optim.lr=1"), "must be one of learning_rate"),
        (("train", "poisson", "--out", "r", "--set", "experiment=x"), "must be one of data, model"),
        (("train", "poisson", "--out", "r", "--variant", "base"), "variant must be one of baselin"),
        (
            ("train", "poisson", "--out", "r", "--config", "no.yaml"),
            "no.yaml must be a YAML file, got no such",
        ),
        (("train", "poisson", "--out", "r", "--config", "bad.yaml"), "bad.yaml must be YAML, got"),
        (
            ("train", "poisson", "--out", "r", "--config", "list.yaml"),
            "list.yaml: the file must be a mapping",
        ),
        (("train", "own", "--out", "r", "--preset", "smal"), "did you mean 'small'?"),
        (("train", "--out", "r", "--preset", "small"), "an experiment must be named to change"),
        (("study", "own", "--out", "s", "--preset", "auto"), "preset must be one of paper, small"),
        (("train", "poisson", "--out", "r", "--device", "tpu7"), "device must be auto, cpu, cuda"),
        (("train", "poisson", "--out", "mine", *TINY), "must be a run or an empty folder, got a."),
        (("train", "own", "--out", "r"), "data.store must name the point store of the run"),
        (("train", "own", "--out", "r", "--store", "mine"), "mine must be a store with a manifest"),
        (
            ("train", "drivaerml-surface", "--out", "r"),
            "store of drivaerml-surface, got null",
        ),
        (("study", "poisson", "--out", "s", "--seeds", "a"), "--seeds must be whole numbers"),
        (("study", "poisson", "--out", "s", "--variants", "x"), "variant must be one of"),
        (("study", "own", "poisson", "--out", "s", "--store", "x"), "must be of one experiment"),
        (("study", "poisson", "--out", "s", "--parallel", "0"), "parallel must be a whole number"),
        (("study", "poisson", "--out", "s", "--sweep", "steps"), "must be field=value,value, got"),
        (("study", "poisson", "--out", "s", "--sweep", "steps="), "must be field=value,value, got"),
        (
            ("study", "poisson", "--out", "s", "--sweep", "steps=1,]"),
            "--sweep steps must be a YAML",
        ),
        (("study", "poisson", "--out", "s", "--sweep", "step=1"), "did you mean 'steps'?"),
        (
            ("study", "poisson", "--out", "s", "--sweep", "model.size.key_ratio=1,4"),
            "model.size.key_ratio must be with a variant that depends on it, got baseline, no-",
        ),
        (("train", "poisson", "--out", "r", "--set", "mesh.points=4"), "got 4 and 1 process "),
        (
            ("study", "poisson", "--out", "s", "--set", "mesh.points=2", "--processes", "3"),
            "mesh.points must divide the number of processes, got 2 and 3 processes ",
        ),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path,
    arguments: tuple[str, ...],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "bad.yaml").write_text("a: [1")
    (tmp_path / "list.yaml").write_text("[1, 2]")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["slipstream", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 2 and sentence in said, said
    assert "Traceback" not in said and len(said.strip().splitlines()) == 1
    left = [p for p in sorted(tmp_path.rglob("*")) if p not in before]
    assert not [p for p in left if p.suffix in (".json", ".jsonl", ".safetensors")], left


def test_a_preset_chosen_on_a_cpu_is_kept_by_the_same_command(
    tmp_path: Path, command: Command
) -> None:
    """Interrupted or not, the bytes are the same; the machine is asked when a run is new."""
    store = tmp_path / "store"
    made = ("data", "make", "poisson", "--samples", 8, "--points", 40, "--out", store)
    assert command(*made).code == 0
    given = ("train", "own", "--store", store, "--device", "cpu", "--set", "evaluate_every=2")
    given += ("--set", "steps=4")
    whole, cut = tmp_path / "whole", RunFolder(tmp_path / "cut")
    said = command(*given, "--out", whole)
    assert said.code == 0, said.err
    note, time, *_ = said.err.splitlines()
    assert note == (
        "On a CPU this run takes the preset small: 4 layers of width 64, 40 points of a sample,"
        " batch 4, fp32, 4 steps. With --preset paper: 8 layers of width 256, all points of a"
        " sample, batch 1, bf16, 4 steps."
    )
    assert time.startswith("A step takes about ")
    shutil.copytree(whole, cut.path)
    cut.checkpoint_file(4).unlink()  # as a run that was killed after step 2
    said = command(*given, "--out", cut.path)
    assert said.code == 0 and "preset" not in said.err and "the 2 steps that are left" in said.err
    for file in (cut.model_file, cut.checkpoint_file(4)):
        assert file.read_bytes() == (whole / file.relative_to(cut.path)).read_bytes()
    other = command(*given, "--out", whole, "--preset", "paper")
    assert other.code == 2 and "precision: fp32, bf16" in other.err


def test_a_run_begun_as_the_papers_stays_so_without_a_gpu(tmp_path: Path, called: Call) -> None:
    """As one begun on a GPU, or by a version without presets."""
    store = tmp_path / "store"
    called("data", "make", "poisson", "--samples", "8", "--points", "40", "--out", str(store))
    changes = Changes(settings=["steps=5"], store=store)
    RunFolder(tmp_path / "run").begin(make_config("own", changes))
    given = ("train", "own", "--store", str(store), "--set", "steps=5", "--device", "cpu", "--show")
    kept = json.loads(called(*given, "--out", str(tmp_path / "run")))
    assert (kept["precision"], kept["model"]["size"]["width"]) == ("bf16", 256)
    new = json.loads(called(*given, "--out", str(tmp_path / "new")))
    assert (new["precision"], new["model"]["size"]["width"]) == ("fp32", 64)
    assert (new["data"]["points"], new["steps"]) == (40, 5), "the smallest sample, and --set"
    chosen = json.loads(called(*given, "--preset", "paper"))
    assert chosen == {**kept, "data": chosen["data"]}
    plain = json.loads(called("train", "drivaerml-surface", "--show", "--device", "cpu"))
    assert plain["precision"] == "bf16", "published experiments are the paper's on every machine"


def test_sigterm_saves_and_the_same_command_goes_on(tmp_path: Path, command: Command) -> None:
    folder = RunFolder(tmp_path / "run")
    given = ["train", "poisson", "--out", str(folder.path), *TINY]
    given += ["--set", "steps=100000", "--set", "evaluate_every=50000", "--set", "log_every=5"]
    process = subprocess.Popen(
        [sys.executable, "-m", "slipstream", *given], stdout=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 60
    while not folder.history("train") and time.monotonic() < until:
        time.sleep(0.02)
    busy = command("train", "--out", folder.path, "--device", "cpu")
    assert busy.code == 2 and "must not be in use" in busy.err
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "saved; the same command continues" in said
    assert folder.history("stop")[-1]["step"] == folder.checkpoint_steps()[-1]


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path, command: Command) -> None:
    """A real limit on the size of files, as a quota is."""
    folder = RunFolder(tmp_path / "run")
    given = [sys.executable, "-m", "slipstream", "train", "poisson", "--out", str(folder.path)]
    limit = (15_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    done = subprocess.run(
        [*given, *TINY], capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert f"cannot use '{folder.checkpoint_file(3)}': File too large" in done.stderr
    assert folder.checkpoint_steps() == [0]
    assert "Traceback" not in done.stderr and not list(folder.path.rglob("*.partial"))
    again = command("train", "--out", folder.path, "--device", "cpu")
    assert again.code == 0 and "Finished after 6 steps" in again.out


@pytest.mark.usefixtures("forked_runs")
def test_a_sweep_is_trained_audited_and_evaluated(tmp_path: Path, command: Command) -> None:
    study = tmp_path / "s"
    given = ("study", "poisson", "--out", str(study), *TINY, "--seeds", "0", "--parallel", "2")
    given += ("--set", 'data.builtin.samples={"train": 4, "val": 2, "test": 2}')
    given += ("--variants", "baseline,untied-ln", "--sweep", "model.size.key_ratio=1,2")
    done = command(*given)
    assert done.code == 0, done
    assert "baseline is trained once and stands for all values" in done.err
    assert "poisson, key_ratio = 2: best validation error" in done.out
    again = json.loads(command(*given, "--json").out)
    assert [(row["variant"], row["swept"]) for row in again["rows"]] == [
        (variant, {"model.size.key_ratio": ratio})
        for ratio in (1, 2)
        for variant in ("baseline", "untied-ln")
    ]
    assert [cell["status"] for cell in again["cells"]] == ["finished"] * 3
    assert "all 48 checks of 3 runs hold" in command("audit", study).out
    assert "seed and model.size.key_ratio alone" in (study / "certificate.txt").read_text()
    measured = json.loads(command("evaluate", study, "--device", "cpu", "--json").out)
    assert len(measured["evaluations"]) == 3
    config = study / "runs/poisson/untied-ln/model.size.key_ratio=2/seed-0/config.json"
    config.write_text(config.read_text().replace('"key_ratio": 2', '"key_ratio": 1'))
    told = command("audit", study).out
    assert "must be the run poisson untied-ln key_ratio=2 seed 0, got poisson untied-ln" in told


@pytest.mark.usefixtures("forked_runs")
def test_a_study_ends_with_its_table(tmp_path: Path, command: Command) -> None:
    given = ("study", "poisson", "--out", str(tmp_path / "s"), *TINY, "--seeds", "0")
    given += ("--variants", "baseline,mlp-only", "--parallel", "2")
    done = command(*given)
    assert done.code == 0, done
    assert "2 of 2 runs are finished" in done.out and "ratio to baseline" in done.out
    found = json.loads(command(*given, "--json").out)
    assert [row["variant"] for row in found["rows"]] == ["baseline", "mlp-only"]
    assert found["rows"][0]["ratio"] == 1.0 and found["rows"][0]["seeds"] == [0]
    useless = found["rows"][0]["mean"] >= NOTHING  # after six steps
    assert list(found["failures"]) == ["poisson baseline seed 0"] * useless
    assert ("Not comparable, poisson baseline seed 0: it learned" in done.out) == useless
    checkpoint = tmp_path / "s/runs/poisson/mlp-only/seed-0/checkpoints/step-00000006.safetensors"
    checkpoint.write_bytes(b"spoilt")
    records = RunFolder(checkpoint.parents[1]).records_file
    lines = records.read_text().splitlines(keepends=True)
    records.write_text("".join(line for line in lines if '"stop"' not in line))
    failed = command(*given)
    assert failed.code == 1 and "poisson mlp-only seed 0: failed" in failed.out
    assert "1 of 2 runs are finished" in failed.out
