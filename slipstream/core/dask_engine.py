"""Dask as an engine: it hands tasks to workers, and hands them on when a worker has died.

Dask gives a task up after as many workers died at it as its setting
`distributed.scheduler.allowed-failures` says, by default 3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from slipstream.core.engine import Engine, TaskLost
from slipstream.core.errand import Errand
from slipstream.core.extras import need
from slipstream.core.signals import starting_workers
from slipstream.core.version import VERSION

PATIENCE = 5
"""Seconds within which a scheduler must answer."""
_GPU = "GPU"
"""The resource that `dask worker --resources GPU=1` offers."""


class DaskEngine(Engine):
    def __init__(self, client: Any, name: str) -> None:
        super().__init__(None, name)
        self.client = client

    def submit(self, call: Callable[[Any], Any], item: Any, *, gpus: int = 0) -> Future[Any]:
        resources = {_GPU: gpus} if gpus else None
        # Not pure: Dask would answer a second call with the result of the first.
        executor: Executor = self.client.get_executor(pure=False, resources=resources)
        return executor.submit(call, item)

    def workers(self) -> int:
        return len(self._workers())

    def check_gpus(self, gpus: int) -> None:
        offers = [worker["resources"].get(_GPU, 0) for worker in self._workers()]
        if offers and max(offers) < gpus:
            raise ValueError(
                f"a worker of {self.name} must offer {gpus} GPU, as `dask worker --resources"
                f" GPU={gpus}` does, got {max(offers):g} at most"
            )

    def check_installed(self) -> None:
        """ValueError names a worker without this package: Dask itself says so in its log alone."""
        # Nothing of ours, which such a worker could not read.
        found = self.client.run(find_spec, Errand.__module__, on_error="return")
        for worker, spec in found.items():
            if spec is None or isinstance(spec, ImportError):
                raise ValueError(
                    f"the worker at {worker} must have slipstream {VERSION} installed, got none or"
                    " another version"
                )

    def _workers(self) -> list[dict[str, Any]]:
        return list(self.client.scheduler_info(n_workers=-1)["workers"].values())

    def sentence(self, error: BaseException) -> Exception | None:
        known = need("distributed", "cluster")
        if isinstance(error, known.KilledWorker):
            return TaskLost(
                f"several workers of {self.name} died at one task, perhaps for want of memory: the"
                " same call continues"
            )
        if isinstance(error, CancelledError):
            return OSError(f"{self.name} does not answer any more: the same call continues")
        if isinstance(error, ImportError) or "deserializ" in str(error).lower():
            return ValueError(
                f"scheduler and workers of {self.name} must have what this machine has installed,"
                f" got {' '.join(str(error).split()).partition('. ')[0]}"
            )
        return super().sentence(error)


@contextmanager
def connected(address: str) -> Iterator[DaskEngine]:
    """The cluster of a scheduler that runs; ValueError where it does not answer."""
    distributed = need("distributed", "cluster")
    _quieten()
    try:
        client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(
            f"--on dask:{address} must be the address of a scheduler, got no answer in {PATIENCE} s"
            f" ({type(error).__name__})"
        ) from None
    try:
        engine = DaskEngine(client, f"dask:{address}")
        engine.check_installed()
        yield engine
    finally:
        client.close(timeout=PATIENCE)


@contextmanager
def started(workers: int) -> Iterator[DaskEngine]:
    """Dask on this machine: so many worker processes, that end with the context or this process."""
    distributed = need("distributed", "cluster")
    _quieten()
    with starting_workers():  # the threads that start workers inherit that signals wait
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=0,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            preload=["slipstream.core.dask_worker"],
        )
        client = distributed.Client(cluster, set_as_default=False)
    try:
        yield DaskEngine(client, f"dask:local:{workers}")
    finally:
        client.close(timeout=PATIENCE)
        cluster.close(timeout=PATIENCE)


def _quieten() -> None:
    """What Dask would log of workers that come and go is said by our own sentences, or is none."""
    for handler in logging.getLogger("distributed").handlers:
        handler.setLevel(logging.CRITICAL)
