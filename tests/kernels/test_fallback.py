"""The operators where Triton cannot run."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from slipstream import Size, Transolver
from slipstream.kernels import ops

from .parity import DEVICE, Case, check_parity
from .test_fused import FAMILIES


@pytest.fixture(autouse=True)
def no_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "_family_here", lambda *_: "chunked")


@pytest.mark.parametrize("case", FAMILIES.values(), ids=FAMILIES.keys())
@pytest.mark.parametrize("weight", ["shared", "per-head", "per-sample"])
@pytest.mark.parametrize("shared_query", [False, True])
def test_same_as_the_reference(case: Case, weight: str, shared_query: bool) -> None:
    check_parity(replace(case, batch=2, weight=weight, bias=weight, shared_query=shared_query))


def test_an_exported_model() -> None:
    size = Size(layers=2, width=32, heads=2, slices=16)
    model = Transolver(3, 2, 4, size=size, impl="fused", precision="ieee").to(DEVICE)
    coords, features = torch.rand(1, 9, 3, device=DEVICE), torch.rand(1, 9, 2, device=DEVICE)
    exported = torch.export.export(model, (coords, features))
    names = {node.name for node in exported.graph.nodes}
    assert {"pair_slice", "pair_deslice"} <= names
    torch.testing.assert_close(exported.module()(coords, features), model(coords, features))
