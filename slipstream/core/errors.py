"""What ends a command other than bad input (which is a ValueError) and the system (an OSError)."""

from __future__ import annotations


class TrainingStopped(RuntimeError):
    """A run that cannot go on, with the reason; what it had reached is saved."""
