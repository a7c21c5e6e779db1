"""Every command of the command line.

app      the command line itself: names to commands, and errors to one sentence and an exit code
lazy     groups of commands that are imported when they are called
terminal names and other text printed as they are; all commands print through it
shared   what several commands share: bars, options, settings
The other modules are commands, one or a few each; `data` and `bench` are groups.
"""

from slipstream.core.signals import end_on_signals

__all__ = ["main"]


def main() -> None:
    """The program `slipstream`: a signal ends it with one line, from its first import on."""
    end_on_signals()
    from slipstream.cli.app import main as run

    run()
