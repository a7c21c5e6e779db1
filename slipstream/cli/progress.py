"""Progress where there is no terminal: whole lines at a bounded rate, as a log file needs them."""

from __future__ import annotations

import time
from collections.abc import Callable

from slipstream.cli.terminal import say

Clock = Callable[[], float]
SOON = 5.0
"""Seconds until the first line, and the least between two lines."""
EVERY = 30.0
"""Seconds between lines."""


class Pace:
    """Says when a line is due: the first after 5 s, then one every 30 s.

    News, as a validation, make a line due sooner, but no sooner than 5 s after the last one.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock, self._last, self.lines = clock, clock(), 0

    def is_due(self, *, news: bool = False) -> bool:
        """Whether to print a line now; one that is due counts as printed."""
        wait = SOON if news or not self.lines else EVERY
        if self._clock() - self._last < wait:
            return False
        self.count()
        return True

    def count(self) -> None:
        """Count a line that is printed whether or not it is due."""
        self._last, self.lines = self._clock(), self.lines + 1


class Speed:
    """Seconds for each of a number of things since this object was made, and the time left."""

    def __init__(self, done: int, clock: Clock = time.monotonic) -> None:
        self._clock, self._first, self._since = clock, done, clock()

    def seconds_each(self, done: int) -> float | None:
        """None while nothing is done."""
        count = done - self._first
        return (self._clock() - self._since) / count if count > 0 else None

    def left(self, done: int, total: int) -> str:
        """As ", 12 min left"; empty at the end and while nothing is done."""
        each = self.seconds_each(done)
        return "" if each is None or done >= total else f", {duration(each * (total - done))} left"


class ProgressLines:
    """Called with how many are done and how many there are: prints "TITLE: 3 of 8, 5 min left"."""

    def __init__(
        self, title: str, clock: Clock = time.monotonic, put: Callable[[str], None] | None = None
    ) -> None:
        self._title, self._clock, self._put = title, clock, put or say_progress
        self._pace, self._speed = Pace(clock), Speed(0, clock)
        self._called = False

    def __call__(self, done: int, total: int) -> None:
        if not self._called:  # what was done before, in another call of the command, took no time
            self._called, self._speed = True, Speed(done if done < total else 0, self._clock)
        if self._pace.is_due():
            self._put(f"{self._title}: {done:,} of {total:,}{self._speed.left(done, total)}")


def say_progress(line: str) -> None:
    """A line on stderr: what a command prints on stdout may be JSON."""
    say(line, error=True)


def duration(seconds: float) -> str:
    """As "0.12 s", "48 s", "12 min", "3.5 h" or "12 days"."""
    if seconds < 9.95:
        return f"{seconds:.2g} s"
    for size, unit, until in ((1, "s", 90), (60, "min", 5400), (3600, "h", 48 * 3600)):
        if seconds < until:
            count = seconds / size
            return f"{count:.1f} {unit}" if unit == "h" and count < 10 else f"{count:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"
