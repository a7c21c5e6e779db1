"""`bench accelerate`: its cases, its pairs and its table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from slipstream.bench import accelerate
from slipstream.bench.cpu_subjects import ACCELERATED, PEERS


def test_a_layer_and_a_model_with_few_and_many_slices() -> None:
    assert [case.name for case in accelerate.accelerate_cases(1 << 15, 2)] == [
        "layer 32k fp32/ieee training eager G=32", "layer 32k fp32/ieee training eager G=256",
        "model 32k fp32/ieee training eager G=32 L=2",
        "model 32k fp32/ieee training eager G=256 L=2",
    ]  # fmt: skip


def test_without_a_peer_there_is_nothing_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerate, "is_on_path", lambda *_: False)
    with pytest.raises(ValueError, match="needs flashslice, physicsnemo, thuml on the path"):
        accelerate.pairs()
    monkeypatch.setattr(accelerate, "is_on_path", lambda subject, _: "thuml" in subject.name)
    assert [subject.name for subject in accelerate.pairs()] == ["thuml", "thuml accelerated"]


def test_the_table_has_a_row_for_each_pair() -> None:
    assert [(s.name, s.accelerated) for s in ACCELERATED] == [
        (f"{peer.name} accelerated", True) for peer in PEERS
    ]
    case = accelerate.accelerate_cases(1000, 1)[0]
    times = {"flashslice": (3.0, 2.0), "flashslice accelerated": (1.5, 0.5)}
    results: dict[str, Any] = {n: {"cpu_s": s, "peak_gb": gb} for n, (s, gb) in times.items()}
    results["thuml"] = {"cpu_s": 1.0, "peak_gb": None}
    results["thuml accelerated"] = {"not_measured": "the gate is red"}
    record = {
        "name": case.name, "case": asdict(case), "results": results, "device": "a CPU",
        "commit": "abc1234", "time": "2026-11-19T09:35:06+00:00", "versions": {"torch": "2.13.0"},
    }  # fmt: skip
    lines = accelerate.accelerate_table([record]).splitlines()
    assert lines[-2:] == [
        f"| {case.name} | flashslice | 3.00 (2.00) | 1.50 (0.50) | 2.00 | 0.25 |",
        f"| {case.name} | thuml | 1.00 | the gate is red |  |  |",
    ]
