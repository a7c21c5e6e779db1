"""The interface of a reader or generator whose samples are ingested."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
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
        """The files a sample is read from, by the names the manifest gives them; may be none.

        A name is one file: two samples have different names, unless both are read from it.
        """
        ...

    def read(self, sample: str) -> Cloud | RowBlocks:
        """One sample. Any error here quarantines it, with the error's text as the reason."""
        ...


@dataclass(frozen=True)
class SourceWithin:
    """Another source whose samples are read inside a context, in every worker process too."""

    source: Source
    context: Callable[[], AbstractContextManager[None]]
    """It is pickled: `functools.partial(read_within, limits)`, not a lambda."""

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def schema(self) -> Schema:
        return self.source.schema

    @property
    def options(self) -> Mapping[str, Any]:
        return self.source.options

    def ids(self) -> Sequence[str]:
        return self.source.ids()

    def splits(self) -> Mapping[str, Sequence[str]] | None:
        return self.source.splits()

    def files(self, sample: str) -> Mapping[str, Path]:
        with self.context():
            return self.source.files(sample)

    def read(self, sample: str) -> Cloud | RowBlocks:
        with self.context():
            return self.source.read(sample)
