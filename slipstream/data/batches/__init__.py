"""Batches of a store: which rows a step sees, and in which units.

    Store -> PointDataset (sampling) -> Loader -> Batch -> Normaliser

sampling    which rows of a sample a draw holds: a pure function of (seed, epoch, sample)
dataset     a split of a store as draws, and the batch that holds some of them
loader      batches of a split, whose place in mid-epoch can be saved
normaliser  normalising by the statistics of the training split, and undoing it
"""

from slipstream.data.batches.dataset import Batch, PointDataset
from slipstream.data.batches.loader import Loader, Share, endless
from slipstream.data.batches.normaliser import Affine, CoordScale, Normaliser, make_normaliser
from slipstream.data.batches.sampling import WHOLE, Part, Sampling, count_points

__all__ = [
    "Affine",
    "WHOLE",
    "Batch",
    "CoordScale",
    "Loader",
    "Normaliser",
    "Part",
    "PointDataset",
    "Sampling",
    "Share",
    "count_points",
    "endless",
    "make_normaliser",
]
