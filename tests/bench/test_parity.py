"""Parity from rows to records and markdown, on a few small cases, through the interpreter."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from slipstream.bench import operators, parity, tables
from slipstream.bench.gate import Way, distance
from slipstream.bench.parity_cases import (
    SLICES,
    WIDTHS,
    ModelCase,
    OperatorCase,
    ParityCase,
    SpecialCase,
    as_tasks,
    cpu_cases,
)
from slipstream.core.records import read_records
from slipstream.kernels.membership import Axis
from slipstream.models.variants import VARIANTS

from ..interpreter import numpys_order

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OPERATORS = OperatorCase(
    over="slots",
    family="single-tile",
    slices=16,
    width=16,
    dtype="fp32",
    precision="ieee",
    points=21,
)
MODEL = ModelCase(variant="untied", dtype="fp32", precision="ieee", points=9, layers=1)
BROKEN = SpecialCase(check="no such check", points=3)


def run(cases: list[ParityCase], folder: Path, workers: int = 0) -> list[dict[str, Any]]:
    out = folder / "parity.jsonl"
    return list(parity.run_parity(cases, out, device=DEVICE, workers=workers))


def test_the_grid_is_complete() -> None:
    rows = parity.all_cases("cuda")
    assert len({row.name for row in rows}) == len(rows)
    half = Counter(row.kind for row in rows if row.dtype == "fp16")
    assert half == {"blocked": 12, "blocked, over points": 12, "single-tile": 2}
    counts = Counter(row.kind for row in rows if row.dtype != "fp16")
    assert counts["blocked"] == counts["blocked, over points"] == 7 * len(SLICES) * len(WIDTHS)
    assert counts["single-tile"] == 16 + 6 * 13  # all in bf16 products, smaller ones otherwise
    assert counts["model"] == 7 * len(VARIANTS)
    assert {row.dtype for row in parity.all_cases("cpu")} == {"fp32", "bf16", "fp16"}


def test_tasks_hold_every_case_once_and_share_what_is_compiled() -> None:
    rows = parity.all_cases("cuda")
    tasks = as_tasks(rows)
    assert Counter(row.name for task in tasks for row in task) == Counter(row.name for row in rows)
    for task in tasks:
        assert len({(row.kind, row.dtype, getattr(row, "width", 0)) for row in task}) == 1
    seconds = [task[0].seconds * (1 + 0.1 * len(task)) for task in tasks]
    assert seconds == sorted(seconds, reverse=True)


def test_green_from_case_to_markdown(tmp_path: Path) -> None:
    cases: list[ParityCase] = [
        OPERATORS,
        replace(OPERATORS, family="blocked", precision="tf32"),
        replace(OPERATORS, family="blocked", over="points", slices=8),
        MODEL,
        replace(MODEL, variant="mlp-only"),
    ]
    records = run(cases, tmp_path)
    assert [record["name"] for record in records if not record["green"]] == []
    assert read_records(tmp_path / "parity.jsonl", "parity") == records
    ratios = {record["name"]: record["ratios"] for record in records}
    named = {"numerator", "mass", "out", "coupled: out"}
    for each in ("query", "values", "slot_weight", "slot_bias", "temperature", "tokens"):
        named |= {f"gradient of {each}", f"coupled: gradient of {each}"}
    assert ratios[OPERATORS.name].keys() == named
    assert "blocks.0.coupling.deslice_slots.temperature" in ratios[MODEL.name]
    by_name = {record["name"]: record for record in records}
    assert by_name[cases[1].name]["worst_to_fp32"] is not None
    assert by_name[OPERATORS.name]["plan"] == "single-tile, ieee dots"
    text = tables.parity(records)
    assert "5 of 5 green." in text and "Not green" not in text


@pytest.mark.parametrize("precision", ["ieee", "bf16v", "bf16"])
@pytest.mark.parametrize(
    ("over", "family", "slices", "width"),
    [("slots", "single-tile", 16, 16), ("slots", "blocked", 20, 8), ("points", "blocked", 20, 8)],
)
def test_bf16_is_green(over: Axis, family: Any, slices: int, width: int, precision: str) -> None:
    case = OperatorCase(
        over=over, family=family, slices=slices, width=width, dtype="bf16", precision=precision,
        points=21,
    )  # fmt: skip
    verdict = parity.check_case(case, DEVICE)
    assert verdict.green, verdict
    assert verdict.plan == f"{family}, {precision} dots"


@pytest.mark.parametrize(("slices", "family"), [(16, "single-tile"), (20, "blocked")])
def test_bf16_products_round_their_operands(slices: int, family: str) -> None:
    """On the CPU too, where they are multiplied in fp32."""
    problem = operators.OperatorProblem(slices=slices, width=16, points=40, device=DEVICE)
    given = operators.prepared(operators.inputs_of(problem), Way(dtype=torch.bfloat16))
    exact, rounded = (
        operators.outputs_and_gradients(problem, given, Way("fused", how, torch.bfloat16))
        for how in ("ieee", "bf16")
    )
    off = distance(rounded["mass"], exact["mass"])
    assert 1e-4 < off < 1e-2, off


def test_a_wrong_kernel_is_red_and_a_failing_case_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = operators.deslice_tokens

    def wrong(membership, tokens, *, impl, precision):  # noqa: ANN001, ANN202
        scale = 1 if impl == "reference" else 1 + 1e-4
        return right(membership, tokens * scale, impl=impl, precision=precision)

    monkeypatch.setattr(operators, "deslice_tokens", wrong)
    first, second, third = run([OPERATORS, BROKEN, MODEL], tmp_path)
    found = {record["name"]: record for record in (first, second, third)}
    red = found[OPERATORS.name]
    assert not red["green"] and red["tensor"] in ("out", "gradient of tokens") and red["worst"] > 50
    assert found[BROKEN.name]["error"] == "KeyError: 'no such check'"
    assert found[MODEL.name]["green"]
    text = tables.parity([first, second, third])
    assert "1 of 3 green." in text
    assert f"* {OPERATORS.name}: {red['tensor']} " in text
    assert f"* {BROKEN.name}: KeyError: 'no such check'" in text


def test_another_process_does_the_same_and_compiles(tmp_path: Path) -> None:
    # Not in this one: the shape checker of the tests would break the graph.
    compiled = SpecialCase(check="compiled", variant="no-token-attention", points=9, layers=1)
    elsewhere = run([OPERATORS, compiled, BROKEN], tmp_path, workers=1)
    found = {record["name"]: record for record in elsewhere}
    assert found[compiled.name]["green"], found[compiled.name]
    assert found[BROKEN.name]["error"] == "KeyError: 'no such check'"
    with numpys_order():
        here = run([OPERATORS], tmp_path)[0]
    assert found[OPERATORS.name]["ratios"] == here["ratios"]


def test_the_quick_check_of_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [c for c in parity.all_cases(DEVICE) if "single-tile G=32 D=32 fp32" in c.name]
    monkeypatch.setattr(parity, "all_cases", lambda device: rows)
    found = parity.quick_check(DEVICE)
    assert list(found) == ["single-tile G=32 D=32 fp32/ieee"]
    assert found["single-tile G=32 D=32 fp32/ieee"].startswith("green: ")
    monkeypatch.setattr(parity.runtime, "HAS_TRITON", False)
    one = cpu_cases()[:1]
    monkeypatch.setattr(parity, "cpu_cases", lambda: one)
    lines = parity.quick_check("cpu")
    assert list(lines) == ["chunked G=32 D=32 fp32/ieee"]
    assert lines["chunked G=32 D=32 fp32/ieee"].startswith("green: ")


@pytest.mark.parametrize("case", cpu_cases(), ids=lambda case: case.name)
def test_the_family_of_cpus_is_green(case: Any) -> None:
    verdict = parity.check_case(case, "cpu")
    assert verdict.green, verdict
