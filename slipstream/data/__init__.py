"""Point stores: how samples get in, and how batches come out.

    source -> ingest -> store -> PointDataset -> Loader -> Batch -> Normaliser

A reader or generator is a `Source` that gives a `Cloud`, or `RowBlocks`, for each sample id.
"""

from slipstream.data.batches import Batch, Loader, Normaliser, PointDataset, Share, make_normaliser
from slipstream.data.store import (
    Cloud,
    Defect,
    Field,
    IngestProgress,
    IngestSummary,
    RowBlocks,
    Schema,
    Source,
    Store,
    check_store,
    ingest,
    merge,
    open_store,
)

__all__ = [
    "Batch",
    "Cloud",
    "Field",
    "Defect",
    "Loader",
    "Normaliser",
    "PointDataset",
    "IngestProgress",
    "IngestSummary",
    "RowBlocks",
    "Schema",
    "Share",
    "Source",
    "Store",
    "check_store",
    "ingest",
    "make_normaliser",
    "merge",
    "open_store",
]
