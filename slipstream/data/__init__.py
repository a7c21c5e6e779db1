"""Point stores: how samples get in, and how batches come out.

    source -> ingest -> store -> PointDataset -> Loader -> Batch -> Normaliser

A reader or generator is a `Source` that gives a `Cloud`, or `RowBlocks`, for each sample id.
Names are imported when they are first used: the process that reads meshes needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slipstream.data.batches import (
        Batch,
        Loader,
        Normaliser,
        PointDataset,
        Share,
        make_normaliser,
    )
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
_BATCHES = ("Batch", "Loader", "Normaliser", "PointDataset", "Share", "make_normaliser")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "batches" if name in _BATCHES else "store"
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
