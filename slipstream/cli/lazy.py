"""Groups of commands, each of which is imported when it is called."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperGroup


class _Commands(Mapping[str, Any]):
    """Names to commands, as typer wants them."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        self.homes = homes

    def __iter__(self) -> Iterator[str]:
        return iter(self.homes)

    def __len__(self) -> int:
        return len(self.homes)

    def __getitem__(self, name: str) -> Any:
        module, _, attribute = self.homes[name].partition(":")
        found = getattr(_imported(module), attribute)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command(name)(found)
            found = alone
        return typer.main.get_command(found)


def _imported(name: str) -> ModuleType:
    """The module; what is imported stays, so no garbage is looked for in it, now or later.

    Looking takes an eighth of the time that torch needs to be imported.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def lazy_group(homes: Mapping[str, str]) -> type[TyperGroup]:
    """For `typer.Typer(cls=...)`. Homes are "module:name" of a function, or of an app of several
    commands, by the name of the command."""

    class LazyGroup(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**{**settings, "commands": _Commands(homes)})

        def list_commands(self, ctx: Any) -> list[str]:
            return list(homes)

    return LazyGroup
