"""The mesh that a stored sample was read from, for files that need its cells.

A store holds points only, in random order. The order is a function of the store's seed, and the
card, which the store keeps too, says which rows of which file were read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.data.cards.source import MeshSource
from slipstream.data.cards.types import Card
from slipstream.data.meshes import Location, Mesh
from slipstream.data.store import Store, row_order


@dataclass(frozen=True, eq=False)
class OriginalMesh:
    mesh: Mesh
    location: Location
    """Whether the rows of the store are points or cells of the mesh."""
    rows: NDArray[np.intp]
    """The point or cell that each row of the stored sample is, (N,)."""


def has_card(store: Store) -> bool:
    """Whether the store was made from meshes by a card."""
    options = store.manifest.origin.options
    return {"files", "coords", "location"} <= options.keys()


def original_mesh(store: Store, sample: str, folder: Path) -> OriginalMesh:
    """The mesh of a sample, in the folder that was ingested.

    Raises ValueError where the store was not made by a card, where the folder lacks the mesh, and
    where its points are not those of the store.
    """
    if not has_card(store):
        raise ValueError(f"{store.path} must be made by a card to have meshes, got another source")
    source = MeshSource(folder, Card.from_json(store.manifest.origin.options))
    mesh, kept, places = source.read_mesh(sample)
    stored = store.array(sample)[:, store.schema.columns("coords")]
    if len(kept) != len(stored):
        raise ValueError(
            f"{mesh.name} must have the {len(stored):,} rows of sample {sample} in {store.path},"
            f" got {len(kept):,}: the file has changed since"
        )
    order = row_order(store.manifest.origin.seed, sample, len(kept))
    _check_places(stored, places[order], f"{mesh.name} of sample {sample}")
    return OriginalMesh(mesh, source.card.location, kept[order])


def _check_places(stored: NDArray[Any], places: NDArray[Any], name: str) -> None:
    moved = int((stored != places.astype(np.float32)).any(1).sum())
    if moved:
        raise ValueError(
            f"{name} must have its points where the store has them, got {moved:,} of"
            f" {len(stored):,} elsewhere: the file has changed since"
        )
