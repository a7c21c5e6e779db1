"""The card of a folder of meshes: where its files are and what is read from them.

    schema: 1
    name: wing                        # of the store's source
    files:                            # {id} stands for the sample's id
      surface: "run_{id}/surface.vtp"
      shear: "run_{id}/shear_{id}.vtp"
    match: coordinates                # how the rows of several files are brought together
    location: point                   # where the rows are: point | cell
    coords: {name: position, unit: m}
    features:
      - {name: normal, computed: normals}
    targets:
      - {name: pressure, unit: Pa, from: {file: surface, array: p}, subtract: 101325}
      - {name: shear, unit: Pa, from: {file: shear, array: tau, components: 3, location: cell}}
      - name: cp                      # divided by 0.5 rho speed^2 of the sample
        unit: "1"
        from: {file: surface, array: p}
        divide: {factor: 0.5, by: {rho: 1, speed: 2}, unit: Pa}
    parameters:                       # become features, the same at every point of a sample
      - file: parameters.csv
        id: case                      # the column with the sample's id
        features: [{name: speed, unit: m/s, from: U}, {name: rho, unit: kg/m^3}]
    box: {low: [-1, -1, null], high: [5, 1, null]}
    drop: non-finite
    splits: {random: {train: 0.8, val: 0.1, test: 0.1}, seed: 0}
    reference: {density: rho, speed: speed, area: 0.5}    # for coefficients of forces

docs/meshes.md explains every key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from slipstream.core.checked_yaml import Place, read_yaml
from slipstream.core.files import check_regular
from slipstream.data.cards.patterns import ID, pattern_problem, sample_id
from slipstream.data.cards.reference import read_reference
from slipstream.data.cards.types import (
    SCHEMA,
    ArrayValue,
    Card,
    ComputedValue,
    Corner,
    Entry,
    MatchBy,
    ParameterFile,
    ParameterValue,
    SplitRule,
)
from slipstream.data.meshes import Location
from slipstream.data.store import Computed, Field, Reference

__all__ = ["Card", "read_card"]

_POINT_OR_CELL = ("point", "cell")


def read_card(path: Path | str) -> Card:
    """Read and check a card; ValueError names the place in the file, what is expected there and
    what it has."""
    path = Path(path)
    keys = read_yaml(path).keys(
        need=("schema", "files", "targets"),
        may=("name", "match", "location", "patches", "coords", "features", "parameters", "box")
        + ("drop", "splits", "reference"),
    )
    _check_schema(keys["schema"])
    given = {key: place for key, place in keys.items() if place.value is not None}
    files = _files(given["files"])
    location = cast(Location, _choice(given, "location", _POINT_OR_CELL))
    coords, offset = _coords(given.get("coords"))
    parameters, parameter_features = _parameters(given.get("parameters"))
    scalars = tuple(e.field.name for e in parameter_features if e.field.components == 1)
    context = _Context(files, location, coords, scalars)
    features = [_entry(place, context) for place in _list(given.get("features"))]
    for place, feature in zip(_list(given.get("features")), features, strict=True):
        if feature.field.divided:
            place.fail("have no `divide`, which targets may have", "it in a feature")
    targets = [_entry(place, context) for place in given["targets"].items()]
    if not targets:
        given["targets"].fail("have at least one entry")
    for place, target in zip(given["targets"].items(), targets, strict=True):
        if not isinstance(target.value, ArrayValue):
            place.fail("be read with `from`: what is computed from the mesh is a feature")
    card = Card(
        name=given["name"].text() if "name" in given else "mesh",
        files=files,
        match=cast(MatchBy, _choice(given, "match", ("coordinates", "order"))),
        location=location,
        patches=tuple(place.text() for place in _list(given.get("patches"))),
        coords=context.coords,
        features=(*features, *parameter_features),
        targets=tuple(targets),
        parameters=parameters,
        box=_box(given["box"]) if "box" in given else None,
        drop="drop" in given and bool(given["drop"].choice(("non-finite",))),
        splits=_splits(given["splits"], path.parent) if "splits" in given else None,
        subtract=offset,
        reference=(
            read_reference(given["reference"], parameter_features) if "reference" in given else None
        ),
    )
    try:
        card.schema  # noqa: B018 - it checks the names
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not any(ID in files[name] for name in card.array_files):
        names = ", ".join(card.array_files)
        keys["files"].fail(f"have {ID} in the pattern of one that arrays are read from ({names})")
    return card


@dataclass(frozen=True)
class _Context:
    """What the entries of a card refer to: files, location, coordinates, parameters."""

    files: Mapping[str, str]
    location: Location
    coords: Field
    scalars: tuple[str, ...]
    """The parameters that are one number."""


def _check_schema(place: Place) -> None:
    if place.whole(1) > SCHEMA:
        place.fail(f"be at most {SCHEMA}", f"{place.value}: a newer slipstream wrote the card")


def _files(place: Place) -> dict[str, str]:
    files = {}
    for name, entry in place.named("patterns of paths").items():
        files[name] = entry.text()
        problem = pattern_problem(files[name])
        if problem:
            entry.fail(problem)
    return files


def _coords(place: Place | None) -> tuple[Field, tuple[float, ...]]:
    """The field of the coordinates, and what is subtracted from their values."""
    keys = place.keys(may=("name", "unit", "subtract")) if place else {}
    name = keys["name"].text() if "name" in keys else "position"
    field = Field(name, keys["unit"].text() if "unit" in keys else "m", components=3)
    return field, _numbers(keys["subtract"], 3) if "subtract" in keys else ()


def _entry(place: Place, context: _Context) -> Entry:
    optional = ("unit", "group", "from", "computed", "to", "subtract", "scale", "divide")
    keys = place.keys(need=("name",), may=optional)
    if ("from" in keys) == ("computed" in keys):
        place.fail("have either `from` or `computed`", ", ".join(keys))
    misfits = ("to",) if "from" in keys else ("subtract", "scale", "divide")
    for key in misfits:
        if key in keys:
            whose = "`computed`" if "from" in keys else "`from`"
            keys[key].fail(f"stand beside {whose} only", repr(keys[key].value))
    if "computed" in keys:
        return _computed(place, keys, context)
    if "unit" not in keys:
        place.fail("have the key 'unit', which is \"1\" where there is none", ", ".join(keys))
    value = _array_value(keys, context)
    field = _field(keys, len(value.arrays) * value.components)
    if "divide" in keys:
        field = replace(field, divided=_reference(keys["divide"], context))
    return Entry(field, value)


def _reference(place: Place, context: _Context) -> Reference:
    keys = place.keys(need=("by", "unit"), may=("factor",))
    by = {}
    for name, power in keys["by"].named("powers of parameters").items():
        if name not in context.scalars:
            known = ", ".join(context.scalars) or "none"
            power.fail(f"be named after a parameter of one number ({known})", repr(name))
        by[name] = _other_than_0(power)
    factor = _other_than_0(keys["factor"]) if "factor" in keys else 1.0
    return Reference(by, factor, keys["unit"].text())


def _other_than_0(place: Place) -> float:
    if place.number() == 0:
        place.fail("be a number other than 0")
    return place.number()


def _field(keys: Mapping[str, Place], components: int, unit: str = "1") -> Field:
    group: str | None = ""
    if "group" in keys:
        group = None if keys["group"].value is None else keys["group"].text()
    unit = keys["unit"].text() if "unit" in keys else unit
    return Field(keys["name"].text(), unit, group, components)


def _array_value(keys: Mapping[str, Place], context: _Context) -> ArrayValue:
    source = keys["from"].keys(need=("array",), may=("file", "components", "location"))
    several = isinstance(source["array"].value, list)
    arrays = [a.text() for a in source["array"].items()] if several else [source["array"].text()]
    if not arrays:
        source["array"].fail("name at least one array")
    components = source["components"].whole(1) if "components" in source else 1
    if several and components != 1:
        source["components"].fail("be 1 where several arrays are named")
    width = len(arrays) * components
    subtract = _numbers(keys["subtract"], width) if "subtract" in keys else (0.0,)
    location = context.location
    if "location" in source:
        location = cast(Location, source["location"].choice(_POINT_OR_CELL))
    if "file" not in source and len(context.files) > 1:
        keys["from"].fail("have the key 'file' where there are several", ", ".join(source))
    names = tuple(context.files)
    return ArrayValue(
        file=source["file"].choice(names) if "file" in source else names[0],
        arrays=tuple(arrays),
        components=components,
        location=location,
        subtract=subtract,
        scale=keys["scale"].number() if "scale" in keys else 1.0,
    )


def _computed(place: Place, keys: Mapping[str, Place], context: _Context) -> Entry:
    what = cast(Computed, keys["computed"].choice(("normals", "distance")))
    if what == "distance" and "to" not in keys:
        place.fail("have the key 'to', the file of the surface", ", ".join(keys))
    if what == "normals" and "to" in keys:
        keys["to"].fail("stand beside `computed: distance` only")
    unit = context.coords.unit if what == "distance" else "1"
    field = replace(_field(keys, 3 if what == "normals" else 1, unit), computed=what)
    to = keys["to"].choice(tuple(context.files)) if what == "distance" else None
    return Entry(field, ComputedValue(what, to))


def _parameters(place: Place | None) -> tuple[tuple[ParameterFile, ...], tuple[Entry, ...]]:
    sources, entries = [], []
    for index, item in enumerate(_list(place)):
        keys = item.keys(need=("file", "features"), may=("id", "id_pattern"))
        pattern = keys["file"].text()
        problem = pattern_problem(pattern)
        if problem:
            keys["file"].fail(problem)
        if (ID in pattern) == ("id" in keys):
            item.fail(
                f"have either {ID} in `file` or `id`, the column of a table with the sample's id"
            )
        sources.append(ParameterFile(pattern, *_ids_of_table(keys)))
        for feature in keys["features"].items():
            inner = feature.keys(need=("name", "unit"), may=("from", "components"))
            components = inner["components"].whole(1) if "components" in inner else 1
            key = inner.get("from", inner["name"]).text()
            entries.append(Entry(_field(inner, components), ParameterValue(index, key)))
    return tuple(sources), tuple(entries)


def _ids_of_table(keys: Mapping[str, Place]) -> tuple[str | None, str | None]:
    """The column with the samples' ids, and how the table writes them."""
    column = keys["id"].text() if "id" in keys else None
    if "id_pattern" not in keys:
        return column, None
    if column is None:
        keys["id_pattern"].fail("stand beside `id` only")
    written = keys["id_pattern"].text()
    if ID not in written:
        keys["id_pattern"].fail(f"have {ID} where the table has the sample's id")
    if re.search(r"[{}]|\*\*", written.replace(ID, "")) or ID + ID in written:
        keys["id_pattern"].fail(f"have no other braces than {ID}, and text between two of them")
    return column, written


