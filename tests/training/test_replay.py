"""Steps recorded as a CUDA graph are the steps taken one by one, to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from slipstream.data.batches import endless
from slipstream.models.variants import VARIANTS
from slipstream.runs.config import RunConfig, check_same
from slipstream.training.distributed import World
from slipstream.training.optim import optimizer_tensors
from slipstream.training.replay import why_not_replayed
from slipstream.training.trainer import Trainer

from .small import same, small, trainer, weights

GPU = World(torch.device("cuda"))
SIZE = {"layers": 2, "width": 64, "heads": 2, "slices": 16}

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def on_gpu(path: Path, **changes: Any) -> Trainer:
    return trainer(path, small(model__size=SIZE, **changes), world=GPU)


def outcome(made: Trainer) -> tuple[dict[str, torch.Tensor], list[Any]]:
    made.run()
    tensors = weights(made) | optimizer_tensors(made.model, made.state.optimizer)
    kept = ("step", "loss", "gradient_norm", "error")
    return tensors, [[row.get(name) for name in kept] for row in made.folder.records()]


@needs_gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_a_recorded_run_is_the_run_taken_step_by_step(
    variant: str, precision: str, tmp_path: Path
) -> None:
    found = []
    for graph in (True, False):
        made = on_gpu(
            tmp_path / str(graph), model__variant=variant, precision=precision, cuda_graph=graph
        )
        assert (made.one_by_one is None) is graph
        found.append(outcome(made))
    (recorded, rows), (alone, other_rows) = found
    assert rows == other_rows
    assert same(recorded, alone)


@needs_gpu
def test_a_compiled_step_is_recorded_too(tmp_path: Path) -> None:
    found = [
        outcome(on_gpu(tmp_path / str(graph), precision="bf16", compile=True, cuda_graph=graph))
        for graph in (True, False)
    ]
    assert found[0][1] == found[1][1] and same(found[0][0], found[1][0])


@needs_gpu
def test_activations_computed_again_are_recorded_too(tmp_path: Path) -> None:
    found = [
        outcome(on_gpu(tmp_path / str(graph), recompute=True, cuda_graph=graph))
        for graph in (True, False)
    ]
    assert found[0][1] == found[1][1] and same(found[0][0], found[1][0])


@needs_gpu
def test_a_recorded_run_goes_on_exactly(tmp_path: Path) -> None:
    whole = outcome(on_gpu(tmp_path / "whole"))[0]
    first = on_gpu(tmp_path / "parts")
    first._begin()
    for batch in endless(first.state.loader):
        first.advance(batch)
        if first.state.step == 8:
            break
    assert same(outcome(on_gpu(tmp_path / "parts"))[0], whole)


@contextmanager
def no_waiting() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@needs_gpu
@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize("loss", ["relative-l1", "relative-l2", "l1", "mse"])
def test_no_step_waits_for_the_device(loss: str, graph: bool, tmp_path: Path) -> None:
    made = on_gpu(tmp_path, optim__loss=loss, cuda_graph=graph, steps=30)
    batches = endless(made.state.loader)
    for _ in range(5):
        made.take_step(next(batches))
    torch.cuda.synchronize()
    for _ in range(3):
        batch = next(batches)
        with no_waiting():
            made.take_step(batch)


def test_what_is_replayed_and_what_is_not() -> None:
    config = small()

    def why(config: RunConfig = config, world: World = GPU, equal: bool = True) -> str | None:
        return why_not_replayed(config, world, equal_counts=equal)

    assert why() is None
    assert why(world=World(torch.device("cpu"))) == "the device is no GPU"
    assert why(small(cuda_graph=False)) == "cuda_graph is false"
    assert why(world=World(torch.device("cuda"), size=2)) == "several processes train"
    lean = why(small(memory="lean"))
    assert lean == "memory is lean: a recorded step keeps to itself what it needs, all the time"
    assert why(equal=False) == "the samples give different numbers of points"
    check_same(config, small(cuda_graph=False), "a run")  # which may go on either way


def test_steps_are_taken_one_by_one_without_a_gpu(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    assert made.one_by_one == "the device is no GPU"
    made.run()
    assert made.folder.history("start")[0]["launches"] == "one by one: the device is no GPU"
