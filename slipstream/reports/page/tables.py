"""Tables as markdown and LaTeX, and the plain text of a cell, so that a number looks the same in
every file."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from slipstream.core.files import write_text
from slipstream.reports.content import Cell, Table

TEXT_COLUMN_WIDTH = 18
"""Width of a LaTeX column of long texts, in em."""
_LONG_TEXT = 36
"""A text of more characters is broken into lines."""
_PAGE_CHARACTERS, _PAGE_COLUMNS = 70, 6
"""What fits the width of a page; a table with more of either is shrunk."""
_HEADING_LINE = 14
"""Characters in a line of a heading above numbers."""
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}", "±": r"$\pm$",
    "×": r"$\times$", "–": "--",
    "[": "{[}", "]": "{]}", "*": "{*}",  # after the end of a row they would belong to it
}  # fmt: skip
_MARKDOWN = re.compile(
    r"[\\`*<>\[\]|~$]"  # marks, tags, links, columns, mathematics
    r"|&(?=#?\w+;)"  # the letters of an entity, as in &amp;
    r"|(?<!\w)_|_(?!\w)"  # inside a word, as in wall_shear, it is no mark
)


def number_text(value: float, digits: int) -> str:
    """The number with `digits` significant digits, without powers of ten: 0.0756, 12.3, 184000."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    if rounded and math.floor(math.log10(abs(rounded))) > math.floor(math.log10(abs(value))):
        places -= 1  # 0.09996 became 0.1000: with three digits that is 0.100
    return f"{rounded:.{max(0, places)}f}"


def _parts(cell: Cell) -> tuple[str, str]:
    """The number, and its spread or nothing."""
    if cell.value is None:
        return cell.text, ""
    if cell.kind == "count":
        return f"{cell.value:,.0f}", ""
    if cell.kind == "percent":
        text = f"{cell.value:+.{max(0, cell.digits - 1)}f}"
        return (text, _spread(cell) + " %") if cell.std is not None else (text + " %", "")
    text, sign = number_text(cell.value, cell.digits), "×" if cell.kind == "ratio" else ""
    return (text, _spread(cell) + sign) if cell.std is not None else (text + sign, "")


def _spread(cell: Cell) -> str:
    return "" if cell.std is None else number_text(cell.std, 1)


def _interval(cell: Cell) -> str:
    """As " [0.701, 0.822]"; nothing where there is none."""
    if cell.value is None or cell.interval is None:
        return ""
    return f" [{', '.join(number_text(end, cell.digits) for end in cell.interval)}]"


def cell_text(cell: Cell) -> str:
    """As "0.0756 ± 0.0001", "1.61× [1.50, 1.73]", "+3.8 %" or its own text."""
    number, spread = _parts(cell)
    return (f"{number} ± {spread}" if spread else number) + _interval(cell)


def to_markdown(table: Table) -> str:
    """A title, the table, its caption and its notes."""
    lines = [f"### {_markdown(table.title, in_table=False)}", "", _markdown_line(table.columns)]
    lines.append("|" + "|".join("---" if left else "---:" for left in text_columns(table)) + "|")
    for row in table.rows:
        texts = [_markdown(cell_text(cell)) for cell in row]
        marked = [f"**{t}**" if c.best else t for t, c in zip(texts, row, strict=True)]
        lines.append("| " + " | ".join(marked) + " |")
    prose = [_markdown(text, in_table=False) for text in (table.caption, *table.notes)]
    lines += ["", prose[0], *(f"* {note}" for note in prose[1:])]
    return "\n".join(lines) + "\n"


def text_columns(table: Table) -> list[bool]:
    """Which columns hold text; these are aligned to the left."""
    return [all(row[i].kind == "text" for row in table.rows) for i in range(len(table.columns))]


def _markdown_line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(map(_markdown, texts)) + " |"


def _markdown(text: str, *, in_table: bool = True) -> str:
    """The text as it is, whatever marks it holds; | is a mark in tables alone."""
    return _MARKDOWN.sub(
        lambda mark: mark[0] if mark[0] == "|" and not in_table else f"\\{mark[0]}", text
    )


def to_latex(table: Table) -> str:
    """A table environment for booktabs; one that is too wide is shrunk to the page by graphicx."""
    wide = _is_wide(table)
    words = text_columns(table)
    heads = [_latex_head(*head, wide) for head in zip(table.columns, words, strict=True)]
    body = [" & ".join(_latex_cell(cell) for cell in row) + r" \\" for row in table.rows]
    caption = _latex(" ".join([table.caption, *table.notes]))
    return "\n".join(
        [
            f"% Needs booktabs{' and graphicx' if wide else ''}.",
            r"\begin{table}[t]",
            rf"\caption{{\textbf{{{_latex(table.title)}.}} {caption}}}",
            rf"\label{{tab:{table.name}}}",
            r"\begin{center}\small",
            *([r"\resizebox{\textwidth}{!}{%"] if wide else []),
            rf"\begin{{tabular}}{{{_latex_columns(table)}}}",
            r"\toprule",
            " & ".join(heads) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            *([r"\end{tabular}%", "}"] if wide else [r"\end{tabular}"]),
            r"\end{center}",
            r"\end{table}",
            "",
        ]
    )


def _longest(table: Table) -> list[int]:
    """Characters of the longest text in each column, the heading included."""
    lines = [table.columns, *([cell_text(cell) for cell in row] for row in table.rows)]
    return [max(map(len, column)) for column in zip(*lines, strict=True)]


def _is_wide(table: Table) -> bool:
    characters = sum(min(longest, _LONG_TEXT) + 2 for longest in _longest(table))
    return len(table.columns) > _PAGE_COLUMNS or characters > _PAGE_CHARACTERS


def _latex_columns(table: Table) -> str:
    kinds = zip(text_columns(table), _longest(table), strict=True)
    return "".join(
        "c" if not words else f"p{{{TEXT_COLUMN_WIDTH}em}}" if longest > _LONG_TEXT else "l"
        for words, longest in kinds
    )


def _latex_head(text: str, words: bool, wide: bool) -> str:
    """A heading; in a wide table one above numbers is broken into lines.

    "no-token-attention" over a column of "0.0756" would otherwise make the column 3 times as wide.
    """
    lines = [text] if words or not wide else textwrap.wrap(text, _HEADING_LINE) or [""]
    shown = r"\\".join(map(_latex, lines))
    return rf"\shortstack{{{shown}}}" if len(lines) > 1 else shown


def _latex_cell(cell: Cell) -> str:
    number, spread = _parts(cell)
    if cell.value is None:
        return rf"\textbf{{{_latex(number)}}}" if cell.best else _latex(number)
    plain = number.replace("×", r"\times").replace(" %", r"\%").replace(",", "{,}")
    shown = rf"\mathbf{{{plain}}}" if cell.best else plain
    if spread:
        small = spread.replace("×", r"\times").replace(" %", r"\%")
        short = small.removeprefix("0") if small.startswith("0.") else small
        shown += rf"{{\scriptstyle\pm{short}}}"
    interval = _interval(cell).replace(" [", r"\;[")
    return f"${shown}{interval}$"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def write_tables(tables: Sequence[Table], folder: Path) -> None:
    """Write each table as NAME.md and NAME.tex."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        write_text(folder / f"{table.name}.md", to_markdown(table))
        write_text(folder / f"{table.name}.tex", to_latex(table))
