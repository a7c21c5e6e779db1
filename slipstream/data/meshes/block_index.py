"""The .vtm that names the files of written blocks: the one that they come from, or a new one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

_ROOT = {"type": "vtkMultiBlockDataSet", "version": "1.0", "byte_order": "LittleEndian"}


def new_index(blocks: Sequence[tuple[str, str]]) -> bytes:
    """A .vtm of blocks by name and file."""
    root = ElementTree.Element("VTKFile", _ROOT)
    inside = ElementTree.SubElement(root, "vtkMultiBlockDataSet")
    for index, (name, file) in enumerate(blocks):
        ElementTree.SubElement(inside, "DataSet", index=str(index), name=name, file=file)
    return _text(root)


def changed_index(path: Path, files: Mapping[Path, str]) -> bytes:
    """The .vtm at `path` with other files in the place of those that `files` has, and no others.

    All blocks stay, those without a file empty, numbered without gaps: VTK reads no files of a
    block that follows a gap. A .vtm that is named becomes a block; arrays of its field data are
    left out, where VTK would not read them.
    """
    root = ElementTree.parse(path).getroot()
    root.set("version", _ROOT["version"])  # without one VTK reads no blocks
    _change(root, path.parent, {os.path.realpath(file): new for file, new in files.items()})
    return _text(root)


def _change(element: ElementTree.Element, folder: Path, files: Mapping[str, str]) -> None:
    blocks = [child for child in element if child.tag != "FieldData"]
    for index, child in enumerate(blocks):
        if element.tag != "VTKFile":
            child.set("index", str(index))
        named, inside = child.attrib.pop("file", "") if child.tag == "DataSet" else "", folder
        if named and Path(named).suffix.lower() == ".vtm":
            inside = (folder / named).parent
            _inline(child, folder / named)
        elif named and (new := files.get(os.path.realpath(folder / named))):
            child.set("file", new)
        _change(child, inside, files)


def _inline(element: ElementTree.Element, path: Path) -> None:
    """Make a block with the contents of a .vtm of an element that names it."""
    inner = ElementTree.parse(path).getroot().find("vtkMultiBlockDataSet")
    element.tag = "Block"
    if inner is not None:
        element.extend([child for child in inner if child.tag != "FieldData"])


def _text(root: ElementTree.Element) -> bytes:
    ElementTree.indent(root)
    return ElementTree.tostring(root, "utf-8", xml_declaration=True) + b"\n"
