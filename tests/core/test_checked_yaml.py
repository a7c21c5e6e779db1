from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from slipstream.core.checked_yaml import read_yaml


def read(path: Path, text: str) -> Any:
    path.write_text(text, "utf-8")
    return read_yaml(path)


def test_keys_are_what_is_written(tmp_path: Path) -> None:
    """Two keys that are one number, or one truth, are two keys."""
    text = "1.1: a\n1.10: b\n10: c\n1_0: d\n010: e\nyes: f\ntrue: g\n~: h\n2024-01-01: i\n"
    written = ["1.1", "1.10", "10", "1_0", "010", "yes", "true", "~", "2024-01-01"]
    assert list(read(tmp_path / "a.yaml", text).mapping()) == written
    for key in ("1.10", '"1.10"'):
        with pytest.raises(ValueError, match="in line 2: the key '1.10' for the second time"):
            read(tmp_path / "a.yaml", f"1.10: a\n{key}: b\n")
    merged = "a: &a {1.0: x, 2: y}\nb: {<<: *a, 2: z}\n"
    assert read(tmp_path / "a.yaml", merged).mapping()["b"] == {"1.0": "x", "2": "z"}
    with pytest.raises(ValueError, match="must be YAML, got an error in line 1: found unhashable"):
        read(tmp_path / "a.yaml", "{[1]: 2}")


def test_numbers_that_may_be_ids_know_how_they_are_written(tmp_path: Path) -> None:
    items = read(tmp_path / "a.yaml", "[1.1, 1.10, 10, 1_0, +3, .5, 010, 1e5]").items()
    written = ["1.1", "1.10", "10", "1_0", "+3", ".5", "010", "1e5"]
    assert [str(item.value) for item in items] == written
    assert [item.number() for item in items] == [1.1, 1.1, 10, 10, 3, 0.5, 10, 1e5]
    assert [type(item.number()) for item in items] == [float] * 8
    assert [type(item.whole(1)) for item in items[2:5]] == [int] * 3
    assert items[1].value == 1.1 and pickle.loads(pickle.dumps(items[1])) == items[1]


def test_names_that_are_numbers(tmp_path: Path) -> None:
    keys = read(tmp_path / "a.yaml", "1.0: [1.0, 1, n]\nn: [n]\n").named("lists")
    assert list(keys) == ["1.0", "n"]
    same, other, truth = keys["1.0"].items()
    assert same.choice(tuple(keys)) == "1.0"
    with pytest.raises(ValueError, match=r"1.0\[1\] must be one of 1.0, n, got 1"):
        other.choice(tuple(keys))
    assert truth.choice(tuple(keys)) == "n"  # YAML 1.1 as PyYAML has it: only y and n are text
    with pytest.raises(ValueError, match=r"a must be one of no \(in quotes\), got False"):
        read(tmp_path / "a.yaml", "a: no").keys(need=("a",))["a"].choice(("no",))


def test_the_numbers_of_a_mapping_are_plain(tmp_path: Path) -> None:
    found = read(tmp_path / "a.yaml", "a: 1.10\nb: {c: [1_0, .5, 2], d: text}\n").mapping()
    assert found == {"a": 1.1, "b": {"c": [10, 0.5, 2], "d": "text"}}
    assert type(found["a"]) is float and [type(x) for x in found["b"]["c"]] == [int, float, int]


def doubling(line: str) -> str:
    """Sixty lines, each of which stands for the line before it twice."""
    return "a0: &a0 {k: 1}\n" + "".join(line.format(i, i - 1) for i in range(1, 60))


BOMBS = {
    "more than 1,000,000 values": doubling("a{0}: &a{0} [*a{1}, *a{1}]\n"),
    "more than 1,000,000 values, counted with what": doubling(
        "a{0}: &a{0}\n  <<: [*a{1}, *a{1}]\n"
    ),
    "an anchor that contains itself": "a: &a [b, *a]\n",
    "an anchor that contains itself$": "a: &a\n  <<: *a\n",
    "values inside one another at more than 100 depths": "[" * 150 + "]" * 150,
    "values inside one another at more than 100": "[" * 2000 + "]" * 2000,
    "a value that is not what its tag says": "a: !!bool x\n",
    "an error in line 1: expected a mapping node": "!!map x\n",
}


@pytest.mark.parametrize("says", BOMBS)
def test_bombs_and_wrong_tags_are_one_sentence(tmp_path: Path, says: str) -> None:
    with pytest.raises(ValueError, match=f"a.yaml must be YAML, got {says}"):
        read(tmp_path / "a.yaml", BOMBS[says])


def test_lists_of_designs_are_no_bombs_either(tmp_path: Path) -> None:
    from slipstream.data.benchmarks.raw import read_lists

    path = tmp_path / "lists.yaml"
    path.write_text(doubling("a{0}: &a{0} [*a{1}, *a{1}]\n") + "train: [*a59]\n")
    with pytest.raises(ValueError, match=r"lists.yaml must be JSON or YAML, got more than 1,000,"):
        read_lists(path, str)
