"""The layout of a folder of meshes: which part of the paths is the sample's id.

Every name in a path, and every beginning and end of one, is tried as the id; the rest of the path
is then a pattern. The patterns that together cover the most files, with the same ids, are the
layout. Of run_1/wing.vtp, run_1/body.stl, run_2/wing.vtp and run_2/body.stl, the patterns
run_{id}/wing.vtp and run_{id}/body.stl cover all four files with the ids 1 and 2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from slipstream.data.cards.patterns import ID, as_pattern, sample_id

Signature = Callable[[str], Any]
"""What a file holds, by its path: equal for files that hold the same arrays."""
Matches = dict[str, dict[str, str]]
"""Pattern -> id -> path."""
PatternGroup = tuple[str, ...]
"""Patterns with the same ids: the files of a sample."""

_PER_FOLDER = 50
"""Files of a folder that are looked at; the names of more add nothing."""
_MOST = 3000
"""Files that are looked at in all."""
_CANDIDATES = 40
"""Patterns with most ids that are tried as the first of a group."""


@dataclass(frozen=True)
class Layout:
    """The patterns of a sample's files, by name."""

    files: dict[str, str]
    earlier: dict[str, tuple[str, ...]]
    """File -> patterns that differ from its own in a number only: times before the last."""
    optional: dict[str, tuple[str, int]] = field(default_factory=dict)
    """File -> pattern, and how many samples have it: fewer than half."""


def find_layout(paths: Sequence[str], signature: Signature, known: Collection[str] = ()) -> Layout:
    """The layout of meshes at these paths below a folder; the path of a case ends with a slash.

    `known` are words that are likely ids, as those in a table of parameters.
    """
    matches = _patterns(_selection(paths))
    candidates = sorted((p for p in matches if len(matches[p]) > 1), key=_by_ids(matches))
    groups = {_group(pattern, candidates, matches) for pattern in candidates[:_CANDIDATES]}
    if not groups:
        return _named(_single_sample(paths), {})
    most = max(_covered(group, matches) for group in groups)
    tied = [group for group in groups if _covered(group, matches) == most]
    ranked = {_preference(group, matches, signature, set(known)): group for group in tied}
    best = min(ranked)
    single = _single_sample(paths)
    if best[0] and all("/" in pattern and ID in pattern for pattern in single):
        return _named(single, {})  # files of one folder with different arrays: one sample
    return _named(*_last_times(ranked[best], matches, signature))


def with_shared(layout: Layout, paths: Sequence[str]) -> Layout:
    """The layout with files that all samples have in common; the others keep their names."""
    files = dict(layout.files)
    for pattern in map(as_pattern, paths):
        name = _name(pattern)
        while name in files:
            name = f"shared_{name}"
        files[name] = pattern
    return replace(layout, files=files)


def with_optional(layout: Layout, paths: Sequence[str], ids: Collection[str]) -> Layout:
    """The layout with files at these paths that fewer than half of the samples have."""
    matches = _patterns(_selection(paths))
    fit = [p for p in matches if "*" not in p and matches[p].keys() <= set(ids)]
    few = [p for p in fit if 2 * len(matches[p]) < len(ids)]
    optional: dict[str, tuple[str, int]] = {}
    for pattern in _group(None, sorted(few, key=_by_ids(matches)), matches):
        name = _name(pattern)
        while name in layout.files or name in optional:
            name += "_"
        optional[name] = pattern, len(matches[pattern])
    return replace(layout, optional=optional)


def patterns_with_ids(paths: Sequence[str], ids: Collection[str]) -> list[str]:
    """Patterns of further files that at least half of the samples with these ids have."""
    matches = _patterns(_selection(paths))
    few = min(len(ids), _PER_FOLDER)
    shared = {p: len(matches[p].keys() & set(ids)) for p in matches if "*" not in p}
    enough = [p for p, n in shared.items() if 2 * n >= few and n >= min(2, len(ids))]
    return list(_group(None, sorted(enough, key=_by_ids(matches)), matches))


