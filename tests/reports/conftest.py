from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slipstream.audit.certificate import write_certificate
from slipstream.audit.study_audit import certify
from slipstream.evaluation import compare, locality
from slipstream.evaluation.run_evaluation import EvaluationRequest, evaluate_runs
from slipstream.runs.evaluation_file import Protocol
from slipstream.runs.folder import find_runs

from ..evaluation.made_study import trained_study
from .browser import launched

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


def find_limits_quickly(patch: pytest.MonkeyPatch) -> None:
    for name, value in {"PLACES": 8, "DRAWS": 300, "TRIALS": 60, "NEIGHBOURS": 15}.items():
        patch.setattr(locality, name, value)


@pytest.fixture(scope="session")
def made_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained, evaluated with two repeats, and audited. To be read, not changed."""
    path = trained_study(tmp_path_factory.mktemp("made") / "study")
    with pytest.MonkeyPatch.context() as patch:
        find_limits_quickly(patch)
        wanted = EvaluationRequest(device="cpu", protocol=Protocol(repeats=2))
        evaluate_runs(find_runs(path), wanted)
    write_certificate(certify(path), path)
    return path


@pytest.fixture
def study(made_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, whose 12 steps count as training, though groups end at errors of 1.01."""
    monkeypatch.setattr(compare, "NOTHING", 1.1)
    find_limits_quickly(monkeypatch)
    return Path(shutil.copytree(made_study, tmp_path / "study"))
