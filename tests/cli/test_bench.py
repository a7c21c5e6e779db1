"""`slipstream bench` as a user meets it."""

from __future__ import annotations

import json
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from slipstream.bench import cpu_gate, tune
from slipstream.bench.workers import Outcome
from slipstream.cli import app as cli
from slipstream.cli import bench as bench
from slipstream.core.records import read_records

needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="says what a GPU is needed for")


def slipstream(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["slipstream", "bench", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("parity", "--only", "zzz"), "only must be part of the name of a case, as in 'operator "),
        (("model", "--only", "zzz"), "as in 'model 262k bf16/bf16 inference eager G=32 L=8', got"),
        (("tune", "--only", "zzz"), "as in 'single-tile/slice_forward bf16 G=32 D=32', got 'zzz'"),
        (("parity", "--workers", "-1"), "workers must be a whole number of at least 0, got -1"),
        (("parity", "--device", "gpu"), "device must be auto, cpu, cuda or cuda:N, got 'gpu'"),
        (("kernels", "--repeats", "0"), "repeats must be a whole number of at least 1, got 0"),
        (("data", "--repeats", "0"), "repeats must be a whole number of at least 1, got 0"),
        (("kernels", "--out", "."), "out must be a file of records, got the folder ."),
        (("memory", "--peer"), "--peer needs the package flashslice, and it is not installed"),
        (("cpu", "--only", "zzz"), "as in 'layer 32k fp32/ieee inference eager G=32', got 'zzz'"),
        (("cpu", "--repeats", "0"), "repeats must be a whole number of at least 1, got 0"),
        (("cpu", "--cores", "0"), "cores must be a whole number of at least 1, got 0"),
        (("cpu", "--cores", "9999"), "all that there are, got 9999"),
        (("cpu", "--out", "."), "out must be a file of records, got the folder ."),
        (("cpu", "--peer"), "one of flashslice, physicsnemo, thuml on the path, and none is"),
        (("layer",), "No such command 'layer'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    arguments: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(bench.subjects, "has_peer", lambda: False)
    monkeypatch.setattr(bench.cpu_subjects, "is_on_path", lambda subject, case: False)
    assert slipstream(monkeypatch, *arguments) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@needs_no_gpu
@pytest.mark.parametrize("command", ["kernels", "model", "memory", "tune"])
def test_measurements_need_a_gpu(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert slipstream(monkeypatch, command) == 2
    said = capsys.readouterr().err
    assert f"bench {command} needs a CUDA device, and this machine has none" in said


@needs_no_gpu
def test_parity_needs_a_gpu_or_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench.runtime, "TRITON_INTERPRETED", False)
    assert slipstream(monkeypatch, "parity") == 2
    assert "parity needs a CUDA device, or TRITON_INTERPRET=1" in capsys.readouterr().err


@needs_no_gpu
def test_parity_writes_records_and_markdown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "parity.jsonl"
    only = ("--only", "G=8 D=16 fp32/ieee", "--workers", "0")
    arguments = ("parity", "--out", str(out), *only)
    assert slipstream(monkeypatch, *arguments) == 0
    assert f"2 of 2 green. Records: {out}\n" in capsys.readouterr().out
    assert {record["family"] for record in read_records(out, "parity")} == {
        "blocked", "blocked, over points"
    }  # fmt: skip
    assert "2 of 2 green." in out.with_suffix(".md").read_text()


def test_a_red_case_ends_with_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Boom(Exception):
        pass

    def broken(case: object, device: str) -> None:
        raise Boom("on purpose")

    monkeypatch.setattr(bench.parity_grid, "check_case", broken)
    out = tmp_path / "parity.jsonl"
    arguments = ("--out", str(out), "--only", "G=8 D=16 fp32/ieee", "--workers", "0")
    assert slipstream(monkeypatch, "parity", *arguments) == 1
    said = capsys.readouterr().out
    assert "operator blocked G=8 D=16 fp32/ieee: Boom: on purpose" in said
    assert "0 of 2 green." in said


def test_measurements_write_records_and_markdown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = {"green": True, "worst": 1.0, "limit": 2.0, "tensor": "output", "deterministic": True}

    def in_this_process(tasks: Any, work: Any, **how: Any) -> Any:
        for case in tasks[0]:
            ours = {"ms": 2.0, "peak_gb": 1.0}
            result = {"gate": gate, "results": {"fused": ours}, "device": "a device"}
            yield case, Outcome(result=result, seconds=1.0)

    monkeypatch.setattr(bench, "_gpu", lambda command: "cuda")
    monkeypatch.setattr(bench.run, "run_tasks", in_this_process)
    out = tmp_path / "memory.jsonl"
    only = "layer 262k bf16/bf16 training eager G=48|layer"
    assert slipstream(monkeypatch, "memory", "--out", str(out), "--only", only) == 0
    said = capsys.readouterr().out
    assert "layer 262k bf16/bf16 training eager G=48 |  | 2.00 (1.00) |" in said
    assert "G = 48 to 1024: largest over smallest 1.0000, at most 1.05: flat." in said
    assert "a device" in out.with_suffix(".md").read_text()
    assert len(read_records(out, "bench")) == 5


def test_tune_writes_a_table_and_its_timings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def swept(cases: list[tune.TuneCase], workers: int) -> Any:
        fast, failing = cases[:2]
        tiles = [replace(tile, warps=16) for tile in list(tune.candidates(fast))[:2]]
        yield fast, Outcome(result=[tune.Timing(tile, 0.5) for tile in tiles])
        yield failing, Outcome(error="RuntimeError: no candidate runs")

    monkeypatch.setattr(bench, "_gpu", lambda command: "cpu")
    monkeypatch.setattr(tune, "tune", swept)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    out = tmp_path / "tiles.toml"
    assert slipstream(monkeypatch, "tune", "--out", str(out)) == 1
    said = capsys.readouterr().out
    assert "single-tile/slice_forward bf16 G=32 D=32: 0.500 ms with Tile(" in said
    assert ": RuntimeError: no candidate runs\n" in said
    written = tomllib.loads(out.read_text())
    assert written["architecture"] == 90 and written["tile"][0]["warps"] == 16
    done, failed = read_records(tmp_path / "tiles.jsonl", "tune")
    assert len(done["timings"]) == 2 and failed["error"] == "RuntimeError: no candidate runs"


def test_cpu_times_subjects_in_turns_and_writes_records_and_markdown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = replace(bench.on_cpu.LAYER, points=100)
    monkeypatch.setattr(bench.on_cpu, "cpu_cases", lambda: [tiny])
    monkeypatch.setattr(cpu_gate, "CHECK_POINTS", 100)
    out = tmp_path / "cpu.jsonl"
    arguments = ("--out", str(out), "--reference", "--repeats", "3", "--cores", "1", "--json")
    assert slipstream(monkeypatch, "cpu", *arguments) == 0
    (record,) = read_records(out, "cpu")
    assert json.loads(capsys.readouterr().out) == [record]
    assert list(record["results"]) == ["ours", "reference"] and len(record["cores"]) == 1
    for result in record["results"].values():
        assert result["gate"]["green"] and result["repeats"] == 3 == len(result["cpu_s_all"])
        assert 0 < result["cpu_s_20"] <= result["cpu_s"] <= result["cpu_s_80"]
        assert result["peak_gb"] is None or 0 < result["peak_gb"] < 0.1
    assert "time: reference / ours" in out.with_suffix(".md").read_text()


def test_cpu_ends_with_exit_code_1_where_a_gate_is_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def judged(cases: Any, subjects: Any, cores: Any) -> Any:
        return {
            (s.name, cpu_gate.shape_of(c)): Outcome(error="no") for c in cases for s in subjects
        }

    monkeypatch.setattr(bench.on_cpu, "judge_all", judged)
    arguments = ("--out", str(tmp_path / "cpu.jsonl"), "--only", "layer 32k fp32/ieee inference")
    assert slipstream(monkeypatch, "cpu", *arguments) == 1
    assert "layer 32k fp32/ieee inference eager G=32 | no |" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["parity", "kernels", "model", "memory", "cpu", "tune"])
def test_every_command_has_help_with_an_example(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert slipstream(monkeypatch, command, "--help") == 0
    assert f"Example: slipstream bench {command}" in capsys.readouterr().out
