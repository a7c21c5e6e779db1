"""What Dask runs at the start of each worker that `dask:local:N` starts."""

from __future__ import annotations

import signal

from slipstream.core.signals import NUMBERS


def dask_setup(worker: object) -> None:
    """Leave Ctrl-C and SIGTERM, which a whole group gets, to the process that started the workers.

    A handler, not SIG_IGN, which the runs that a worker starts would inherit.
    """
    for number in NUMBERS:
        signal.signal(number, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)
