"""Mutant i of the samples: a pure function of seed and i, so that each can be made again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from random import Random

from .byte_mutations import BYTES, TEXT, Mutation
from .samples import Sample
from .tree_mutations import HEADER, JSON, LINES, YAML
from .xml_mutations import BLOCKS, XML

MESHES = ("vtp", "vtu", "vti", "vts", "vtr", "vtk", "stl", "ply", "vtm", "openfoam")
ARTEFACTS = (
    "card", "manifest", "config", "certificate", "study", "records", "evaluations", "model",
    "checkpoint", "prediction", "run", "store", "inspect", "ingest",
)  # fmt: skip
FORMATS = (*MESHES, *ARTEFACTS)
_TURNS = (*MESHES, *MESHES, *ARTEFACTS)
"""Formats take turns; meshes, of which there are more kinds, have two."""
_XML_SUFFIXES = (".vtp", ".vtu", ".vti", ".vts", ".vtr")
_OWN = {".vtm": BLOCKS, ".json": JSON, ".jsonl": LINES, ".yaml": YAML, ".safetensors": HEADER}


@dataclass(frozen=True)
class Mutant:
    sample: Sample
    """With the damaged file in it."""
    mutations: tuple[str, ...]
    """What was done, as "a.vtp: flip_bits"."""


def format_of(index: int) -> str:
    return _TURNS[index % len(_TURNS)]


def make_mutant(samples: Sequence[Sample], *, seed: int, index: int) -> Mutant:
    draw = Random(f"{seed} {index}")
    sample = draw.choice([one for one in samples if one.format == format_of(index)])
    names, files = [], dict(sample.files)
    for _ in range(draw.choice((1, 1, 1, 1, 2, 3))):
        file = draw.choice(sorted(files))
        mutation = draw.choice(mutations_of(file))
        try:
            files[file] = mutation(files[file], draw)
        except Exception:  # it does not fit what an earlier mutation left
            continue
        names.append(f"{file}: {mutation.__name__}")
    return Mutant(replace(sample, files=files), tuple(names))


def mutations_of(file: str) -> Sequence[Mutation]:
    """Half of them are those of the format, where it has some; the others know nothing of it."""
    suffix = PurePath(file).suffix
    own = XML if suffix in _XML_SUFFIXES else _OWN.get(suffix, ())
    common = (*BYTES, *TEXT)
    return (*common, *own * (len(common) // len(own))) if own else common
