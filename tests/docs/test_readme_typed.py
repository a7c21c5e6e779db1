"""README.md typed from its first block to its last, where there is only what its reader has."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from slipstream import load_model
from slipstream.core.records import read_records

from ..conftest import Command
from ..evaluation.conftest import few_draws  # noqa: F401
from ..interop.test_import import golden, part
from ..interop.thuml_attention import Model
from .blocks import Block, blocks_of, commands
from .reader import Reader

pv = pytest.importorskip("pyvista")
for needed in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(needed)
from ..data.mesh_folders import ball, pressure, save, shear, with_fields  # noqa: E402

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "README.md"
CARS = 90
"""The fewest of which a tenth, the test split of a drafted card, can promise 90 %: nine."""

SIZE = "--set 'model.size={layers: 1, width: 16, heads: 2, slices: 4}'"
SMALLER = {
    "slipstream train own": {
        "--set steps=60 --set evaluate_every=60": "as printed 10,000 steps",
        "--set optim.learning_rate=0.01": "so that 60 steps learn something",
        SIZE: "as printed four layers of width 64",
    },
    "slipstream study poisson": {
        "--variants baseline,no-token-attention": "as printed four, two processes for each",
        "--set steps=10 --set evaluate_every=10": "as printed 2,000 steps",
        "--set 'data.builtin.samples={train: 8, val: 4, test: 4}'": "as printed 640 to be solved",
        "--set data.builtin.points=64": "as printed 256",
        SIZE: "as printed four layers of width 64",
    },
}
"""How a command begins, the options that are typed after its own, and why."""
LONG = ("demo", "study", "train")

ELSEWHERE = {
    "./run demo": {".ci/smoke.py": 'call("demo", "--quick"'},
    "./run test": {".ci/run": "./run test ||"},
    "pip install .[mesh]": {
        "run": '-e "$here[dev]"',
        "pyproject.toml": 'dev = [\n    "slipstream-cfd[mesh,',
    },
}
"""Commands that are not typed here, and the lines of files by which CI runs them."""


class Typist(Reader):
    """Also types `./run X`, and remembers what was typed and said."""

    def __init__(self, page: Path, slipstream: Command) -> None:
        super().__init__(page, slipstream)
        self.said: dict[str, str] = {}
        self.names |= {
            "query": torch.randn(1, 20, 2, 4),
            "values": torch.randn(1, 20, 2, 5),
            "slot_weight": torch.randn(3, 4),
            "slot_bias": torch.randn(3),
            "temperature": torch.ones(2),
            "mix": torch.nn.Identity(),
        }

    def take(self, block: Block) -> None:
        assert block.language in ("sh", "python") and block.runs, block
        if "accelerate(model)" in block.text:
            self.names["model"] = Model()
        super().take(block)

    def run(self, words: list[str], where: str) -> str:
        line = " ".join(words)
        if line in ELSEWHERE:
            self.said[line] = ""
            return ""
        if words[0] == "./run":
            words = ["slipstream", *words[1:]]
        assert words[0] == "slipstream", f"{where}: ELSEWHERE must say where CI runs {line!r}"
        options = " ".join(o for start in SMALLER if line.startswith(start) for o in SMALLER[start])
        assert options or words[1] not in LONG, f"{where}: SMALLER must make {line!r} take seconds"
        words = words + [word for one in commands(options) for word in one]
        made = Path(words[words.index("--out") + 1]) if "--out" in words else None
        assert made is None or not made.exists(), f"{where}: {made} is there already"
        self.said[line] = super().run(words, where)
        assert made is None or made.exists(), f"{where}: {line} made no {made}"
        return self.said[line]

    def one(self, start: str) -> str:
        """What the only command said that begins so."""
        (line,) = (line for line in self.said if line.startswith(f"{start} "))
        return self.said[line]


def give_what_a_reader_has() -> None:
    """Solved cars with a table of their speeds, a new one, and weights of thuml/Transolver."""
    draw, rows = np.random.default_rng(0), ["run,U_inf"]
    for k in range(CARS):
        body = ball()
        body.points *= draw.uniform(0.8, 1.3, 3).astype(np.float32)
        x, speed = np.asarray(body.cell_centers().points), draw.uniform(20, 40)
        p, tau = 0.01 * speed**2 * pressure(x), speed * shear(x)
        save(with_fields(body, "cell", p=p, wallShearStress=tau), Path("cars") / f"run_{k}.vtp")
        rows.append(f"{k},{speed:.1f}")
    Path("cars/designs.csv").write_text("\n".join(rows))
    ball(1.1).save("new.stl")
    weights = part(golden("thuml-transolver")[1], "weight")
    first = "preprocess.linear_pre.0.weight"  # of five inputs; position, normal and speed are seven
    weights[first] = torch.cat([weights[first], torch.rand(len(weights[first]), 2)], 1)
    torch.save(weights, "transolver.pt")


@pytest.mark.usefixtures("empty_folder", "few_draws", "small_pictures")
def test_who_types_it_gets_what_it_promises(command: Command) -> None:
    give_what_a_reader_has()
    reader = Typist(PAGE, command)
    reader.read()
    check_meshes(reader)
    check_study(reader)
    check_models(reader)


def check_meshes(reader: Typist) -> None:
    assert f"stores/cars: {CARS} written, 0 kept." in reader.one("slipstream data ingest")
    assert "Wrote runs/own/calibration.json" in reader.one("slipstream calibrate")
    said = reader.one("slipstream predict")
    assert re.search(r" Cd .* Cl ", said) and re.search(r" -?\d+\.\d+ ± \d+\.\d+ ", said), said
    assert "a probability of at least 90 %" in said
    assert re.search("new: (like|unusual|unlike)", said), said
    written = pv.read("predicted/new.vtp").cell_data
    prediction = reader.names["prediction"]
    for name in ("pressure", "wall_shear"):
        np.testing.assert_allclose(written[name], prediction.fields[name], rtol=1e-6)
    (row,) = read_records(Path("predicted/predictions.jsonl"), "mesh-prediction")
    cd = row["result"]["forces"]["coefficients"]["cd"]
    assert prediction.forces(area=2.2).cd == pytest.approx(cd, rel=1e-6)


def check_study(reader: Typist) -> None:
    assert "4 of 4 runs are finished" in reader.one("slipstream study")
    assert "nearest training sample" in reader.one("slipstream evaluate")
    assert "checks of 4 runs hold" in reader.one("slipstream audit")
    *_, verdict, _ = reader.one("slipstream report").splitlines()
    page = Path("report/report.html").read_text("utf-8")
    assert verdict in page and "https://" not in page
    for folder, ending in (("tables", "md"), ("figures", "png")):
        assert len(list(Path("report", folder).glob(f"*.{ending}"))) > 3


def check_models(reader: Typist) -> None:
    assert reader.names["fields"].shape == (1, 4_000, 4)
    assert len(reader.names["report"].replaced) == 2
    assert reader.names["update"].shape == (1, 20, 2, 5)
    imported, slimmed = (load_model(Path(name)).model for name in ("model.safetensors", "slim"))
    assert imported.variant.name == "baseline" and imported.size.layers == 3
    assert slimmed.variant.name == "no-token-attention"
    assert "Largest difference from the model" in reader.one("slipstream export")


def test_the_tables_are_about_commands_of_the_page() -> None:
    shown = [block.text for block in blocks_of(PAGE) if block.language == "sh"]
    lines = [" ".join(words) for text in shown for words in commands(text)]
    assert [line for line in ELSEWHERE if line not in lines] == []
    counts = {start: sum(line.startswith(start) for line in lines) for start in SMALLER}
    assert set(counts.values()) == {1}, counts


def test_what_is_not_typed_here_is_run_elsewhere() -> None:
    for line, places in ELSEWHERE.items():
        for file, text in places.items():
            assert text in (ROOT / file).read_text("utf-8"), f"{file} must run {line}"
