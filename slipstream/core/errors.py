"""Errors that end a command, besides bad input (ValueError) and errors of the system (OSError)."""

from __future__ import annotations


class TrainingStopped(RuntimeError):
    """A run cannot go on; the message says why. Its last state is saved."""
