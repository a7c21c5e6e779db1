"""A small cluster of real processes; `python -m tests.interrupted --engine FILE` tries more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slipstream.core.engine import as_engine
from slipstream.core.pool import run_on
from slipstream.data.store import IngestProgress, ingest

from ..data.samples import Made, contents
from .cluster import cluster

SOURCE = Made(12, bad={"s03": "nan"}, pause=0.05)


def test_workers_and_the_scheduler_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes are those of one process; where the scheduler is gone, the same call goes on."""
    ingest(SOURCE, tmp_path / "whole")
    killed, left = tmp_path / "killed", tmp_path / "left"
    with cluster(tmp_path / "cluster", 2, gpu_workers=1) as one:

        def kill_a_worker(event: IngestProgress) -> None:
            if event.done == 2:
                one.kill_worker(0, again=False)
                with pytest.raises(ValueError, match="must not be in use, got a live process"):
                    ingest(SOURCE, killed, engine=one.on[1])

        report = ingest(SOURCE, killed, engine=one.on[1], progress=kill_a_worker)
        assert len(report.written) == 11 and report.quarantined.keys() == {"s03"}
        with as_engine(one.on[1]) as engine:
            assert engine is not None and engine.workers() == 2
            asked = ["/proc/self"] * 4
            took = {pid for _, pid in run_on(engine, os.readlink, asked, tmp_path, gpus=1)}
            assert took == {str(one.processes[-1].pid)}, "the one that offers a GPU"
            with pytest.raises(ValueError, match="must offer 2 GPU, .* GPU=2` does, got 1 at most"):
                list(run_on(engine, os.readlink, asked, tmp_path, gpus=2))

        def kill_the_scheduler(event: IngestProgress) -> None:
            if event.done == 2:
                one.kill_scheduler()

        monkeypatch.setattr("slipstream.core.dask_engine.PATIENCE", 2)
        with pytest.raises(OSError, match="does not answer any more: the same call continues"):
            ingest(SOURCE, left, engine=one.on[1], progress=kill_the_scheduler)
        assert not list(left.glob("ingest/work-*"))
    assert len(ingest(SOURCE, left).kept) >= 2
    assert contents(killed) == contents(left) == contents(tmp_path / "whole")
