"""Ways to damage JSON, JSON lines, YAML and the headers of safetensors that leave them readable."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import yaml

from .byte_mutations import CannotApply, Mutation

_DEEP = "put deep nesting here"
_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 10**9, 2**31, 2**63, 10**18, -(2**63), 10**400, 1e18, float("nan"),
    float("inf"), "", "x", "nan", "\x00", "\u2028", "\x1b[31m", "é" * 10_000, "../../x", [], {},
    [[]], [None], {"a": 1}, list(range(10_000)), _DEEP,
)  # fmt: skip
_HOSTILE_YAML = (
    "{key}: !!bool x", "{key}: !!int x", "{key}: !!float x", "{key}: !!timestamp x",
    "{key}: !!python/object/apply:os.getcwd []", "{key}: !!set {{a, b}}", "{key}: !!binary '*'",
    "{key}: &a [*a]", "{key}: &a {{<<: *a}}", "{key}: *unknown", "? [a, b]\n: {key}",
    "{key}: {deep}", "<<: 3", "{key}: {merges}", "{key}: 0x", "{key}: 1e999", "%YAML 9.9\n---",
)  # fmt: skip


def change_tree(value: Any, draw: Random) -> Any:
    """The value with one thing in it removed, renamed, replaced, moved or repeated."""
    value = copy.deepcopy(value)
    places = list(_places(value))
    if not places:
        return draw.choice(_VALUES)
    holder, key = draw.choice(places)
    way = draw.choice(("remove", "rename", "replace", "replace", "replace", "exchange", "wrap"))
    if way == "remove":
        del holder[key]
    elif way == "rename" and isinstance(holder, dict):
        holder[draw.choice((f"{key}x", key.upper(), "", "\u2028"))] = holder.pop(key)
    elif way == "exchange":
        other, name = draw.choice(places)
        holder[key], other[name] = copy.deepcopy(other[name]), copy.deepcopy(holder[key])
    elif way == "wrap":
        holder[key] = draw.choice(([holder[key]], {"a": holder[key]}, str(holder[key])))
    else:
        holder[key] = draw.choice(_VALUES)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every mapping or list with every key or index in it, at any depth."""
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _dump(value: Any, draw: Random) -> str:
    """JSON, with deep nesting in the place of the mark for it."""
    depth = draw.choice((500, 3_000, 200_000))
    deep = draw.choice(("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth))
    return json.dumps(value).replace(json.dumps(_DEEP), deep)


def change_json(raw: bytes, draw: Random) -> bytes:
    return _dump(change_tree(json.loads(raw), draw), draw).encode()


def change_line(raw: bytes, draw: Random) -> bytes:
    """One line of JSON lines; or a line that is no object, or a character that ends some lines."""
    lines = raw.split(b"\n")
    at = draw.randrange(len(lines))
    if draw.random() < 0.1:
        lines.insert(at, draw.choice((b"", b"[]", b"null", b"{}", b"{" * 5_000, b"\xe2\x80\xa8")))
    else:
        lines[at] = change_json(lines[at], draw)
    return b"\n".join(lines)


def change_yaml(raw: bytes, draw: Random) -> bytes:
    if b"<<" in raw:
        raise CannotApply("merges may take for ever")
    return _dump(change_tree(yaml.safe_load(raw), draw), draw).encode()  # JSON is YAML


def add_hostile_yaml(raw: bytes, draw: Random) -> bytes:
    """A line with a tag, an anchor or nesting that a reader may stumble over."""
    lines = raw.decode("latin-1").splitlines(keepends=True)
    merges = "[&b0 {x: 1}" + "".join(
        f", &b{i} {{<<: [{', '.join([f'*b{i - 1}'] * 9)}]}}" for i in range(1, 10)
    )
    given = {"deep": "[" * 3_000 + "]" * 3_000, "merges": merges + "]"}
    key = draw.choice(("name", "schema", "x", "box", "splits", "location"))
    line = draw.choice(_HOSTILE_YAML).format(key=key, **given) + "\n"
    kept = [text for text in lines if not text.startswith(f"{key}:") or draw.random() < 0.3]
    at = draw.choice([i for i, text in enumerate(kept) if text[0] not in " -"] + [len(kept)])
    return "".join([*kept[:at], line, *kept[at:]]).encode("latin-1")


def change_header(raw: bytes, draw: Random) -> bytes:
    """What a safetensors file says of its tensors, and in its own JSON under "slipstream"."""
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    own = json.loads(header["__metadata__"]["slipstream"])
    own.pop("content", None)  # the hash of the rest, which older files lack, would hide all else
    if draw.random() < 0.75:
        header["__metadata__"]["slipstream"] = _dump(change_tree(own, draw), draw)
        text = json.dumps(header).encode()
    else:
        text = _dump(change_tree(header, draw), draw).encode()
    return len(text).to_bytes(8, "little") + text + raw[8 + size :]


def change_header_length(raw: bytes, draw: Random) -> bytes:
    size = int.from_bytes(raw[:8], "little")
    sizes = (0, 1, size - 1, size + 1, len(raw), 2**31, 10**8, 2**63, 2**64 - 1)
    return draw.choice(sizes).to_bytes(8, "little") + raw[8:]


JSON: tuple[Mutation, ...] = (change_json,)
LINES: tuple[Mutation, ...] = (change_line,)
YAML: tuple[Mutation, ...] = (change_yaml, add_hostile_yaml)
HEADER: tuple[Mutation, ...] = (change_header,) * 6 + (change_header_length,)
