from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slipstream.core.records import read_records
from slipstream.core.schemas import YOUNGER, Count, check_plain, fitted, parsed, shortened


@dataclass(frozen=True)
class Part:
    name: str
    sizes: tuple[Count, ...]


@dataclass(frozen=True)
class Whole:
    parts: dict[str, Part]
    options: dict[str, Any]
    share: float | None
    late: bool = field(default=True, metadata=YOUNGER)


GOOD = {"parts": {"a": {"name": "x", "sizes": [1, 2]}}, "options": {"any": [1.5]}, "share": 1}


def test_a_value_becomes_an_instance() -> None:
    whole = parsed(Whole, GOOD)
    assert whole == Whole({"a": Part("x", (1, 2))}, {"any": [1.5]}, 1.0)
    assert type(whole.share) is float
    exact = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 2**53 + 1.0]
    assert fitted(tuple[float, ...], exact) == tuple(exact)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"parts": {"a": {"name": "x", "sizes": [1, -2]}}}, "parts.a.sizes[1] must be at least 0"),
        ({"parts": {"a": {"name": "x"}}}, "parts.a must have the field sizes, got none"),
        ({"parts": {"a": {"nam": "x", "sizes": []}}}, "must have the field name, got 'nam'"),
        ({"parts": {"a": {**GOOD["parts"]["a"], "size": 1}}}, "a field of parts.a must be one of"),  # type: ignore[index]
        ({"parts": {"\x1b[31m": 3}}, r"parts.\x1b[31m must be a mapping"),
        ({"options": {"a": [0, math.inf]}}, "options.a[1] must be a finite number, got inf"),
        ({"options": {"a": 2**64}}, "options.a must be a number of at most 64 bits, got 18446"),
        ({"share": True}, "share must be a number, got True"),
        ({"share": "x" * 1000}, "share must be a number, got 'xxxx"),
        ({"other": 1}, "a field must be one of parts, options, share, late, got 'other'"),
    ],
)
def test_what_does_not_fit_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        parsed(Whole, {**GOOD, **changes})
    assert sentence in str(error.value) and "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_other_fields_are_allowed_where_a_mapping_is_open() -> None:
    parsed(Whole, {**GOOD, "other": 1}, open=True)


def test_nesting_is_bounded(tmp_path: Path) -> None:
    deep = json.loads("[" * 65 + "]" * 65)
    with pytest.raises(ValueError, match="must not be nested more than 64 deep"):
        check_plain(deep)
    itself: list[Any] = []
    itself.append(itself)
    with pytest.raises(ValueError, match="must not be nested more than 64 deep"):
        check_plain(itself)
    assert shortened(10**5000) == "a int"
    (tmp_path / "r.jsonl").write_text("[" * 100_000 + "\n")
    with pytest.raises(ValueError, match="line 1 must be a JSON object, got one nested too deeply"):
        read_records(tmp_path / "r.jsonl")
