"""torch.compile sees one graph, forward and backward, for every variant.

In a process of its own: the shape checker of the other tests would break the graph.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

CODE = """
import torch
from slipstream import VARIANTS, Size, Transolver
from tests import interpreter

device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cpu":
    interpreter.install()
torch.manual_seed(0)
coords, features = torch.rand(1, 9, 3, device=device), torch.rand(1, 9, 2, device=device)
DIFFERENT = ("baseline", "untied", "untied-ln", "frozen-slice", "slice-once", "mlp-only")
assert {*DIFFERENT} < {*VARIANTS}  # the others are made of the same parts
for variant in DIFFERENT:
    also = [{"impl": "reference"}, {}] * (variant == "baseline")
    for how in ({"impl": "fused", "precision": "ieee"}, *also):  # {} is chunked on a CPU
        torch._dynamo.reset()
        layers = 2 if variant in ("baseline", "slice-once") or "frozen" in variant else 1
        size = Size(layers=layers, width=32, heads=2, slices=16)
        model = Transolver(3, 2, 4, variant=variant, size=size, **how).to(device)
        whole = torch.compile(model, fullgraph=True, backend="aot_eager")
        whole(coords, features).sum().backward()
        compiled = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        model(coords, features).sum().backward()
        # Of the largest gradient: a small one may be what is left of large numbers.
        slack = 1e-7 * max(p.grad.abs().max().item() for p in model.parameters())
        for ours, plain in zip(compiled, model.parameters(), strict=True):
            torch.testing.assert_close(ours, plain.grad, rtol=1e-4, atol=slack)
print("one graph each")
"""


def test_one_graph_for_every_variant() -> None:
    environment = dict(os.environ)
    if not torch.cuda.is_available():
        environment["TRITON_INTERPRET"] = "1"
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, env=environment, cwd=root
    )
    assert "one graph each" in done.stdout, done.stderr[-2000:]
