from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import pytest

from slipstream.core.configs import differences, overlay
from slipstream.core.schemas import YOUNGER, parsed


@dataclass(frozen=True)
class Inner:
    layers: int = 8
    ratio: float = 0.5


@dataclass(frozen=True)
class Outer:
    inner: Inner = Inner()
    name: str = "a"
    limits: tuple[float, float] = (0.0, 1.0)
    names: tuple[str, ...] = ("x",)
    mode: Literal["fast", "slow"] = "fast"
    points: int | float | None = None
    on: bool = False

    def __post_init__(self) -> None:
        if self.limits[0] > self.limits[1]:
            raise ValueError(f"limits must rise, got {self.limits}")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Outer()),
        ({"inner.layers": 3, "inner.ratio": 2}, Outer(Inner(3, 2.0))),
        ({"inner": {"layers": 3}, "inner.ratio": 1.0}, Outer(Inner(3, 1.0))),
        ({"inner.ratio": "1e-3", "name": "1e-3"}, Outer(Inner(8, 1e-3), "1e-3")),
        ({"limits": [-1, 2]}, Outer(limits=(-1.0, 2.0))),
        ({"names": []}, Outer(names=())),
        ({"names": ["y", "z"], "on": True}, Outer(names=("y", "z"), on=True)),
        ({"points": 4}, Outer(points=4)),
        ({"points": 0.5}, Outer(points=0.5)),
        ({"points": None, "mode": "slow"}, Outer(mode="slow")),
    ],
)
def test_fields_are_changed(changes: dict[str, Any], expected: Outer) -> None:
    found = overlay(Outer(), changes)
    assert found == expected and type(found.limits[0]) is float
    assert type(found.points) is type(expected.points)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"inner.layer": 3},
            r"a field of inner must be one of layers, ratio, got 'layer'; did you",
        ),
        ({"other": 3}, "a field of Outer must be one of inner, name"),
        ({"inner.layers": 3.0}, "inner.layers must be a whole number, got 3.0"),
        ({"inner.layers": True}, "inner.layers must be a whole number, got True"),
        ({"inner.ratio": "x"}, "inner.ratio must be a number, got 'x'"),
        ({"inner.ratio": "1e"}, "inner.ratio must be a number, got '1e'"),
        ({"name": 1e-3}, "name must be text, got 0.001"),
        ({"inner.ratio": True}, "inner.ratio must be a number, got True"),
        ({"inner": 3}, "inner must be a mapping with the fields of Inner, got 3"),
        ({"name": 3}, "name must be text, got 3"),
        ({"name.x": 3}, "name must be text, got {'x': 3}"),
        ({"limits": 3}, "limits must be a list, got 3"),
        ({"limits": [1]}, "limits must have more than 1 values, got 1"),
        ({"limits": [1, "x"]}, r"limits\[1\] must be a number, got 'x'"),
        ({"limits": [2, 1]}, "limits must rise"),
        ({"names": ["x", 1]}, r"names\[1\] must be text, got 1"),
        ({"mode": "quick"}, "mode must be one of fast, slow, got 'quick'"),
        ({"points": "all"}, "points must be a whole number or a number, got 'all'"),
        ({"on": 1}, "on must be true or false, got 1"),
    ],
)
def test_what_does_not_fit_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        overlay(Outer(), changes)


def test_fixed_fields_are_not_to_be_set() -> None:
    with pytest.raises(ValueError, match="a field of Outer must be one of inner, .*, got 'on'"):
        overlay(Outer(), {"on": True}, fixed=("on",))


@dataclass(frozen=True)
class Whole:
    inner: Inner
    maybe: Inner | None
    names: tuple[str, ...]
    ratio: float
    late: bool = field(default=True, metadata=YOUNGER)


WHOLE = Whole(Inner(), None, ("a", "b"), 1.0)


def test_configs_come_back_parsed() -> None:
    for config in (WHOLE, replace(WHOLE, maybe=Inner(layers=2)), replace(WHOLE, late=False)):
        assert parsed(Whole, json.loads(json.dumps(asdict(config)))) == config


def test_a_younger_field_may_be_absent() -> None:
    older = {name: value for name, value in asdict(WHOLE).items() if name != "late"}
    assert parsed(Whole, older) == WHOLE


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"nam": 1}, "a field must be one of inner, maybe, names, ratio, late, got 'nam'"),
        ({"inner": {"layers": 1}}, "inner must have the field ratio, got none"),
        ({"inner": {"layers": "x", "ratio": 1}}, "inner.layers must be a whole number, got 'x'"),
        ({"inner": 3}, "inner must be a mapping"),
        ({"maybe": {"layer": 1}}, "maybe must be"),
    ],
)
def test_json_that_does_not_fit(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parsed(Whole, {**asdict(WHOLE), **change})
    with pytest.raises(
        ValueError, match=r"it must be a mapping with the fields of Whole, got \[\]"
    ):
        parsed(Whole, [])


def test_differences_name_fields_at_every_depth() -> None:
    other = Whole(Inner(layers=9), Inner(), ("a",), 1.0)
    assert differences(WHOLE, other) == [
        "inner.layers: 8, 9", "names: ['a', 'b'], ['a']",
        "maybe.layers: None, 8", "maybe.ratio: None, 0.5",
    ]  # fmt: skip
    assert differences(WHOLE, other, ignored=("inner", "maybe", "names")) == []
    assert differences(WHOLE, WHOLE) == []
    assert differences(WHOLE, replace(WHOLE, ratio=2.0), ignored=("rat",)) == ["ratio: 1.0, 2.0"]
