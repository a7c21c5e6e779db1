"""Ctrl-C and SIGTERM ask a run to stop: it finishes its step and saves."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from slipstream.core.signals import handling, insists


class StopRequest:
    """The signal that was received first, if any."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def __bool__(self) -> bool:
        return self.signal is not None


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """A request that the first signal sets.

    Repeated signals change nothing, except that Ctrl-C more than a second after the first one does
    what it did before: a checkpoint that is being written is then lost, the older ones are not.
    """
    request, since = StopRequest(), 0.0

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal since
        if not request:
            request.signal, since = signal.Signals(number), time.monotonic()
        elif insists(number, since):
            restore()
            signal.raise_signal(number)

    with handling(remember) as restore:
        yield request
