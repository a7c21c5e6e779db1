"""The interface of a reader or generator whose samples are ingested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from slipstream.data.store.cloud import Cloud, RowBlocks
from slipstream.data.store.fields import Schema


@runtime_checkable
class Source(Protocol):
    """Samples by id. With workers it must be picklable: a plain dataclass is best."""

    @property
    def name(self) -> str:
        """The name of the source in the manifest, as "drivaerml-surface"."""
        ...

    @property
    def schema(self) -> Schema:
        """The fields of every sample."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """Everything else that a sample's rows depend on, as JSON: part of the data hash."""
        ...

    def ids(self) -> Sequence[str]:
        """All samples, in an order that does not change."""
        ...

    def splits(self) -> Mapping[str, Sequence[str]] | None:
        """Split -> ids, every id in exactly one; None to draw them from the seed."""
        ...

    def files(self, sample: str) -> Mapping[str, Path]:
        """The files a sample is read from, by the names the manifest gives them; may be none."""
        ...

    def read(self, sample: str) -> Cloud | RowBlocks:
        """One sample. Any error here quarantines it, with the error's text as the reason."""
        ...
