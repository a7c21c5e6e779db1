"""Every command of the command line.

app      the command line itself: names to commands, and errors to one sentence and an exit code
lazy     groups of commands that are imported when they are called
terminal names and other text printed as they are; all commands print through it
shared   what several commands share: bars, options, settings
The other modules are commands, one or a few each; `data` and `bench` are groups.
"""

from slipstream.cli.app import main

__all__ = ["main"]
