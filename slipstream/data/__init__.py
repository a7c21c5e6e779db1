"""Point stores: how samples get in, and how batches come out.

    source -> ingest -> store -> PointDataset -> Loader -> Batch -> Normaliser

A reader or generator is a `Source` that gives a `Cloud`, or `RowBlocks`, for each sample id.
"""

from slipstream.data.batches import Batch, PointDataset
from slipstream.data.check import Finding, check_store
from slipstream.data.cloud import Cloud, RowBlocks
from slipstream.data.fields import Field, Schema
from slipstream.data.ingest import Progress, Report, ingest, merge
from slipstream.data.loader import Loader, Share
from slipstream.data.normalize import Normaliser, make_normaliser
from slipstream.data.source import Source
from slipstream.data.store import Store, open_store

__all__ = [
    "Batch",
    "Cloud",
    "Field",
    "Finding",
    "Loader",
    "Normaliser",
    "PointDataset",
    "Progress",
    "Report",
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
