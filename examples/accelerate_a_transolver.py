"""Another package's Transolver, computed by our kernels on its own parameters.

    PYTHONPATH=peers python examples/accelerate_a_transolver.py

`benchmarks/peers.sh peers` installs the other package.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn

import slipstream


def their_model(slices: int) -> nn.Module | None:
    """A Transolver of the paper's authors; None where flashslice is not installed."""
    try:
        from flashslice import Transolver  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    return Transolver(n_hidden=64, n_heads=4, n_layers=2, slice_num=slices, fun_dim=2, out_dim=2)


def step(model: nn.Module, coords: Tensor, features: Tensor) -> tuple[Tensor, Tensor, float]:
    """Output, gradient of the first parameter and CPU seconds of a step."""
    model.zero_grad()
    began = time.process_time()
    output = model(coords, features)
    output.square().mean().backward()
    seconds = time.process_time() - began
    return output.detach(), next(p.grad.clone() for p in model.parameters()), seconds


def main(points: int = 32_768, slices: int = 64) -> None:
    torch.manual_seed(0)
    model = their_model(slices)
    if model is None:
        print("flashslice is not installed here: benchmarks/peers.sh installs it into a folder")
        return
    inputs = torch.rand(1, points, 3), torch.rand(1, points, 2)
    step(model, *inputs)  # the first step of anything is slow
    output, gradient, before = step(model, *inputs)
    report = slipstream.accelerate(model)
    print(report)  # what was replaced, and what was left alone and why
    step(model, *inputs)
    same_output, same_gradient, after = step(model, *inputs)
    differences = (same_output - output).abs().max(), (same_gradient - gradient).abs().max()
    print("outputs and gradients differ by", *(f"{float(one):.0e}" for one in differences))
    print(f"CPU seconds of a step: {before:.2f} before, {after:.2f} after")

    report.restore()
    print("undone, to the bit:", torch.equal(step(model, *inputs)[0], output))


if __name__ == "__main__":
    main()
