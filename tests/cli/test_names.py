"""Names that mean something to rich, to file systems, HTML, LaTeX, markdown or mathtext."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import slipstream.cli
from slipstream.cli.terminal import new_console, new_table, plain
from slipstream.core.configs import overlay
from slipstream.core.text import file_name
from slipstream.data.store import Cloud, Field, Schema, ingest
from slipstream.evaluation import compare
from slipstream.experiments import experiment
from slipstream.reports.content import Picture
from slipstream.reports.draw.pictures import Gallery
from slipstream.training.session import train

from ..conftest import Command, Said

NAMES = ("velocity [m/s]", "T [/bold]", "U/Uinf", "p$x$", "a_b^c", "\"q\" & <r> 's'", "u/uinf")
LATEX = (
    r"velocity {[}m/s{]}",
    r"T {[}/bold{]}",
    r"U/Uinf",
    r"p\$x\$",
    r"a\_b\textasciicircum{}c",
    r"""\"q\" \& \textless{}r\textgreater{} 's'""".replace('\\"', '"'),
)
MARKDOWN = (
    r"velocity \[m/s\]",
    r"T \[/bold\]",
    r"U/Uinf",
    r"p\$x\$",
    r"a_b^c",
    r"""\"q\" & \<r\> 's'""".replace('\\"', '"'),
)
FILES = ("velocity=20=5Bm=2Fs=5D", "T=20=5B=2Fbold=5D", "U=2FUinf", "p=24x=24", "a_b=5Ec")
FILES += ("=22q=22=20=26=20=3Cr=3E=20=27s=27", "u=2Fuinf+2")
SMALL = {
    "steps": 2,
    "batch": 1,
    "evaluate_every": 1,
    "precision": "fp32",
    "data.points": 20,
    "data.workers": 0,
    "model.size": {"layers": 1, "width": 8, "heads": 2, "slices": 3},
}


