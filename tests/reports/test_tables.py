from __future__ import annotations

from pathlib import Path

import pytest

from slipstream.reports.content import Cell, Table
from slipstream.reports.tables import cell_text, number_text, to_latex, to_markdown, write_tables


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


def test_latex() -> None:
    text = to_latex(TABLE)
    assert r"\textbf{Errors \& costs.} In 100 \% of cases. One is missing." in text
    assert r"experiment & a\_b & ratio \\" in text
    assert r"x|y & $\mathbf{0.0756}{\scriptstyle\pm.0001}$ & $2.00\times$ \\" in text
    assert r"z & not run & $3.00{\scriptstyle\pm.1\times}$ \\" in text
    assert text.count(r"\begin") == text.count(r"\end") == 3 and r"\label{tab:main}" in text
    assert text.count("{") == text.count("}")


def test_files(tmp_path: Path) -> None:
    write_tables([TABLE], tmp_path / "tables")
    assert (tmp_path / "tables/main.md").read_text() == to_markdown(TABLE)
    assert (tmp_path / "tables/main.tex").read_text() == to_latex(TABLE)
