"""Names from files on a terminal."""

from __future__ import annotations

import pytest

from slipstream.core.text import printable


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Static Pressure [Pa]", "Static Pressure [Pa]"),
        ("自動車 Kübel m²\u00a0s", "自動車 Kübel m²\u00a0s"),
        ("p\x1b[31m", r"p\x1b[31m"),
        ("a\nb\tc\rd\x00\x7f\x9b", r"a\nb\tc\rd\x00\x7f\x9b"),
        ("x\u2028y\u202ez\u200b", r"x\u2028y\u202ez\u200b"),
        ("file\udcff", r"file\udcff"),
        ("\U000e0041", r"\U000e0041"),
        ("a\\b", "a\\b"),
    ],
)
def test_letters_that_a_terminal_would_obey_are_escaped(name: str, shown: str) -> None:
    assert printable(name) == shown
    printable(name).encode("utf-8")
