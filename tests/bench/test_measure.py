"""What can be seen of the measurements without a GPU: their rows, steps, and who is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from slipstream.bench import cases, measure, modules, run, subjects
from slipstream.bench.cases import Case
from slipstream.bench.gate import Verdict
from slipstream.bench.workers import Outcome

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = Case(what="layer", points=32, dtype="fp32", precision="ieee", layers=1)
GREEN = Verdict(True, "output", 1.0, 1.25, True, {})


def test_rows_have_names_of_their_own_and_cover_the_tables() -> None:
    for rows in (rows() for rows in cases.CASES.values()):
        assert len({row.name for row in rows}) == len(rows)
    model = {row.name for row in cases.model_cases()}
    for how in ("eager", "compiled"):
        for step in ("inference", "training"):
            for what in ("262k bf16/bf16", "1M bf16/bf16", "262k fp32/ieee", "262k fp32/tf32"):
                assert f"model {what} {step} {how} G=32 L=8" in model
    assert "model 4M bf16/bf16 training checkpointed compiled G=32 L=8" in model
    assert "model 16.8M bf16/bf16 inference eager G=32 L=8" in model
    assert "model 1M fp32/ieee training eager G=32 L=8" in model
    assert "model 262k bf16/bf16 training eager G=32 L=8 untied-ln" in model
    layers = {row.name for row in cases.kernels_cases()}
    for slices in (256, 512, 1024):
        assert f"layer 1M bf16/bf16 inference eager G={slices}" in layers
    assert {48, 1024} <= {row.slices for row in cases.memory_cases() if row.what == "layer"}
    assert {row.layers for row in cases.memory_cases()} == {1, 4, 8, 16, 32, 48}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"training": False},
        {"what": "model", "points": 7},
        {"what": "model", "points": 7, "checkpointed": True, "layers": 2},
        {"variant": "untied-ln"},
    ],
)
def test_steps_run(changes: dict[str, Any]) -> None:
    step = subjects.make_step(replace(SMALL, **changes), "reference", DEVICE)
    assert step().isfinite().all()


def test_our_model_is_checkpointed_by_itself() -> None:
    """Blocks wrapped from outside would keep two tensors each."""
    for checkpointed in (False, True):
        case = replace(SMALL, what="model", checkpointed=checkpointed)
        assert subjects.build(case, "reference").recompute is checkpointed


def test_the_gate_of_a_measurement_is_that_of_parity() -> None:
    large = replace(SMALL, points=10**6, slices=16, compiled=True)
    verdict = modules.check(large, DEVICE, points=24)
    assert verdict.green and "gradient of x" in verdict.ratios
    assert verdict.plan == "single-tile, ieee dots"


def test_calls_take_turns() -> None:
    seen: list[str] = []
    calls: dict[str, Callable[[], object]] = {n: lambda n=n: seen.append(n) for n in ("a", "b")}
    times = measure.interleaved_ms(calls, warmup=1, repeats=2, device="cpu")
    assert "".join(seen) == "ababab" and len(times["a"]) == len(times["b"]) == 2
    assert measure.quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert measure.quantile([3.0, 1.0], 0.8) == 3.0


def measured(monkeypatch: pytest.MonkeyPatch, verdict: Verdict = GREEN, **fails: Exception) -> Any:
    """A case's record with the gate's verdict given, and subjects that fail as told."""
    make_step = subjects.make_step

    def step(case: Case, subject: subjects.Subject, device: str) -> Callable[[], torch.Tensor]:
        if subject in fails:
            raise fails[subject]
        return make_step(case, "reference", device)

    monkeypatch.setattr(run, "make_step", step)
    monkeypatch.setattr(run, "check", lambda case, device: verdict)
    everyone: tuple[subjects.Subject, ...] = ("reference", "fused", "flashslice")
    return run.measure_case(SMALL, subjects=everyone, repeats=3, device=DEVICE)


def test_everyone_is_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(monkeypatch)
    assert found["gate"]["green"] and set(found["results"]) == {"reference", "fused", "flashslice"}
    ours = found["results"]["fused"]
    assert ours["ms_20"] <= ours["ms"] <= ours["ms_80"] and ours["repeats"] == 3
    assert ours["in_turns_with"] == ["reference", "flashslice"]
    assert run.succeeded(found)


def test_no_speed_behind_a_red_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(monkeypatch, replace(GREEN, passed=False))
    assert found["results"]["fused"] == {"not_measured": "the gate is red"}
    assert "ms" in found["results"]["reference"] and not run.succeeded(found)


def test_who_fails_is_recorded_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(
        monkeypatch, reference=torch.OutOfMemoryError(), flashslice=ValueError("no such variant")
    )
    assert found["results"]["reference"] == {"out_of_memory": True}
    assert found["results"]["flashslice"] == {"not_measured": "ValueError: no such variant"}
    assert found["results"]["fused"]["in_turns_with"] == []


def test_one_after_another_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "total_gb", lambda device: -1.0)
    found = measured(monkeypatch)
    assert all(result["in_turns_with"] == [] for result in found["results"].values())
    assert all(result["repeats"] == 3 for result in found["results"].values())


def test_a_case_whose_process_dies_is_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def die(tasks, work, **how):  # noqa: ANN001, ANN003, ANN202
        yield SMALL, Outcome(error="its process died with exit code -11", seconds=2.0)

    monkeypatch.setattr(run, "run_tasks", die)
    out = tmp_path / "a.jsonl"
    (record,) = run.run_cases([SMALL], ("fused",), out, command="kernels", repeats=1)
    assert record["error"] == "its process died with exit code -11" and not run.succeeded(record)


def test_the_peer_says_what_it_has_not() -> None:
    with pytest.raises(ValueError, match="no kernels for the variant 'untied-ln'"):
        subjects.make_step(replace(SMALL, variant="untied-ln"), "flashslice", DEVICE)
