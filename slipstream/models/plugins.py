"""Plug-ins: Python files in which users register variants of their own.

    load_plugin("examples/mean_pool.py")        # as `--plugin examples/mean_pool.py` does

A run records the name and the SHA-256 of the file, so that a command that reads the run without the
plug-in can name it.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from slipstream.core.files import check_regular
from slipstream.models.variants import BUILT_IN, VARIANTS, forget_variant


@dataclass(frozen=True)
class Plugin:
    """The file that registered a variant which is not built in."""

    file: str | None = None
    """Its name without the folder; None for a variant that a program registered directly."""
    sha256: str | None = None

    def __str__(self) -> str:
        return f"{self.file} ({self.sha256[:12]})" if self.sha256 else "a program"


_origins: dict[str, Plugin] = {}
"""The plug-in of each variant, by the variant's name."""
_files: dict[Plugin, Path] = {}
"""The paths of the plug-ins loaded, in the order of loading."""


def load_plugin(path: Path | str) -> tuple[str, ...]:
    """Run a file that registers variants, and return their names; a second call runs nothing.

    Raises ValueError, with nothing registered, if the file is missing, raises an error, registers
    no new variant, or one whose name is taken.
    """
    path = Path(path)
    check_regular(path)
    if not path.is_file():
        raise ValueError(f"the plug-in {path} must be a Python file, got no such file")
    source = path.read_bytes()
    plugin = Plugin(path.name, hashlib.sha256(source).hexdigest())
    if plugin not in _files:
        for name in _registered_by(path, source, f"slipstream_plugin_{plugin.sha256}"):
            _origins[name] = plugin
        _files[plugin] = path.resolve()
    return tuple(name for name, origin in _origins.items() if origin == plugin)


def plugin_of(variant: str) -> Plugin | None:
    """The plug-in that registered a variant; None for a built-in one."""
    return None if variant in BUILT_IN else _origins.get(variant, Plugin())


def plugin_files() -> list[Path]:
    """The files loaded, which a new process must load too."""
    return list(_files.values())


def _registered_by(path: Path, source: bytes, module_name: str) -> list[str]:
    """Run a file and return the names that it registered; if it raises, none stays registered."""
    before = set(VARIANTS)
    module = ModuleType(module_name)
    module.__file__ = str(path)
    sys.modules[module_name] = module  # where dataclasses and pickle look for it
    try:
        exec(compile(source, path, "exec"), module.__dict__)
        new = [name for name in VARIANTS if name not in before]
        if not new:
            raise ValueError("it must register a new variant (slipstream.register_variant)")
    except (Exception, SystemExit) as error:
        del sys.modules[module_name]
        for name in [name for name in VARIANTS if name not in before]:
            forget_variant(name)
        raise ValueError(_sentence(path, error)) from error
    return new


def _sentence(path: Path, error: BaseException) -> str:
    """Why a plug-in cannot be loaded: kind of error, its first line, and the line in the file."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    message = (str(error).splitlines() or [""])[0]
    if isinstance(error, SyntaxError):
        message, lines = error.msg, [error.lineno]
    kind = "" if type(error) is ValueError else f"{type(error).__name__}{': ' if message else ''}"
    where = f", line {lines[-1]}" if lines else ""
    return f"the plug-in {path} cannot be loaded: {kind}{message}{where}"
