"""What the package promises as a whole."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import slipstream
from slipstream.core.extras import need

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "slipstream").rglob("*.py"))


def test_public_names() -> None:
    assert sorted(slipstream.__all__) == [
        "Membership",
        "Size",
        "TokenSums",
        "Transolver",
        "VARIANTS",
        "__version__",
        "accelerate",
        "couple",
        "deslice_tokens",
        "load_model",
        "predict",
        "register_variant",
        "slice_points",
    ]
    assert len({*slipstream.__all__} - {"__version__"}) <= 12
    assert {*slipstream.__all__} <= {*dir(slipstream)}
    assert all(getattr(slipstream, name) is not None for name in slipstream.__all__)
    with pytest.raises(AttributeError, match="module 'slipstream' has no attribute 'Transformer'"):
        slipstream.Transformer  # noqa: B018


def test_what_needs_no_kernels_does_not_import_them() -> None:
    """Triton alone takes a fifth of a second, torch more than one."""
    light = "import slipstream.cli, sys; print(sorted({'torch', 'triton'} & sys.modules.keys()))"
    data = light.replace("slipstream.cli", "slipstream.cli.data")
    make = light.replace("slipstream.cli", "slipstream.cli.make")
    said = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
        for code in (light, data, make)
    ]
    assert [done.stdout for done in said] == ["[]\n", "[]\n", "['torch']\n"]


def test_environment_variables_are_read_in_one_place() -> None:
    """And set in one: by the command line, for its own process."""
    found = {
        p.name: re.findall(r"os\.(environ\.setdefault|environ|getenv)", p.read_text())
        for p in SOURCES
    }
    assert {name for name, uses in found.items() if {*uses} - {"environ.setdefault"}} == {
        "runtime.py"
    }
    assert {name for name, uses in found.items() if "environ.setdefault" in uses} == {
        "app.py",
        "runtime.py",
    }


def test_nothing_prints_outside_the_command_line() -> None:
    printing = {p for p in SOURCES if re.search(r"^\s*print\(", p.read_text(), re.M)}
    assert {path.parent.name for path in printing} == {"cli"}


def test_without_triton_everything_else_runs() -> None:
    """As on macOS, where there is none: everything imports, and the plan says why."""
    code = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "triton" else find(name, *rest)
import torch, slipstream
model = slipstream.Transolver(3, 0, 1, size=slipstream.Size(layers=1, width=8, heads=2))
model(torch.rand(1, 4, 3)).sum().backward()
assert model.kernels == "chunked: Triton is not installed", model.kernels
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_core_imports_and_trains_without_development_packages() -> None:
    """Blocks everything that is not a core dependency, then builds and trains a model."""
    code = """
import sys
blocked = ("jaxtyping", "beartype", "hypothesis", "pytest", "scipy", "pyvista", "h5py")
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ImportError(name)
sys.meta_path.insert(0, Block())
import torch, slipstream, slipstream.cli
model = slipstream.Transolver(3, 0, 1, size=slipstream.Size(layers=1, width=8, heads=2))
model(torch.rand(1, 4, 3)).sum().backward()
assert not any(name.partition(".")[0] in blocked for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_package_is_installed_from_its_source() -> None:
    """The name on the package index is not ours: pip must get the folder of the source."""
    texts = [*SOURCES, *ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*")]
    by_name = re.compile(r"pip install.*[ '\"]slipstream\b")
    assert [path.name for path in texts if by_name.search(path.read_text("utf-8"))] == []
    with pytest.raises(ValueError, match=r"no_such must be installed .*: pip install '\.\[mesh\]'"):
        need("no_such", "mesh")
