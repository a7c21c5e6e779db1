"""Engines that tasks run on; a cluster of processes is in tests/interrupted/test_cluster.py."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from slipstream.core.engine import Engine, ProcessEngine, as_engine
from slipstream.core.errand import PREFIX, errand_in
from slipstream.core.locks import is_locked
from slipstream.core.pool import run_on
from slipstream.data.store import ingest

from ..conftest import Command
from ..data.samples import Made, contents


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Threads of this process do the tasks here, and leave it with the number they have set."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_any_executor_takes_the_tasks(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}left").touch()
    with ThreadPoolExecutor(3) as executor:
        with as_engine(executor) as engine:
            assert engine is not None and engine.workers() is None
            found = dict(run_on(engine, len, ["a", "bb", "ccc"], tmp_path))
            with pytest.raises(TypeError, match="of type 'int' has no len"):
                list(run_on(engine, len, ["a", 1], tmp_path))  # type: ignore[list-item]
        assert executor.submit(len, "abcd").result() == 4, "it is left open"
    assert found == {"a": 1, "bb": 2, "ccc": 3} and not list(tmp_path.iterdir())


@pytest.mark.usefixtures("one_thread")
def test_an_ingest_on_it_has_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Made(8, bad={"s03": "nan"})
    ingest(source, tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    with ThreadPoolExecutor(3) as executor:
        summary = ingest(source, Path("there"), engine=executor)
        assert summary.quarantined.keys() == {"s03"}
        assert ingest(source, Path("there"), engine=executor).kept == summary.written
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


class Twice(ThreadPoolExecutor):
    """Each task is done twice at the same time, as where a worker only seems dead."""

    def submit(self, call: Any, /, *given: Any, **named: Any) -> Future[Any]:
        super().submit(call, *given, **named)
        return super().submit(call, *given, **named)


@pytest.mark.usefixtures("one_thread")
def test_two_tries_of_a_sample_at_once(tmp_path: Path) -> None:
    ingest(Made(8), tmp_path / "once")
    with Twice(4) as executor:
        ingest(Made(8), tmp_path / "twice", engine=executor)
    assert contents(tmp_path / "twice") == contents(tmp_path / "once")


@pytest.mark.usefixtures("one_thread")
def test_a_worker_that_cannot_work_says_so(tmp_path: Path) -> None:
    seen = tmp_path / "mesh"
    seen.write_text("four")
    with errand_in(tmp_path, len, files=[seen, tmp_path / "none"], locks=True) as errand:
        assert errand("abc") == 3 and is_locked(errand.path)
        refused = {
            "must have slipstream 0.0, got": replace(errand, version="0.0"),
            "must have nothing as .* has, got none": replace(errand, extras=("nothing",)),
            "must see the same .*/mesh as .*, got one of 4 bytes": replace(
                errand, files=((seen, 5),)
            ),
            "must see the same .*/lost as .*, got another or none": replace(
                errand, files=((tmp_path / "lost", 5),)
            ),
            "must see .* as other machines do, got another content": replace(errand, sha256="0"),
        }
        for sentence, other in refused.items():
            with pytest.raises(ValueError, match=f"the worker on .* {sentence}"):
                other("abc")
    with pytest.raises(ValueError, match=f"the same {tmp_path} as .*, got another or none"):
        errand("abc")
    errand.path.touch()
    with pytest.raises(ValueError, match="must see which files of .* has locked, got none"):
        errand("abc")


@pytest.mark.parametrize(
    ("on", "sentence"),
    [
        ("slurm", "--on must be processes:N, dask:local:N or the address of a scheduler"),
        ("dask:8786", "--on must be processes:N, dask:local:N or the address of a scheduler"),
        ("processes:few", "--on must end with a number of processes, as processes:4"),
        ("dask:local:0", "the number of processes of --on must be"),
        ("dask:tcp://127.0.0.1:9", "must be the address of a scheduler, got no answer in"),
        ("dask:nothing://here", "must be the address of a scheduler, got no answer in"),
    ],
)
def test_an_engine_that_is_none_is_one_sentence(
    on: str, sentence: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slipstream.core.dask_engine.PATIENCE", 0.3)
    out = tmp_path / "store"
    said = command("data", "make", "poisson", "--samples", 2, "--out", out, "--on", on)
    assert said.code == 2 and sentence in said.err and said.err.count("\n") == 1
    assert not out.exists()


def test_an_engine_that_is_not_installed_is_one_sentence(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    out = tmp_path / "study"
    said = command("study", "poisson", "--out", out, "--on", "dask:local:2")
    assert said.code == 2 and not out.exists()
    assert "distributed must be installed for this, got none" in said.err
    assert "[cluster]" in said.err and said.err.count("\n") == 1
    both = command("study", "poisson", "--out", out, "--on", "processes:2", "--parallel", 2)
    assert both.code == 2 and "--on must not go with --parallel, got processes:2 and 2" in both.err


def test_a_process_that_dies_is_one_sentence(tmp_path: Path) -> None:
    source = Made(2, bad={"s01": "dies"})
    with as_engine("processes:1") as engine:
        assert isinstance(engine, ProcessEngine) and isinstance(engine, Engine)
        with pytest.raises(OSError, match="a worker process died, perhaps for want of memory"):
            list(run_on(engine, source.read, ["s01"], tmp_path))
