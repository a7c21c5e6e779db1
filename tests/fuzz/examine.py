"""One mutant: read by the package, then by VTK, and the class of what came out."""

from __future__ import annotations

import pickle
import re
import shutil
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .mutate import MESHES, Mutant, make_mutant
from .pool import Guarded
from .readers import digests_of, read_contents
from .reference import VtkError, compare, vtk_contents
from .samples import Sample

FAILURES = ("crash", "hang", "memory", "traceback", "message", "differs", "shifted")
CLASSES = ("same", "other", "lenient", "refused", *FAILURES)
"""
same       read, with the values of the undamaged file
other      read, with other values; VTK reads the same ones
lenient    read, though VTK reports an error or crashes
refused    by an error that the command line shows as one sentence
crash      the process ended by a signal
hang       it took more than `pool.SECONDS`
memory     it took more than `pool.BYTES`, or asked for more
traceback  any other exception
message    refused by more than a sentence, or without naming the file
differs    VTK reads it too, and has other values
shifted    bytes of a binary file were lost or added, and its arrays are read with other values
"""
_LOSSES = ("delete_bytes", "insert_bytes", "truncate")
_IN_TEXT = ("vti", "vtk StructuredPoints")
"""Samples whose points come from a text, an origin and a spacing, even in a binary file."""
_FILES = "files"
"""The folder of the mutant's files. A sentence names a file of it, or a missing one."""
Digests = dict[str, tuple[str, str]]


@dataclass(frozen=True)
class Outcome:
    index: int
    sample: Sample
    """With its damaged files."""
    mutations: tuple[str, ...]
    kind: str
    """One of CLASSES."""
    detail: str
    peak: int
    """The most memory in bytes that reading took."""


class Examiner:
    """Reads mutants in two guarded processes: the package's readers in one, VTK's in the other."""

    def __init__(self, samples: Sequence[Sample], folder: Path) -> None:
        self._samples, self._folder = samples, folder
        folder.mkdir(parents=True)
        self._ours = Guarded(self._read, folder / "ours.log")
        self._vtks = Guarded(self._compare, folder / "vtk.log")
        self._originals: dict[str, Digests] = {}

    def close(self) -> None:
        self._ours.close()
        self._vtks.close()

    def examine(self, seed: int, index: int) -> Outcome:
        """Mutant number `index`."""
        return self._examine(make_mutant(self._samples, seed=seed, index=index), index)

    def examine_original(self, sample: Sample) -> Outcome:
        """The undamaged sample, which must be `same`."""
        return self._examine(Mutant(sample, ()), -1)

    def _examine(self, mutant: Mutant, index: int) -> Outcome:
        sample = mutant.sample
        if sample.name not in self._originals:
            whole = next(one for one in self._samples if one.name == sample.name)
            read = self._ours.ask(whole).value
            self._originals[sample.name] = read[2] if read else {}
        answer = self._ours.ask(sample)
        ended: tuple[str, str, Digests] = (answer.kind, answer.detail, {})
        kind, detail, digests = answer.value if answer.kind == "done" else ended
        if kind == "read":
            kind = _class_of(mutant, digests, self._originals[sample.name])
            if sample.format in MESHES:
                kind, detail = self._judge(sample, kind)
        detail = detail.replace(f"{self._folder}/", "")
        return Outcome(index, sample, mutant.mutations, kind, detail, answer.peak)

    def _judge(self, sample: Sample, kind: str) -> tuple[str, str]:
        """The class by VTK's reading; its crash is no fault of ours, we read what it does not."""
        answer = self._vtks.ask(sample)
        told, detail = answer.value if answer.kind == "done" else ("lenient", f"VTK: {answer.kind}")
        if told == "lenient" and kind == "same":
            detail = f"the values of the undamaged file: {detail}"
        if kind == "shifted" and told != "differs":
            return kind, detail or "VTK reads the same"
        return told or kind, detail

    def _read(self, sample: Sample) -> tuple[str, str, Digests]:
        """In a guarded process: class, detail and digests of what was read."""
        shutil.rmtree(self._folder / _FILES, ignore_errors=True)
        path = sample.write(self._folder / _FILES)
        try:
            contents = read_contents(sample.format, path)
        except MemoryError as error:
            return "memory", _place(error), {}
        except Exception as error:
            return (*_refusal(error, sample), {})
        (self._folder / "ours.pickle").write_bytes(pickle.dumps(contents))
        return "read", "", digests_of(contents)

    def _compare(self, sample: Sample) -> tuple[str, str]:
        """In a guarded process: whether VTK reads the same, "" if it does."""
        ours = pickle.loads((self._folder / "ours.pickle").read_bytes())
        try:
            theirs = vtk_contents(sample.format, self._folder / _FILES / sample.path)
        except VtkError as error:
            return "lenient", str(error)
        except Exception as error:  # of the comparison: VTK returned something unusable
            return "lenient", f"{type(error).__name__}: {error}"
        return compare(sample.format, ours, theirs)


def _class_of(mutant: Mutant, digests: Digests, original: Digests) -> str:
    if digests == original:
        return "same"
    lost = [name.rpartition(" ")[2] in _LOSSES for name in mutant.mutations]
    if not mutant.sample.binary or lost != [True] or digests.keys() != original.keys():
        return "other"
    changed = {name for name in digests if digests[name] != original[name]}
    if mutant.sample.name.startswith(_IN_TEXT):
        changed -= {"points"}
    alike = all(digests[name][0] == original[name][0] for name in changed)
    return "shifted" if changed and alike else "other"


def _refusal(error: Exception, sample: Sample) -> tuple[str, str]:
    """Whether an error is one sentence that names the file, as the command line prints it."""
    if isinstance(error, OSError) and error.filename:
        text = f"{error.filename}: {error.strerror}"
    elif type(error) is ValueError:
        text = str(error)
    else:
        return "traceback", _place(error)
    if len(text.splitlines()) != 1 or not text.isprintable():
        return "message", f"several lines or control characters: {_place(error)}"
    names = {part for name in sample.files for part in Path(name).parts}
    if not any(name in text for name in (*names, f"/{_FILES}")):
        return "message", f"no file named: {_place(error)}"
    return "refused", text


def _place(error: BaseException) -> str:
    """As "KeyError 'step' at runs/checkpoint.py:38 in step": the innermost line of the package."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/slipstream/" in frame.filename]
    at = ours[-1] if ours else frames[-1]
    file = at.filename.rpartition("/slipstream/")[2]
    text = re.sub(rf"/\S*/(?={_FILES}/)", "", " ".join(str(error).split()))[:100]
    return f"{type(error).__name__} {text!r} at {file}:{at.lineno} in {at.name}"
