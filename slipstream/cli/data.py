"""`slipstream data`: the commands for point stores."""

from __future__ import annotations

import typer

from slipstream.cli.lazy import lazy_group

COMMANDS = {
    "ingest": "slipstream.cli.ingest:ingest",
    "inspect": "slipstream.cli.look:inspect",
    "make": "slipstream.cli.make:make",
    "check": "slipstream.cli.check:check",
    "merge": "slipstream.cli.check:merge_shards",
}
app = typer.Typer(
    cls=lazy_group(COMMANDS),
    name="data",
    add_completion=False,
    help="Point stores: make built-in data, ingest files, verify, merge shards.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _group() -> None:
    """Typer makes an app a group of commands if it has a callback, even one that does nothing."""
