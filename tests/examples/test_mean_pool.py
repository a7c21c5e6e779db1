"""examples/mean_pool.py as a user meets it: train, audit, evaluate, report.

`test_neighbours.py` stops a run of another plug-in, which goes on.
"""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from slipstream import VARIANTS, load_model
from slipstream.models import load_plugin
from slipstream.runs.folder import RunFolder

from ..conftest import Command, registry_restored
from ..evaluation.made_runs import make_run
from ..reports.conftest import find_limits_quickly

EXAMPLE = Path(__file__).parents[2] / "examples" / "mean_pool.py"
PLUGIN = ("--plugin", EXAMPLE)
STEPS = 50
TINY: tuple[Any, ...] = (
    "--set", f"steps={STEPS}", "--set", "evaluate_every=25", "--set", "checkpoint_every=25",
    "--set", "batch=2", "--set", "optim.learning_rate=0.01", "--set", "log_every=2",
    "--set", 'data.builtin.samples={"train": 4, "val": 2, "test": 2}',
    "--set", "data.builtin.points=16",
    "--set", "model.size={layers: 2, width: 8, heads: 2, slices: 3}", "--device", "cpu",
)  # fmt: skip

pytestmark = pytest.mark.usefixtures("registry")


@pytest.mark.usefixtures("small_pictures")
def test_train_audit_evaluate_report(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_limits_quickly(monkeypatch)
    study = tmp_path / "study"
    run = study / "mean-pool"
    begin = ("train", "poisson", "--variant")
    trained = command(*begin, "mean-pool", "--out", run, *PLUGIN, *TINY)
    assert trained.code == 0 and f"Finished after {STEPS} steps" in trained.out, trained.err
    assert command(*begin, "baseline", "--out", study / "baseline", *TINY).code == 0
    audited = command("audit", study, *PLUGIN)
    assert audited.code == 0 and "checks of 2 runs hold" in audited.out, audited.out
    measured = json.loads(command("evaluate", study, *PLUGIN, "--device", "cpu", "--json").out)
    assert {one["variant"] for one in measured["evaluations"]} == {"mean-pool", "baseline"}
    written = command("report", study, "--out", tmp_path / "report", *PLUGIN)
    assert written.code == 0 and "plug-in" not in written.out, written
    for name in ("main", "variables-l1"):
        table = (tmp_path / "report/tables" / f"{name}.md").read_text().splitlines()
        assert "| baseline | mean pool |" in table[2] and "not run" not in table[4]
    budgets = (tmp_path / "report/tables/budgets.md").read_text()
    assert "| mean pool | L c | no | " in budgets
    colour = VARIANTS["mean-pool"].drawn_as.colour.lower()
    assert colour in (tmp_path / "report/figures/curves.svg").read_text().lower()
    assert load_model(run).model.variant.name == "mean-pool"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of mean-pool and baseline. To be read, not changed."""
    path = tmp_path_factory.mktemp("made")
    with registry_restored():
        load_plugin(EXAMPLE)
        for variant in ("mean-pool", "baseline"):
            make_run(path / variant, {"model.variant": variant})
    return path


@pytest.fixture
def study(trained: Path, tmp_path: Path) -> Path:
    """A copy of it; the plug-in is not loaded."""
    return Path(shutil.copytree(trained, tmp_path / "study"))


def test_a_run_whose_plug_in_is_absent_says_so(
    study: Path, tmp_path: Path, command: Command
) -> None:
    run = study / "mean-pool"
    for given in (("audit", study), ("evaluate", run), ("train", "--out", run)):
        said = command(*given)
        assert said.code == 2 and said.err.count("\n") == 1, said
        assert f"the variant 'mean-pool' of {run}" in said.err
        assert "is not built in: it needs the plug-in mean_pool.py; add --plugin FILE" in said.err
    again = command("train", "poisson", "--variant", "mean-pool", "--out", run, *TINY)
    assert again.code == 2 and "got 'mean-pool' (--plugin FILE loads variants" in again.err
    with pytest.raises(ValueError, match=r"\(in Python: slipstream.models.load_plugin\)"):
        load_model(run)
    written = command("report", study, "--out", tmp_path / "report")
    assert written.code == 0
    assert "Note: mean-pool is shown without its label, colour and budget" in written.out
    table = (tmp_path / "report/tables/main.md").read_text()
    assert "| experiment | baseline | mean-pool |" in table
    assert (
        "| mean-pool | not stated | not stated |"
        in (tmp_path / "report/tables/budgets.md").read_text()
    )


def test_a_plug_in_that_has_changed_is_noted(study: Path, tmp_path: Path, command: Command) -> None:
    """A comment is enough. The run may go on, and says which steps ran which."""
    run, changed = study / "mean-pool", tmp_path / "mean_pool.py"
    changed.write_text(f"# A comment.\n{EXAMPLE.read_text()}")
    RunFolder(run).checkpoint_file(12).unlink()
    assert command("train", "--out", run, "--device", "cpu", "--plugin", changed).code == 0
    assert command("audit", run, "--plugin", changed).code == 0
    was, now = (sha256(file.read_bytes()).hexdigest()[:12] for file in (EXAMPLE, changed))
    certificate = (run / "certificate.txt").read_text()
    assert (
        f"steps 1 to 8 ran the plug-in mean_pool.py, SHA-256 {was}; the one loaded now is"
        f" mean_pool.py ({now})\n"
    ) in certificate
    assert certificate.count("ran the plug-in") == 1, "the other steps ran that of now"


def test_a_plug_in_of_other_parameters_is_refused(
    study: Path, tmp_path: Path, command: Command
) -> None:
    run, changed = study / "mean-pool", tmp_path / "mean_pool.py"
    text = EXAMPLE.read_text().replace("self.output = ", "self.out = ")
    changed.write_text(text.replace("self.output(", "self.out(").replace('"output"', '"out"'))
    RunFolder(run).checkpoint_file(12).unlink()
    for given in (("train", "--out", run, "--device", "cpu"), ("evaluate", run)):
        said = command(*given, "--plugin", changed)
        assert said.code == 2 and said.err.count("\n") == 1, said
        assert "is not what its name says: blocks.0.coupling.out.bias is missing;" in said.err
    audited = command("audit", run, "--plugin", changed)
    assert audited.code == 1 and "mean-pool must not have blocks.0.coupling.output" in audited.out


@pytest.mark.usefixtures("forked_runs")
def test_a_study_hands_its_plug_ins_on(tmp_path: Path, command: Command) -> None:
    given = ("study", "poisson", "--out", tmp_path, "--variants", "mean-pool", "--seeds", "0")
    said = command(*given, *TINY, "--set", "steps=4", *PLUGIN)
    assert said.code == 0 and "1 of 1 runs are finished" in said.out, said
    config = json.loads((tmp_path / "runs/poisson/mean-pool/seed-0/config.json").read_text())
    assert config["config"]["model"]["plugin"]["file"] == "mean_pool.py"


def test_it_is_among_the_variants(command: Command) -> None:
    """mlp-only has 2,245,124 parameters; each of 8 layers adds a norm and two maps of width 256."""
    rows = json.loads(command("variants", "--json", *PLUGIN).out)
    assert rows[-1]["name"] == "mean-pool" and rows[-1]["parameters"] == 3_301_892
    assert "mean-pool" in command("variants", *PLUGIN).out


@pytest.mark.parametrize(
    "given",
    [
        ("train", "poisson", "--out", "run"),
        ("study", "poisson", "--out", "run"),
        ("audit", "run"),
        ("evaluate", "run"),
        ("report", "run", "--out", "report"),
        ("variants",),
    ],
)
def test_bad_plug_ins_are_one_sentence(
    given: tuple[str, ...], tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("raises.py").write_text("x = [][0]\n")
    Path("taken.py").write_text(
        "from slipstream.models import *\nregister_variant(Variant('baseline', 'mine'))\n"
    )
    for file, sentence in (
        ("gone.py", "the plug-in gone.py must be a Python file, got no such file"),
        ("raises.py", "cannot be loaded: IndexError: list index out of range, line 1"),
        ("taken.py", "must not be that of a built-in one, got 'baseline', line 2"),
    ):
        said = command(*given, "--plugin", file)
        assert said.code == 2 and sentence in said.err and said.err.count("\n") == 1, said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raises.py", "taken.py"]
