"""What all readers of published data share: which designs are on disk, and their splits.

A design is what a split is made of: a car, a wing, a trajectory. Mostly it is one sample.
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

from slipstream.core.folders import files_below
from slipstream.data.store import Cloud, RowBlocks, Schema, Splits

SPLITS = ("train", "val", "test")

_NO_OPTIONS = {"name", "raw", "counts", "split", "part", "targets"}


@dataclass(frozen=True, kw_only=True)
class RawSource(ABC):
    """Samples of a published data set in its published layout; what is not here is left out."""

    name: str
    raw: Path
    counts: Mapping[str, int]
    """Designs of each split as published."""
    split: str = "published"
    """Or "sorted", or the path of lists."""

    @property
    @abstractmethod
    def schema(self) -> Schema: ...

    @property
    def seen(self) -> Schema:
        """The fields that are drawn from a store of it, on disk or not."""
        return self.schema

    @cached_property
    @abstractmethod
    def designs(self) -> Sequence[str]:
        """What is on disk, sorted."""

    @abstractmethod
    def files(self, sample: str) -> Mapping[str, Path]: ...

    @abstractmethod
    def read(self, sample: str) -> Cloud | RowBlocks: ...

    def published(self) -> Splits:
        """Designs by split as in the paper, on disk or not; by default the sorted ones."""
        return sorted_splits(self.designs, self.counts)

    def design_named(self, text: str) -> str:
        """The design that a line of a list means."""
        return text

    def samples_of(self, design: str) -> Sequence[str]:
        return (design,)

    @cached_property
    def lists(self) -> Splits:
        """Designs by split, on disk or not."""
        if self.split == "published":
            return self.published()
        if self.split == "sorted":
            return sorted_splits(self.designs, self.counts)
        return read_lists(Path(self.split), self.design_named)

    @property
    def options(self) -> Mapping[str, Any]:
        """All that can be set of a reader; the split is none of it, so that a store can grow."""
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
        odd = [design for design in self.designs if design not in listed]
        by_rule = self.split in ("published", "sorted")
        total = sum(self.counts.values()) if by_rule else len(listed)
        left = f", left out as in no split {len(odd)}, the first {odd[0]}" if odd else ""
        return f"{len(self.designs) - len(odd)} of {total} designs are here{left}"

    def by_name(self, *paths: Path) -> dict[str, Path]:
        """The files by the names that the manifest gives them: relative to the raw folder."""
        return {path.relative_to(self.raw).as_posix(): path for path in paths}


def sorted_splits(designs: Sequence[str], counts: Mapping[str, int]) -> Splits:
    """First train, next val, last test.

    As many as published where all designs are here; else in the same proportion.
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
    """Splits from a folder with train*.txt, val*.txt and test*.txt, a design a line, or from one
    JSON or YAML file: split -> designs."""
    if path.is_dir():
        files = {split: _only_file(path, f"{split}*.txt") for split in SPLITS}
        found = {split: _read_text(file).split() for split, file in files.items()}
    elif path.is_file():
        found = _read_mapping(path)
    else:
        raise ValueError(
            f"split must be published, sorted, a folder of lists or a JSON or YAML file, got"
            f" {str(path)!r}: no such file"
        )
    return {split: tuple(map(design_named, members)) for split, members in found.items()}


def _only_file(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        got = ", ".join(file.name for file in found) or "none"
        raise ValueError(f"{folder} must hold one {pattern}, got {got}")
    return found[0]


def _read_text(path: Path) -> str:
    """Without the mark that some editors put first, which would belong to the first design."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8 text, got {error}") from None


def _read_mapping(path: Path) -> dict[str, list[str]]:
    """Designs as they are written: to YAML's numbers 00010 would be 8."""
    text = _read_text(path)
    try:
        value = yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError) as error:
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
    found = [
        (int(match[1]), path)
        for path in root.iterdir()
        if (match := re.fullmatch(re.escape(prefix) + r"(\d+)", path.name)) and path.is_dir()
    ]
    if not found:
        raise ValueError(f"{root} must hold folders {prefix}1, ..., got none")
    return {path.name: path for _, path in sorted(found)}


def files_by_stem(root: Path, suffix: str) -> dict[str, Path]:
    """All files with a suffix in a folder, at any depth, by their name without it."""
    if not root.is_dir():
        raise ValueError(f"{root} must be a folder of *{suffix} files, got no such folder")
    found: dict[str, Path] = {}
    for path in files_below(root):
        if path.suffix != suffix:
            continue
        if path.stem in found:
            raise ValueError(
                f"{root} must hold {path.name} once, got {found[path.stem]} and {path}"
            )
        found[path.stem] = path
    if not found:
        raise ValueError(f"{root} must hold *{suffix} files, got none")
    return dict(sorted(found.items()))
