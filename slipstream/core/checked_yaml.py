"""YAML whose values carry their place in the file, so that an error can name it.

card.yaml: targets[0].unit must be text, got 3
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from slipstream.core.files import check_regular

_MOST = 1_000_000
_DEEPEST = 100
_TOO_DEEP = f"values inside one another at more than {_DEEPEST} depths"


class WrittenReal(float):
    """A number whose `str` is as written in the file, 1.10 and not 1.1: it may be an id."""

    written: str

    @classmethod
    def of(cls, text: str, value: float | None = None) -> WrittenReal:
        number = cls(text if value is None else value)
        number.written = text
        return number

    def __str__(self) -> str:
        return self.written


class WrittenWhole(int):
    """A whole number whose `str` is as written in the file: 1_0 and not 10."""

    written: str

    @classmethod
    def of(cls, text: str) -> WrittenWhole:
        number = cls(text)
        number.written = text
        return number

    def __str__(self) -> str:
        return self.written


@dataclass(frozen=True)
class Place:
    """A value and its place: `at` is as "targets[0].unit", empty for the whole file."""

    file: str
    at: str
    value: Any

    def fail(self, expected: str, got: str | None = None) -> NoReturn:
        actual = got or _shortened(self.value)
        raise ValueError(f"{self.file}: {self.at or 'the file'} must {expected}, got {actual}")

    def keys(self, *, need: Sequence[str] = (), may: Sequence[str] = ()) -> dict[str, Place]:
        """The entries of a mapping by key; a key that is neither needed nor allowed is an error."""
        known = (*need, *may)
        if not isinstance(self.value, dict):
            self.fail(f"be a mapping with the keys {', '.join(known)}")
        for key in self.value:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                self.fail(f"have no other keys than {', '.join(known)}", f"{key!r}{hint}")
        for key in need:
            if self.value.get(key) is None:
                self.fail(f"have the key {key!r}", ", ".join(map(str, self.value)) or "none")
        return {key: self._inside(key, value) for key, value in self.value.items()}

    def named(self, what: str) -> dict[str, Place]:
        """The entries of a mapping whose keys are the user's own names."""
        if not isinstance(self.value, dict) or not self.value:
            self.fail(f"be a mapping from names to {what}")
        for key in self.value:
            if not isinstance(key, str) or not key.strip():
                self.fail("have names that are text (in quotes)", repr(key))
        return {key: self._inside(key, value) for key, value in self.value.items()}

    def mapping(self) -> Mapping[str, Any]:
        """The mapping with plain numbers and unchecked, for callers with checks of their own."""
        if not isinstance(self.value, dict):
            self.fail("be a mapping")
        return {key: _plain(value) for key, value in self.value.items()}

    def items(self) -> list[Place]:
        if not isinstance(self.value, list):
            self.fail("be a list")
        return [Place(self.file, f"{self.at}[{i}]", v) for i, v in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            quotes = " in quotes" if isinstance(self.value, bool) else ""
            self.fail(f"be text{quotes}")
        if not self.value.strip() or not self.value.isprintable():
            self.fail("be printable text")
        return self.value

    def number(self) -> float:
        """A finite number; also 1e5, which YAML reads as text because it has no decimal point."""
        try:
            value = math.nan if isinstance(self.value, bool) else float(self.value)
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if not math.isfinite(value):
            self.fail("be a number")
        return value

    def whole(self, minimum: int) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int) or self.value < minimum:
            self.fail(f"be a whole number of at least {minimum}")
        return int(self.value)

    def choice(self, allowed: Sequence[str]) -> str:
        """One of these names. A name such as 1 needs no quotes; `no` does, as YAML reads false."""
        is_name = isinstance(self.value, (str, WrittenReal, WrittenWhole))
        if not is_name or str(self.value) not in allowed:
            near = difflib.get_close_matches(str(self.value), allowed, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            quotes = " (in quotes)" if isinstance(self.value, bool) else ""
            self.fail(f"be one of {', '.join(allowed)}{quotes}", f"{_shortened(self.value)}{hint}")
        return str(self.value)

    def _inside(self, key: str, value: Any) -> Place:
        return Place(self.file, f"{self.at}.{key}" if self.at else key, value)


def read_yaml(path: Path) -> Place:
    """The content of a YAML file; ValueError says in one sentence why it cannot be read."""
    if path.is_dir() or not path.exists():
        actual = "a folder" if path.is_dir() else "no such file"
        raise ValueError(f"{path} must be a YAML file, got {actual}")
    check_regular(path)
    try:
        return Place(str(path), "", load_yaml(path.read_text("utf-8-sig"), _Loader))
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be YAML in UTF-8, got other bytes") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise ValueError(f"{path} must be YAML, got an error{line}: {problem}") from None
    except ValueError as error:
        raise ValueError(f"{path} must be YAML, got {error}") from None


def load_yaml(text: str, loader: Any) -> Any:
    """The value of a YAML text, by one of PyYAML's loaders; YAMLError or ValueError if it has none.

    A small text may stand for a huge value: `a: &a [x, x]`, `b: &b [*a, *a]`, ... doubles with
    every line. A merge (`<<: [*a, *a]`) takes time for all of it. So the value is measured first.
    """
    reader = loader(text)
    try:
        node = reader.get_single_node()
        if node is None:
            return None
        if _count(node, (), {}) > _MOST:
            raise ValueError(f"more than {_MOST:,} values, counted with what its anchors stand for")
        return reader.construct_document(node)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except (LookupError, AttributeError, TypeError) as error:  # of a constructor, as for !!bool x
        raise ValueError(f"a value that is not what its tag says ({error})") from None
    finally:
        reader.dispose()


def _count(node: Any, around: tuple[int, ...], counts: dict[int, int]) -> int:
    """The number of values that a node stands for, with all that its anchors stand for.

    `around` are the nodes that it is inside of; `counts` holds the nodes counted so far.
    """
    if id(node) in around:
        raise ValueError("an anchor that contains itself")
    if len(around) == _DEEPEST:
        raise ValueError(_TOO_DEEP)
    if id(node) not in counts:
        inner = node.value if isinstance(node, yaml.CollectionNode) else ()
        if isinstance(node, yaml.MappingNode):
            inner = [one for pair in node.value for one in pair]
        here = (*around, id(node))
        counts[id(node)] = 1 + sum(_count(one, here, counts) for one in inner)
    return counts[id(node)]


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML without its surprises: a key given twice is an error, keys and dates are text, 010 is
    not read as 8, and numbers remember how they were written."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        if not isinstance(node, yaml.MappingNode):  # !!map x
            return dict(super().construct_mapping(node, deep))
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {name!r} for the second time", key.start_mark
                )
            seen.add(name)
        self.flatten_mapping(node)
        node.value = [(_as_text(key), value) for key, value in node.value]
        return dict(super().construct_mapping(node, deep))


