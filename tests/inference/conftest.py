from __future__ import annotations

from pathlib import Path

import pytest

from . import flows


@pytest.fixture(scope="session")
def surface_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return flows.surface_run(tmp_path_factory.mktemp("surface"))


@pytest.fixture(scope="session")
def volume_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return flows.volume_run(tmp_path_factory.mktemp("volume"))
