from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import triton

from slipstream.kernels import plan
from slipstream.kernels.plan import ALLOWED, Operation, Precision, make_plan
from slipstream.kernels.tiles import LEAST_SHARED_MEMORY, TABLES, pick_tile, table_for

KERNELS = {
    "single-tile": ("slice_forward", "deslice_forward", "backward", "pair_backward"),
    "blocked": (
        "statistics",
        "slice_forward",
        "slice_forward_over_points",
        "deslice_forward",
        "backward_points",
        "backward_slots",
        "pair_backward_points",
        "pair_backward_slots",
    ),
}
MEMORY = Path(__file__).with_name("compiled_tiles.json")
EVERY_KERNEL = [f"{family}/{name}" for family, names in KERNELS.items() for name in names]


@pytest.mark.parametrize("table", sorted(TABLES))
@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("slices", [1, 16, 32, 48, 64, 100, 128, 256, 1024, 10**6])
@pytest.mark.parametrize("width", [1, 16, 32, 56, 64, 128, 256])
def test_every_problem_has_its_tiles(
    table: str, precision: Precision, slices: int, width: int
) -> None:
    dtype = next(name for name, allowed in ALLOWED.items() if precision in allowed)
    shared = TABLES[table].shared_memory
    problem = Operation("cuda", dtype, slices, width, width, shared_memory=shared)
    family = make_plan(problem, precision=precision).family
    if family == "reference":
        assert table == "ada" and width == 256 and precision.startswith("tf32")
        return
    for name in KERNELS[family]:
        tile = pick_tile(table, f"{family}/{name}", precision, slices, width)
        assert (tile.slots == 0) == (family == "single-tile")


def test_no_tile_is_an_error_that_names_the_problem() -> None:
    with pytest.raises(
        ValueError, match="no tile for blocked/statistics in bf16, G = 8, width 300"
    ):
        pick_tile("h200", "blocked/statistics", "bf16", 8, 300)


def test_every_row_is_for_a_kernel_there_is() -> None:
    for table in sorted(TABLES):
        assert {tile.kernel for tile in TABLES[table].tiles} == set(EVERY_KERNEL)


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_tile_compiles(table: str, part: int) -> None:
    """Without a GPU: in a block's shared memory, spilling no more than the row says, no races."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    kernels = EVERY_KERNEL[part::3]
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.compile_tiles", table, *kernels],
        capture_output=True, text=True, env=environment, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["kernel"] for row in rows} == set(kernels)
    for row in rows:
        assert row["shared"] <= TABLES[table].shared_memory, row
        assert row["spills"] <= row["allowed_spills"], row
        assert row["races"] == 0, row
    if triton.__version__ == json.loads(MEMORY.read_text())["triton"]:
        again = sum(row["compiled"] for row in rows)
        assert again == 1, (
            f"{again} tiles changed: python -m tests.kernels.compile_tiles --remember"
        )


def test_kernels_divide_by_div_rn_alone() -> None:
    """`a / b` becomes an approximate division on a GPU, and an exact one in the interpreter."""
    kernels = 0
    for file in Path(plan.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef) and any(
                ast.unparse(decorator).startswith("triton.jit") for decorator in node.decorator_list
            ):
                kernels += 1
                divisions = [n for n in ast.walk(node) if isinstance(n, ast.Div)]
                assert not divisions, f"{file.name}: {node.name}"
    assert kernels > 20


def test_the_table_is_chosen_by_shared_memory() -> None:
    assert table_for(None).name == table_for(232448).name == table_for(10**9).name == "h200"
    assert table_for(166912).name == table_for(101376).name == "ada"
    with pytest.raises(ValueError, match="need .* bytes of shared memory a block, and .* has 1000"):
        table_for(1000)
    assert table_for(LEAST_SHARED_MEMORY).shared_memory == LEAST_SHARED_MEMORY
