"""Plug-ins: Python files that register variants of one's own.

    load_plugin("examples/mean_pool.py")        # as `--plugin examples/mean_pool.py` does

A run records the name of the file and its SHA-256, so that it can say later what it needs.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from slipstream.models.variants import BUILT_IN, VARIANTS, forget_variant


@dataclass(frozen=True)
class Plugin:
    """Where a variant that is not built in comes from."""

    file: str | None = None
    """Without its folder; None for a variant that was registered by a program, not by a file."""
    sha256: str | None = None

    def __str__(self) -> str:
        return f"{self.file} ({self.sha256[:12]})" if self.sha256 else "a program"


_origins: dict[str, Plugin] = {}
"""By variant."""
_files: dict[Plugin, Path] = {}
"""Those loaded, in their order, with where they are."""


def load_plugin(path: Path | str) -> tuple[str, ...]:
    """Run a file that registers variants, and give their names; a second time it is not run again.

    Raises ValueError, with nothing registered, where the file is missing, raises, registers no new
    variant or one of a name that is taken.
    """
    path = Path(path)
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
    """Where a variant comes from; None for a built-in one."""
    return None if variant in BUILT_IN else _origins.get(variant, Plugin())


def plugin_files() -> list[Path]:
    """Those loaded, for a process that is started to load them too."""
    return list(_files.values())


def _registered_by(path: Path, source: bytes, module_name: str) -> list[str]:
    """Run a file and give the names that it registered; all of them are forgotten if it raises."""
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
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    said = (str(error).splitlines() or [""])[0]
    if isinstance(error, SyntaxError):
        said, lines = error.msg, [error.lineno]
    kind = "" if type(error) is ValueError else f"{type(error).__name__}{': ' if said else ''}"
    where = f", line {lines[-1]}" if lines else ""
    return f"the plug-in {path} cannot be loaded: {kind}{said}{where}"
