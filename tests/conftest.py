"""Every test runs with the shape annotations of the package checked (jaxtyping with beartype)."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
import torch

SHAPES_CHECKED = all(importlib.util.find_spec(name) for name in ("jaxtyping", "beartype"))
if SHAPES_CHECKED:
    from jaxtyping import config, install_import_hook

    install_import_hook("slipstream", "beartype.beartype")

torch.set_num_threads(1)


@pytest.fixture
def no_shape_checks() -> Iterator[None]:
    """Bad input as a user gives it: our own errors must come, not those of the shape checker."""
    if not SHAPES_CHECKED:
        yield
        return
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture
def draw() -> torch.Generator:
    return torch.Generator().manual_seed(0)
