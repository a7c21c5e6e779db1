"""The inspection of a folder of meshes: its samples, their common arrays, their parameters."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from slipstream.data.cards.file_look import ArrayLook, FileLook, look_at_file
from slipstream.data.cards.layout import Layout, find_layout, with_optional, with_shared
from slipstream.data.cards.parameter_look import ParameterLook, look_at_parameters, words_in_tables
from slipstream.data.cards.patterns import ID, as_pattern, find_files, sample_id
from slipstream.data.cards.roles import TARGETS
from slipstream.data.meshes import SUFFIXES, find_meshes, is_case, mesh_info

_SHARED = 3  # up to so many files without an id are taken as common to all samples
_LARGE = 500_000_000  # bytes; of a larger file only the suffix is looked at, not the arrays

Advance = Callable[[int, int], None]


@dataclass(frozen=True)
class FolderLook:
    folder: Path
    layout: Layout
    paths: Mapping[str, Mapping[str, Path]]
    """File -> sample -> path; the sample is "" for a file that all samples share."""
    looks: Mapping[str, Mapping[str, FileLook]]
    """File -> sample -> inspection, of the samples that were inspected."""
    parameters: tuple[ParameterLook, ...]
    notes: tuple[str, ...]
    """What differs between samples, is absent or cannot be read, a sentence each."""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(
            sorted({sample for paths in self.paths.values() for sample in paths if sample})
        )

    def common(self, file: str) -> tuple[ArrayLook, ...]:
        """The arrays of a file that all inspected samples have, as in the first sample."""
        first, *others = self.looks[file].values()
        return tuple(
            array
            for array in first.arrays
            if all(_same(array, other.array(array.name, array.location)) for other in others)
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "samples": self.ids,
            "files": self.layout.files,
            "optional": {file: pattern for file, (pattern, _) in self.layout.optional.items()},
            "looked_at": {
                f: {s: x.to_json() for s, x in by.items()} for f, by in self.looks.items()
            },
            "common": {f: [a.name for a in self.common(f)] for f in self.looks},
            "parameters": [asdict(parameters) for parameters in self.parameters],
            "notes": self.notes,
        }


def look_at(path: Path, *, every: bool = False, advance: Advance | None = None) -> FolderLook:
    """Inspect a folder, or one file (or OpenFOAM case) as a folder with one sample.

    Of a folder, the first, the middle and the last sample are read, or `every` one. ValueError
    where there is no mesh, or where none of the inspected ones can be read.
    """
    step = advance or (lambda done, total: None)
    if path.is_dir() and not is_case(path):
        return _look_at_folder(path, every, step)
    step(0, 1)
    look = look_at_file(path)
    step(1, 1)
    layout = Layout({"mesh": ID + ("/" if path.is_dir() else path.suffix)}, {})
    paths = {"mesh": {sample_id(path.name if path.is_dir() else path.stem): path}}
    looks = {"mesh": {sample: look for sample in paths["mesh"]}}
    return FolderLook(path.parent, layout, paths, looks, (), ())


def _look_at_folder(folder: Path, every: bool, step: Advance) -> FolderLook:
    meshes, absent, notes = _find(folder)
    layout, paths_of, stray = _arranged(folder, meshes, absent)
    looks, unreadable = _look_at_samples(paths_of, every, step)
    look = FolderLook(folder, layout, paths_of, looks, (), ())
    parameters, unused = look_at_parameters(folder, look.ids, layout.files.values())
    look = replace(look, parameters=parameters)
    notes += [*unreadable, *_of_layout(look)]
    if stray:
        some = ", ".join(stray[:3])
        notes.append(f"{len(stray):,} meshes fit no pattern and are left out, as {some}")
    notes += [*_incomplete(look), *unused, *_differing(look), *_of_samples(look)]
    return replace(look, notes=tuple(notes))


def _arranged(
    folder: Path, meshes: Sequence[Path], absent: Collection[Path]
) -> tuple[Layout, dict[str, dict[str, Path]], list[str]]:
    """The layout, the paths of each file by sample, and meshes that fit no pattern."""
    names = {m.relative_to(folder).as_posix() + ("/" if m.is_dir() else ""): m for m in meshes}
    signature = cache(lambda name: _signature(folder / name))
    layout = find_layout(list(names), signature, words_in_tables(folder))
    matching = {
        pattern: {s: path for s, path in find_files(folder, pattern).items() if path not in absent}
        for pattern in layout.files.values()
    }
    explained = {path for paths in matching.values() for path in paths.values()}
    others = [name for name, mesh in names.items() if mesh not in explained]
    others = [name for name in others if not _is_earlier(name, layout)]
    ids = {sample for paths in matching.values() for sample in paths if sample}
    layout = with_optional(layout, others, ids)
    few = {file: find_files(folder, pattern) for file, (pattern, _) in layout.optional.items()}
    explained |= {path for paths in few.values() for path in paths.values()}
    counted = {file: (layout.optional[file][0], len(paths)) for file, paths in few.items()}
    layout = replace(layout, optional=counted)
    stray = [name for name in others if names[name] not in explained]
    if len(stray) <= _SHARED:
        layout = with_shared(layout, stray)
        matching |= {as_pattern(name): {"": names[name]} for name in stray}
        stray = []
    return layout, {file: matching[p] for file, p in layout.files.items()}, stray


def _of_layout(look: FolderLook) -> Iterable[str]:
    """Sentences on files that not every sample has, and on what may be a single sample."""
    shared = [file for file, paths in look.paths.items() if "" in paths]
    if shared and len(look.ids) > 1:
        names = (look.paths[file][""].relative_to(look.folder).as_posix() for file in shared)
        yield f"{', '.join(names)} has no id in its name: taken for all samples' own"
    for file in shared if len(look.ids) > 1 else ():
        if file in look.looks and any(a.guess.role in TARGETS for a in look.common(file)):
            yield (
                f"{file} has fields to predict, but no id: if {look.folder} holds one sample only,"
                " inspect the folder that it is in"
            )
    for file, (pattern, count) in look.layout.optional.items():
        yield (
            f"{file}: {count:,} of {len(look.ids):,} samples have a file like {pattern}, fewer than"
            " half: it is optional and not used"
        )
    if len(look.ids) == 1:
        yield (
            f"one sample ({look.ids[0]}): for a store of several, inspect the folder that they are"
            " in"
        )


def _find(folder: Path) -> tuple[list[Path], set[Path], list[str]]:
    """The meshes of a folder, links whose mesh does not exist, and a sentence on each of these
    links and on each folder that cannot be read."""
    errors: list[OSError] = []
    candidates = find_meshes(folder, errors.append)
    meshes = [mesh for mesh in candidates if os.path.exists(mesh)]
    absent = set(candidates) - set(meshes)
    unread = {os.path.relpath(error.filename, folder): error.strerror for error in errors}
    notes = [f"{name} cannot be read ({why})" for name, why in unread.items()]
    notes += [
        f"{mesh.relative_to(folder)} is a link to a file that is not there"
        for mesh in sorted(absent)
    ]
    if not meshes:
        inside = sorted({path.suffix or path.name for path in folder.iterdir()})
        got = f"none that can be read: {notes[0]}" if notes else ", ".join(inside[:10])
        raise ValueError(
            f"{folder} must hold meshes ({', '.join(SUFFIXES)} or OpenFOAM cases), got"
            f" {got or 'an empty folder'}"
        )
    return meshes, absent, [f"left out: {note}" for note in notes]


def _look_at_samples(
    paths_of: Mapping[str, Mapping[str, Path]], every: bool, step: Advance
) -> tuple[dict[str, dict[str, FileLook]], list[str]]:
    """The inspections of files that can be read, and a sentence on each that cannot."""
    chosen = []
    for file, paths in paths_of.items():
        ids = list(paths)
        if not ids:
            continue
        some = ids if every else dict.fromkeys((ids[0], ids[len(ids) // 2], ids[-1]))
        chosen += [(file, sample, paths[sample]) for sample in some]
    looks: dict[str, dict[str, FileLook]] = {}
    errors = []
    step(0, len(chosen))
    for done, (file, sample, path) in enumerate(chosen, start=1):
        try:
            looks.setdefault(file, {})[sample] = look_at_file(path)
        except (ValueError, OSError) as error:
            errors.append(f"left out: {error}")
        step(done, len(chosen))
    good = {file: by for file, by in looks.items() if by}
    if not good:
        first = errors[0].removeprefix("left out: ")
        raise ValueError(f"none of the {len(errors)} meshes looked at can be read: {first}")
    return good, errors


def _incomplete(look: FolderLook) -> Iterable[str]:
    """Sentences on files or parameters that samples lack, or have more than once."""
    for file, paths in look.paths.items():
        lacking = [sample for sample in look.ids if "" not in paths and sample not in paths]
        if lacking:
            some = ", ".join(lacking[:5])
            yield f"{len(lacking):,} samples lack the file {file}, as {some}"
    for file, patterns in look.layout.earlier.items():
        yield (
            f"{file}: {len(patterns) + 1:,} files of a sample differ in a number only; taken for"
            f" times, and {look.layout.files[file]!r} for the last"
        )
    for table in look.parameters:
        if table.without:
            some = ", ".join(table.without[:5])
            yield f"{table.file} has nothing on {len(table.without):,} samples, as {some}"


def _differing(look: FolderLook) -> Iterable[str]:
    """A sentence for each array that is not the same in all inspected samples."""
    for file, by_sample in look.looks.items():
        keys = dict.fromkeys((a.name, a.location) for x in by_sample.values() for a in x.arrays)
        for name, location in keys:
            held = {s: x.array(name, location) for s, x in by_sample.items()}
            without = [sample for sample, array in held.items() if array is None]
            arrays = {sample: array for sample, array in held.items() if array is not None}
            if without:
                yield f"{file}: {location} data {name!r} is not in {', '.join(without[:5])}"
            for what, values in (
                ("components", {s: a.components for s, a in arrays.items()}),
                ("unit, by its numbers,", {s: a.guess.unit for s, a in arrays.items()}),
            ):
                if len(set(values.values())) > 1:
                    listed = ", ".join(f"{v} in {s}" for s, v in list(values.items())[:5])
                    yield f"{file}: the {what} of {name!r} differ between samples: {listed}"


def _of_samples(look: FolderLook) -> Iterable[str]:
    """The warnings of single files, each once with the samples that it applies to."""
    for file, by_sample in look.looks.items():
        warned: dict[str, list[str]] = {}
        for sample, file_look in by_sample.items():
            for warning in file_look.warnings:
                warned.setdefault(warning, []).append(sample)
        for warning, samples in warned.items():
            where = "" if len(samples) == len(by_sample) else f" (in {', '.join(samples[:5])})"
            yield f"{file}: {warning}{where}"


def _is_earlier(name: str, layout: Layout) -> bool:
    """Whether a file differs only in a number from the one that is taken for the last time."""
    patterns = (re.escape(layout.files[file]) for file in layout.earlier)
    for pattern in patterns:
        expression = re.sub(r"\d+", r"\\d+", pattern).replace(r"\{id\}", "[^/]+")
        if re.fullmatch(expression.replace(r"\?", "[^/]").replace(r"\*", "[^/]*"), name):
            return True
    return False


def _same(array: ArrayLook, other: ArrayLook | None) -> bool:
    return other is not None and other.components == array.components


def _signature(path: Path) -> Any:
    """The suffix and arrays of a file; only its suffix if it is too large or cannot be read."""
    if path.is_file() and path.stat().st_size > _LARGE:
        return path.suffix
    try:
        return path.suffix, tuple(
            (a.name, a.location, a.components) for a in mesh_info(path).arrays
        )
    except (ValueError, OSError):
        return path.suffix