@dataclass(frozen=True)
class Named:
    """Four samples of 40 points, with fields of these names; the first has three components."""

    name: str = "named"
    options: Mapping[str, Any] = None  # type: ignore[assignment]

    @property
    def schema(self) -> Schema:
        targets = (Field(NAMES[0], "m/s", components=3), *(Field(name, "$") for name in NAMES[1:]))
        return Schema((Field("x [/]", "m", components=3),), (Field("$f$ [/i]", "<m>"),), targets)

    def ids(self) -> Sequence[str]:
        return ("0", "1", "2", "3")

    def splits(self) -> Mapping[str, Sequence[str]]:
        return {"train": ("0", "1"), "val": ("2",), "test": ("3",)}

    def files(self, sample: str) -> Mapping[str, Path]:
        return {}

    def read(self, sample: str) -> Cloud:
        draw = np.random.default_rng(int(sample))
        arrays = {f.name: draw.normal(size=(40, f.components)) for f in self.schema.fields}
        return Cloud(self.schema, arrays)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store and two runs on it, in a folder whose name is markup too."""
    path = tmp_path_factory.mktemp("made") / "runs [/b]"
    ingest(Named(options={}), path.parent / "store [/b]")
    config = overlay(experiment("own"), {**SMALL, "data.store": str(path.parent / "store [/b]")})
    for variant in ("baseline", "mlp-only"):
        train(overlay(config, {"model.variant": variant}), path / variant, device="cpu")
    return path


def evaluated(made: Path, command: Command, *options: str) -> Said:
    said = command("evaluate", made, "--device", "cpu", *options)
    assert said.code == 0, said.err
    return said


def test_the_terminal_shows_names_as_they_are(made: Path, command: Command) -> None:
    said = evaluated(made, command)
    for name in NAMES:
        assert f"│ L1 {name} " in said.out and f"│ composite {name} " in said.out
    said = command("train", "--out", made / "baseline", "--device", "cpu")
    assert said.code == 0 and all(f"{name} " in said.out for name in NAMES)


def test_paraview_has_names_as_they_are(made: Path, command: Command) -> None:
    """VTK writes names into XML without escaping them, and could not read "<r>" again."""
    pyvista = pytest.importorskip("pyvista")
    said = evaluated(made, command, "--vtk")
    assert f"Wrote {made / 'baseline' / 'predictions' / '3.vtp'}: 40 points" in said.out
    arrays = pyvista.read(made / "baseline" / "predictions" / "3.vtp").point_data.keys()
    assert {*NAMES, "$f$ [/i]", *(f"{name}_error" for name in NAMES)} <= set(arrays)


def test_bars_show_names_as_they_are(
    made: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal, where the title of a bar has the path of the store."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "300")
    said = command("data", "check", made.parent / "store [/b]")
    assert said.code == 0 and f"check {made.parent / 'store [/b]'}" in said.err
    assert f"{made.parent / 'store [/b]'} is good" in said.out
    said = command("train", "--out", made / "baseline", "--device", "cpu")
    assert said.code == 0, said.err


@pytest.mark.usefixtures("small_pictures")
def test_a_report_has_every_name(
    made: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated(made, command)
    monkeypatch.setattr(compare, "NOTHING", 1e9)
    figures: list[Figure] = []
    picture = Gallery.picture

    def kept(self: Gallery, name: str, title: str, caption: str, figure: Figure, **of: Any) -> Any:
        figures.append(figure)
        return picture(self, name, title, caption, figure, **of)

    monkeypatch.setattr(Gallery, "picture", kept)
    out = tmp_path / "out"
    said = command("report", made, "--out", out)
    assert said.code == 0, said.err
    page = (out / "report.html").read_text()
    latex, markdown = (
        (out / "tables" / f"variables-l1.{end}").read_text() for end in ("tex", "md")
    )
    for name in NAMES:
        assert (
            f">{html.escape(name).replace('&#x27;', '&#39;').replace('&quot;', '&#34;')}<" in page
        )
    assert "<r>" not in page
    assert all(f"& {name} &" in latex for name in LATEX)
    assert all(f"| {name} |" in markdown for name in MARKDOWN)
    files = {file.name for file in (out / "figures").iterdir() if file.name.startswith("field-")}
    assert files == {f"field-own-{name}.{end}" for name in FILES for end in ("svg", "png")}
    for label in labels(figures):
        assert not re.search(r"(?<!\\)\$", label), label
    shown = {label.replace("\n", " ") for label in labels(figures)}
    assert {r"p\$x\$ [\$]", r"a b^c [\$]", r"U/Uinf [\$]"} <= shown


def labels(figures: Sequence[Figure]) -> list[str]:
    """All texts in some figures, without our own mathematics."""
    texts = [text.get_text() for figure in figures for text in figure.findobj(Text)]
    return [re.sub(r"\$(L\^1|G|L|\\(mathdefault|times).*?)\$", "", text) for text in texts]


def test_file_names_differ_where_names_do() -> None:
    long = "n" * 300
    names = [*NAMES, "U=2FUinf", "U_Uinf", "U Uinf", "", "=", ".", "..", ".a", "a", "é", "\udcff"]
    names += [long, long + "n", "/" * 60, "/" * 61, f"{'n' * 53}+0123456789abcdef"]
    made = [file_name(name) for name in names]
    assert len(set(made)) == len(names)
    assert all(re.fullmatch(r"(?!\.)[A-Za-z0-9._=+-]{1,70}", name) for name in made)
    assert file_name("wall_shear-2.x") == "wall_shear-2.x"


def test_pictures_share_no_file(tmp_path: Path) -> None:
    """A field "p-3" of the first sample, and "p" of a sample "3"."""
    gallery = Gallery(tmp_path)

    def picture(*of: str) -> Picture:
        return gallery.picture("field", "t", "c", Figure(), of=of)

    made = [picture("own", "p-3"), picture("own", "p", "3"), picture("own", "P", "3")]
    assert [each.name for each in made] == [f"field-own-{x}" for x in ("p-3", "p-3+2", "P-3+3")]
    assert len(list(tmp_path.iterdir())) == 6


def test_tables_read_no_markup_and_show_no_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    table = new_table("[red]b\x1b[31m")
    table.add_column(plain("[bold]"))
    table.add_row(plain("c\n:smile:", "d"))
    new_console(width=60).print(table)
    said = capsys.readouterr().out
    assert r"[red]b\x1b[31m" in said and "[bold]" in said and r"c\n:smile:" in said


def test_rich_is_given_text_in_one_place() -> None:
    """No command makes a console, a table or a column of text of its own."""
    (folder,) = map(Path, slipstream.cli.__path__)
    for file in folder.glob("*.py"):
        if file.name != "terminal.py":
            made = re.findall(r"(?<![\w.])(?:Console|Table|TextColumn|Text)\(", file.read_text())
            assert not made, f"{file.name}: {made}"
