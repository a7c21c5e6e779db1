"""Trainings on nested subsets of a store's training split, and their learning curve.

    OUT/study.json, OUT/records.jsonl                        as of any study
    OUT/runs/train-<samples>/<variant>/seed-<order>/         a training on one subset

An order is a shuffled list of the training samples, and the subsets of it are its beginnings: each
is contained in the next larger one. All trainings take equally many steps, are normalised by their
own samples, and count with the checkpoint that is best on the validation split, as any run does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from slipstream.core.checks import check_whole
from slipstream.core.runtime import derive_seed, pick_device
from slipstream.data.batches import Loader, Normaliser, PointDataset, Share, make_normaliser
from slipstream.data.store import Store, with_training_samples
from slipstream.metrics import Errors, error_sums
from slipstream.runs.config import RunConfig
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import load_model
from slipstream.training.learning_curve import Numbers, Trainings
from slipstream.training.study import StudyCell

FEWEST = 4
"""Samples of the smallest subset."""
OWN_SAMPLES = 64
"""At most so many samples of a training are predicted to see how well it knows them."""


def subset_sizes(samples: int, count: int = 3) -> tuple[int, ...]:
    """The sizes of nested subsets, each half of the next: 40, 80 and 160 of 160."""
    check_whole("sizes", count, 3)
    least = FEWEST * 2 ** (count - 1)
    if samples < least:
        raise ValueError(
            f"the training split must have at least {least} samples for {count} subsets, the"
            f" smallest of {FEWEST}, got {samples}"
        )
    return tuple(samples // 2**k for k in reversed(range(count)))


def in_order(names: Sequence[str], order: int) -> list[str]:
    """The names shuffled: a pure function of the order's number and the set of names."""
    return sorted(names, key=lambda name: (derive_seed(order, "subset", name), name))


def subset_cells(
    config: RunConfig,
    names: Sequence[str],
    out: Path,
    *,
    sizes: Sequence[int],
    orders: int,
    prefix: str = "train",
) -> list[StudyCell]:
    """A training for each order and size; the order's number is also the seed of the run."""
    check_whole("orders", orders, 1)
    cells = []
    for order in range(orders):
        shuffled = in_order(names, order)
        for size in sizes:
            data = replace(config.data, train=tuple(sorted(shuffled[:size])))
            one = replace(config, experiment=f"{prefix}-{size}", data=data, seed=order)
            folder = out / "runs" / one.experiment / one.model.variant / f"seed-{order}"
            cells.append(StudyCell(one, RunFolder(folder)))
    return cells


def errors_of(cell: StudyCell, store: Store, *, split: str = "val", device: str = "auto") -> Errors:
    """The errors of the best checkpoint of a run that has finished.

    The metric of a training is of targets that its own samples normalise. Here those of the whole
    store normalise them, so that the errors of all sizes are of the same numbers.
    """
    return _errors(cell, store, split, device, make_normaliser(store.schema, store.statistics))


def own_errors_of(cell: StudyCell, store: Store, *, device: str = "auto") -> Errors:
    """The same on samples of its training, `OWN_SAMPLES` at most."""
    names = cell.config.data.train or store.manifest.splits["train"]
    common = make_normaliser(store.schema, store.statistics)
    own = with_training_samples(store, names[:OWN_SAMPLES])
    return _errors(cell, own, "train", device, common)


@torch.no_grad()
def _errors(cell: StudyCell, store: Store, split: str, device: str, common: Normaliser) -> Errors:
    where = pick_device(device)
    trained = load_model(cell.folder.path, device=str(where))
    data = trained.config.data
    dataset = PointDataset(
        store, split, points=data.points, sampling=data.sampling, seed=data.evaluation_seed
    )
    batch_size = trained.config.batch if dataset.counts_are_equal else 1
    share = Share(batch_size=batch_size, shuffle=False, even=False)
    groups, parts = store.schema.target_groups, []
    own, scale = trained.normaliser.targets, common.targets
    for batch in Loader(dataset, share):
        here = batch.to(where, trained.config.dtype)
        prediction = trained.model(*here.normalise(trained.normaliser).inputs)
        pair = (scale.forward(own.inverse(prediction)), scale.forward(here.targets))
        parts.append(Errors.of(error_sums(*pair, groups), groups, here.samples))
    return Errors.joined(groups, parts)


def gather(
    cells: Sequence[StudyCell],
    store: Store,
    *,
    field: str | None = None,
    device: str = "auto",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Trainings:
    """What all cells have reached on the validation split, of all targets or of one group."""
    news, owns = [], []
    for done, cell in enumerate(cells):
        progress(done, len(cells))
        news.append(_table(errors_of(cell, store, device=device), field))
        owns.append(_table(own_errors_of(cell, store, device=device), field))
    progress(len(cells), len(cells))
    sizes = np.array([len(cell.config.data.train or ()) for cell in cells])
    return Trainings(sizes, np.stack(news), tuple(owns))


def _table(errors: Errors, field: str | None) -> Numbers:
    """(V, G), with NaN where an error is not defined."""
    rows = [[np.nan if v is None else v for v in row] for row in errors.samples.values()]
    table = np.array(rows, np.float64)
    return table if field is None else table[:, [errors.groups.index(field)]]
