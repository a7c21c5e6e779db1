"""The files that a mesh is read from: blocks elsewhere, and OpenFOAM meshes that move."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from slipstream.data.store import ingest, open_store

from ..cards.test_mesh_source import P, columns, source_of
from ..mesh_folders import ball, save, with_fields, write_case


@pytest.mark.parametrize("where", ["raw/blocks", "elsewhere"])
def test_blocks_with_absolute_paths(where: str, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for sample in ("a", "b", "c"):
        block = save(with_fields(ball()), tmp_path / where / f"{sample}.vtp").resolve()
        text = f'<vtkMultiBlockDataSet><DataSet file="{block}"/></vtkMultiBlockDataSet>'
        (tmp_path / "raw" / f"{sample}.vtm").write_text(f"<VTKFile>{text}</VTKFile>")
    source = source_of(tmp_path / "raw", files={"mesh": "{id}.vtm"})
    name = "blocks/a.vtp" if where == "raw/blocks" else "../elsewhere/a.vtp"
    assert list(source.files("a")) == ["a.vtm", name]
    report = ingest(source, tmp_path / "store")
    assert report.written == ("a", "b", "c") and open_store(tmp_path / "store").rows("a") == 162


def test_a_mesh_that_moves(tmp_path: Path) -> None:
    """The newest points are read, and are among the files."""
    case = tmp_path / "raw" / "case0"
    write_case(case)
    for time, shift in (("5", 1), ("10", 2)):
        moved = case / time / "polyMesh" / "points"
        moved.parent.mkdir(parents=True)
        text = (case / "constant" / "polyMesh" / "points").read_text()
        moved.write_text(text.replace("(2 ", f"({2 + shift} "))
    source = source_of(tmp_path / "raw", files={"case": "{id}/"}, location="cell", targets=[P])
    names = set(source.files("case0"))
    assert {"case0/10/polyMesh/points", "case0/constant/polyMesh/faces", "case0/10/p"} <= names
    assert "case0/5/polyMesh/points" not in names
    np.testing.assert_allclose(columns(source, "case0")["position"][1], (2.5, 0.5, 0.5))
    shutil.rmtree(case / "10" / "polyMesh")
    assert "case0/5/polyMesh/points" in set(source.files("case0"))
    np.testing.assert_allclose(columns(source, "case0")["position"][1], (2, 0.5, 0.5))
