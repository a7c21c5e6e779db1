from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from slipstream.evaluation import locality

from .made_runs import make_run
from .made_study import trained_study


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Poisson limit in a tenth of a second, and rougher."""
    for name, value in {"PLACES": 16, "DRAWS": 800, "TRIALS": 200, "NEIGHBOURS": 31}.items():
        monkeypatch.setattr(locality, name, value)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished baseline with data of its own. To be read, not changed."""
    return make_run(tmp_path_factory.mktemp("made") / "run")


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(made, tmp_path / "run"))


@pytest.fixture(scope="session")
def made_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that was trained. To be read, not changed."""
    return trained_study(tmp_path_factory.mktemp("made") / "study")


@pytest.fixture
def study(made_study: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made_study, tmp_path / "study"))
