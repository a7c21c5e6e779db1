"""Tries an installed Slipstream from outside the checkout, by the Python that has it.

    python -I smoke.py SOURCE [--light]

SOURCE is the source that the wheel was built from: the installed files must be those of its package
and no others. With --light nothing is called that needs torch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from importlib import import_module
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

NAME = "slipstream-cfd"
COMMAND = Path(sysconfig.get_path("scripts")) / "slipstream"
TINY = {
    "steps": 8, "evaluate_every": 4, "batch": 2, "data.points": 32,
    "data.builtin.samples": {"train": 4, "val": 2, "test": 2}, "data.builtin.points": 64,
    "data.builtin.settings": {"panels": 80, "bodies": [1, 1], "inflow": "varying"},
    "model.size": {"layers": 1, "width": 8, "heads": 2, "slices": 3},
}  # fmt: skip
IN_PYTHON = """
import numpy, slipstream
coords, normals = numpy.eye(3), numpy.eye(3)
fields = slipstream.load_model("runs/a")(coords, {"normal": normals, "freestream": [1, 0, 0]})
assert fields.shape == (3, 4) and numpy.isfinite(fields).all(), fields
"""


def call(*arguments: object, code: int = 0) -> str:
    """What `slipstream` says, which must end with this code and without a traceback."""
    done = subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=300
    )
    said = done.stdout + done.stderr
    line = f"slipstream {' '.join(map(str, arguments))}"
    assert done.returncode == code, f"{line} ended with {done.returncode}:\n{said}"
    assert "Traceback" not in said, f"{line}:\n{said}"
    print(f"smoke: {line[:100]}", flush=True)
    return said


def check_files(source: Path) -> None:
    """The package of the source, its metadata and its command, each of them once, and no more."""
    installed = distribution(NAME)
    listed = [str(file) for file in installed.files or ()]
    got = {name for name in listed if not name.endswith(".pyc")}
    ours = {name for name in got if not name.startswith(("slipstream_cfd-", "../"))}
    wanted = {
        str(path.relative_to(source))
        for path in (source / "slipstream").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert ours == wanted, f"only installed {ours - wanted}, only in the source {wanted - ours}"
    for ending in ("py.typed", "tuned/h200.toml", "tables/h200.toml", "web/page.html.j2"):
        assert any(name.endswith(ending) for name in ours), f"{ending} must be installed, got none"
    import slipstream

    home = Path(slipstream.__file__)
    assert home.is_relative_to(sys.prefix), f"slipstream must be in {sys.prefix}, got {home}"
    assert installed.version == slipstream.__version__, installed.version
    print(f"smoke: {len(ours)} files of {NAME} {installed.version} in {sys.prefix}", flush=True)


def octahedron() -> str:
    """A closed body as an STL of text."""
    ring = [(1, 0, 0), (0, 1, 0), (-1, 0, 0), (0, -1, 0)]
    facets = []
    for first, second in zip(ring, ring[1:] + ring[:1], strict=True):
        for facet in ((first, second, (0, 0, 1)), (second, first, (0, 0, -1))):
            corners = "\n".join("vertex {} {} {}".format(*corner) for corner in facet)
            facets.append(f"facet normal 0 0 0\nouter loop\n{corners}\nendloop\nendfacet")
    return "solid body\n" + "\n".join(facets) + "\nendsolid body\n"


def predict_on_a_mesh() -> None:
    Path("body.stl").write_text(octahedron())
    arguments = "predict runs/a body.stl --out predicted --set freestream=[1,0,0]".split()
    if find_spec("pyvista") is None:
        assert "pip install" in call(*arguments, code=2)
        return
    call(*arguments)
    assert Path("predicted/body.vtp").stat().st_size > 0


def import_what_needs_no_torch() -> None:
    """Every module, as far as packages that are absent let it be imported."""
    import slipstream

    home = Path(slipstream.__file__).parent
    names = sorted(
        ".".join(path.relative_to(home.parent).with_suffix("").parts) for path in home.rglob("*.py")
    )
    imported, absent = 0, set()
    for name in names:
        if name.endswith("__main__"):
            continue
        try:
            import_module(name.removesuffix(".__init__"))
            imported += 1
        except ModuleNotFoundError as error:
            absent.add(str(error.name).partition(".")[0])
    assert imported > 50 and "torch" in absent and "slipstream" not in absent, (imported, absent)
    print(f"smoke: {imported} of {len(names)} modules need no torch", flush=True)


def try_everything() -> None:
    assert "train" in call("--help") and "ingest" in call("data", "--help")
    assert "baseline" in call("variants")
    doctor = json.loads(call("doctor", "--json"))
    assert doctor["torch"] and doctor["parity"] and "RED" not in str(doctor["parity"])
    assert "CPU" not in doctor["device"] or "no CUDA device" in doctor["kernels"], doctor
    settings = [f"{name}={json.dumps(value)}" for name, value in TINY.items()]
    options = [part for one in settings for part in ("--set", one)]
    call("train", "potential-flow-surface", "--out", "runs/a", "--device", "cpu", *options)
    subprocess.run([sys.executable, "-I", "-c", IN_PYTHON], check=True)
    predict_on_a_mesh()
    assert "must" in call("predict", "runs/none", "body.stl", "--out", "p", code=2)
    call("demo", "--quick", "--out", "demo")
    page = Path("demo/report.html").read_text("utf-8")
    assert "<style>" in page and "<script" in page, "the report must have its styles and scripts"


def main() -> None:
    source = Path(sys.argv[1]).resolve()
    assert "PYTHONPATH" not in os.environ
    check_files(source)
    with tempfile.TemporaryDirectory(prefix="slipstream-smoke-") as folder:
        os.chdir(folder)
        version = distribution(NAME).version
        assert call("--version") == f"slipstream {version}\n"
        if "--light" in sys.argv[2:]:
            import_what_needs_no_torch()
        else:
            try_everything()
        os.chdir("/")


if __name__ == "__main__":
    main()
