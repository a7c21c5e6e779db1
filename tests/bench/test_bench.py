"""What can be checked of the measurements without a GPU: their rows, gate and tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from slipstream.bench import cases, gate, run, subjects
from slipstream.bench.cases import Case
from slipstream.bench.tune import TuneCase, as_toml, candidates
from slipstream.kernels.tiles import Tile

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = Case(what="layer", points=32, dtype="fp32", precision="ieee")


def test_names_tell_the_cases_apart() -> None:
    every = [*cases.model_cases(compiled=False), *cases.compiled_cases(), *cases.layer_cases()]
    assert len({case.name for case in every}) == len(every) == 28
    assert every[0].name == "model 262k bf16/bf16 inference eager G=32 L=8"
    assert {case.slices for case in cases.memory_cases()} == {16, 32, 64, 128, 48, 100, 256, 1024}


@pytest.mark.parametrize("slices", [32, 48])
def test_the_gate_is_green_for_the_kernels(slices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "POINTS", 48)
    verdict = gate.check(replace(SMALL, slices=slices), DEVICE)
    assert verdict.green, verdict


def test_the_gate_is_red_for_a_wrong_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    from slipstream.models import coupling

    monkeypatch.setattr(gate, "POINTS", 48)
    right = coupling.deslice_tokens

    def wrong(membership, tokens, *, impl, precision):  # noqa: ANN001, ANN202
        scale = 1 + 1e-4 * (impl == "fused")
        return right(membership, tokens * scale, impl=impl, precision=precision)

    monkeypatch.setattr(coupling, "deslice_tokens", wrong)
    verdict = gate.check(SMALL, DEVICE)
    assert not verdict.passed and verdict.worst > 10


@pytest.mark.parametrize("what", ["model", "layer"])
@pytest.mark.parametrize("training", [True, False])
def test_steps_run(what: str, training: bool) -> None:
    case = replace(SMALL, what=what, training=training, layers=1)  # type: ignore[arg-type]
    step = subjects.make_step(case, "reference", DEVICE)
    assert step().isfinite().all()


def test_the_table_has_ratios_and_says_what_failed() -> None:
    ours, theirs = {"ms": 2.0, "peak_gb": 1.0}, {"ms": 3.0, "peak_gb": 2.0}
    record = {
        "name": "a",
        "gate": {"worst": 1.0, "passed": True},
        "results": {"fused": ours, "flashslice": theirs},
    }
    full = {**record, "results": {"fused": ours, "flashslice": {"out_of_memory": True}}}
    red = {**record, "gate": {"worst": 9.0, "passed": False}, "results": {"flashslice": theirs}}
    lines = run.as_markdown([record, full, red]).splitlines()
    assert lines[2] == "| a | 2.00 (1.00) | 3.00 (2.00) | 1.00x | 1.50 | 0.50 |"
    assert "out of memory" in lines[3]
    assert "not measured" in lines[4] and "FAILED" in lines[4]


def test_tuning_candidates_and_rows() -> None:
    case = TuneCase("single-tile/backward", "bf16", 32, 32)
    tiles = list(candidates(case))
    assert 10 < len(tiles) == len(set(tiles)) < 200
    assert all(tile.kernel == case.kernel and tile.slots == 0 for tile in tiles)
    blocked = candidates(TuneCase("blocked/backward_slots", "bf16", 256, 32))
    assert {tile.slots for tile in blocked} == {32, 64, 128, 256}
    row = Tile(kernel="k", precisions=("bf16", "ieee"), slices=1, width=2, points=3)
    assert 'precisions = ["bf16", "ieee"]\nslices = 1\n' in as_toml(row)
