"""Ctrl-C and SIGTERM ask a run to stop: it finishes its step and saves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """The signal that was received, if any. A second one is not caught and ends the process."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def __bool__(self) -> bool:
        return self.signal is not None


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # Python delivers signals to the main thread only
        return

    def remember(number: int, frame: FrameType | None) -> None:
        request.signal = signal.Signals(number)
        restore()

    def restore() -> None:
        for number, handler in earlier_handlers.items():
            signal.signal(number, handler)

    numbers = (signal.SIGINT, signal.SIGTERM)
    earlier_handlers = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        signal.signal(number, remember)
    try:
        yield request
    finally:
        restore()