def _as_text(key: Any) -> Any:
    """A key as it was written: YAML would read 1.1 and 1.10, or yes and true, as one key."""
    if not isinstance(key, yaml.ScalarNode) or key.tag not in _GUESSED:
        return key
    text = _TAG + "str"
    return yaml.ScalarNode(text, key.value, key.start_mark, key.end_mark, key.style)


def _whole_number(loader: Any, node: Any) -> int | str:
    """A decimal number; one with leading zeros or colons, which YAML reads as octal or
    sexagesimal, is an id and stays text."""
    if re.fullmatch(r"[-+]?(0|[1-9][0-9_]*)", node.value):
        return WrittenWhole.of(node.value)
    return str(node.value)


def _real_number(loader: Any, node: Any) -> float:
    return WrittenReal.of(node.value, loader.construct_yaml_float(node))


_TAG = "tag:yaml.org,2002:"
_GUESSED = {_TAG + kind for kind in ("int", "float", "bool", "null", "timestamp")}
_Loader.add_constructor(_TAG + "int", _whole_number)
_Loader.add_constructor(_TAG + "float", _real_number)
_Loader.add_constructor(_TAG + "timestamp", lambda loader, node: str(node.value))


def _plain(value: Any) -> Any:
    """The value with plain `int` and `float`, without the text they were written as."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, WrittenReal):
        return float(value)
    return int(value) if isinstance(value, WrittenWhole) else value


def _shortened(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a mapping with the keys {', '.join(map(str, value)) or 'none'}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "none" if value is None else f"{value!r:.200}"
