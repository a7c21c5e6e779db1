"""Candidates, timings and tables of tiles; the kernels themselves through the interpreter."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from slipstream.bench import tune
from slipstream.bench.tune import ANY, KERNELS, TuneCase, as_toml, candidates, merge
from slipstream.kernels.operands import Operands
from slipstream.kernels.tiles import TABLES, Tile, TileTable, read_table

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CASE = TuneCase(
    kernel="single-tile/backward", precision="bf16", slices=32, width=32, up_to_slices=32
)


def tile(**changes: object) -> Tile:
    base = {"kernel": "k/a", "precisions": ("bf16",), "slices": 32, "width": 32, "points": 64}
    return Tile(**{**base, **changes})  # type: ignore[arg-type]


def test_candidates() -> None:
    tiles = list(candidates(CASE))
    assert 10 < len(tiles) == len(set(tiles)) < 200
    assert all(each.kernel == CASE.kernel and each.slots == 0 for each in tiles)
    blocked = replace(CASE, kernel="blocked/backward_slots", slices=256, up_to_slices=ANY)
    assert {each.slots for each in candidates(blocked)} == {32, 64, 128, 256}
    assert {each.slices for each in candidates(blocked)} == {ANY}


def test_every_kernel_of_the_table_is_swept() -> None:
    rows = tune.tune_cases()
    assert {row.kernel for row in rows} == KERNELS.keys()
    for name in TABLES:
        assert KERNELS.keys() == {each.kernel for each in TABLES[name].tiles}
    assert len({row.name for row in rows}) == len(rows)
    assert {row.heads for row in rows} == {1, 2, 4, 8}


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_can_be_called_with_a_tile(kernel: str) -> None:
    slots = 0 if kernel.startswith("single") else 16
    case = replace(CASE, kernel=kernel, precision="ieee", slices=16, points=20)
    inputs = tune.Inputs(case, DEVICE)
    found = KERNELS[kernel](inputs, inputs.operands(tile(kernel=kernel, points=32, slots=slots)))
    first = found[0] if isinstance(found, tuple) else found
    assert isinstance(first, torch.Tensor) and first.isfinite().all()


def test_a_sweep_times_what_runs_and_says_where_nothing_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = iter(range(1000))

    def kernel(inputs: tune.Inputs, operands: Operands) -> tuple[torch.Tensor, None]:
        chosen = operands.tiles["single-tile/fake"].points
        if chosen > 64:
            raise RuntimeError("out of shared memory")
        time.sleep(chosen / 1e4)
        races = chosen == 32
        return torch.full((2,), 1 + 1e-6 * races * next(calls)), None

    monkeypatch.setitem(KERNELS, "single-tile/fake", kernel)
    monkeypatch.setattr(tune, "COMPILE_POINTS", 40)
    case = replace(CASE, kernel="single-tile/fake", points=40)
    small = [tile(kernel=case.kernel, points=points) for points in (64, 128, 32, 16)]
    monkeypatch.setattr(tune, "candidates", lambda each: small if each == case else small[1:3])
    wide = replace(case, width=64)
    found = dict(tune.tune([case, wide], workers=0, device=DEVICE, repeats=1))
    assert [timing.tile.points for timing in found[case].result] == [16, 64]
    assert found[wide].error == "RuntimeError: no candidate runs"


def test_winners_take_the_place_of_the_rows_they_beat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    present = [
        tile(precisions=("bf16", "ieee")),
        tile(slices=128, width=128),
        tile(kernel="k/b", slots=16, spills=8),
    ]
    winner = tile(points=128)
    merged = merge(present, [winner])
    assert merged == (winner, replace(present[0], precisions=("ieee",)), *present[1:])
    assert merge(present, [tile(slices=64, width=64)])[1].width == 64
    written = as_toml(TileTable("new", 90, 1000, merged), "a\nb")
    assert written.startswith("# a\n# b\n\narchitecture = 90\nshared_memory = 1000\n\n[[tile]]\n")
    (tmp_path / "new.toml").write_text(written)
    read = read_table(tmp_path / "new.toml")
    assert read == TileTable("new", 90, 1000, merged, read.bounds)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_the_tables_are_in_the_order_a_merge_gives(name: str) -> None:
    table = TABLES[name].tiles
    for kernel in {each.kernel for each in table}:
        for precision in ("bf16", "ieee"):
            rows = tuple(t for t in table if t.kernel == kernel and precision in t.precisions)
            assert merge(rows, []) == rows
