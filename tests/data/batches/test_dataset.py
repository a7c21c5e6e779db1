from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slipstream.data.batches import (
    Batch,
    Loader,
    Part,
    PointDataset,
    Sampling,
    Share,
    make_normaliser,
)
from slipstream.data.batches.sampling import draw_exact
from slipstream.data.store import Store, ingest, open_store

from ..samples import Made, make_rows

# More workers than cores are slow, not wrong.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("batches") / "store"
    names = [f"s{i:02d}" for i in range(9)]
    ingest(Made(9, given={"train": names[:7], "test": names[7:], "val": []}), path)
    return open_store(path)


def _same(a: Batch, b: Batch) -> bool:
    return a.samples == b.samples and torch.equal(a.rows, b.rows)


def test_a_batch_holds_rows_of_its_samples(store: Store) -> None:
    dataset = PointDataset(store, "train", points=400, seed=1)
    batch = dataset.__getitems__([(0, 3), (0, 5)])
    assert batch.samples == ("s03", "s05") and not batch.normalised
    assert batch.coords.shape == (2, 400, 3)
    assert batch.features.shape == batch.targets.shape == (2, 400, 4)
    for rows, sample in zip(batch.rows.numpy(), batch.samples, strict=True):
        numbers = rows[:, 0].astype(int)
        assert len(set(numbers)) == 400
        assert np.array_equal(rows, make_rows(sample, store.rows(sample))[numbers])


def test_a_window_wraps_round(store: Store) -> None:
    dataset = PointDataset(store, "train", points=400)
    stored = np.array(store.array("s00"))
    place = {number: row for row, number in enumerate(stored[:, 0])}
    wrapped = 0
    for epoch in range(30):
        drawn = [place[number] for number in dataset[epoch, 0].coords[0, :, 0].tolist()]
        assert all((b - a) % 500 == 1 for a, b in zip(drawn, drawn[1:], strict=False))
        wrapped += drawn[0] > drawn[-1]
    assert 15 < wrapped < 30


def test_exact_draws(store: Store) -> None:
    dataset = PointDataset(store, "train", points=30, sampling="exact", seed=4)
    chosen = draw_exact(4, 2, "s01", rows=501, points=30)
    assert np.array_equal(dataset[2, 1].rows[0].numpy(), store.array("s01")[chosen])


@pytest.mark.parametrize("sampling", ["window", "exact"])
@pytest.mark.parametrize("points", [400, 0.3, None])
def test_the_parts_of_the_ranks_are_one_draw(
    store: Store, points: float | None, sampling: Sampling
) -> None:
    """Also of windows that wrap round, of which some part has two spans."""
    for ranks in (2, 3):
        options = {"points": points, "sampling": sampling, "seed": 1}
        whole = PointDataset(store, "train", **options)  # type: ignore[arg-type]
        parts = [
            PointDataset(store, "train", **options, part=Part(rank, ranks))  # type: ignore[arg-type]
            for rank in range(ranks)
        ]
        for item in ((epoch, index) for epoch in range(4) for index in (0, 3)):
            rows = [part[item].rows for part in parts]
            assert torch.equal(torch.cat(rows, 1), whole[item].rows)
            sizes = [part.shape[1] for part in rows]
            assert max(sizes) - min(sizes) <= 1 and sizes == sorted(sizes, reverse=True)
    assert parts[0].mean_points == whole.mean_points / 3
    batch = PointDataset(store, "train", points=7, part=Part(1, 3)).__getitems__([(0, 1), (0, 2)])
    assert batch.rows.shape == (2, 2, 11), "all samples of a batch have equal parts"


def test_a_part_is_read_alone(store: Store) -> None:
    asked: list[tuple[int, int]] = []

    class Watched(type(store)):  # type: ignore[misc]
        def read_spans(self, sample, spans, out):  # type: ignore[no-untyped-def]
            asked.extend(spans)
            super().read_spans(sample, spans, out)

    watched = Watched(store.path, store.manifest)
    PointDataset(watched, "train", part=Part(1, 4))[0, 0]
    (span,) = asked
    assert span == (125, 250), "of 500 rows"


def test_more_ranks_than_points(store: Store) -> None:
    message = "at least as many as the 4 processes that share them, got 3 of sample s00"
    with pytest.raises(ValueError, match=message):
        PointDataset(store, "train", points=3, part=Part(0, 4))


def test_whole_samples_and_fractions(store: Store) -> None:
    whole = PointDataset(store, "test")
    assert np.array_equal(whole[0, 1].rows[0].numpy(), store.array("s08"))
    assert PointDataset(store, "test", points=0.1)[0, 0].rows.shape == (1, 51, 11)
    with pytest.raises(
        ValueError, match="equally many points, got 507 of s07 and 508 of s08: give"
    ):
        whole.__getitems__([(0, 0), (0, 1)])
    with pytest.raises(ValueError, match="equally many points"):
        Loader(whole, Share(batch_size=2))


def test_as_many_samples_at_a_time_as_there_is_room_for(store: Store) -> None:
    equal = PointDataset(store, "train", points=100)
    assert equal.in_batches(350) == [range(0, 3), range(3, 6), range(6, 7)]
    assert equal.in_batches(99) == [range(i, i + 1) for i in range(7)]
    assert equal.in_batches(10_000) == [range(7)]
    unequal = PointDataset(store, "train", points=None)
    assert unequal.in_batches(10_000) == [range(i, i + 1) for i in range(7)]


