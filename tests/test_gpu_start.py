"""A GPU is started early for the devices that are asked for, and no trouble comes of it."""

from __future__ import annotations

import pytest
import torch

from slipstream.gpu_start import start_gpu


@pytest.mark.parametrize(
    "arguments",
    [
        ("--device", "cuda"),
        ("--device=cuda:0", "--points", "8"),
        ("potential-flow-surface", "--device", "cuda:999"),
    ],
)
def test_cuda_is_started_and_a_missing_device_is_left_to_torch(arguments: tuple[str, ...]) -> None:
    thread = start_gpu(arguments)
    assert thread is not None
    thread.join()


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--device", "cpu"),
        ("--device", "auto"),
        ("--device", "cuda:x"),
        ("--device",),
        ("--out", "cuda"),
        ("--devices", "cuda"),
        ("--device", "cudas"),
    ],
)
def test_anything_else_starts_nothing(arguments: tuple[str, ...]) -> None:
    assert start_gpu(arguments) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_torch_works_in_the_context_that_was_started() -> None:
    thread = start_gpu(("--device", "cuda"))
    assert thread is not None
    thread.join()
    assert torch.ones(3, device="cuda").sum().item() == 3
