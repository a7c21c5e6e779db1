"""OpenFOAM's files of fields, read without the package: what stores are compared with."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def last_time(case: Path) -> Path:
    times = [folder for folder in case.iterdir() if folder.name.isdigit()]
    return max(times, key=lambda folder: int(folder.name))


def cell_values(path: Path, components: int) -> NDArray[np.float64]:
    text = path.read_text()
    found = re.search(r"internalField\s+nonuniform\s+List<\w+>\s*\d+\s*\(\n(.*?)\n\)", text, re.S)
    assert found, path
    return _numbers(found[1], components)


def face_values(path: Path, patch: str, components: int) -> NDArray[np.float64]:
    """On a patch: as written, or those of the cells behind it where the gradient is zero."""
    text = path.read_text()
    start = text.index("boundaryField")
    found = re.search(rf"\n    {patch}\n    \{{(.*?)\n    \}}", text[start:], re.S)
    assert found, path
    if "zeroGradient" in found[1]:
        return cell_values(path, components)[owners(path.parents[1], patch)]
    values = re.search(r"List<\w+>\s*\d+\s*\(\n(.*?)\n\)", found[1], re.S)
    assert values, path
    return _numbers(values[1], components)


def owners(case: Path, patch: str) -> NDArray[np.int64]:
    """The cell behind each face of a patch."""
    mesh = case / "constant" / "polyMesh"
    entry = re.search(rf"\b{patch}\s*\{{(.*?)\}}", (mesh / "boundary").read_text(), re.S)
    assert entry
    count, start = (
        int(re.search(rf"{key}\s+(\d+)", entry[1])[1]) for key in ("nFaces", "startFace")
    )  # type: ignore[index]
    body = (mesh / "owner").read_text().rpartition(")")[0].rpartition("(")[2]
    return np.array(body.split(), np.int64)[start : start + count]


def _numbers(text: str, components: int) -> NDArray[np.float64]:
    values = np.array(text.replace("(", " ").replace(")", " ").split(), np.float64)
    return values if components == 1 else values.reshape(-1, components)
