"""A small cluster of real processes; `python -m tests.interrupted --engine FILE` tries more."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from slipstream.data.store import IngestProgress, ingest

from ..data.samples import Made, contents
from .cluster import cluster

SOURCE = Made(12, bad={"s03": "nan"}, pause=0.05)


def test_workers_and_the_scheduler_are_killed(tmp_path: Path) -> None:
    """The bytes are those of one process; where the scheduler is gone, the same call goes on."""
    ingest(SOURCE, tmp_path / "whole")
    killed, left = tmp_path / "killed", tmp_path / "left"
    with cluster(tmp_path / "cluster") as one:

        def kill_a_worker(event: IngestProgress) -> None:
            if event.done == 2:
                one.kill_worker(random.Random(0), again=False)
                with pytest.raises(ValueError, match="must not be in use, got a live process"):
                    ingest(SOURCE, killed, engine=one.on[1])

        report = ingest(SOURCE, killed, engine=one.on[1], progress=kill_a_worker)
        assert len(report.written) == 11 and report.quarantined.keys() == {"s03"}

        def kill_the_scheduler(event: IngestProgress) -> None:
            if event.done == 2:
                one.kill_scheduler()

        with pytest.raises(OSError, match="does not answer any more: the same call continues"):
            ingest(SOURCE, left, engine=one.on[1], progress=kill_the_scheduler)
        assert not list(left.glob("ingest/work-*"))
    assert len(ingest(SOURCE, left).kept) >= 2
    assert contents(killed) == contents(left) == contents(tmp_path / "whole")
