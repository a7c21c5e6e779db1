"""Small real files of every format that the package reads, as bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyvista as pv
from vtkmodules import vtkIOLegacy, vtkIOXML

from ..data.mesh_files import surface, volume, with_arrays, write_case

_PACKED = ("ZLib", "LZ4", "LZMA")
_GRIDS = ("vti", "vtr", "vts")
_XML = {
    "vtp": "PolyData",
    "vtu": "UnstructuredGrid",
    "vti": "ImageData",
    "vtr": "RectilinearGrid",
    "vts": "StructuredGrid",
}
_LEGACY = {**_XML, "vti": "StructuredPoints"}


@dataclass(frozen=True)
class Sample:
    """One or more files that a reader is given together."""

    format: str
    """The row of the table that it counts in."""
    name: str
    files: Mapping[str, bytes]
    """By path relative to a folder."""
    path: str
    """What the reader is given, relative to that folder; "." for the folder itself."""
    binary: bool = False
    """Whether all values are stored as bytes of a known number, so that none can be lost unseen."""

    def write(self, folder: Path) -> Path:
        for name, content in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return folder / self.path


def mesh_samples(folder: Path) -> list[Sample]:
    """Meshes in all formats; `folder` is for files of the moment."""
    return [
        *_xml_samples(folder / "xml"),
        *_legacy_samples(folder / "legacy"),
        *_surface_samples(folder / "surface"),
        *_block_samples(folder / "blocks"),
        *_case_samples(folder / "foam"),
    ]


def _meshes() -> dict[str, Any]:
    x, y, z = np.array([0, 1, 3.0]), np.array([0, 0.5]), np.array([0, 1, 2, 4.0])
    curved = pv.StructuredGrid(*np.meshgrid(x, y, z, indexing="ij"))
    curved.points = (curved.points + 0.1 * curved.points**2).astype(np.float32)
    image = pv.ImageData(dimensions=(3, 4, 2), spacing=(0.1, 1, 2), origin=(5, 0, 0))
    straight = pv.RectilinearGrid(x, y, z)
    for axis in "XYZ":  # VTK would name them by their address in memory
        getattr(straight, f"Get{axis}Coordinates")().SetName(axis)
    made = {"vti": image, "vtr": straight, "vts": curved}
    return {"vtp": surface(), "vtu": volume(), **{k: with_arrays(v) for k, v in made.items()}}


def _xml_samples(folder: Path) -> Iterator[Sample]:
    folder.mkdir()
    ways: list[dict[str, Any]] = [
        {"mode": "Ascii"},
        {"mode": "Binary", "packed": "None"},
        {"mode": "Binary", "packed": "ZLib", "header": 64},
        {"mode": "Appended", "packed": "None"},
        {"mode": "Appended", "packed": "None", "header": 64, "order": "Big"},
        {"mode": "Appended", "packed": "None", "encoded": True},
        *({"mode": "Appended", "packed": packed} for packed in _PACKED),
        {"mode": "Appended", "packed": "ZLib", "encoded": True},
    ]
    for suffix, mesh in _meshes().items():
        for way in ways:
            path = folder / f"mesh.{suffix}"
            _write_xml(mesh, path, **way)
            name = " ".join([suffix, *(f"{k}={v}" for k, v in way.items())])
            binary = way["mode"] != "Ascii"
            yield Sample(suffix, name, {path.name: path.read_bytes()}, path.name, binary)


def _write_xml(
    mesh: Any,
    path: Path,
    *,
    mode: str,
    packed: str = "None",
    encoded: bool = False,
    order: str = "Little",
    header: int = 32,
) -> None:
    writer = getattr(vtkIOXML, f"vtkXML{_XML[path.suffix[1:]]}Writer")()
    writer.SetInputData(mesh)
    writer.SetFileName(str(path))
    getattr(writer, f"SetDataModeTo{mode}")()
    writer.SetEncodeAppendedData(encoded)
    getattr(writer, f"SetCompressorTypeTo{packed}")()
    getattr(writer, f"SetByteOrderTo{order}Endian")()
    getattr(writer, f"SetHeaderTypeToUInt{header}")()
    writer.SetBlockSize(64)  # several blocks an array
    assert writer.Write()


def _legacy_samples(folder: Path) -> Iterator[Sample]:
    folder.mkdir()
    for suffix, mesh in _meshes().items():
        for binary in (False, True):
            for version in (42, 51):
                path = folder / "mesh.vtk"
                writer = getattr(vtkIOLegacy, f"vtk{_LEGACY[suffix]}Writer")()
                # Before version 5 a polyhedron cannot be written.
                kept = volume(polyhedron=False) if suffix == "vtu" and version < 50 else mesh
                writer.SetInputData(kept)
                writer.SetFileName(str(path))
                (writer.SetFileTypeToBinary if binary else writer.SetFileTypeToASCII)()
                writer.SetFileVersion(version)
                assert writer.Write()
                name = f"vtk {_LEGACY[suffix]} {'binary' if binary else 'ascii'} {version / 10}"
                yield Sample("vtk", name, {path.name: path.read_bytes()}, path.name, binary)


def _surface_samples(folder: Path) -> Iterator[Sample]:
    """STL and PLY files of the capped prism, whose faces STL needs cut into triangles."""
    folder.mkdir()
    for binary in (False, True):
        path = folder / "body.stl"
        surface().triangulate().save(path, binary=binary)
        name = f"stl {'binary' if binary else 'ascii'}"
        yield Sample("stl", name, {path.name: path.read_bytes()}, path.name, binary)
    for encoding in ("ascii", "binary_little_endian", "binary_big_endian"):
        files = {"body.ply": _ply(encoding)}
        yield Sample("ply", f"ply {encoding}", files, "body.ply", encoding != "ascii")


def _ply(encoding: str) -> bytes:
    """With normals and a temperature at the points, and a zone of every face."""
    mesh = surface()
    points = np.asarray(mesh.points, np.float32)
    normals = points / np.linalg.norm(points, axis=1, keepdims=True)
    faces = [mesh.get_cell(i).point_ids for i in range(mesh.n_cells)]
    head = [f"element vertex {len(points)}"]
    head += [f"property float {name}" for name in ("x", "y", "z", "nx", "ny", "nz")]
    head += ["property double temperature", f"element face {len(faces)}"]
    head += ["property list uchar int vertex_indices", "property short zone", "end_header"]
    start = "\n".join(["ply", f"format {encoding} 1.0", *head]) + "\n"
    if encoding == "ascii":
        rows = [f"{' '.join(map(repr, [*map(float, p), *map(float, n)]))} {i / 3!r}"
                for i, (p, n) in enumerate(zip(points, normals, strict=True))]  # fmt: skip
        rows += [f"{len(f)} {' '.join(map(str, f))} {i}" for i, f in enumerate(faces)]
        return (start + "\n".join(rows) + "\n").encode()
    order = "<" if "little" in encoding else ">"
    table = np.zeros(len(points), np.dtype([("x", f"{order}6f4"), ("t", f"{order}f8")]))
    table["x"], table["t"] = np.concatenate([points, normals], 1), np.arange(len(points)) / 3
    cells = b"".join(
        np.uint8(len(f)).tobytes()
        + np.array(f, f"{order}i4").tobytes()
        + np.array(i, f"{order}i2").tobytes()
        for i, f in enumerate(faces)
    )
    return start.encode() + table.tobytes() + cells


def _block_samples(folder: Path) -> Iterator[Sample]:
    folder.mkdir()
    for name, mesh in (("surfaces", surface()), ("volumes", volume())):
        other = mesh.copy()
        other.points += 10
        for part, binary in (("a", True), ("b", False)):
            (mesh if binary else other).save(
                folder / f"{part}.{'vtp' if name == 'surfaces' else 'vtu'}", binary=binary
            )
        suffix = "vtp" if name == "surfaces" else "vtu"
        index = (
            '<?xml version="1.0"?>\n<VTKFile type="vtkMultiBlockDataSet" version="1.0">\n'
            ' <vtkMultiBlockDataSet>\n  <Block index="0" name="flow">\n'
            f'   <DataSet index="0" name="a" file="a.{suffix}"/>\n  </Block>\n'
            f'  <DataSet index="1" name="b" file="b.{suffix}"/>\n'
            " </vtkMultiBlockDataSet>\n</VTKFile>\n"
        )
        files = {f"{p}.{suffix}": (folder / f"{p}.{suffix}").read_bytes() for p in "ab"}
        yield Sample("vtm", f"vtm {name}", {"all.vtm": index.encode(), **files}, "all.vtm")


def _case_samples(folder: Path) -> Iterator[Sample]:
    case = write_case(folder / "cavity")
    texts = {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(case.rglob("*"))
        if path.is_file() and path.parent.name != "0"
    }
    texts["cavity/10/p"] = _with_wall_values(texts["cavity/10/p"])
    plain = {name: text.encode() for name, text in texts.items()}
    yield Sample("openfoam", "openfoam ascii", plain, "cavity")
    binary = {name: _binary_foam(Path(name).name, text) for name, text in texts.items()}
    yield Sample("openfoam", "openfoam binary", binary, "cavity")


def _with_wall_values(text: str) -> str:
    """A pressure that is given on the eight faces of the wall."""
    values = "nonuniform List<scalar>\n8\n(\n" + "\n".join(map(str, range(8))) + "\n)"
    wall = f"walls {{ type fixedValue; value {values}; }}"
    return text.replace("walls { type zeroGradient; }", wall)


def _binary_foam(name: str, text: str) -> bytes:
    """A file of a case with its lists of numbers as bytes: 32-bit labels, 64-bit scalars."""
    if name in ("boundary", "controlDict"):
        return text.encode()
    label = name in ("owner", "neighbour", "faces")
    head = 'format binary; arch "LSB;label=32;scalar=64";'
    text = text.replace("format ascii;", head).replace("faceList", "faceCompactList")
    if name == "faces":
        faces = [re.findall(r"\d+", row) for row in re.findall(r"4\(([^)]*)\)", text)]
        bounds = np.cumsum([0, *map(len, faces)])
        lists = [bounds, np.concatenate(faces)]
        start = text[: text.index("}") + 2].encode()
        return start + b"\n".join(_foam_list(values, "<i4") for values in lists) + b"\n"
    parts = re.split(r"(\d+\n\((?:[^()]|\([^()]*\))*\n\))", text)
    out = b""
    for part in parts:
        if re.match(r"\d+\n\(", part):
            numbers = re.findall(r"[-+.\de]+", part)[1:]
            rows = int(part.split("\n")[0])
            out += _foam_list(numbers, "<i4" if label else "<f8", rows)
        else:
            out += part.encode()
    return out


def _foam_list(values: Any, dtype: str, rows: int | None = None) -> bytes:
    array = np.array(values, float).astype(dtype)
    return f"{len(array) if rows is None else rows}\n(".encode() + array.tobytes() + b")"
