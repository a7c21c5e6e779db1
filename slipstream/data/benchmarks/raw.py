"""Common to all readers of published data: which designs are on disk, and their splits.

A design is the unit of a split: a car, a wing, a trajectory. Usually it is one sample.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from slipstream.core.checked_yaml import load_yaml
from slipstream.core.files import check_regular
from slipstream.core.folders import files_below
from slipstream.data.store import Cloud, RowBlocks, Schema, Splits

SPLITS = ("train", "val", "test")

_NO_OPTIONS = {"name", "raw", "counts", "split", "part", "targets"}


@dataclass(frozen=True, kw_only=True)
class RawSource(ABC):
    """Samples of a published data set in its published layout; missing designs are left out."""

    name: str
    raw: Path
    counts: Mapping[str, int]
    """Designs of each split as published."""
    split: str = "published"
    """"published", "sorted", or the path of lists (see `read_lists`)."""

    @property
    @abstractmethod
    def schema(self) -> Schema: ...

    @property
    def seen(self) -> Schema:
        """The fields of a batch, which may be computed from those on disk (pairs of states)."""
        return self.schema

    @cached_property
    @abstractmethod
    def designs(self) -> Sequence[str]:
        """The designs on disk, sorted."""

    @abstractmethod
    def files(self, sample: str) -> Mapping[str, Path]: ...

    @abstractmethod
    def read(self, sample: str) -> Cloud | RowBlocks: ...

    def published(self) -> Splits:
        """Designs by split as in the paper, whether on disk or not; by default the sorted ones."""
        return sorted_splits(self.designs, self.counts)

    def design_named(self, text: str) -> str:
        """The design that a line of a list names."""
        return text

    def samples_of(self, design: str) -> Sequence[str]:
        return (design,)

    @cached_property
    def lists(self) -> Splits:
        """Designs by split, whether on disk or not."""
        if self.split == "published":
            return self.published()
        if self.split == "sorted":
            return sorted_splits(self.designs, self.counts)
        return read_lists(Path(self.split), self.design_named)

    @property
    def options(self) -> Mapping[str, Any]:
        """All settings of a reader; not the split, so that a store can be extended."""
        names = (field.name for field in fields(self) if field.name not in _NO_OPTIONS)
        return {name: getattr(self, name) for name in names}

    def ids(self) -> Sequence[str]:
        listed = {design for members in self.lists.values() for design in members}
        return [s for d in self.designs if d in listed for s in self.samples_of(d)]

    def splits(self) -> Splits:
        here = set(self.designs)
        return {
            split: tuple(s for d in members if d in here for s in self.samples_of(d))
            for split, members in self.lists.items()
        }

    def presence(self) -> str:
        """How much of the data set is here, as "472 of 484 designs are here"."""
        listed = {design for members in self.lists.values() for design in members}
        unlisted = [design for design in self.designs if design not in listed]
        by_rule = self.split in ("published", "sorted")
        total = sum(self.counts.values()) if by_rule else len(listed)
        left = (
            f", left out as in no split {len(unlisted)}, the first {unlisted[0]}"
            if unlisted
            else ""
        )
        return f"{len(self.designs) - len(unlisted)} of {total} designs are here{left}"

    def by_name(self, *paths: Path) -> dict[str, Path]:
        """The files by the names that the manifest gives them: relative to the raw folder."""
        return {path.relative_to(self.raw).as_posix(): path for path in paths}


def sorted_splits(designs: Sequence[str], counts: Mapping[str, int]) -> Splits:
    """The first designs train, the next validate, the last test.

    If all designs are here, as many as published; else in the same proportion: of 100 with the
    published counts 400, 34 and 50, 83, 7 and 10.
    """
    total, here = sum(counts.values()), len(designs)
    splits: Splits = {}
    start = reached = 0
    for split, count in counts.items():
        reached += count
        end = round(here * reached / total)
        splits[split] = tuple(designs[start:end])
        start = end
    return splits


def read_lists(path: Path, design_named: Callable[[str], str]) -> Splits:
    """Splits from a folder with train*.txt, val*.txt and test*.txt, one design on each line, or
    from one JSON or YAML file: split -> designs."""
    if path.is_dir():
        files = {split: _only_file(path, f"{split}*.txt") for split in SPLITS}
        names = {split: _read_text(file).split() for split, file in files.items()}
    elif path.is_file():
        names = _read_mapping(path)
    else:
        raise ValueError(
            f"split must be published, sorted, a folder of lists or a JSON or YAML file, got"
            f" {str(path)!r}: no such file"
        )
    return {split: tuple(map(design_named, members)) for split, members in names.items()}


def _only_file(folder: Path, pattern: str) -> Path:
    matches = sorted(folder.glob(pattern))
    if len(matches) != 1:
        got = ", ".join(file.name for file in matches) or "none"
        raise ValueError(f"{folder} must hold one {pattern}, got {got}")
    return matches[0]


def _read_text(path: Path) -> str:
    """The text without a byte order mark, which would become part of the first design's name."""
    check_regular(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8 text, got {error}") from None


def _read_mapping(path: Path) -> dict[str, list[str]]:
    """Designs by split, as text: YAML would read the design 00010 as the octal number 8."""
    text = _read_text(path)
    try:
        value = load_yaml(text, yaml.BaseLoader)
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(
            f"{path} must be JSON or YAML, got {' '.join(str(error).split())}"
        ) from None
    good = isinstance(value, dict) and all(isinstance(ids, list) for ids in value.values())
    if not good or "train" not in value:
        raise ValueError(
            f"{path} must map train, val and test to lists of designs, got {value!r:.80}"
        )
    return {str(split): [str(design) for design in ids] for split, ids in value.items()}


def numbered_folders(root: Path, prefix: str) -> dict[str, Path]:
    """Folders like run_12 by name, in the order of their numbers."""
    if not root.is_dir():
        raise ValueError(f"{root} must be a folder with {prefix}1, ..., got no such folder")
    numbered = [
        (int(match[1]), path)
        for path in root.iterdir()
        if (match := re.fullmatch(re.escape(prefix) + r"(\d+)", path.name)) and path.is_dir()
    ]
    if not numbered:
        raise ValueError(f"{root} must hold folders {prefix}1, ..., got none")
    return {path.name: path for _, path in sorted(numbered)}


def files_by_stem(root: Path, suffix: str) -> dict[str, Path]:
    """All files with a suffix in a folder, at any depth, by their name without it."""
    if not root.is_dir():
        raise ValueError(f"{root} must be a folder of *{suffix} files, got no such folder")
    files: dict[str, Path] = {}
    for path in files_below(root):
        if path.suffix != suffix:
            continue
        if path.stem in files:
            raise ValueError(
                f"{root} must hold {path.name} once, got {files[path.stem]} and {path}"
            )
        files[path.stem] = path
    if not files:
        raise ValueError(f"{root} must hold *{suffix} files, got none")
    return dict(sorted(files.items()))
