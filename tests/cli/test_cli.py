"""The command line as a user meets it: real processes, exit codes and streams."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from slipstream import VARIANTS, __version__
from slipstream.cli.app import main
from slipstream.cli.lazy import _imported

from ..conftest import Command


def slipstream(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "slipstream", *arguments], capture_output=True, text=True
    )


def test_version() -> None:
    done = slipstream("--version")
    assert (done.returncode, done.stdout) == (0, f"slipstream {__version__}\n")


@pytest.mark.parametrize("given", (None, "COMPATIBLE"))
def test_commands_ask_for_the_same_digits_run_after_run(
    monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    monkeypatch.delenv("MKL_CBWR", raising=False)
    if given:
        monkeypatch.setenv("MKL_CBWR", given)
    monkeypatch.setattr(sys, "argv", ["slipstream", "--version"])
    with pytest.raises(SystemExit):
        main()
    assert os.environ["MKL_CBWR"] == (given or "AUTO")


def test_variants(command: Command) -> None:
    done = command("variants", "--json")
    rows = json.loads(done.out)
    assert [row["name"] for row in rows] == list(VARIANTS)
    for row in rows:
        if row["paper_parameters"]:
            assert abs(row["parameters"] / (1e6 * row["paper_parameters"]) - 1) < 0.005
    table = command("variants").out
    assert "3,861,316" in table and "3.87M" in table


def test_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    facts = json.loads(slipstream("doctor", "--json").stdout)
    assert {"python", "torch", "device", "kernels", "parity"} <= facts.keys()
    if not torch.cuda.is_available():
        assert facts["kernels"] == "chunked: no CUDA device (the tensors are on cpu)"
        assert len(facts["parity"]) == 3
        assert all(value.startswith("green") for value in facts["parity"].values())
        assert all(name.startswith("chunked") for name in facts["parity"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("demo", "--steps", "0"), "steps must be a whole number of at least 1, got 0"),
        (("demo", "--steps", "many"), "Invalid value for '--steps'"),
        (("demo", "--device", "gpu"), "device must be auto, cpu, cuda or cuda:N, got 'gpu'"),
        (("demo", "--device", "cuda:77"), "device 'cuda:77' is not on this machine"),
        (("demo", "--out", "taken"), "cannot use 'taken': File exists"),
        (("demon",), "Did you mean 'demo'?"),
        (("variants", "--jason"), "No such option: --jason"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file of the user's")
    done = command(*arguments)
    assert done.code == 2
    assert message in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert (tmp_path / "taken").read_text() == "a file of the user's"


def test_the_help_lists_every_command(command: Command) -> None:
    said = command("--help").out
    listed = [line.split()[0] for line in said.partition("Commands:")[2].splitlines() if line]
    assert listed == [
        "bench", "data", "demo", "plan", "train", "slim", "study", "audit", "evaluate", "calibrate",
        "forecast", "forces", "report", "predict", "compare", "export", "model", "import",
        "export-weights", "variants", "doctor",
    ]  # fmt: skip


def test_every_command_has_help_with_an_example(command: Command) -> None:
    for name in (
        "demo",
        "plan",
        "variants",
        "doctor",
        "train",
        "study",
        "evaluate",
        "calibrate",
        "forecast",
        "audit",
        "report",
        "forces",
    ):
        assert f"Example: slipstream {name}" in command(name, "--help").out


@pytest.mark.parametrize("was_on", [True, False])
def test_garbage_is_collected_after_an_import_as_before_it(was_on: bool) -> None:
    before = gc.isenabled()
    try:
        gc.enable() if was_on else gc.disable()
        assert _imported("slipstream.core.version").VERSION == __version__
        assert gc.isenabled() is was_on and gc.get_freeze_count() > 0
        with pytest.raises(ModuleNotFoundError):
            _imported("slipstream.no_such_module")
        assert gc.isenabled() is was_on
    finally:
        gc.unfreeze()
        gc.enable() if before else gc.disable()
