"""Every test runs with the shape annotations of the package checked (jaxtyping with beartype)."""

from __future__ import annotations

import importlib.util
import math
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from . import interpreter

SHAPES_CHECKED = all(importlib.util.find_spec(name) for name in ("jaxtyping", "beartype"))
# Custom operators and device code are left out: their signatures are read by torch and Triton.
CHECKED = [
    "slipstream.audit",
    "slipstream.core",
    "slipstream.data",
    "slipstream.demo",
    "slipstream.evaluation",
    "slipstream.kernels.api",
    "slipstream.kernels.membership",
    "slipstream.kernels.plan",
    "slipstream.kernels.reference",
    "slipstream.metrics",
    "slipstream.models",
    "slipstream.physics",
    "slipstream.runs",
    "slipstream.training",
]
if SHAPES_CHECKED:
    from jaxtyping import config, install_import_hook

    install_import_hook(CHECKED, "beartype.beartype")

if importlib.util.find_spec("hypothesis"):
    from hypothesis import HealthCheck, settings

    # A slow machine is no failure: no deadlines, and no word on how long a first draw takes.
    calm = [HealthCheck.too_slow]
    settings.register_profile("any machine", deadline=None, suppress_health_check=calm)
    settings.load_profile("any machine")

PEERS = Path(__file__).parents[1] / "peers"
if PEERS.is_dir():  # by benchmarks/peers.sh; our own dependencies come first
    sys.path.append(str(PEERS))

os.environ.setdefault("MKL_CBWR", "AUTO")  # as the command line does: digits are compared

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton
    interpreter.install()

torch.set_num_threads(1)
# Before any test starts the server: children that are forked from it have everything imported.
preload = multiprocessing.get_context("forkserver").set_forkserver_preload
preload(["slipstream.training.session", "torch._dynamo"])


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """A test that draws without a generator of its own draws the same whenever it runs."""
    torch.manual_seed(0)


class Said(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Said]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`slipstream` with some arguments, in this process, without progress lines that come by the
    clock: a slow machine would print others than a fast one."""
    from slipstream.cli import progress
    from slipstream.cli.app import main

    for seconds in ("SOON", "EVERY"):
        monkeypatch.setattr(progress, seconds, math.inf)

    def call(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["slipstream", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code is None or isinstance(ended.value.code, int)
        return Said(ended.value.code or 0, *capsys.readouterr())

    return call


@pytest.fixture
def forked_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of a study are forked with everything imported, for less than a new interpreter's
    time; `tests/training/test_study.py` starts such ones too."""
    from slipstream.training import study_cells

    from .docs.forked import SUBPROCESS

    monkeypatch.setattr(study_cells, "subprocess", SUBPROCESS)


@pytest.fixture
def small_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few pixels, for reports of which a test looks at something else."""
    from slipstream.reports.draw import canvas, style

    monkeypatch.setattr(style, "DPI", 20)
    monkeypatch.setattr(canvas, "_COLUMNS", 40)


LONG = ("tests/test_demo.py", "tests/training", "tests/interrupted", "tests/fuzz")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests begin first: one at the end would leave the other cores idle."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


COVERING = ("tests/kernels", "tests/models", "tests/theory", "tests/test_metrics.py")


@contextmanager
def traced_if_covering(item: pytest.Item) -> Iterator[None]:
    """Count coverage by the tests that are meant to cover: tracing triples the time of others.

    (pytest-cov's own marker for it has no effect in the processes of pytest-xdist.)
    """
    traced = item.nodeid.startswith(COVERING) and not item.get_closest_marker("untraced")
    tracer = sys.gettrace()
    if not traced:
        sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with traced_if_covering(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with traced_if_covering(item):
        return (yield)


@pytest.fixture
def no_shape_checks() -> Iterator[None]:
    """Bad input as a user gives it: our own errors must come, not those of the shape checker."""
    if not SHAPES_CHECKED:
        yield
        return
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@contextmanager
def registry_restored() -> Iterator[None]:
    """Variants and plug-ins that are registered inside are forgotten after it."""
    from slipstream.models import plugins, variants

    kept = [(one, dict(one)) for one in (variants._registered, plugins._origins, plugins._files)]
    yield
    for one, before in kept:
        one.clear()
        one.update(before)  # type: ignore[arg-type]


@pytest.fixture
def registry() -> Iterator[None]:
    with registry_restored():
        yield


@pytest.fixture
def draw() -> torch.Generator:
    return torch.Generator().manual_seed(0)
