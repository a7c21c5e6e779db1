"""Ways to damage a VTK XML file that still look like one: attributes, elements, block headers."""

from __future__ import annotations

import base64
import re
from random import Random
from typing import Literal

from .byte_mutations import NUMBERS, WORDS, Mutation

_ATTRIBUTE = re.compile(rb'\s([A-Za-z_]+)="([^"]*)"')
_ELEMENT = re.compile(rb"<(\w+)[^<>]*?(?:/>|>[^<>]*</\1>)")
_DEEP = 100_000
_SIZES = (0, 1, 2**31, 2**32 - 1, 10**9, 2**63, 10**18, 2**64 - 1)
_TYPES = (b"Int8", b"UInt8", b"Int32", b"Int64", b"Float32", b"Float64", b"String", b"Bit")
_ENCODINGS = (b"xyz", b"UTF-16", b"UTF-32", b"latin-1", b"cp037", b"utf-7")


def replace_attribute(raw: bytes, draw: Random) -> bytes:
    """By a number, a word, a type, or what another attribute says."""
    places = list(_ATTRIBUTE.finditer(raw))
    other = draw.choice(places)[2]
    place = draw.choice(places)
    by = draw.choice((draw.choice(NUMBERS), draw.choice(WORDS), draw.choice(_TYPES), other))
    return raw[: place.start(2)] + by + raw[place.end(2) :]


def swap_attributes(raw: bytes, draw: Random) -> bytes:
    places = list(_ATTRIBUTE.finditer(raw))
    one, other = sorted(draw.sample(places, 2), key=lambda place: place.start())
    parts = [raw[: one.start(2)], other[2], raw[one.end(2) : other.start(2)], one[2]]
    return b"".join([*parts, raw[other.end(2) :]])


def drop_attribute(raw: bytes, draw: Random) -> bytes:
    places = list(_ATTRIBUTE.finditer(raw))
    place = draw.choice(places)
    return raw[: place.start()] + raw[place.end() :]


def move_element(raw: bytes, draw: Random) -> bytes:
    """An element without others in it is lost, or written twice or many times."""
    place = draw.choice(list(_ELEMENT.finditer(raw)))
    times = draw.choice((0, 0, 2, 2, 20_000 if len(place[0]) < 500 else 3))
    return raw[: place.start()] + place[0] * times + raw[place.end() :]


def name_itself(raw: bytes, draw: Random) -> bytes:
    """A .vtm that names itself among its blocks."""
    return re.sub(rb'file="[^"]*"', b'file="all.vtm"', raw, count=draw.choice((1, 2)))


def nest(raw: bytes, draw: Random) -> bytes:
    """Elements in elements, closed or not."""
    at = draw.choice([m.start() for m in re.finditer(rb"<\w", raw)] or [0])
    return raw[:at] + b"<a>" * _DEEP + b"</a>" * draw.choice((0, _DEEP)) + raw[at:]


def change_declaration(raw: bytes, draw: Random) -> bytes:
    """An encoding, or entities that stand for one another."""
    body = re.sub(rb"^<\?xml[^>]*\?>\s*", b"", raw)
    if draw.random() < 0.7:
        return b'<?xml version="1.0" encoding="' + draw.choice(_ENCODINGS) + b'"?>\n' + body
    names = [b"a%d" % i for i in range(12)]
    pairs = zip(names, [b"ha", *(b"&%s;" % name * 10 for name in names)], strict=False)
    entities = b"".join(b'<!ENTITY %s "%s">' % pair for pair in pairs)
    body = body.replace(b'Name="U"', b'Name="&a11;"', 1)
    return b'<?xml version="1.0"?>\n<!DOCTYPE VTKFile [' + entities + b"]>\n" + body


def change_block_header(raw: bytes, draw: Random) -> bytes:
    """One of the numbers before an array's bytes: its length, or number and lengths of blocks."""
    width = 8 if b'header_type="UInt64"' in raw else 4
    order: Literal["big", "little"] = "big" if b"BigEndian" in raw else "little"
    size = (draw.choice(_SIZES) % (1 << 8 * width)).to_bytes(width, order)
    number = draw.randrange(4)
    raw_data = re.search(rb'<AppendedData encoding="raw">\s*_', raw)
    offsets = [int(m) for m in re.findall(rb'offset="(\d{1,9})"', raw)]
    if raw_data and offsets:
        at = raw_data.end() + draw.choice(offsets) + number * width
        return raw[:at] + size + raw[at + width :]
    texts = list(re.finditer(rb'(?<=[>_\s"])[A-Za-z0-9+/]{12,}={0,2}', raw))
    place = draw.choice(texts)
    head = bytearray(base64.b64decode(place[0][: len(place[0]) // 4 * 4]))
    head[number * width : (number + 1) * width] = size
    return raw[: place.start()] + base64.b64encode(bytes(head)) + raw[place.end() :]


XML: tuple[Mutation, ...] = (
    replace_attribute,
    replace_attribute,
    swap_attributes,
    drop_attribute,
    move_element,
    nest,
    change_declaration,
    change_block_header,
    change_block_header,
)
BLOCKS: tuple[Mutation, ...] = (*XML[:-2], name_itself, name_itself)
