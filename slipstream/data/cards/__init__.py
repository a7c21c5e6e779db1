"""Anybody's meshes: a card says which files make up a sample and what their arrays mean.

    card.yaml -> read_card -> Card -> MeshSource -> ingest

Patterns find the files, rows are put together from their arrays, parameters come from tables.
"""

from slipstream.data.cards.card import read_card
from slipstream.data.cards.source import MeshSource
from slipstream.data.cards.types import Card

__all__ = ["Card", "MeshSource", "read_card"]
