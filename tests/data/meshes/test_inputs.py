"""The meshes that a command line names: files, cases, folders, patterns; each once, each a name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slipstream.data.meshes import MeshInput, find_inputs


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder; only names count, so files may be empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            (Path(name) / "constant" / "polyMesh").mkdir(parents=True)
        else:
            Path(name).write_text("")


def names(*paths: Path | str) -> dict[str, str]:
    """The name of each mesh by its path."""
    inputs = find_inputs(paths)
    assert [one.name for one in inputs] == sorted(one.name for one in inputs)
    assert len({one.name.casefold() for one in inputs}) == len(inputs)
    assert not any(".." in Path(one.name).parts or one.name.startswith("/") for one in inputs)
    return {os.path.relpath(one.path): one.name for one in inputs}


def test_files_and_cases(here: Path) -> None:
    make("a.vtp", "B.STL", "runs/one.0.5.vtu", "runs/case.v2/", "runs/case.v2/x.foam")
    assert find_inputs(["a.vtp"]) == [MeshInput(Path("a.vtp"), "a")]
    assert names("a.vtp", here / "B.STL") == {"a.vtp": "a", "B.STL": "B"}
    assert names("runs/one.0.5.vtu", "runs/case.v2") == {
        "runs/one.0.5.vtu": "one.0.5", "runs/case.v2": "case.v2"
    }  # fmt: skip
    assert names("runs/case.v2/x.foam") == {"runs/case.v2/x.foam": "case.v2"}
    os.chdir("runs/case.v2")
    assert names(".") == {".": "case.v2"} and names("x.foam") == {"x.foam": "case.v2"}
    os.chdir("constant")
    assert names("..") == {"..": "case.v2"}


def test_folders_and_patterns(here: Path) -> None:
    make("d/a.vtp", "d/deep/er/b.ply", "d/case/", "d/case/10/p.vtk", "d/notes.txt", "d/.hidden.vtp")
    folder = {"d/a.vtp": "a", "d/deep/er/b.ply": "deep/er/b", "d/case": "case"}
    assert names("d") == names("d/") == names(here / "d") == folder
    assert names(".") == {mesh: f"d/{name}" for mesh, name in folder.items()}
    assert names("d/*.vtp") == {"d/a.vtp": "a"}
    assert names("d/**/*.ply") == {"d/deep/er/b.ply": "b"}
    assert names("d/*") == {"d/a.vtp": "a", "d/deep/er/b.ply": "er/b", "d/case": "case"}
    assert names("d/[ab].vtp", "d/ca?e") == {"d/a.vtp": "a", "d/case": "case"}
    make("odd[1].vtp")  # a file that is called as a pattern is meant itself
    assert names("odd[1].vtp") == {"odd[1].vtp": "odd[1]"}
    (here / "d" / "mesh.vtm").write_text(
        '<VTKFile><vtkMultiBlockDataSet><DataSet index="0" file="a.vtp"/></vtkMultiBlockDataSet>'
        "</VTKFile>"
    )
    assert "d/a.vtp" not in names("d") and names("d")["d/mesh.vtm"] == "mesh"


def test_a_mesh_that_is_named_twice(here: Path) -> None:
    make("d/a.vtp", "case/", "case/x.foam")
    Path("link.vtp").symlink_to("d/a.vtp")
    Path("other").symlink_to("d")
    for paths in (
        ("d/a.vtp", "d/a.vtp"), ("d/a.vtp", "d"), ("d", "d/*.vtp"), ("d/a.vtp", here / "d/a.vtp"),
        ("d/a.vtp", "link.vtp"), ("d/a.vtp", "other/a.vtp"), ("d/a.vtp", "d/../d/a.vtp"),
    ):  # fmt: skip
        assert names(*paths) == {"d/a.vtp": "a"}
    assert names("case", "case/x.foam") == {"case": "case"}


def test_names_that_are_the_same(here: Path) -> None:
    make("r1/body.stl", "r2/body.stl", "r2/body.vtp", "r3/r1/body.stl", "body.stl", "r2/body/")
    assert names("r1/body.stl", "r2/body.stl") == {
        "r1/body.stl": "r1/body", "r2/body.stl": "r2/body"
    }  # fmt: skip
    assert names("r1", "r2/body.stl") == {"r1/body.stl": "r1/body", "r2/body.stl": "r2/body"}
    assert names("r2") == {
        "r2/body.stl": "body_stl", "r2/body.vtp": "body_vtp", "r2/body": "body_case"
    }  # fmt: skip
    deep = names("r1/body.stl", "r3/r1/body.stl")
    assert deep["r3/r1/body.stl"] == "r3/r1/body" and deep["r1/body.stl"].endswith("/r1/body")
    above = names("body.stl", "r1/body.stl")
    assert above == {"body.stl": f"{here.name}/body", "r1/body.stl": "r1/body"}
    os.chdir("r1")
    assert names("../body.stl", "body.stl") == {
        "../body.stl": f"{here.name}/body", "body.stl": "r1/body"
    }  # fmt: skip


def test_names_that_differ_by_little(here: Path) -> None:
    """Systems that take large letters for small ones would write one output over the other."""
    make("Body.vtp", "body.vtp")
    if len(list(here.iterdir())) == 2:
        assert len(names(".")) == 2
    make("x/a.vtp", "x/a.vtu", "x/a_vtp.stl", "x/a_vtp_1.stl")
    assert len(names("x")) == 4
    make(*(f"many/{i}/mesh.vtp" for i in range(300)))
    assert names("many")["many/7/mesh.vtp"] == "7/mesh"
    got = names("many/*/mesh.vtp")
    assert len(got) == 300 and got["many/7/mesh.vtp"] == "7/mesh"


def test_nothing_is_found(here: Path) -> None:
    make("a.vtp", "text.txt", "noform", "empty/readme.txt")
    Path("gone.vtp").symlink_to("nowhere.vtp")
    kinds = r"\(.vtp, .vtu, .* or the folder of an OpenFOAM case\)"
    for paths, says in (
        ([], "at least one mesh must be named, got none"),
        (["a.vtp", "b.vtp"], "b.vtp must exist, got no such file or folder"),
        (["gone.vtp"], "gone.vtp must exist, got no such file"),
        (["text.txt"], "text.txt must be .vtp, .* got '.txt'"),
        (["noform"], "noform must be .vtp, .* got ''"),
        (["empty"], rf"empty must hold a mesh {kinds}, got none in it"),
        (["a.vtp", "*.ply"], rf"\*.ply must fit the name of a mesh {kinds}, got none that it fits"),
        (["*.txt"], rf"\*.txt must fit the name of a mesh {kinds}"),
        (["emp*"], rf"emp\* must fit the name of a mesh {kinds}"),
    ):
        with pytest.raises(ValueError, match=f"^{says}") as raised:
            find_inputs(paths)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("mode", (0o000, 0o444))
def test_a_folder_that_cannot_be_read(mode: int, folder_of_a_user: Path) -> None:
    (folder_of_a_user / "closed").mkdir()
    (folder_of_a_user / "closed" / "b.vtp").write_text("")
    (folder_of_a_user / "a.vtp").write_text("")
    (folder_of_a_user / "closed").chmod(mode)
    told: list[OSError] = []
    try:
        found = find_inputs([folder_of_a_user], tell=told.append)
        assert [one.name for one in found] == ["a"]
        assert [(error.strerror, error.filename) for error in told] == [
            ("Permission denied", str(folder_of_a_user / "closed"))
        ]
        with pytest.raises((PermissionError, ValueError), match="closed"):
            find_inputs([folder_of_a_user / "closed"])
    finally:
        (folder_of_a_user / "closed").chmod(0o700)
