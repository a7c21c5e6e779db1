"""Names and other text of users on the terminal: as they are, whatever letters they hold.

rich reads `[bold]` as an instruction: a field "velocity [m/s]" lost its unit, and "T [/bold]" was
an error. Every command prints through these functions, none of which reads markup, and letters
that a terminal would obey are escaped (core/text.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from slipstream.core.text import printable

if TYPE_CHECKING:  # `slipstream --version` need not load it
    from rich.console import Console
    from rich.progress import TextColumn
    from rich.table import Table
    from rich.text import Text


def say(*lines: str, error: bool = False) -> None:
    """Print some lines, or an empty one; to stderr if `error` is set."""
    typer.echo("\n".join(map(printable, lines)), err=error)


def new_console(*, stderr: bool = False, width: int | None = None) -> Console:
    """A terminal that prints text as it is."""
    from rich.console import Console

    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def new_table(title: str = "", **look: Any) -> Table:
    """An empty table; its headings and cells go through `plain`."""
    from rich.table import Table

    return Table(title=plain(title) if title else None, **look)


def plain(*lines: str) -> Text:
    """A cell or heading of a table, of one line or several."""
    from rich.text import Text

    return Text("\n".join(map(printable, lines)))


def text_column(form: str) -> TextColumn:
    """A column of a progress bar, as "{task.description}"."""
    from rich.progress import TextColumn

    return TextColumn(form, markup=False)