def _box(place: Place) -> tuple[Corner, Corner]:
    keys = place.keys(need=("low", "high"))
    corners = []
    for key in ("low", "high"):
        numbers = [None if p.value is None else p.number() for p in keys[key].items()]
        if len(numbers) != 3:
            keys[key].fail("be three numbers, null where the box is open")
        corners.append(cast(Corner, tuple(numbers)))
    for axis, (low, high) in enumerate(zip(*corners, strict=True)):
        if low is not None and high is not None and not low < high:
            place.fail(f"have low below high on axis {axis}", f"{low} and {high}")
    return corners[0], corners[1]


def _splits(place: Place, folder: Path) -> SplitRule:
    keys = place.keys(may=("random", "lists", "seed"))
    if ("random" in keys) == ("lists" in keys):
        place.fail("have either `random` or `lists`")
    seed = keys["seed"].whole(0) if "seed" in keys else 0
    if "lists" in keys:
        named = keys["lists"].named("ids, or files with one on each line")
        return SplitRule(None, {name: _ids(entry, folder) for name, entry in named.items()}, seed)
    parts = keys["random"].named("fractions")
    fractions = {name: part.number() for name, part in parts.items()}
    if any(f < 0 for f in fractions.values()) or not math.isclose(sum(fractions.values()), 1):
        keys["random"].fail("be fractions that sum to 1", str(fractions))
    return SplitRule(fractions, None, seed)


def _ids(place: Place, folder: Path) -> tuple[str, ...]:
    """Ids listed in the card, or in a text file relative to its folder."""
    if isinstance(place.value, list):
        return tuple(sample_id(str(item.value)) for item in place.items())
    path = folder / place.text()
    check_regular(path)
    if not path.is_file():
        place.fail("be a list of ids, or a file with one on each line", f"no file {path}")
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        place.fail("be a file in UTF-8", f"other bytes in {path}")
    lines = text.split("\n")  # an id may contain what splitlines splits at
    return tuple(sample_id(line) for line in lines if line.strip())


def _numbers(place: Place, width: int) -> tuple[float, ...]:
    if not isinstance(place.value, list):
        return (place.number(),)
    numbers = tuple(item.number() for item in place.items())
    if len(numbers) != width:
        place.fail(f"be one number, or {width}: one for each component")
    return numbers


def _choice(given: Mapping[str, Place], key: str, allowed: tuple[str, ...]) -> str:
    """The value of a key; the first one allowed where the card does not have it."""
    return given[key].choice(allowed) if key in given else allowed[0]


def _list(place: Place | None) -> list[Place]:
    return place.items() if place else []
