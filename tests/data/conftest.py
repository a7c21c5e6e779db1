from __future__ import annotations

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
