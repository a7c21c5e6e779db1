"""What a layer costs on the host: kernels are prepared and handed over, and never run.

    python benchmarks/host.py [REPEATS]      with flashslice 0.3.0 beside it, where it is installed

Needs no GPU. At 262k points a GPU is done with a layer so soon that a slow host decides; here the
host is all there is. Tensors are few numbers on the CPU, and Triton gets a driver that launches
nothing, so what is left of both packages is Python, PyTorch's calls and Triton's way to a launch.
Ratios mean something; microseconds are those of this machine, and small products are in them.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver, jit

from slipstream.bench import subjects
from slipstream.bench.cases import Case, kernels_cases
from slipstream.bench.measure import interleaved_ms, quantile
from slipstream.core import runtime
from slipstream.kernels import ops, plan

SHARED_MEMORY, MULTIPROCESSORS = 232448, 132  # of an H200


class NoLaunch:
    """Stands for a compiled kernel and for the driver of a GPU that is not there."""

    function, packed_metadata = 0, ()

    def launch_metadata(self, *_: object) -> None: ...

    def run(self, *_: object) -> None: ...

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _: int = 0) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")


def launch_nothing() -> None:
    def compiled(self: Any, key: str, _: object, device: int, *rest: object) -> NoLaunch:
        return self.device_caches[device][0].setdefault(key, NoLaunch())

    driver.set_active(NoLaunch())
    jit.JITFunction._do_compile = compiled
    runtime.shared_memory = lambda _: SHARED_MEMORY
    runtime.multiprocessors = lambda _: MULTIPROCESSORS
    ops._by_triton = lambda *_: True
    plan._why_not_fused = lambda *_, **__: None


def let_flashslice_take_cpu_tensors() -> None:
    from flashslice.kernels import blocked, slice_ops

    gpu = SimpleNamespace(
        shared_memory_per_block_optin=SHARED_MEMORY, multi_processor_count=MULTIPROCESSORS
    )
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_properties = lambda _: gpu
    for kind in ("slice", "deslice"):
        for end in ("", "_bwd"):
            single, tiled = f"_{kind}{end}_impl", f"_{kind}_blk{end}_impl"
            torch.library.impl(f"flashslice::flash_{kind}{end}", "CPU", getattr(slice_ops, single))
            torch.library.impl(f"flashslice::{kind}_blk{end}", "CPU", getattr(blocked, tiled))


def main(repeats: int = 400) -> None:
    launch_nothing()
    who: list[subjects.Subject] = ["fused"]
    if subjects.has_peer():
        let_flashslice_take_cpu_tensors()
        who.append("flashslice")
    torch.set_num_threads(1)
    known = next(case for case in kernels_cases() if case.name.startswith("layer 262k fp32/tf32 "))
    for slices in (24, 32):  # blocked, and in one tile
        for training in (False, True):
            case: Case = replace(known, points=16, slices=slices, training=training)
            steps = {name: subjects.make_step(case, name, "cpu") for name in who}
            times = interleaved_ms(steps, warmup=repeats // 4, repeats=repeats, device="cpu")
            found = {name: 1000 * quantile(own, 0.5) for name, own in times.items()}
            texts = [f"{name} {microseconds:.0f} µs" for name, microseconds in found.items()]
            if "flashslice" in found:
                texts.append(f"ratio {found['flashslice'] / found['fused']:.2f}")
            what = "training" if training else "inference"
            print(f"one layer, {what}, G = {slices}: {', '.join(texts)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
