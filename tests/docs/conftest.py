from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ..conftest import registry_restored


@pytest.fixture
def empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_shape_checks: None, forked_runs: None
) -> Iterator[Path]:
    """The current one, where a page is typed; afterwards nothing of what was typed is left."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    threads = torch.get_num_threads()
    with registry_restored():
        yield tmp_path
    torch.set_num_threads(threads)
