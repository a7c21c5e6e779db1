"""`slipstream data`: what can be done with point stores."""

from __future__ import annotations

import typer

from slipstream.lazy import lazy_group

COMMANDS = {
    "ingest": "slipstream.ingest_commands:ingest",
    "inspect": "slipstream.inspect_commands:inspect",
    "make": "slipstream.make_commands:make",
    "check": "slipstream.check_commands:check",
    "merge": "slipstream.check_commands:merge_shards",
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
    """That there is one makes an app without commands of its own a group."""
