"""Bytes that a training step keeps: what is counted, and what lean memory must keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from typer.testing import CliRunner

from slipstream.bench import kept
from slipstream.bench.kept import KeptCase, kept_bytes, measure_kept
from slipstream.bench.workers import attempt
from slipstream.cli.bench import app
from slipstream.core.records import read_records


class Keeping(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x, x[:, :2], 2 * x)
        return 3 * x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return 3 * gradients[0]


def test_every_memory_counts_once_and_parameters_do_not() -> None:
    layer, x = nn.Linear(4, 4, bias=False), torch.rand(10, 4)
    assert kept_bytes(layer, lambda: layer(x)) == x.nbytes
    own = x.clone().requires_grad_()
    assert kept_bytes(layer, lambda: Keeping.apply(own)) == 2 * x.nbytes  # type: ignore[no-untyped-call]
    deep = nn.Sequential(layer, nn.GELU(), layer, nn.GELU())
    assert kept_bytes(deep, lambda: deep(x)) == 4 * x.nbytes
    assert kept_bytes(deep, lambda: checkpoint(deep, x, use_reentrant=False)) == x.nbytes


def test_lean_keeps_the_stream_of_every_layer_and_nothing_else_that_grows() -> None:
    lean = measure_kept(KeptCase(keeper="lean", dtype="bf16"))["result"]
    inputs = 4 * (kept.COORDS + kept.FEATURES)
    assert lean["bytes_per_point_and_layer"] == 1024
    assert lean["bytes_per_point_besides"] == 1024 + inputs


def test_records_and_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "kept.jsonl"
    monkeypatch.setattr(kept, "kept_cases", lambda peer: [])
    monkeypatch.setattr(
        kept, "run_tasks", lambda tasks, work, **how: [(tasks[0][0], attempt(work, tasks[0][0]))]
    )
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    words = ["memory-kept", "--out", str(out), "--points", "70", "--width", "32", "--layers", "1"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0 and "step 70 fp32 C=32 L=1 lean: " in done.stdout
    names = [record["name"] for record in read_records(out, "kept")]
    assert names == [f"step 70 fp32 C=32 L=1 {keeper}" for keeper in kept.OURS]
    with pytest.raises(ValueError, match="points must be a whole number of at least 1"):
        CliRunner().invoke(app, ["memory-kept", "--points", "x"], catch_exceptions=False)
    with pytest.raises(ValueError, match="width must be a whole number of at least 1, got 0"):
        CliRunner().invoke(app, ["memory-kept", "--width", "0"], catch_exceptions=False)
