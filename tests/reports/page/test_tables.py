from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from slipstream.reports.content import Cell, Table
from slipstream.reports.page.tables import (
    TEXT_COLUMN_WIDTH,
    cell_text,
    number_text,
    to_latex,
    to_markdown,
    write_tables,
)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.0756, 3, "0.0756"), (0.09996, 3, "0.100"), (0.9996, 3, "1.00"), (12.345, 3, "12.3"),
        (99.96, 3, "100"), (184000, 3, "184000"), (0, 3, "0"), (-0.0123, 2, "-0.012"),
        (0.00003, 1, "0.00003"), (9.96, 2, "10"), (float("nan"), 3, "nan"),
    ],
)  # fmt: skip
def test_numbers_have_so_many_digits(value: float, digits: int, text: str) -> None:
    assert number_text(value, digits) == text


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (Cell(0.07563, 0.00012), "0.0756 ± 0.0001"),
        (Cell(0.2), "0.200"),
        (Cell(1.613, kind="ratio"), "1.61×"),
        (Cell(1.613, 0.02, kind="ratio"), "1.61 ± 0.02×"),
        (Cell(3.84, kind="percent", digits=2), "+3.8 %"),
        (Cell(-3.84, 0.51, kind="percent", digits=2), "-3.8 ± 0.5 %"),
        (Cell(3_872_000, kind="count"), "3,872,000"),
        (Cell(text="not run", kind="text"), "not run"),
    ],
)
def test_cells(cell: Cell, text: str) -> None:
    assert cell_text(cell) == text


TABLE = Table(
    "main",
    "Errors & costs",
    "In 100 % of cases.",
    ("experiment", "a_b", "ratio"),
    (
        (Cell(text="x|y", kind="text"), Cell(0.0756, 0.0001, best=True), Cell(2.0, kind="ratio")),
        (
            Cell(text="z", kind="text"),
            Cell(text="not run", kind="text"),
            Cell(3, 0.1, kind="ratio"),
        ),
    ),
    ("One is missing.",),
)


def test_markdown() -> None:
    assert to_markdown(TABLE).splitlines() == [
        "### Errors & costs",
        "",
        "| experiment | a_b | ratio |",
        "|---|---:|---:|",
        r"| x\|y | **0.0756 ± 0.0001** | 2.00× |",
        "| z | not run | 3.00 ± 0.1× |",
        "",
        "In 100 % of cases.",
        "* One is missing.",
    ]


def test_an_interval_stands_in_the_place_of_a_spread() -> None:
    cell = Cell(0.759, kind="ratio", interval=(-0.001234, 0.822))
    assert cell_text(cell) == "0.759× [-0.00123, 0.822]"
    table = Table("t", "T", "C.", ("claim", "number"), ((Cell(text="a", kind="text"), cell),))
    assert r"| a | 0.759× \[-0.00123, 0.822\] |" in to_markdown(table)
    assert r"a & $0.759\times\;[-0.00123, 0.822]$ \\" in to_latex(table)


def test_latex() -> None:
    text = to_latex(TABLE)
    assert r"\textbf{Errors \& costs.} In 100 \% of cases. One is missing." in text
    assert r"experiment & a\_b & ratio \\" in text
    assert r"x\textbar{}y & $\mathbf{0.0756}{\scriptstyle\pm.0001}$ & $2.00\times$ \\" in text
    assert r"z & not run & $3.00{\scriptstyle\pm.1\times}$ \\" in text
    assert text.count(r"\begin") == text.count(r"\end") == 3 and r"\label{tab:main}" in text
    assert text.count("{") == text.count("}")


def test_latex_of_letters_that_its_first_fonts_lack() -> None:
    table = replace(TABLE, caption="sum |a| < 3 > b")
    assert r"sum \textbar{}a\textbar{} \textless{} 3 \textgreater{} b" in to_latex(table)


def test_latex_of_no_spread() -> None:
    cells = Cell(1.5, 0.0, kind="ratio"), Cell(1.5, 0.0), Cell(1.5, 0.0, kind="percent")
    text = to_latex(Table("t", "T", "c", ("a", "b", "c"), (cells,)))
    assert r"\pm0\times}" in text and r"\pm0}" in text and r"\pm0\%}" in text


def test_a_wide_latex_table_fits_a_page() -> None:
    assert r"\resizebox" not in to_latex(TABLE)
    assert to_latex(TABLE).startswith("% Needs booktabs.\n")
    wide = Table("t", "T", "c", tuple("abcdefgh"), ((Cell(0.1),) * 8,))
    text = to_latex(wide)
    assert text.startswith("% Needs booktabs and graphicx.\n")
    assert r"\resizebox{\textwidth}{!}{%" in text and r"\end{tabular}%" + "\n}" in text
    assert text.count("{") == text.count("}")


def test_many_words_are_broken_into_lines() -> None:
    long = Cell(text="the error of one variant over that of another", kind="text")
    text = to_latex(Table("t", "T", "c", ("which", "n"), ((long, Cell(1.0)),)))
    assert rf"\begin{{tabular}}{{p{{{TEXT_COLUMN_WIDTH}em}}c}}" in text
    many = ("frozen-slice-no-token-attention", *"bcdefgh")
    text = to_latex(Table("t", "T", "c", many, ((Cell(0.1),) * 8,)))
    assert r"\shortstack{frozen-slice-\\no-token-\\attention} & b" in text


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_takes_it(tmp_path: Path) -> None:
    long = Cell(text="|error| < 1 of one variant over that of another", kind="text")
    cells = (long, *[Cell(1.5, 0.0, kind="ratio")] * 8)
    columns = ("which", *["frozen-slice-no-token-attention"] * 8)
    write_tables([TABLE, Table("wide", "Wide", "c", columns, (cells,))], tmp_path)
    (tmp_path / "all.tex").write_text(
        r"\documentclass{article}\usepackage{graphicx}"
        r"\IfFileExists{booktabs.sty}{\usepackage{booktabs}}"
        r"{\let\toprule\hline\let\midrule\hline\let\bottomrule\hline}\begin{document}"
        r"\input{main}\input{wide}\end{document}"
    )
    said = subprocess.run(
        ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "all.tex"],
        cwd=tmp_path, capture_output=True, text=True, errors="replace",
    )  # fmt: skip
    assert said.returncode == 0 and "Overfull" not in said.stdout, said.stdout


def test_files(tmp_path: Path) -> None:
    write_tables([TABLE], tmp_path / "tables")
    assert (tmp_path / "tables/main.md").read_text() == to_markdown(TABLE)
    assert (tmp_path / "tables/main.tex").read_text() == to_latex(TABLE)
