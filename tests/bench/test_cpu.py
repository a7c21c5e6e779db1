"""`bench cpu` on tiny cases, with our reference in the place of a peer."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from slipstream import Size, Transolver
from slipstream.bench import cpu, cpu_gate, cpu_process, cpu_tables
from slipstream.bench.cases import Case
from slipstream.bench.cpu_subjects import (
    OURS,
    PEERS,
    REFERENCE,
    SUBJECTS,
    Subject,
    build_subject,
    build_yardstick,
    is_on_path,
    rename,
)
from slipstream.bench.gate import Verdict
from slipstream.bench.subjects import draw_inputs
from slipstream.bench.workers import Outcome
from slipstream.models.variants import EPSILON

GOLDEN = Path(__file__).parents[1] / "golden"
LAYER = replace(cpu.LAYER, points=100)
MODEL = replace(cpu.MODEL, points=100, layers=2)
BOTH = pytest.mark.parametrize("case", [LAYER, MODEL], ids=lambda case: case.what)
RED = Verdict(passed=False, tensor="output", worst=7.0, limit=5.0, deterministic=True, ratios={})
on_linux = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="not Linux")


def test_the_cases_are_those_that_peers_are_compared_by() -> None:
    names = [case.name for case in cpu.cpu_cases()]
    assert len(set(names)) == len(names) == 16
    eager = [name for name in names if "eager" in name]
    assert len(eager) == 10 and "layer 131k fp32/ieee training eager G=256" in eager
    assert "model 32k fp32/ieee inference eager G=32 L=8" in eager
    assert all("32k" in name for name in names if "compiled" in name)


@BOTH
@pytest.mark.parametrize("subject", [OURS, REFERENCE], ids=lambda subject: subject.name)
def test_our_own_pass_the_gate(subject: Subject, case: Case) -> None:
    verdict = cpu_gate.judge_subject(subject, case)
    assert verdict.green and verdict.plan.partition(":")[0] in ("reference", "chunked")
    gradient = "query.weight" if case.what == "layer" else "blocks.1.coupling.query.weight"
    assert {"output", gradient} <= verdict.ratios.keys()
    assert ("gradient of x" in verdict.ratios) is (case.what == "layer")


@BOTH
def test_a_subject_that_computes_with_another_constant_is_red(case: Case) -> None:
    mistaken = replace(REFERENCE, epsilon=1e-2)  # claims it, and computes with 1e-5
    verdict = cpu_gate.judge_subject(mistaken, case)
    assert not verdict.passed and verdict.worst > 10 * cpu_gate.PEER_SLACK


@BOTH
def test_the_constant_added_to_the_mass_is_all_that_differs_in_the_yardstick(case: Case) -> None:
    inputs = [tensor.double() for tensor in draw_inputs(case)]
    almost = replace(OURS, epsilon=math.nextafter(EPSILON, 1.0))
    outputs = [
        build(subject, case).double()(*inputs)
        for build, subject in ((build_yardstick, almost), (build_subject, REFERENCE))
    ]
    first, second = (out[0] if case.what == "layer" else out for out in outputs)
    torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-14)


def test_a_yardstick_without_placeholder_has_none() -> None:
    bare = build_yardstick(replace(OURS, has_placeholder=False), MODEL)
    assert not bare.get_parameter("placeholder").any()
    assert build_yardstick(OURS, MODEL).get_parameter("placeholder").any()


@pytest.mark.parametrize(
    ("file", "peer"), [("flashslice-baseline", "flashslice"), ("thuml-transolver", "thuml")]
)
def test_the_names_of_the_peers_are_those_of_their_own_files(file: str, peer: str) -> None:
    """Their weights, put where the names say they belong, give their output."""
    with safe_open(GOLDEN / f"{file}.safetensors", "pt") as opened:
        meta = opened.metadata()
        tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
    size = Size(**{n: int(meta[n]) for n in ("layers", "width", "heads", "slices", "mlp_ratio")})
    model = Transolver(3, 2, 4, size=size).double()
    case = replace(cpu.MODEL, layers=size.layers)
    own = dict(model.named_parameters())
    theirs = {name: next(iter(rename({name: p}, SUBJECTS[peer], case))) for name, p in own.items()}
    assert {f"weight.{name}" for name in theirs.values()} == {
        key for key in tensors if key.startswith("weight.")
    }
    weights = {n: tensors[f"weight.{theirs[n]}"].reshape(p.shape) for n, p in own.items()}
    model.load_state_dict(weights)
    output = model(tensors["input.coords"], tensors["input.features"])
    torch.testing.assert_close(output, tensors["output"], rtol=1e-12, atol=1e-12)


def test_three_of_our_maps_are_one_of_physicsnemo() -> None:
    own = dict(build_yardstick(OURS, LAYER).named_parameters())
    theirs = rename(own, SUBJECTS["physicsnemo"], LAYER)
    expected = torch.cat([own[f"mix.{part}.weight"] for part in ("query", "key", "value")])
    assert torch.equal(theirs["qkv_project.weight"], expected)
    assert len(theirs) == len(own) - 2


@BOTH
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_the_peers_that_are_installed_pass_the_gate(peer: Subject, case: Case) -> None:
    if not is_on_path(peer, case):
        pytest.skip(f"{peer.name} is not on the path")
    assert cpu_gate.judge_subject(peer, case).passed


def test_a_peer_with_other_parameters_is_an_error_that_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    text = "from torch import nn\nclass Layer(nn.Linear):\n    def __init__(self, width, **_):"
    (tmp_path / "other_peer.py").write_text(f"{text}\n        super().__init__(width, 1)\n")
    other = Subject(name="other", layer="other_peer:Layer")
    assert is_on_path(other, LAYER) and not is_on_path(replace(other, layer="no.such:X"), LAYER)
    with pytest.raises(ValueError, match="got a difference in bias, mix.key.weight"):
        build_subject(other, LAYER)


@on_linux
def test_peak_memory_is_what_the_step_adds() -> None:
    kept = torch.ones(10 << 20)
    torch.ones(200 << 20)  # a higher mark, of before

    def step() -> None:
        torch.ones(20 << 20)
        torch.ones(5 << 20)

    peak = cpu_process.peak_bytes(step)
    assert peak is not None and 80e6 < peak < 90e6 and len(kept)


@BOTH
@pytest.mark.parametrize("training", [False, True])
def test_a_step_leaves_no_gradients_behind(case: Case, training: bool) -> None:
    module = build_subject(REFERENCE, case)
    case = replace(case, training=training)
    calls: list[bool] = []
    module.register_forward_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    seconds = cpu_process.time_step(cpu_process.make_step(REFERENCE, case, module))
    assert calls == [training] and seconds.cpu > 0 and seconds.wall > 0
    assert all(parameter.grad is None for parameter in module.parameters())


def test_a_process_that_dies_is_a_failure_of_its_subject_only() -> None:
    process = cpu_process.SubjectProcess(REFERENCE, LAYER, cpu.first_cores(1))
    try:
        assert process.step().cpu > 0
        os.kill(process._process.pid or 0, 9)
        with pytest.raises(cpu_process.SubjectFailed, match="its process died with exit code -9"):
            process.step()
    finally:
        process.stop()


def test_nothing_is_timed_behind_a_red_gate_or_none() -> None:
    shape = cpu_gate.shape_of(LAYER)
    verdicts = {("ours", shape): Outcome(result=RED), ("reference", shape): Outcome(error="no")}
    fields = cpu.measure_case(LAYER, [OURS, REFERENCE], verdicts, cores=(0,), repeats=1)
    results = fields["results"]
    assert results["ours"]["not_measured"] == "the gate is red"
    assert results["reference"] == {"gate": None, "not_measured": "no"}
    assert not cpu.succeeded(fields)


def took(cpu_s: float, gb: float | None, **more: Any) -> dict[str, Any]:
    gate = {"green": True, "worst": 1.0, "limit": 1.25, "passed": True, "plan": "reference: why"}
    return {"cpu_s": cpu_s, "wall_s": cpu_s / 2, "peak_gb": gb, "gate": gate, **more}


def record_of(results: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": LAYER.name, "case": asdict(LAYER), "results": results, "busy_elsewhere": 0.021,
        "device": "a CPU", "commit": "abc1234", "time": "2026-11-18T09:35:06+00:00",
        "versions": {"torch": "2.13.0"}, "peers": {"flashslice": "0.3.0"},
    }  # fmt: skip


def test_the_table_has_ratios_of_time_and_memory() -> None:
    other = took(3.0, 4.0, constants={"epsilon": 0.01})
    text = cpu_tables.cpu_measurements([record_of({"ours": took(2.0, 1.0), "other": other})])
    assert text.startswith("a CPU; torch 2.13.0; commit abc1234; 2026-11-18.\n")
    assert "| case | ours | other | time: other / ours | memory: ours / other | gate |" in text
    assert "| 2.00 (1.00; 1.00) | 3.00 (1.50; 4.00) | 1.50 (1.50) | 0.25 | ours 1.00x of" in text
    assert "other computes with epsilon 0.01; it is compared with ours computed so." in text
    assert "Peers: flashslice 0.3.0." in text and "up to 2.1%" in text


def test_the_table_says_what_was_not_measured() -> None:
    gate = RED.as_json()
    red = {"gate": gate, "not_measured": "the gate is red"}
    results = {"ours": took(2.0, None), "other": red, "third": {"gate": None, "not_measured": "no"}}
    row = cpu_tables.cpu_measurement(record_of(results), ["other", "third", "fourth"])
    assert row[1:5] == ["2.00 (1.00)", "the gate is red", "no", ""]
    assert row[5:11] == [""] * 6
    assert row[-1] == "ours 1.00x of 1.25x, other RED: output 7.00x, at most 5.00x"
    twice = {**gate, "passed": True}
    assert cpu_tables.cpu_measurement(record_of({"ours": {**red, "gate": twice}}), [])[-1] == (
        "ours RED: two runs differ"
    )
