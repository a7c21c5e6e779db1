"""Groups of commands, each of which is imported when it is called."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperGroup

from slipstream.core.signals import end_at_once, handling


class _Commands(Mapping[str, Any]):
    """A mapping from names to commands, which typer takes; a lookup imports the command."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        self.homes = homes

    def __iter__(self) -> Iterator[str]:
        return iter(self.homes)

    def __len__(self) -> int:
        return len(self.homes)

    def __getitem__(self, name: str) -> Any:
        module, _, attribute = self.homes[name].partition(":")
        command = getattr(_imported(module), attribute)
        if not isinstance(command, typer.Typer):
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            app.command(name)(command)
            command = app
        return typer.main.get_command(command)


def _imported(name: str) -> ModuleType:
    """Import a module without garbage collection: its objects live as long as the process.

    Collecting during the import takes an eighth of the time that torch needs to be imported.
    `gc.freeze` leaves the imported objects out of later collections too. A signal ends the process
    at once: nothing is begun yet, and some packages swallow exceptions while they are imported.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        with handling(end_at_once):
            return import_module(name)
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def lazy_group(homes: Mapping[str, str]) -> type[TyperGroup]:
    """A class for `typer.Typer(cls=...)` whose commands are imported when they are called.

    `homes` maps the name of a command to "module:name" of a function, or of an app of several
    commands.
    """

    class LazyGroup(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**{**settings, "commands": _Commands(homes)})

        def list_commands(self, ctx: Any) -> list[str]:
            return list(homes)

    return LazyGroup
