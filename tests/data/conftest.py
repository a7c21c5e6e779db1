from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipstream.data.store import check_store, ingest

from .samples import Made, contents


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The store of an uninterrupted run with one bad sample."""
    store = tmp_path_factory.mktemp("whole") / "store"
    report = ingest(Made(8, bad={"s03": "nan"}), store)
    assert len(report.written) == 7 and check_store(store) == []
    return contents(store)


@pytest.fixture
def folder_of_a_user() -> Iterator[Path]:
    """A folder of a user whom modes bind, which they do not the superuser."""
    with tempfile.TemporaryDirectory() as name:
        user = os.geteuid()
        try:
            if user == 0:
                os.chown(name, 65534, 65534)
                os.seteuid(65534)
            yield Path(name)
        finally:
            os.seteuid(user)
