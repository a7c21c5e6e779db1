"""Streaming, and querying with known tokens, against one pass."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
import torch
from torch import Tensor

from slipstream import VARIANTS, Size, Transolver
from slipstream.models import load_plugin
from slipstream.models.parking import FileParking, Place
from slipstream.models.steps import Steps
from slipstream.models.sweep_plan import plan_sweeps
from slipstream.models.sweeps import Points, Sweeping, decode, encode, stream_through

SMALL = Size(layers=3, width=16, heads=2, slices=5)
PLACES: tuple[Place, ...] = ("device", "host", "file", "recompute")


def trained(variant: str, **others: object) -> Transolver:
    """A model in fp64 whose weights are far from their initial values, as after training."""
    model = Transolver(3, 2, 4, variant=variant, size=SMALL, **others)  # type: ignore[arg-type]
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.add_(0.4 * torch.randn(parameter.shape, generator=draw))
    return model.double()


def cloud(count: int, batch: int = 1) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(2)
    return tuple(  # type: ignore[return-value]
        torch.rand(batch, count, k, generator=draw, dtype=torch.float64) for k in (3, 2)
    )


def points_of(coords: Tensor, features: Tensor) -> Points:
    return Points(coords.shape[1], lambda a, b: (coords[:, a:b], features[:, a:b]))


def streamed(model: Transolver, points: Points, how: Sweeping) -> tuple[Tensor, list[Tensor]]:
    parts: list[Tensor] = []
    tokens = stream_through(model, points, how, lambda first, end, part: parts.append(part))
    return torch.cat(parts, 1), tokens


@pytest.mark.untraced
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("place", "count", "chunk"),
    [
        *((place, 9, 7) for place in PLACES),
        ("device", 9, 1),
        ("recompute", 9, 9),
        ("file", 1003, 1000),
    ],
)
def test_streaming_is_one_pass(variant: str, place: Place, count: int, chunk: int) -> None:
    model, (coords, features) = trained(variant), cloud(count)
    with torch.no_grad():
        whole = model(coords, features)
    assert float(whole.abs().max()) > 0.1
    points, how = points_of(coords, features), Sweeping(chunk, place)
    outputs, tokens = streamed(model, points, how)
    torch.testing.assert_close(outputs, whole, rtol=1e-12, atol=1e-12)
    encoded = encode(model, points, how)
    assert len(encoded) == Steps(model).couplings
    for one, other in zip(encoded, tokens, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    decoded = torch.cat(list(decode(model, encoded, points, chunk)), 1)
    torch.testing.assert_close(decoded, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("impl", ["reference", "chunked"])
def test_tokens_do_not_depend_on_the_implementation(variant: str, impl: str) -> None:
    coords, features = cloud(50)
    tokens = [
        encode(trained(variant, impl=each), points_of(coords, features), Sweeping(9))
        for each in (impl, "auto")
    ]
    for one, other in zip(*tokens, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("variant", ["baseline", "untied-ln", "frozen-slice", "slice-once"])
def test_a_query_is_a_point_that_adds_nothing_to_the_sums(variant: str) -> None:
    """Points decoded in any order and company have the same values, and leave the tokens alone."""
    model, (coords, features) = trained(variant), cloud(60)
    tokens = encode(model, points_of(coords[:, :40], features[:, :40]), Sweeping(40))
    together = torch.cat(list(decode(model, tokens, points_of(coords, features), 60)), 1)
    alone = torch.cat(list(decode(model, tokens, points_of(coords, features), 1)), 1)
    torch.testing.assert_close(together, alone, rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        own = model(coords[:, :40], features[:, :40])
    torch.testing.assert_close(together[:, :40], own, rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        among_all = model(coords, features)
    assert float((among_all - together).abs().max()) > 1e-4, "the last 20 points add to the tokens"


@pytest.mark.parametrize("variant", ["baseline", "untied-ln"])
def test_clouds_of_a_batch_are_streamed_together(variant: str) -> None:
    model, (coords, features) = trained(variant), cloud(20, batch=3)
    with torch.no_grad():
        whole = model(coords, features)
    outputs, _ = streamed(model, points_of(coords, features), Sweeping(6))
    torch.testing.assert_close(outputs, whole, rtol=1e-12, atol=1e-12)


def test_fp32_does_not_drift_with_the_number_of_chunks() -> None:
    model, (coords, features) = trained("baseline"), cloud(2000)
    with torch.no_grad():
        exact = model(coords, features)
        single = model.float()(coords.float(), features.float())
    outputs, _ = streamed(model, points_of(coords.float(), features.float()), Sweeping(20))
    error = float((outputs - exact).abs().max()), float((single - exact).abs().max())
    assert error[0] <= 3 * error[1], error


def test_progress_counts_every_chunk_of_every_sweep() -> None:
    model, (coords, features) = trained("baseline"), cloud(10)
    seen: list[tuple[int, int]] = []
    stream_through(
        model,
        points_of(coords, features),
        Sweeping(4),
        lambda first, end, part: None,
        lambda done, total: seen.append((done, total)),
    )
    assert seen == [(done, 12) for done in range(1, 13)]


def test_parked_bytes_are_as_planned(tmp_path: Path) -> None:
    for variant in ("baseline", "frozen-slice", "slice-once"):
        model = trained(variant)
        plan = plan_sweeps(model, 30, chunk=7, place="file", folder=tmp_path)
        parking = FileParking(torch.device("cpu"), tmp_path)
        steps, (coords, features) = Steps(model), cloud(30)
        stream, _ = steps.sums(0, steps.begin(coords, features))
        parking.put(0, stream.tensors)
        parking.get(0)
        assert os.fstat(parking._file.fileno()).st_size == plan.parked_bytes
        parking.close()
    assert not list(tmp_path.iterdir()), "the file has no name"


def test_a_full_disk_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    model, (coords, features) = trained("baseline"), cloud(20)
    with pytest.raises(OSError, match="No space left") as raised:
        encode(model, points_of(coords, features), Sweeping(5, "file", tmp_path))
    assert raised.value.filename == str(tmp_path)


def test_a_failed_last_write_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its chunk would be read with the values of the sweep before, as no other put comes."""
    parking = FileParking(torch.device("cpu"), tmp_path)
    for chunk in (0, 1):
        parking.put(chunk, (torch.full((3,), float(chunk)),))
    parking.put(0, parking.get(0))
    held = parking.get(1)
    parking._thread.submit(int).result()  # what was submitted before is done

    def broken(*given: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pwrite", broken)
    parking.put(1, (held[0] + 5,))
    with pytest.raises(OSError, match="Input/output error"):
        parking.get(0)
    parking.close()


def test_an_error_inside_a_sweep_frees_the_parking(tmp_path: Path) -> None:
    model, (coords, features) = trained("baseline"), cloud(20)

    def read(first: int, end: int) -> tuple[Tensor, Tensor]:
        if first == 15:
            raise ValueError("the file was cut short")
        return coords[:, first:end], features[:, first:end]

    def held() -> tuple[int, int]:
        files = Path("/proc/self/fd")
        return threading.active_count(), len(list(files.iterdir())) if files.is_dir() else 0

    before = held()
    with pytest.raises(ValueError, match="cut short"):
        encode(model, Points(20, read), Sweeping(5, "file", tmp_path))
    assert held() == before, "threads and open files"


def test_no_chunk_is_held_for_its_form() -> None:
    for variant in ("baseline", "frozen-slice"):
        steps, (coords, features) = Steps(trained(variant)), cloud(50)
        stream, _ = steps.sums(0, steps.begin(coords, features))
        form = stream.of_first_point()
        assert all(t.untyped_storage().nbytes() == 16 * 8 for t in form.tensors)
        again = form.like(stream.tensors)
        assert all(one is other for one, other in zip(again.tensors, stream.tensors, strict=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("variant", ["baseline", "untied-ln", "frozen-slice"])
def test_streaming_on_a_gpu_is_one_pass(variant: str, place: Place) -> None:
    """Many chunks, so that copies and kernels run beside each other; in a stream of its own too."""
    model, (coords, features) = trained(variant).cuda(), cloud(200_003)
    coords, features = coords.cuda(), features.cuda()
    with torch.no_grad():
        whole = model(coords, features)
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            outputs, _ = streamed(model, points_of(coords, features), Sweeping(5000, place))
        torch.cuda.synchronize()
        torch.testing.assert_close(outputs, whole, rtol=1e-12, atol=1e-12)


def test_the_plan_says_what_it_chose(
    no_shape_checks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = trained("baseline").float()
    few = plan_sweeps(model, 1000)
    assert few.one_pass and str(few) == "1,000 points in one pass"
    many = plan_sweeps(model, 10**6, folder=tmp_path)
    assert many.place == "device" and "0.064 GB" in str(many) and "31 chunks of 32,768" in str(many)
    monkeypatch.setattr("slipstream.models.sweep_plan.free_memory", lambda: 10**6)
    assert plan_sweeps(model, 10**6, folder=tmp_path).place == "file"
    huge = plan_sweeps(model, 10**15, folder=tmp_path)
    assert huge.place == "recompute" and "computed again" in str(huge)
    with pytest.raises(ValueError, match="place must be one of"):
        plan_sweeps(model, 5, place="disk")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="chunk must be a whole number of at least 1, got 0"):
        plan_sweeps(model, 5, chunk=0)


def test_tokens_of_another_model_are_refused() -> None:
    model, (coords, features) = trained("baseline"), cloud(5)
    with pytest.raises(ValueError, match="tokens must be those of 3 layers, .* got 1"):
        list(decode(model, [torch.zeros(1)], points_of(coords, features), 5))


def test_a_plug_in_streams_if_it_has_the_steps(registry: None) -> None:
    load_plugin(Path(__file__).parents[2] / "examples" / "mean_pool.py")
    model, (coords, features) = trained("mean-pool"), cloud(30)
    with torch.no_grad():
        whole = model(coords, features)
    outputs, _ = streamed(model, points_of(coords, features), Sweeping(7))
    torch.testing.assert_close(outputs, whole, rtol=1e-12, atol=1e-12)
    model.blocks[1].coupling = torch.nn.Identity()
    with pytest.raises(ValueError, match="'mean-pool' must have the methods membership, sums, mix"):
        encode(model, points_of(coords, features), Sweeping(7))
