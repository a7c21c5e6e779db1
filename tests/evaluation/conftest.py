from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.evaluation.made_runs import make_run


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished baseline with data of its own. To be read, not changed."""
    return make_run(tmp_path_factory.mktemp("made") / "run")


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(made, tmp_path / "run"))
