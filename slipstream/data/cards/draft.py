"""The content of a first card for a folder: which arrays to predict, and from which inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import numpy as np

from slipstream.data.cards.file_look import ArrayLook, FileLook
from slipstream.data.cards.folder_look import FolderLook
from slipstream.data.cards.patterns import ID, as_pattern
from slipstream.data.cards.roles import (
    OUTSIDERS,
    TARGETS,
    Guess,
    role_of,
    split_unit,
    vectors_of_scalars,
)
from slipstream.data.cards.shape import Shape, percent
from slipstream.data.cards.types import MatchBy
from slipstream.data.geometry import check_order, match_exactly, match_nearly
from slipstream.data.meshes import Location, read_mesh
from slipstream.data.store import PARTS


@dataclass(frozen=True)
class Value:
    """A field of the card: an array, three that make up a vector, or a computed quantity."""

    name: str
    unit: str
    role: str
    remark: str
    """Why it has this unit, or why it is not used."""
    file: str = ""
    arrays: tuple[str, ...] = ()
    """Empty where it is computed."""
    components: int = 1
    location: Location = "point"
    used: bool = True
    """Whether it is an entry of the card; otherwise it is a comment."""


@dataclass(frozen=True)
class Draft:
    """A card before it is written."""

    look: FolderLook
    main: str
    """The file whose points, or cells, become the rows."""
    files: dict[str, str]
    """Name -> pattern."""
    match: MatchBy
    location: Location
    features: tuple[Value, ...]
    targets: tuple[Value, ...]

    @property
    def shape(self) -> Shape:
        return _shape(self.look, self.main)


def choose(look: FolderLook, main: str | None = None) -> Draft:
    """Choose what to predict at the points or cells of the file `main`.

    By default that is the file with most arrays to predict; files with the same points join it.
    ValueError where there is nothing to predict.
    """
    held = [file for file in look.looks if look.common(file)] or list(look.looks)
    with_id = [file for file in held if ID in look.layout.files[file]]
    main = main or max(with_id or held, key=lambda file: _promise(look, file))
    if main not in look.looks:
        raise ValueError(f"file must be one of {', '.join(look.looks)}, got {main!r}")
    location = _location(look.common(main))
    others, match = _companions(look, main, location)
    values = [v for file in (main, *others) for v in _values(look.common(file), file, location)]
    unclear = [v for v in values if _is_unclear(v, look.common(v.file))]
    values = [v for v in values if v not in unclear]
    targets = _targets(values)
    targets += [replace(v, used=False, remark="other arrays begin like it, too") for v in unclear]
    if not any(target.used for target in targets):
        arrays = ", ".join(array.name for array in look.common(main)) or "no arrays"
        raise ValueError(f"{look.folder} must have an array to predict, got {arrays} in {main}")
    features = _features(look, main, location, values)
    used = {v.file for v in (*features, *targets) if v.used and v.file}
    files = dict.fromkeys(file for file in (main, *look.looks) if file in {main, *used})
    shown = [[v for v in part if v.file in ("", *files)] for part in (features, targets)]
    unique = _unique([*shown[0], *shown[1]])
    first = len(shown[0])
    return Draft(
        look, main, _patterns(look, main, list(files)), match, location,
        tuple(unique[:first]), tuple(unique[first:]),
    )  # fmt: skip


def _patterns(look: FolderLook, main: str, files: Sequence[str]) -> dict[str, str]:
    """The patterns of the files; if that of `main` has no id, its name is the id of one sample."""
    patterns = {file: look.layout.files[file] for file in files}
    if ID in patterns[main]:
        return patterns
    for file in files:
        path = next(iter(look.paths[file].values()))
        patterns[file] = as_pattern(path.relative_to(look.folder).as_posix())
    folder, slash, name = patterns[main].rpartition("/")
    return patterns | {main: f"{folder}{slash}{ID}{PurePosixPath(name).suffix}"}


def _promise(look: FolderLook, file: str) -> tuple[int, bool, int]:
    """How much there is to predict in a file, to compare files; surfaces go before volumes."""
    arrays = look.common(file)
    roles = {array.guess.role.partition(" (")[0] for array in arrays}
    return len(roles & set(TARGETS)), _shape(look, file).kind == "surface", len(arrays)


def _location(arrays: Sequence[ArrayLook]) -> Location:
    """Where most of the roles to predict are; points where both have equally many."""
    roles: dict[Location, set[str]] = {"point": set(), "cell": set()}
    for accepted in (TARGETS, ("other",)):
        for array in arrays:
            if array.guess.role.partition(" (")[0] in accepted:
                roles[array.location].add(array.guess.role)
        if roles["point"] or roles["cell"]:
            break
    return "cell" if len(roles["cell"]) > len(roles["point"]) else "point"


def _companions(look: FolderLook, main: str, location: Location) -> tuple[list[str], MatchBy]:
    """Other files with something to predict at the same places, and how their rows are matched."""
    others, matches = [], set()
    for file in look.looks:
        shared = [s for s in look.looks[main] if s in look.looks[file]]
        if file == main or not shared or not _values(look.common(file), file, location):
            continue
        ours, theirs = (look.looks[f][shared[0]] for f in (main, file))
        match = _match(ours, theirs, location)
        if match:
            others.append(file)
            matches.add(match)
    return others, "order" if matches == {"order"} else "coordinates"


def _match(ours: FileLook, theirs: FileLook, location: Location) -> MatchBy | None:
    rows = "points" if location == "point" else "cells"
    if getattr(ours.shape, rows) != getattr(theirs.shape, rows):
        return None
    places = [np.asarray(read_mesh(x.path).locations(location)) for x in (ours, theirs)]
    exactly = match_exactly if location == "point" else match_nearly
    for match, check in (("coordinates", exactly), ("order", check_order)):
        try:
            check(*places)
        except ValueError:
            continue
        return "order" if match == "order" else "coordinates"
    return None


def _values(arrays: Iterable[ArrayLook], file: str, location: Location) -> list[Value]:
    """The arrays of a file that may be fields; three scalars of a vector become one field."""
    here = {a.name for a in arrays if a.location == location}
    chosen = [a for a in arrays if a.location == location or a.name not in here]
    scalars = [a.name for a in chosen if a.components == 1]
    vectors = {b: m for b, m in vectors_of_scalars(scalars).items() if role_of(b, 3) != "other"}
    in_vector = {name: base for base, members in vectors.items() for name in members}
    values = []
    for array in chosen:
        guess, where = array.guess, array.location
        base = in_vector.get(array.name)
        if base is None and guess.role not in OUTSIDERS:
            values.append(_value(guess.role, guess, file, (array.name,), array.components, where))
        elif base is not None and array.name == vectors[base][0]:
            values.append(_value(role_of(base, 3), guess, file, vectors[base], 1, where))
    moved = [replace(v, remark=f"{v.location} data, averaged; {v.remark}") for v in values]
    return [v if v.location == location else m for v, m in zip(values, moved, strict=True)]


def findable(name: str) -> str:
    """A name as it can stand in a card: from the first unprintable letter on replaced by `*`, as
    YAML cannot hold such letters."""
    for i, letter in enumerate(name):
        if not letter.isprintable():
            return name[:i] + "*"
    return name


def _is_unclear(value: Value, arrays: Iterable[ArrayLook]) -> bool:
    """Whether the card's name of an array is only a beginning that other arrays have too."""
    starts = {name: findable(name)[:-1] for name in value.arrays if findable(name) != name}
    names = {array.name for array in arrays}
    return any(
        other.startswith(start) for name, start in starts.items() for other in names - {name}
    )


