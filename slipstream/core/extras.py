"""Optional packages: imported where they are needed, or an error says how to install them."""

from __future__ import annotations

import importlib
from typing import Any


def need(module: str, extra: str) -> Any:
    """The module, or ValueError naming the extra of the package that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{error.name} must be installed for this, got none: pip install"
            f" 'slipstream-cfd[{extra}]'"
        ) from None
