"""Runs parity cases and writes records of them: every error by name, in every family and dtype."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch

from slipstream.bench.cases import Case
from slipstream.bench.gate import DRAWS, Verdict, Way, Yardstick, draws_on, judge
from slipstream.bench.modules import judge_module
from slipstream.bench.operators import OperatorProblem
from slipstream.bench.parity_cases import (
    TORCH_DTYPES,
    ModelCase,
    OperatorCase,
    ParityCase,
    as_tasks,
    cpu_cases,
    model_cases,
    operator_cases,
    special_cases,
)
from slipstream.bench.special import run_special
from slipstream.bench.workers import Outcome, run_tasks
from slipstream.core import runtime
from slipstream.core.records import append_record
from slipstream.core.runtime import commit, device_name

POINTS = {"cuda": (2003, 3001), "cpu": (45, 45)}
"""Points of operators and of models; few on a CPU, where the interpreter takes ms for a tile."""


def all_cases(device: str) -> list[ParityCase]:
    """All cases; without a GPU those that Triton's interpreter can compute, with few points."""
    kind = torch.device(device).type
    operators, models = POINTS[kind]
    rows: list[ParityCase] = [
        *operator_cases(operators),
        *model_cases(models),
        *special_cases(models),
    ]
    if kind == "cuda":
        return rows
    return [row for row in rows if not getattr(row, "needs_cuda", False)]


def run_parity(
    cases: Sequence[ParityCase], out: Path, *, device: str, workers: int
) -> Iterator[dict[str, Any]]:
    """Check every case, and yield its record when it is written, in the order in which they end."""
    common = {"device": device_name(torch.device(device)), "commit": commit()}
    work = partial(check_case, device=device)
    for case, outcome in run_tasks(as_tasks(cases), work, workers=workers):
        yield append_record(out, "parity", {**as_record(case, outcome), **common})


def check_case(case: ParityCase, device: str) -> Verdict:
    """The verdict on one case, in this process."""
    if torch.device(device).type == "cuda":
        torch.set_num_threads(1)  # there are as many processes as cores
    if isinstance(case, OperatorCase):
        return _check_operators(case, device)
    if isinstance(case, ModelCase):
        row = Case(
            what="model", points=case.points, layers=case.layers, dtype=case.dtype,
            precision=case.precision, variant=case.variant,
        )  # fmt: skip
        return judge_module(row, device)
    try:
        return run_special(case, device)
    finally:
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()


def quick_check(device: str) -> dict[str, str]:
    """A line for each of a few cases that between them use all families and precisions there are.

    On a GPU it takes seconds, most of them to compile.
    """
    lines = {}
    for case in _quick_cases(device):
        verdict = check_case(case, device)
        word = "green" if verdict.green else "RED"
        worst = f"{verdict.tensor} {verdict.worst:.2f} of at most {verdict.limit:g}"
        lines[case.name.removeprefix("operator ")] = f"{word}: {worst} times eager's error"
    return lines


def _quick_cases(device: str) -> list[OperatorCase]:
    if torch.device(device).type == "cpu" and not (
        runtime.HAS_TRITON and runtime.TRITON_INTERPRETED
    ):
        return cpu_cases()
    if not runtime.HAS_TRITON:
        return []
    names = ("single-tile G=32 D=32 ", "blocked G=48 D=32 ", "over points G=32 D=32 ")
    wanted = tuple(name + product for name in names for product in ("fp32/ieee", "bf16/bf16"))
    cases = [case for case in all_cases(device) if isinstance(case, OperatorCase)]
    return [case for case in cases if case.name.endswith(wanted)]


def as_record(case: ParityCase, outcome: Outcome) -> dict[str, Any]:
    """The fields of a case's record."""
    verdict = outcome.result
    judged = verdict.as_json() if isinstance(verdict, Verdict) else {"green": False}
    return {
        "name": case.name, "family": case.kind, "case": asdict(case), **judged,
        "seconds": round(outcome.seconds, 2), "error": outcome.error,
    }  # fmt: skip


def _check_operators(case: OperatorCase, device: str) -> Verdict:
    """The verdict on an operator; bf16 products are compared with eager under autocast."""
    dtype = TORCH_DTYPES[case.dtype]
    problem = OperatorProblem(
        over=case.over, slices=case.slices, width=case.width, dtype=dtype, points=case.points,
        device=device,
    )  # fmt: skip
    autocast = case.precision in ("bf16", "bf16v")
    way = Way(case.family, case.precision, torch.float32 if autocast else dtype, autocast)
    # The interpreter is slow, so that two draws must do for its kernels. The CPU's family takes
    # eight: of a temperature's gradient, two draws gave 1.42 times eager's error, 24 gave 0.83.
    draws = DRAWS if case.family == "chunked" else draws_on(device)
    return judge(_yardstick(problem, draws), way, plan=problem.plan(way))


@lru_cache(maxsize=2)
def _yardstick(problem: OperatorProblem, draws: int) -> Yardstick:
    return Yardstick(problem, draws)
