"""The data of a run: the store it names, checked, or built-in data made for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from slipstream.core.checks import check_choice
from slipstream.data.batches import WHOLE, Batch, Loader, Normaliser, Part, PointDataset, Share
from slipstream.data.benchmarks import BENCHMARKS
from slipstream.data.store import (
    PARTS,
    IngestProgress,
    Schema,
    Store,
    ingest,
    open_store,
    varying_groups,
    with_training_samples,
)
from slipstream.physics.builtin import builtin_schema
from slipstream.runs.builtin_data import source_of
from slipstream.runs.config import DataConfig, RunConfig

SPLITS = ("train", "val")
"""The splits that training needs."""


def open_data(
    config: DataConfig, folder: Path, progress: Callable[[IngestProgress], None] | None = None
) -> Store:
    """The store of a config; built-in data are made in `folder`, unless they are there already.

    Raises ValueError where the store does not fit: fields, splits, points.
    """
    if config.store is not None:
        store = open_store(config.store)
    elif config.builtin is not None:
        store = _make(config, folder, progress)
    else:
        raise ValueError(
            f"data.store must name the point store of {config.problem or 'the run'}, got null"
            " (--store; `slipstream data ingest` makes one)"
        )
    store = with_training_samples(store, config.train)
    check_fits(store, config)
    return store


def check_fits(store: Store, config: DataConfig) -> None:
    """Raise ValueError unless the store has the fields of the problem, and samples to train on."""
    if config.problem is not None:
        _check_schema(store, problem_schema(config), config.problem)
    for split in SPLITS:
        if not store.splits.get(split):
            raise ValueError(
                f"{store.path} must have samples in its split {split!r}, got none"
                f" ({_how_to_fill(store)})"
            )
        PointDataset(store, split, points=config.points)  # which checks the points of each sample
    if store.schema.target_groups and not varying_groups(store.manifest):
        names = ", ".join(field.name for field in store.schema.targets) or "none"
        raise ValueError(
            f"{store.path} must have a target that varies over its split 'train', got only"
            f" constants: {names}"
        )


def _how_to_fill(store: Store) -> str:
    """What to do about an empty split."""
    count, bad = sum(map(len, store.splits.values())), len(store.manifest.quarantined)
    if count < 3:
        left_out = f", and {bad} that are left out as bad" if bad else ""
        return (
            f"it has {count} samples{left_out}, and to draw training, validation and test takes 3:"
            " ingest more, or list the splits in the card"
        )
    return "`splits` in the card of an ingest says which samples are in which split"


def problem_schema(config: DataConfig) -> Schema:
    """The fields that a benchmark or a built-in problem has."""
    assert config.problem is not None
    if config.builtin is not None:
        return builtin_schema(config.problem)
    check_choice("data.problem", config.problem, BENCHMARKS)
    return BENCHMARKS[config.problem].schema


def _check_schema(store: Store, schema: Schema, problem: str) -> None:
    for part in PARTS:
        got, expected = (
            [f"{f.name} [{f.unit}] x {f.components}" for f in getattr(each, part)]
            for each in (store.schema, schema)
        )
        if got != expected:
            raise ValueError(
                f"{part} of {store.path} must be those of {problem},"
                f" {', '.join(expected) or 'none'}, got {', '.join(got) or 'none'}"
                " (--set data.problem=null takes any fields)"
            )


def _make(
    config: DataConfig, folder: Path, progress: Callable[[IngestProgress], None] | None
) -> Store:
    builtin = config.builtin
    assert builtin is not None
    total = sum(builtin.samples.values())
    fractions = {split: count / total for split, count in builtin.samples.items()}
    ingest(source_of(config), folder, seed=builtin.seed, fractions=fractions, progress=progress)
    return open_store(folder)


def training_loader(
    store: Store, config: RunConfig, rank: int = 0, ranks: int = 1, part: Part = WHOLE
) -> Loader:
    """Fresh points of each sample in every epoch; the ranks share out the samples, and of each the
    points if `part` says so."""
    data = config.data
    dataset = PointDataset(
        store, "train", points=data.points, sampling=data.sampling, seed=config.seed, part=part
    )
    share = Share(batch_size=config.batch, rank=rank, world_size=ranks)
    return Loader(dataset, share, workers=data.workers)


def validation_loader(
    store: Store, config: RunConfig, rank: int = 0, ranks: int = 1, part: Part = WHOLE
) -> Loader:
    """Every sample of the split; `first_epoch` of it gives the same points each time."""
    data = config.data
    dataset = PointDataset(
        store, "val", points=data.points, sampling=data.sampling, seed=data.evaluation_seed,
        part=part,
    )  # fmt: skip
    batch = config.batch if dataset.counts_are_equal else 1
    share = Share(batch_size=batch, shuffle=False, even=False, rank=rank, world_size=ranks)
    return Loader(dataset, share, workers=data.workers)


def first_epoch(loader: Loader) -> Iterator[Batch]:
    """The batches of epoch 0, whatever was drawn before."""
    loader.load_state_dict({**loader.state_dict(), "epoch": 0, "position": 0})
    yield from loader


def normalised_on(
    batch: Batch, normaliser: Normaliser, device: torch.device, dtype: torch.dtype
) -> Batch:
    """The batch on a device, normalised there."""
    return batch.to(device, dtype).normalise(normaliser)