def _selection(paths: Sequence[str]) -> list[str]:
    """The first and last files of every folder: enough to see the layout of a huge folder."""
    folders: dict[PurePosixPath, list[str]] = {}
    for path in paths:
        folders.setdefault(PurePosixPath(path).parent, []).append(path)
    some: list[str] = []
    for inside in folders.values():
        ordered, half = sorted(inside, key=_natural), _PER_FOLDER // 2
        some += ordered if len(ordered) <= _PER_FOLDER else ordered[:half] + ordered[-half:]
        if len(some) >= _MOST:
            break
    return some


def _patterns(paths: Sequence[str]) -> Matches:
    """Every pattern that matches a path; one that gives two paths the same id is left out."""
    matches: Matches = {}
    twice = set()
    for path in paths:
        for pattern, sample in set(_readings(path)):
            ids = matches.setdefault(pattern, {})
            if ids.setdefault(sample, path) != path:
                twice.add(pattern)
    return {pattern: ids for pattern, ids in matches.items() if pattern not in twice}


def _readings(path: str) -> Iterator[tuple[str, str]]:
    """All pairs of a pattern and the id that together make this path."""
    suffix = "/" if path.endswith("/") else PurePosixPath(path).suffix
    stem = path.removesuffix(suffix)
    for text in {part for name in stem.split("/") for part in _id_texts(name)}:
        edges = ("A-Za-z0-9", "0-9" if text[0].isdigit() else "A-Za-z")
        for edge in edges:
            left = re.split(f"(?<![{edge}]){re.escape(text)}(?![{edge}])", stem)
            pattern = ID.join(map(as_pattern, left))
            if ID in pattern and ID + ID not in pattern:
                yield from ((p + suffix, sample_id(text)) for p in _with_stars(pattern))


def _id_texts(name: str) -> set[str]:
    """The name, its beginnings and ends, and the numbers in it."""
    cuts = [m.start() for m in re.finditer(r"(?<=[^\W_])(?=[\W_])|(?<=[\W_])(?=[^\W_])", name)]
    cuts += [m.start() for m in re.finditer(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])", name)]
    texts = {name, *(name[cut:] for cut in cuts), *(name[:cut] for cut in cuts)}
    texts |= set(re.findall(r"\d+", name))
    good = {text for text in texts if text[:1].isalnum() and text[-1:].isalnum()}
    return good if as_pattern(name) == name else good | {name}


def _with_stars(pattern: str) -> set[str]:
    """The pattern, and variants in which one folder, or all folders, may have any name."""
    *folders, name = pattern.split("/")
    if ID not in name:
        return {pattern}
    starred = {pattern, "/".join([*("*" for _ in folders), name])}
    for i in range(len(folders)):
        starred.add("/".join([*folders[:i], "*", *folders[i + 1 :], name]))
    return starred


def _group(first: str | None, candidates: Sequence[str], matches: Matches) -> PatternGroup:
    """A pattern and all others with the same ids, by at least half, and with other files."""
    group: list[str] = [] if first is None else [first]
    files = set(matches[first].values()) if first else set()
    for pattern in candidates:
        ids, theirs = matches[pattern].keys(), set(matches[pattern].values())
        shared = len(ids) if first is None else len(ids & matches[first].keys())
        enough = 2 * shared >= max(len(ids), len(matches[first]) if first else 0)
        if enough and not files & theirs:
            group.append(pattern)
            files |= theirs
    return tuple(sorted(group))


def _covered(group: PatternGroup, matches: Matches) -> int:
    return len({path for pattern in group for path in matches[pattern].values()})


def _preference(
    group: PatternGroup, matches: Matches, signature: Signature, known: set[str]
) -> tuple[Any, ...]:
    """A key for `min`: the smaller, the better. All files of a pattern should hold the same arrays;
    files in one folder that hold the same arrays are two samples, not two files of one. Then follow
    many known ids, few patterns, few stars and short patterns."""
    some = [_some(list(matches[pattern].values())) for pattern in group[:10]]
    mixed = sum(len({signature(path) for path in paths}) - 1 for paths in some)
    in_folders = all(ID in pattern.rstrip("/").rpartition("/")[0] for pattern in group)
    twice = not in_folders and len({signature(paths[0]) for paths in some}) < len(some)
    ids = {sample for pattern in group for sample in matches[pattern]}
    stars = sum(pattern.count("*") for pattern in group)
    return mixed, twice, -len(ids & known), len(group), stars, sum(map(len, group)), group


