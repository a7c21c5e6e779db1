"""A draft as the text of a commented card."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from slipstream.core.text import printable
from slipstream.data.cards.draft import Draft, Value, choose, findable
from slipstream.data.cards.folder_look import FolderLook
from slipstream.data.cards.parameter_look import ParameterColumn, ParameterLook
from slipstream.data.cards.patterns import sample_id
from slipstream.data.cards.types import SCHEMA
from slipstream.data.meshes import is_case, patches_of
from slipstream.data.store import PARTS


def draft_card(look: FolderLook, main: str | None = None) -> str:
    """A card that can be used as it is: guesses are marked, what is not used is a comment.

    `main` is the file whose points, or cells, become the rows. ValueError where no array can be a
    target.
    """
    draft = choose(look, main)
    location = draft.location
    rows = f"{draft.shape.points if location == 'point' else draft.shape.cells:,}"
    lines = [
        "# How the meshes of a folder become a point store. Written by `slipstream data inspect`:",
        "# please check the units, which files do not say. docs/meshes.md explains every key.",
        f"# Then: slipstream data ingest mesh {look.folder} STORE --card THIS_FILE",
        *(f"# Noticed: {_one_line(note)}" for note in _noticed(look)),
        f"schema: {SCHEMA}",
        f"name: {_quoted(sample_id(look.folder.resolve().name))}",
        "",
        f"# {{id}} stands for the id of a sample: {len(look.ids):,}, as {', '.join(look.ids[:3])}.",
        "files:",
    ]
    for file, pattern in draft.files.items():
        lines.append(f"  {_quoted(file)}: {_quoted(pattern)}")
    for file in look.looks:
        if file not in draft.files:
            lines.append(f"  # not used: {_quoted(file)}: {_quoted(look.layout.files[file])}")
    for file, (pattern, count) in look.layout.optional.items():
        some = f"{count:,} of {len(look.ids):,} samples"
        lines.append(f"  # optional, in {some}: {_quoted(file)}: {_quoted(pattern)}")
    several = len({v.file for v in (*draft.features, *draft.targets) if v.arrays}) > 1
    if several:
        lines += ["", "# How rows of several files are brought together: coordinates | order."]
        lines.append(f"match: {draft.match}")
    lines += ["", f"# Where the rows are, point | cell: {rows} in the first sample."]
    lines += [f"location: {location}", "coords: {name: position, unit: m}"]
    lines += [*_patches(draft), ""]
    lines += _entries("features", draft.features, draft)
    lines += ["", "# value = (array - subtract) * scale"]
    lines += _entries("targets", draft.targets, draft)
    taken = {"position", *PARTS, *(v.name for v in (*draft.features, *draft.targets))}
    lines += [*_parameters(look.parameters, taken), *_tail(draft)]
    return "\n".join(lines) + "\n"


def _noticed(look: FolderLook) -> Iterable[str]:
    """The notes and warnings that are also printed on the screen."""
    single = [w for files in look.looks.values() for x in files.values() for w in x.warnings]
    return look.notes or dict.fromkeys(single)


def _patches(draft: Draft) -> Iterator[str]:
    """A comment with the patches of an OpenFOAM case, of which by default the volume is read."""
    mesh = next(iter(draft.look.paths[draft.main].values()))
    names = patches_of(mesh) if is_case(mesh) or mesh.suffix.lower() == ".vtm" else []
    if names:
        yield "# Rows from these patches, not from the volume; wall* stands for all that begin so:"
        yield f"# patches: [{', '.join(map(_quoted, names))}]"


def _entries(key: str, values: Iterable[Value], draft: Draft) -> Iterator[str]:
    values = tuple(values)
    yield f"{key}:" if any(v.used for v in values) else f"{key}: []"
    for value in values:
        mark = "  - " if value.used else "  # - "
        remark = f"  # {_one_line(value.remark)}" if value.remark else ""
        yield f"{mark}{{{', '.join(_keys(value, draft))}}}{remark}"
        if value.role == "pressure" and value.used and "absolute" in value.remark:
            yield "    # add `subtract: 101325` above for gauge pressure"


def _keys(value: Value, draft: Draft) -> Iterator[str]:
    yield f"name: {_quoted(value.name)}"
    yield f"unit: {_quoted(value.unit)}"
    if not value.arrays:
        yield f"computed: {value.role}"
        if value.file:
            yield f"to: {_quoted(value.file)}"
        return
    source = [f"file: {_quoted(value.file)}"] if len(draft.files) > 1 else []
    names = [_quoted(findable(name)) for name in value.arrays]
    source.append(f"array: {names[0] if len(names) == 1 else '[' + ', '.join(names) + ']'}")
    if value.components > 1:
        source.append(f"components: {value.components}")
    if value.location != draft.location:
        source.append(f"location: {value.location}")
    yield f"from: {{{', '.join(source)}}}"


def _parameters(looks: Iterable[ParameterLook], taken: set[str]) -> Iterator[str]:
    """The files of parameters; a parameter with the name of a `taken` field gets another one."""
    looks = tuple(looks)
    if not looks:
        return
    yield from ("", "# The same at every point of a sample: they become features.")
    active = [look for look in looks if any(not c.against for c in look.columns)]
    yield "parameters:" if active else "parameters: []"
    for look in looks:
        mark = "  " if look in active else "  # "
        yield f"{mark}- file: {_quoted(look.file)}"
        if look.id is not None:
            yield f"{mark}  id: {_quoted(look.id)}  # the column with the sample's id"
        if look.id_pattern is not None:
            yield f"{mark}  id_pattern: {_quoted(look.id_pattern)}  # how the table writes it"
        yield f"{mark}  features:"
        for column in look.columns:
            name = column.name
            while name in taken:
                name = f"sample_{name}"
            taken.add(name)
            yield f"{mark}    {_column(column, name)}"


def _column(column: ParameterColumn, name: str) -> str:
    keys = [f"name: {_quoted(name)}", f"unit: {_quoted(column.unit)}"]
    if name != column.name:
        keys.append(f"from: {_quoted(column.name)}")
    if column.components > 1:
        keys.append(f"components: {column.components}")
    mark, remark = ("# - ", column.against) if column.against else ("- ", f"unit: {column.reason}")
    return f"{mark}{{{', '.join(keys)}}}  # {_one_line(remark)}"


def _tail(draft: Draft) -> Iterator[str]:
    shape = draft.shape
    low, high = (", ".join(f"{x:.6g}" for x in corner) for corner in (shape.low, shape.high))
    yield from (
        "",
        "# Only what lies inside, null where it is open. The first sample's extent:",
        f"# box: {{low: [{low}], high: [{high}]}}",
        "",
        "# A sample with NaN or infinite values is left out as a whole, unless:",
        "# drop: non-finite",
        "",
        "# Or {lists: {train: [a, b], test: test.txt}}: ids, or a file with one on each line.",
        *_too_few(len(draft.look.ids)),
        "splits: {random: {train: 0.8, val: 0.1, test: 0.1}, seed: 0}",
    )


def _too_few(samples: int) -> Iterator[str]:
    if samples < 3:
        yield f"# {samples} of the 3 samples that training, validation and test need: add more."


def _quoted(text: str) -> str:
    plain = text.replace("_", "a").isalnum() and text.isascii() and not text[0].isdigit()
    if plain and text.lower() not in ("y", "n", "yes", "no", "on", "off", "true", "false", "null"):
        return text
    return printable(json.dumps(text, ensure_ascii=False))  # its escapes are YAML's, too


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))
