"""A store with fewer samples to train on, as for a learning curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slipstream.data.store.manifest import TRAIN
from slipstream.data.store.point_store import Store
from slipstream.data.store.statistics import merge_statistics


def with_training_samples(store: Store, names: Sequence[str] | None) -> Store:
    """The store with these samples alone in its training split; None for all of them.

    Its statistics are of these samples, as in a store that has no others: whoever has 40 runs
    cannot normalise by 160. The other samples are in no split; the hash of the data stays, that of
    the splits does not. Of trajectories the names are those of the manifest, not of pairs.

    Raises ValueError where a name is none of the training split, or is there twice.
    """
    if names is None:
        return store
    given = store.manifest.splits.get(TRAIN, ())
    chosen = set(names)
    if not chosen or len(chosen) < len(names):
        raise ValueError(f"data.train must be one name or several, each once, got {len(names)}")
    for name in sorted(chosen.difference(given)):
        raise ValueError(
            f"data.train must name samples of the training split of {store.path}, got {name!r}"
        )
    kept = tuple(name for name in given if name in chosen)
    samples = store.manifest.samples
    manifest = replace(
        store.manifest,
        splits={**store.manifest.splits, TRAIN: kept},
        statistics=merge_statistics(samples[name].statistics for name in kept),
    )
    return type(store)(store.path, manifest)