def _some(paths: Sequence[str]) -> Sequence[str]:
    return (paths[0], paths[1], paths[len(paths) // 2], paths[-1])


def _last_times(
    group: PatternGroup, matches: Matches, signature: Signature
) -> tuple[PatternGroup, dict[str, tuple[str, ...]]]:
    """The patterns without those of earlier times, and the earlier ones by the last of each.

    Patterns that differ in a number, for files with the same arrays, are taken for times.
    """
    series: dict[Any, list[str]] = {}
    for pattern in sorted(group, key=_natural):
        masked = re.sub(r"\d+", "#", pattern)
        first = next(iter(matches[pattern].values()))
        key = (masked, signature(first)) if "#" in masked else pattern
        series.setdefault(key, []).append(pattern)
    return tuple(s[-1] for s in series.values()), {s[-1]: tuple(s[:-1]) for s in series.values()}


def _single_sample(paths: Sequence[str]) -> PatternGroup:
    """The patterns of a single sample: its id is the first folder, a number that several names
    have, as in boundary_3.vtp and volume_3.vtu, or the name of the first file."""
    first, *others = sorted(paths, key=lambda path: (path.endswith((".stl", ".ply")), path))
    folder, slash, _ = first.rstrip("/").partition("/")
    if slash and all(path.startswith(folder + "/") for path in paths):
        return tuple(ID + as_pattern(path.removeprefix(folder)) for path in sorted(paths))
    numbered = _with_one_number(paths)
    if numbered:
        return numbered
    suffix = "/" if first.endswith("/") else PurePosixPath(first).suffix
    folder, slash, _ = first.rstrip("/").rpartition("/")
    return (f"{as_pattern(folder)}{slash}{ID}{suffix}", *map(as_pattern, others))


def _with_one_number(paths: Sequence[str]) -> PatternGroup | None:
    """The patterns by the number that most of the names have; None where no two have the same."""
    readings = {path: {s: p for p, s in sorted(_readings(path)) if "*" not in p} for path in paths}
    numbers = [sample for ids in readings.values() for sample in ids if sample.isdecimal()]
    best = max(sorted(set(numbers)), key=numbers.count, default="")
    if numbers.count(best) < 2:
        return None
    return tuple(readings[path].get(best, as_pattern(path)) for path in sorted(paths))


def _named(group: PatternGroup, earlier: dict[str, tuple[str, ...]]) -> Layout:
    """The layout with a name for each file, taken from its pattern without the id."""
    files: dict[str, str] = {}
    names = [_name(pattern) for pattern in group]
    for name, pattern in zip(names, group, strict=True):
        if names.count(name) > 1:
            name = f"{name}_{PurePosixPath(pattern).suffix.strip('.')}"
        while name in files:
            name += "_"
        files[name] = pattern
    return Layout(files, {f: earlier[p] for f, p in files.items() if earlier.get(p)})


def _name(pattern: str) -> str:
    """The last word of a pattern that has letters."""
    words = re.split(r"\{id\}|[*?]|/", pattern.rpartition(".")[0] or pattern)
    plain = [re.sub(r"[\W_]+", "_", word).strip("_") for word in words]
    return next((word for word in reversed(plain) if re.search("[A-Za-z]", word)), "mesh")


def _by_ids(matches: Matches) -> Callable[[str], tuple[Any, ...]]:
    """A key for sorting: many ids first, then few stars, then short patterns."""
    return lambda p: (-len(matches[p]), p.count("*"), len(p), p)


def _natural(path: str) -> list[Any]:
    """A key for sorting by the numbers in a path: 2 before 10."""
    return [(int(s), "") if s.isdigit() else (-1, s) for s in re.split(r"(\d+)", path)]
