"""What `slipstream predict --remesh` says: how far a prediction moves on other meshes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipstream.inference.bounds import Bounds
from slipstream.inference.many import MeshResult

_COARSER = {
    "own": "finer or coarser meshes with the same spread of points",
    "subset": "meshes of fewer of its points",
}
_COEFFICIENTS = ("cd", "cl", "cs")


@dataclass(frozen=True)
class _Number:
    """A field or coefficient that was compared."""

    name: str
    is_field: bool
    moved: Mapping[str, Any]
    limit: str
    """Its calibrated bound; empty without."""

    @property
    def shown(self) -> str:
        return self.name if self.is_field else self.name.capitalize()

    def size(self, value: float) -> str:
        return f"{value:.2%}" if self.is_field else f"{value:.2g}"

    @property
    def rms(self) -> str:
        return self.size(self.moved["rms"])

    @property
    def largest(self) -> str:
        return self.size(self.moved["largest"])


def remesh_cells(result: MeshResult) -> dict[str, str]:
    """A column for each field and coefficient: the root mean square and the largest change."""
    return {f"{n.shown} moves": f"{n.rms} (at most {n.largest})" for n in _numbers(result)}


def remesh_sentences(results: Sequence[MeshResult]) -> Iterator[str]:
    """What the numbers are; of a single mesh also the numbers."""
    measured = [result for result in results if result.remesh is not None]
    if len(measured) == 1:
        yield from _of_one(measured[0])
    elif measured:
        yield (
            "Moves: root mean square and largest change over other meshes of the same geometry; of"
            " fields relative (L1)."
        )
    notes = [note for result in measured for note in (result.remesh or {})["notes"]]
    yield from (f"Other meshes: {note}." for note in dict.fromkeys(notes))


def remesh_warnings(result: MeshResult) -> Iterator[str]:
    """Where the mesh matters more than the calibrated error."""
    if result.remesh is None:
        return
    least, largest = result.remesh["training_points"]
    seen = f"{least:,}" if least == largest else f"{least:,} to {largest:,}"
    exceeding = result.remesh.get("exceeding", {})
    for number in _numbers(result):
        if number.name not in exceeding:
            continue
        way = exceeding[number.name]
        moved = f"move {number.shown} by up to {number.size(number.moved['by'][way])}"
        if way == "even":
            yield (
                f"points spread evenly by area {moved}, more than the calibrated {number.limit}"
                f"{_as_given(number)}: the prediction holds only for meshes that are spread as"
                " those of the training"
            )
        else:
            yield (
                f"{_COARSER[way]} {moved}, more than the calibrated {number.limit}: the mesh"
                " matters more than the model's error, make it as dense as those of the training,"
                f" which saw {seen} points at a time"
            )


def _of_one(result: MeshResult) -> Iterator[str]:
    count = len((result.remesh or {})["meshes"])
    meshes = f"{count} other mesh{'es' if count > 1 else ''}"
    for number in _numbers(result):
        limit = f"; the calibrated error is {number.limit}" if number.limit else ""
        yield (
            f"Over {meshes} of this geometry {number.shown} moves by {number.rms} (at most"
            f" {number.largest}, by {number.moved['most']}{_as_given(number)}){limit}."
        )


def _as_given(number: _Number) -> str:
    """The largest change by points spread as those of the mesh, where others change more."""
    by = number.moved["by"]
    if "own" not in by or by["own"] == number.moved["largest"]:
        return ""
    return f"; at most {number.size(by['own'])} where they are spread as given"


def _numbers(result: MeshResult) -> Iterator[_Number]:
    remesh = result.remesh or {"fields": {}, "coefficients": {}}
    for name, moved in remesh["fields"].items():
        yield _Number(name, True, moved, _limit(result.bounds, name, True))
    coefficients = remesh["coefficients"]
    for name in (name for name in _COEFFICIENTS if name in coefficients):
        yield _Number(name, False, coefficients[name], _limit(result.bounds, name, False))


def _limit(bounds: Bounds | None, name: str, is_field: bool) -> str:
    known = {} if bounds is None else bounds.fields if is_field else bounds.coefficients
    value = known[name].value if name in known else None
    if value is None:
        return ""
    return f"at most {value:.2%}" if is_field else f"± {value:.2g}"
