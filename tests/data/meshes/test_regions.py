"""Patches of OpenFOAM cases, and blocks of .vtm files made from them: names, patterns, groups."""

from __future__ import annotations

from pathlib import Path

import pytest
import pyvista as pv

from slipstream.data.meshes import Wanted, mesh_info, patches_of, read_mesh

from ..mesh_files import VELOCITY, spoil, surface, volume, with_arrays, write_case


def test_blocks_of_an_openfoam_case(tmp_path: Path) -> None:
    """The volume and its boundary are not joined; blocks are chosen as patches of a case are."""
    path = tmp_path / "mesh.vtm"
    inside, one, two = volume(), surface(), with_arrays(pv.Icosphere(nsub=1))
    sizes = {"inlet": one.n_points, "wall_a": two.n_points, "wall_b": two.n_points}
    boundary = pv.MultiBlock({"inlet": one, "wall_a": two, "wall_b": two})
    for name in ("internal", "internalMesh"):
        pv.MultiBlock({name: inside, "boundary": boundary}).save(path)
        assert read_mesh(path, [VELOCITY]).points().shape == (inside.n_points, 3)
        assert mesh_info(path).points == inside.n_points
        assert patches_of(path) == ["inlet", "wall_a", "wall_b"]
        for regions, blocks in (
            (("inlet",), ("inlet",)),
            (("wall*",), ("wall_a", "wall_b")),
            (("wall_b", "inlet", "wall_?"), ("wall_b", "inlet", "wall_a")),
            (("boundary",), tuple(sizes)),
            (("group/bound*",), tuple(sizes)),
        ):
            mesh = read_mesh(path, [VELOCITY], regions=regions)
            assert len(mesh.points()) == sum(sizes[block] for block in blocks)
            assert mesh_info(path, regions=regions).points == len(mesh.points())
        with pytest.raises(
            ValueError, match="a block of mesh.vtm must be one of .*inlet.* 'walls'"
        ):
            read_mesh(path, regions=("walls",))
        with pytest.raises(
            ValueError, match="a surface or a volume, got the surfaces inlet beside"
        ):
            read_mesh(path, regions=("inlet", "internalMesh"))
    pv.MultiBlock({"fluid": inside, "body": one}).save(path)
    with pytest.raises(ValueError, match="surfaces body beside fluid: `patches` in the card names"):
        read_mesh(path)
    assert len(read_mesh(path, regions=("body",)).points()) == one.n_points


def test_patches_by_pattern_and_by_group(tmp_path: Path) -> None:
    case = write_case(tmp_path / "case")
    boundary = case / "constant" / "polyMesh" / "boundary"
    spoil(boundary, b"walls { type patch;", b"walls { type wall; inGroups 2(solid all);")
    spoil(boundary, b"inlet { type patch;", b"inlet { type patch; inGroups 1(all);")
    for regions, faces in (
        (("walls",), 8), (("*let",), 2), (("in*", "walls"), 9), (("*",), 10), (("solid",), 8),
        (("group/all",), 9), (("all", "outlet"), 10), (("group/*",), 9), (("walls", "all"), 9),
    ):  # fmt: skip
        assert read_mesh(case, [Wanted("p", "cell", 1)], regions=regions).info.cells == faces
    offered = "internalMesh, walls, inlet, outlet, group/all, group/solid"
    with pytest.raises(ValueError, match=f"a region of case must be one of {offered}, got 'wal'"):
        read_mesh(case, regions=("wal",))
    for region in offered.split(", "):
        assert read_mesh(case, regions=(region,)).info.cells