def test_normalising_makes_a_new_batch(store: Store) -> None:
    normaliser = make_normaliser(store.schema, store.statistics)
    batch = PointDataset(store, "train", points=100)[0, 0]
    normal = batch.normalise(normaliser)
    assert normal.normalised and not batch.normalised
    assert torch.equal(normal.targets, normaliser.targets.forward(batch.targets))
    assert torch.equal(normal.coords, normaliser.coords.forward(batch.coords))
    torch.testing.assert_close(
        normal.denormalise(normaliser).rows, batch.rows, rtol=1e-5, atol=1e-4
    )
    with pytest.raises(ValueError, match="must not be normalised twice"):
        normal.normalise(normaliser)
    with pytest.raises(ValueError, match="must be normalised to undo it"):
        batch.denormalise(normaliser)
    assert batch.to("cpu").samples == batch.samples


def test_unknown_sampling(store: Store, no_shape_checks: None) -> None:
    with pytest.raises(ValueError, match="sampling must be one of window, exact, got 'all'"):
        PointDataset(store, "train", points=10, sampling="all")  # type: ignore[arg-type]


def test_workers_change_nothing(store: Store) -> None:
    dataset = PointDataset(store, "train", points=300, seed=2)
    loaders = [Loader(dataset, Share(batch_size=2), workers=workers) for workers in (0, 1, 2)]
    for _ in range(2):
        epochs = [list(loader) for loader in loaders]
        assert [len(epoch) for epoch in epochs] == [4, 4, 4]
        for batches in zip(*epochs, strict=True):
            assert _same(batches[0], batches[1]) and _same(batches[0], batches[2])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_saved_place_is_taken_up_again(store: Store, workers: int) -> None:
    dataset = PointDataset(store, "train", points=300, seed=2)
    loader = Loader(dataset, workers=workers)
    run = [batch for _ in range(3) for batch in loader]
    loader = Loader(dataset, workers=workers)
    taken: list[Batch] = []
    for batch in (batch for _ in range(3) for batch in loader):
        taken.append(batch)
        if len(taken) in (3, 7, 12):  # in mid-epoch, at the end of one, in the next
            break
    for _ in range(30):
        if len(taken) == len(run):
            break
        state = loader.state_dict()
        loader = Loader(dataset, workers=workers)
        loader.load_state_dict(state)
        for batch in loader:
            taken.append(batch)
            if len(taken) % 5 == 0:
                break
    assert len(taken) == 21
    assert all(_same(a, b) for a, b in zip(run, taken, strict=True))


def test_going_on_after_a_break(store: Store) -> None:
    loader = Loader(PointDataset(store, "train", points=10))
    first = [next(iter(loader)), *loader]
    assert [batch.samples for batch in first] == [
        batch.samples for batch in Loader(PointDataset(store, "train", points=10))
    ]
    assert loader.state_dict()["epoch"] == 1 and len(loader) == 7


def test_a_state_of_another_order_is_refused(store: Store) -> None:
    state = Loader(PointDataset(store, "train", points=10, seed=1)).state_dict()
    assert {"rank", "world_size", "seed", "epoch", "position"} <= state.keys()
    with pytest.raises(ValueError, match="seed of the saved state must be 2, got 1"):
        Loader(PointDataset(store, "train", points=10, seed=2)).load_state_dict(state)
    with pytest.raises(ValueError, match="world_size of the saved state must be 2, got 1"):
        share = Share(world_size=2, rank=1)
        Loader(PointDataset(store, "train", points=10, seed=1), share).load_state_dict(state)
    with pytest.raises(ValueError, match="samples of the saved state must be 2, got 7"):
        Loader(PointDataset(store, "test", points=10, seed=1)).load_state_dict(state)
    with pytest.raises(ValueError, match="split 'val' must have at least one sample, got none"):
        Loader(PointDataset(store, "val", points=10))
    with pytest.raises(ValueError, match="rank must be below the world size 2, got 2"):
        Share(rank=2, world_size=2)


@given(st.integers(1, 30), st.integers(1, 4), st.integers(1, 5), st.booleans(), st.integers(0, 3))
def test_ranks_share_an_epoch(
    samples: int, size: int, ranks: int, shuffle: bool, epoch: int
) -> None:
    def dealt(even: bool) -> list[list[list[int]]]:
        shares = [
            Share(batch_size=size, shuffle=shuffle, even=even, rank=rank, world_size=ranks)
            for rank in range(ranks)
        ]
        return [share.batches(samples, 0, epoch) for share in shares]

    even, once = dealt(True), dealt(False)
    assert {len(batch) for rank in even for batch in rank} == {size}
    assert len({len(rank) for rank in even}) == 1
    counts = np.bincount([i for rank in even for batch in rank for i in batch], minlength=samples)
    assert counts.min() >= 1 and counts.max() - counts.min() <= 1
    assert sorted(i for rank in once for batch in rank for i in batch) == list(range(samples))


def test_epochs_differ_in_order() -> None:
    orders = [Share().batches(20, 0, epoch) for epoch in range(3)]
    assert orders[0] != orders[1] != orders[2]
    assert Share(shuffle=False).batches(3, 0, 1) == [[0], [1], [2]]