def _value(
    role: str, guess: Guess, file: str, arrays: tuple[str, ...], components: int, where: Location
) -> Value:
    own = re.sub(r"[\W_]+", "_", split_unit(arrays[0])[0]).strip("_") or "value"
    name = own if role == "other" else role.replace(" ", "_").lower()
    remark = f"unit: {guess.reason}" if guess.reason else ""
    if guess.warning:
        remark = guess.warning
    return Value(name, guess.unit, role, remark, file, arrays, components, where)


def _targets(values: Sequence[Value]) -> list[Value]:
    """One value for each role to predict; all other values become comments."""
    candidates = [v for v in values if v.role in TARGETS]
    if not candidates:
        return [v for v in values if v.role == "other"]
    ordered = sorted(candidates, key=lambda v: (TARGETS.index(v.role), not _is_mean(v.arrays[0])))
    chosen: dict[str, Value] = {}
    for value in ordered:
        chosen.setdefault(value.role, value)
    if "pressure" in chosen:
        chosen.pop("pressure coefficient", None)
    left = [v for v in values if v not in chosen.values() and v.role not in ("normals", "distance")]
    return [*chosen.values(), *(replace(v, used=False, remark=v.role) for v in left)]


def _features(
    look: FolderLook, main: str, location: Location, values: Sequence[Value]
) -> list[Value]:
    """Normals on a surface, the distance to the wall in a volume; computed if no array has them."""
    shape = _shape(look, main)
    role = {"surface": "normals", "volume": "distance"}.get(shape.kind)
    read = [v for v in values if v.role == role and v.location == location][:1]
    if read or role is None:
        return read
    if role == "distance":
        surfaces = [file for file in look.looks if _shape(look, file).kind == "surface"]
        surfaces.sort(key=lambda file: not look.layout.files[file].lower().endswith(".stl"))
        return [Value(role, "m", role, "to the nearest triangle", file) for file in surfaces[:1]]
    computed = Value(role, "1", role, _side(look, main))
    if shape.unused and location == "point":
        computed = replace(computed, used=False, remark="some points belong to no face")
    return [computed]


def _side(look: FolderLook, main: str) -> str:
    """To which side computed normals point, as far as the samples that were inspected say it."""
    shares = [seen.shape.undecided for seen in look.looks[main].values()]
    if None in shares:
        return "not looked at: which side is out of the body"
    worst = max(share for share in shares if share is not None)
    if worst:
        return f"which side is out of the body is not established for {percent(worst)} of the area"
    return "out of the body"


def _shape(look: FolderLook, file: str) -> Shape:
    """The shape of a file in the first sample that was inspected."""
    return next(iter(look.looks[file].values())).shape


def _unique(values: Sequence[Value]) -> list[Value]:
    """The same values with unique names, none of which is "coords", "features" or "targets"."""
    names = dict.fromkeys(PARTS, 1)
    renamed = []
    for value in values:
        count = names[value.name] = names.get(value.name, 0) + 1
        renamed.append(value if count == 1 else replace(value, name=f"{value.name}_{count}"))
    return renamed


def _is_mean(name: str) -> bool:
    return bool(re.search(r"mean|average|avg", name, re.IGNORECASE))
