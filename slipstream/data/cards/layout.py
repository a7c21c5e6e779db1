"""How a folder of meshes is laid out: which part of the paths is the sample's id.

Every name in a path, and every beginning and end of one, is tried as the id; what is left of the
path is a pattern. The patterns that together explain the most files, with the same ids, are the
layout.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from slipstream.data.cards.patterns import ID, as_pattern, sample_id

Signature = Callable[[str], Any]
"""What a file holds, by its path: equal for files that hold the same arrays."""
Found = dict[str, dict[str, str]]
"""Pattern -> id -> path."""
Group = tuple[str, ...]
"""Patterns with the same ids: the files of a sample."""

_PER_FOLDER = 50
_MOST = 3000
_CANDIDATES = 40


@dataclass(frozen=True)
class Layout:
    """The patterns of a sample's files, by name."""

    files: dict[str, str]
    earlier: dict[str, tuple[str, ...]]
    """File -> patterns that differ from its own in a number only: times before the last."""


def find_layout(paths: Sequence[str], signature: Signature, known: Collection[str] = ()) -> Layout:
    """The layout of meshes at these paths below a folder; that of a case ends with a slash.

    `known` are words that may be ids, as in a table of parameters.
    """
    found = _patterns(_selection(paths))
    candidates = sorted((p for p in found if len(found[p]) > 1), key=_by_ids(found))
    groups = {_group(pattern, candidates, found) for pattern in candidates[:_CANDIDATES]}
    if not groups:
        return _named(_alone(paths), {})
    most = max(_covered(group, found) for group in groups)
    tied = [group for group in groups if _covered(group, found) == most]
    ranked = {_preference(group, found, signature, set(known)): group for group in tied}
    best = min(ranked)
    alone = _alone(paths)
    if best[0] and all("/" in pattern and ID in pattern for pattern in alone):
        return _named(alone, {})  # files of one folder with different arrays: one sample
    return _named(*_last_times(ranked[best], found, signature))


def with_shared(layout: Layout, paths: Sequence[str]) -> Layout:
    """The layout with files that all samples have in common; the others keep their names."""
    files = dict(layout.files)
    for pattern in map(as_pattern, paths):
        name = _name(pattern)
        while name in files:
            name = f"shared_{name}"
        files[name] = pattern
    return Layout(files, layout.earlier)


def patterns_with_ids(paths: Sequence[str], ids: Collection[str]) -> list[str]:
    """Patterns of further files, of which at least half of the samples with these ids have one."""
    found = _patterns(_selection(paths))
    few = min(len(ids), _PER_FOLDER)
    enough = [p for p in found if "*" not in p and 2 * len(found[p].keys() & set(ids)) >= few]
    return list(_group(None, sorted(enough, key=_by_ids(found)), found))


def _selection(paths: Sequence[str]) -> list[str]:
    """The first and last files of every folder: enough to see the layout of a huge one."""
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


def _patterns(paths: Sequence[str]) -> Found:
    """Every pattern that a path can be seen as; two paths of one id rule out a pattern."""
    found: Found = {}
    twice = set()
    for path in paths:
        for pattern, sample in set(_readings(path)):
            ids = found.setdefault(pattern, {})
            if ids.setdefault(sample, path) != path:
                twice.add(pattern)
    return {pattern: ids for pattern, ids in found.items() if pattern not in twice}


def _readings(path: str) -> Iterator[tuple[str, str]]:
    """All pairs of a pattern and the id with which it is this path."""
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
    """The pattern, and those in which one folder, or all, may have any name."""
    *folders, name = pattern.split("/")
    if ID not in name:
        return {pattern}
    starred = {pattern, "/".join([*("*" for _ in folders), name])}
    for i in range(len(folders)):
        starred.add("/".join([*folders[:i], "*", *folders[i + 1 :], name]))
    return starred


def _group(first: str | None, candidates: Sequence[str], found: Found) -> Group:
    """A pattern and all others that have its ids and none of its files."""
    group: list[str] = [] if first is None else [first]
    files = set(found[first].values()) if first else set()
    for pattern in candidates:
        ids, theirs = found[pattern].keys(), set(found[pattern].values())
        shared = len(ids) if first is None else len(ids & found[first].keys())
        enough = 2 * shared >= max(len(ids), len(found[first]) if first else 0)
        if enough and not files & theirs:
            group.append(pattern)
            files |= theirs
    return tuple(sorted(group))


def _covered(group: Group, found: Found) -> int:
    return len({path for pattern in group for path in found[pattern].values()})


def _preference(
    group: Group, found: Found, signature: Signature, known: set[str]
) -> tuple[Any, ...]:
    """Less is better. All files of a pattern should hold the same arrays; files beside each other
    that do are two samples, not two files of one. Then: ids that are known, few patterns, no
    stars, and short ones."""
    some = [_some(list(found[pattern].values())) for pattern in group[:10]]
    mixed = sum(len({signature(path) for path in paths}) - 1 for paths in some)
    in_folders = all(ID in pattern.rstrip("/").rpartition("/")[0] for pattern in group)
    twice = not in_folders and len({signature(paths[0]) for paths in some}) < len(some)
    ids = {sample for pattern in group for sample in found[pattern]}
    stars = sum(pattern.count("*") for pattern in group)
    return mixed, twice, -len(ids & known), len(group), stars, sum(map(len, group)), group


def _some(paths: Sequence[str]) -> Sequence[str]:
    return (paths[0], paths[1], paths[len(paths) // 2], paths[-1])


def _last_times(
    group: Group, found: Found, signature: Signature
) -> tuple[Group, dict[str, tuple[str, ...]]]:
    """Patterns that differ in a number, of files with the same arrays: the last stands for all."""
    series: dict[Any, list[str]] = {}
    for pattern in sorted(group, key=_natural):
        masked = re.sub(r"\d+", "#", pattern)
        first = next(iter(found[pattern].values()))
        key = (masked, signature(first)) if "#" in masked else pattern
        series.setdefault(key, []).append(pattern)
    return tuple(s[-1] for s in series.values()), {s[-1]: tuple(s[:-1]) for s in series.values()}


def _alone(paths: Sequence[str]) -> Group:
    """One sample: the first folder, or the first file's own name, is its id."""
    first, *others = sorted(paths)
    folder, slash, _ = first.rstrip("/").partition("/")
    if slash and all(path.startswith(folder + "/") for path in paths):
        return tuple(ID + as_pattern(path.removeprefix(folder)) for path in sorted(paths))
    suffix = "/" if first.endswith("/") else PurePosixPath(first).suffix
    return (ID + suffix, *map(as_pattern, others))


def _named(group: Group, earlier: dict[str, tuple[str, ...]]) -> Layout:
    """Names for the files: what their patterns say besides the id."""
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
    said = [re.sub(r"[\W_]+", "_", word).strip("_") for word in words]
    return next((word for word in reversed(said) if re.search("[A-Za-z]", word)), "mesh")


def _by_ids(found: Found) -> Callable[[str], tuple[Any, ...]]:
    """Many ids first, then no stars and short patterns."""
    return lambda p: (-len(found[p]), p.count("*"), len(p), p)


def _natural(path: str) -> list[Any]:
    """Sorts 2 before 10."""
    return [(int(s), "") if s.isdigit() else (-1, s) for s in re.split(r"(\d+)", path)]
