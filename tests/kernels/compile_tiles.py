"""Compiles every tile of a table for its GPUs without one; prints each one's resources as JSON.

What a tile needs, and whether its copies and products race (`races.py`), follows from the sources
of its kernel, the tile and Triton's version alone, so
`compiled_tiles.json` remembers it by a hash of all that: only what changed is compiled again, and
of each table one tile that is known, to see that the memory is true. Run as a process of its own,
without Triton's interpreter:

    python -m tests.kernels.compile_tiles TABLE [KERNEL ...]
    python -m tests.kernels.compile_tiles --remember       # after a change: write the file again
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

from slipstream.core.files import json_text
from slipstream.kernels import blocked_backward, blocked_forward, primitives, single_tile
from slipstream.kernels.plan import ALLOWED, PRODUCTS, Precision
from slipstream.kernels.tiles import TABLES, Tile, pick_tile

from .races import races

MODULES = {"single-tile": [single_tile], "blocked": [blocked_forward, blocked_backward]}
EITHER = [{"OF": "slice"}, {"OF": "deslice"}]
BLOCKED_EITHER = [{**of, "OVER_POINTS": False} for of in EITHER]
BLOCKED_EITHER += [{"OF": "slice", "OVER_POINTS": True}]
ALONE = {"JOINT": 1}
FLAGS: dict[str, list[dict[str, Any]]] = {
    "single-tile/backward": [{**of, **ALONE} for of in EITHER],
    "single-tile/pair_backward": [{"OF": "pair", "JOINT": n} for n in (1, 2)],
    "blocked/deslice_forward": [{"HAS_STATISTICS": True}, {"HAS_STATISTICS": False}],
    "blocked/backward_points": [{**of, **ALONE} for of in BLOCKED_EITHER],
    "blocked/backward_slots": BLOCKED_EITHER,
    "blocked/pair_backward_points": [
        {"OF": "pair", "OVER_POINTS": False, "JOINT": n} for n in (1, 2)
    ],
    "blocked/pair_backward_slots": [{"OF": "pair", "OVER_POINTS": False}],
}
ACTIVATIONS = {
    "query", "values", "rows", "out", "output_gradient", "query_gradient", "rows_gradient",
}  # fmt: skip
COUNTS = {"points", "heads", "parts", "slots"}
APPROXIMATE = re.compile(r"(div\.(full|approx)|rcp\.approx)\S*")
MEMORY = Path(__file__).with_name("compiled_tiles.json")


TYPES = {"float32": "*fp32", "bfloat16": "*bf16", "float16": "*fp16"}


for _function in vars(primitives).values():
    if isinstance(_function, triton.JITFunction):
        _function.cache_key  # noqa: B018 - a caller's key holds its constants if it is known before


def problems(table: str) -> Iterator[tuple[Tile, str, str, int]]:
    """The largest problem of every row: tile, precision, type of the points' features and slices.

    In all of its precisions and with every type they allow; of a table that nobody has measured in
    the first alone.
    """
    for tile in TABLES[table].tiles:
        slices = min(tile.slices, 1024)
        pairs = [(p, t) for p in tile.precisions for t in TYPES if p in ALLOWED[t]]
        for precision, dtype in pairs if TABLES[table].architecture >= 90 else pairs[:1]:
            if pick_tile(table, tile.kernel, precision, slices, tile.width) is tile:
                yield tile, precision, dtype, slices


@dataclass(frozen=True)
class Job:
    """One kernel to be compiled for one tile."""

    source: Any
    options: dict[str, int]
    architecture: int

    @property
    def fingerprint(self) -> str:
        source = self.source
        parts = (
            source.fn.cache_key, source.signature, source.constants, source.attrs, self.options,
            self.architecture,
        )  # fmt: skip
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]

    def compile(self) -> dict[str, int]:
        target = GPUTarget("cuda", self.architecture, 32)
        compiled = triton.compile(self.source, target=target, options=self.options)
        approximate = APPROXIMATE.search(compiled.asm["ptx"])
        assert not approximate, f"{approximate[0]} divides to 2 ulp, where div.rn rounds correctly"
        needs = resources(compiled, self.architecture)
        return {**needs, "races": len(races(compiled.asm["ttgir"]))}


def job_of(
    tile: Tile, precision: str, dtype: str, slices: int, flags: dict[str, Any], architecture: int
) -> Job:
    family, name = tile.kernel.replace("pair_", "").split("/")
    function = next(getattr(m, name) for m in MODULES[family] if hasattr(m, name))
    logits, values = PRODUCTS[Precision(precision)]
    width = tile.width
    constants = {
        "G": slices, "D": width, "BD": width, "V": width, "BV": width, "BN": tile.points,
        "BG": tile.slots, "HAS_BIAS": True, "LOGITS": logits, "VALUES": values, **flags,
    }  # fmt: skip
    signature, constexprs, attributes = {}, {}, {}
    for index, parameter in enumerate(function.params):
        if parameter.is_constexpr:
            signature[parameter.name] = "constexpr"
            constexprs[parameter.name] = constants[parameter.name]
            continue
        is_count = parameter.name in COUNTS
        is_stride = re.fullmatch(r"\w+_[bnh]", parameter.name) is not None
        if is_count or is_stride:
            signature[parameter.name] = "i32"
        else:
            is_activation = parameter.name in ACTIVATIONS
            signature[parameter.name] = TYPES[dtype] if is_activation else "*fp32"
        if not is_count:
            attributes[(index,)] = [["tt.divisibility", 16]]
    source = ASTSource(function, signature, constexprs, attributes)
    return Job(source, {"num_warps": tile.warps, "num_stages": tile.stages}, architecture)


def resources(compiled: Any, architecture: int) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder) / "kernel.ptx"
        ptx.write_text(compiled.asm["ptx"])
        name = f"--gpu-name=sm_{architecture}" + ("a" if architecture >= 90 else "")
        command = [get_ptxas(architecture).path, "-v", name, str(ptx), "-o", f"{folder}/o"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    spills = re.search(r"(\d+) bytes spill stores", said)
    registers = re.search(r"Used (\d+) registers", said)
    assert spills and registers, said
    return {
        "registers": int(registers[1]),
        "spills": int(spills[1]),
        "shared": compiled.metadata.shared,
    }


def jobs(table: str, *kernels: str) -> Iterator[tuple[dict[str, Any], Job]]:
    """What is to be compiled, with a description of each."""
    architecture = TABLES[table].architecture
    for tile, precision, dtype, slices in problems(table):
        if kernels and tile.kernel not in kernels:
            continue
        flags_of = FLAGS.get(tile.kernel, [{}])
        # A table that nobody has measured is compiled for one of them alone.
        for flags in flags_of if architecture == 90 else flags_of[:1]:
            row = {"kernel": tile.kernel, "precision": precision, "dtype": dtype, "slices": slices}
            row |= {"width": tile.width, **flags, "allowed_spills": tile.spills}
            yield row, job_of(tile, precision, dtype, slices, flags, architecture)


def main(table: str, *kernels: str) -> None:
    known = remembered_tiles()
    trusted = False
    for row, job in jobs(table, *kernels):
        remembered = known.get(job.fingerprint)
        found = remembered if remembered and trusted else job.compile()
        if remembered and not trusted:
            assert found == remembered, f"{MEMORY.name} says {remembered} of {row}, got {found}"
            trusted = True
        print(json.dumps({**row, **found, "compiled": found is not remembered}), flush=True)


def remembered_tiles() -> dict[str, dict[str, int]]:
    """Nothing where another Triton compiled them."""
    found = json.loads(MEMORY.read_text())
    return found["tiles"] if found["triton"] == triton.__version__ else {}


@cache
def _all_jobs() -> list[Job]:
    return [job for table in TABLES for _, job in jobs(table)]


def _compiled(index: int) -> tuple[str, dict[str, int]]:
    """By index, since a job cannot be handed to another process."""
    job = _all_jobs()[index]
    return job.fingerprint, job.compile()


def remember() -> None:
    """Compile all, on all cores, and write what was found: seven minutes on two."""
    with get_context("fork").Pool() as pool:
        found = dict(pool.imap_unordered(_compiled, range(len(_all_jobs()))))
    content = {"triton": triton.__version__, "tiles": dict(sorted(found.items()))}
    MEMORY.write_text(json_text(content, spread=("tiles",)))


if __name__ == "__main__":
    remember() if sys.argv[1:] == ["--remember"] else main(*sys.argv[1:])
