"""SIGINT (Ctrl-C) and SIGTERM: how commands and their worker processes end on them.

A terminal, `timeout` and Slurm send a signal to all processes of a group or a job, and some of them
send it twice. So worker processes ignore both signals and leave the decision to their parent, and
repeated signals change nothing, except that Ctrl-C more than a second after the first signal ends
the process at once.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

NUMBERS = (signal.SIGINT, signal.SIGTERM)
REPEAT_SECONDS = 1.0
"""Within this time after the first signal, Ctrl-C counts as the same one sent twice."""

Handler = Callable[[int, FrameType | None], object]


class Interrupted(BaseException):
    """A signal asked the command to end. No KeyboardInterrupt: typer has its own exit for that."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(_sentence(self.signal))

    @property
    def code(self) -> int:
        """The exit code that shells give a process which the signal ended: 130 or 143."""
        return 128 + self.signal


def _sentence(number: signal.Signals) -> str:
    return f"stopped by {number.name}; the same command goes on from what is finished"


def end_at_once(number: int, frame: FrameType | None = None) -> NoReturn:
    """End this process with one line and the exit code of the signal; no clean-up runs."""
    line = f"slipstream: {_sentence(signal.Signals(number))}\n"
    os.write(2, line.encode())  # not print: the signal may have come while something was printed
    os._exit(128 + number)


def insists(number: int, since: float) -> bool:
    """Whether a signal is Ctrl-C once more, after a first one at the time `since`."""
    return number == signal.SIGINT and time.monotonic() - since > REPEAT_SECONDS


@contextmanager
def handling(handler: Handler) -> Iterator[Callable[[], None]]:
    """Both signals call `handler`. Gives a function that restores the earlier handlers sooner.

    In a thread other than the main one, which gets no signals, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    earlier = {number: signal.getsignal(number) for number in NUMBERS}

    def restore() -> None:
        for number, handler in earlier.items():
            signal.signal(number, handler)

    for number in NUMBERS:
        signal.signal(number, handler)
    try:
        yield restore
    finally:
        restore()


@contextmanager
def raising_interrupted() -> Iterator[None]:
    """The first signal raises Interrupted, so that files are cleaned up and workers are stopped.

    Python swallows an exception that is raised in a destructor or a callback of the garbage
    collector: a signal that arrives there ends the process at once. Where code that runs then makes
    another exception of it (a class body does, a RuntimeError), that one becomes Interrupted again.
    """
    first: float | None = None
    received = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal first, received
        if first is None:
            first, received = time.monotonic(), number
            raise Interrupted(number)
        if insists(number, first):
            end_at_once(number)

    def notice(args: Any) -> None:
        if isinstance(args.exc_value, Interrupted):
            end_at_once(args.exc_value.signal)
        hook(args)

    hook = sys.unraisablehook
    with handling(handle):
        sys.unraisablehook = notice
        try:
            yield
        except Exception as error:
            if first is not None:
                raise Interrupted(received) from error
            raise
        finally:
            sys.unraisablehook = hook


def end_on_signals() -> None:
    """From now on either signal ends this process at once: for the start and end of a command.

    Python's last act is to free its memory, with torch for 0.3 s, and it removes handlers before
    that. A finished command then ignores signals: it ends with its own exit code.
    """
    for number in NUMBERS:
        signal.signal(number, end_at_once)
    atexit.register(_ignore)  # the first one to be registered is called last


def _ignore() -> None:
    for number in NUMBERS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def starting_workers() -> Iterator[None]:
    """Signals wait until the end of the block; processes started in it begin with both blocked.

    A worker is thus never without protection before it calls `become_worker`.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def become_worker(*_: object) -> None:
    """In a worker process: ignore both signals, and end when the parent ends, however it ends.

    SIGTERM from the parent itself ends the worker: so multiprocessing stops one it has no use for,
    and then waits for it.
    """
    _ignore()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)
    if hasattr(signal, "sigwaitinfo"):  # not on macOS
        # In all threads: where a single one does not block it, the system gives it to that one.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        threading.Thread(target=_obey_parent, daemon=True).start()
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    """A parent that is killed cannot stop its workers itself."""
    _parent().join()
    os._exit(1)


def _obey_parent() -> None:
    while signal.sigwaitinfo([signal.SIGTERM]).si_pid != _parent().pid:
        pass
    os._exit(0)


def _parent() -> Any:
    import multiprocessing  # here: `slipstream --version` does without

    return multiprocessing.parent_process()


def stop_with(process: int) -> None:
    """Send SIGTERM to this process when another one ends, however that ends.

    Where the system cannot watch a process that is no child (other systems than Linux), it does
    nothing.
    """
    if hasattr(os, "pidfd_open"):
        threading.Thread(target=_stop_after, args=(process,), daemon=True).start()


def _stop_after(process: int) -> None:
    try:
        handle = os.pidfd_open(process)
        select.select([handle], [], [])
    except ProcessLookupError:  # it has ended already
        pass
    os.kill(os.getpid(), signal.SIGTERM)
