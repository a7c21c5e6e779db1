"""Whether words call `slipstream` as it is: the command, its options and their values exist."""

from __future__ import annotations

from typing import Any

import typer

from slipstream.cli.app import app

LEFT_OUT = "..."
"""Stands for what a reader fills in."""


def problem(words: list[str]) -> str | None:
    """Why these words are no call of the program; None where they are one."""
    command: Any = typer.main.get_command(app)
    context = opened(command, "slipstream")
    try:
        while hasattr(command, "list_commands") and not words[:1] == ["--version"]:
            name, command, words = command.resolve_command(context, words)
            context = opened(command, name, context)
        command.make_context(context.info_name, list(words), parent=context.parent)
    except Exception as error:  # click's UsageError, of which typer may bring a copy
        said = error.format_message() if hasattr(error, "format_message") else repr(error)
        return None if LEFT_OUT in words and said.startswith("Missing") else str(said)
    return None


def opened(command: Any, name: str, parent: Any = None) -> Any:
    """A context without arguments, which a group of commands would refuse."""
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    context.resilient_parsing = False
    return context
