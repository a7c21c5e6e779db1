"""`slipstream data inspect` as a user meets it: three commands to a store, and one sentence each
for what cannot be done."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv

from slipstream.cli import app as cli
from slipstream.data.cards import read_card

from ..data.mesh_folders import ball, pressure, save, shear, with_fields

Said = tuple[int, str, str]
Run = Callable[..., Said]


@pytest.fixture
def slipstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Runs a command in tmp_path: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["slipstream", "data", *arguments])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def write_folder(raw: Path) -> None:
    for k in range(5):
        x = np.asarray(ball(1 + k).points)
        fields = {"Static Pressure [Pa]": 101325 + pressure(x), "Wall Shear": shear(x)}
        save(with_fields(ball(1 + k), **fields), raw / f"car_{k}.vtp")


def test_three_commands_to_a_store(slipstream: Run, tmp_path: Path) -> None:
    write_folder(tmp_path / "cars")
    code, out, err = slipstream("inspect", "cars", "--out", "card.yaml")
    assert code == 0, err
    for text in (
        "cars: 5 samples (car_0, car_1, car_2, ...), 3 looked at.",
        "Static Pressure [Pa]",
        "closed, faces turned outward",
        "! mesh: pressure with a mean of",
        "slipstream data ingest mesh cars STORE --card card.yaml",
    ):
        assert text in out, out
    code, out, err = slipstream("ingest", "mesh", "cars", "store", "--card", "card.yaml")
    assert code == 0 and "5 written" in out, err
    code, out, err = slipstream("check", "store")
    assert code == 0 and "store is good: 5 samples" in out, err
    code, out, err = slipstream("inspect", "cars", "--out", "card.yaml")
    assert code == 2 and "card.yaml must not exist yet" in err and not out


def test_normals_of_sheets_come_with_a_warning(slipstream: Run, tmp_path: Path) -> None:
    for k in range(3):
        plane = pv.Plane(i_size=1 + k, i_resolution=3, j_resolution=2).triangulate()
        sheet = pv.PolyData(plane.points, plane.faces)  # without the plane's normals
        save(with_fields(sheet), tmp_path / "sheets" / f"car_{k}.vtp")
    code, out, err = slipstream("inspect", "sheets", "--out", "card.yaml")
    says = "which side is out of the body is not established for 100 % of the area"
    assert code == 0 and f"! mesh: {says}" in out and "turned outward" not in out, err
    ingest = ("ingest", "mesh", "sheets", "store", "--card", "card.yaml")
    says = "computed normals are not known to point out of the body in 3 of 3 samples, on up to 100"
    code, out, err = slipstream(*ingest)
    assert code == 0 and f"warning: {says}" in out, err
    code, out, err = slipstream(*ingest, "--json")
    assert says in json.loads(out)["warnings"][0], err


def test_a_file_and_json(slipstream: Run, tmp_path: Path) -> None:
    write_folder(tmp_path / "cars")
    code, out, _ = slipstream("inspect", "cars/car_1.vtp")
    assert code == 0 and "surface, 162 points, 320 cells (320 triangle)" in out
    code, out, err = slipstream("inspect", "cars", "--json", "--all")
    found = json.loads(out)
    assert code == 0 and not err and len(found["looked_at"]["mesh"]) == 5
    assert found["files"] == {"mesh": "{id}.vtp"} and found["card"] is None
    assert found["common"]["mesh"] == ["Static Pressure [Pa]", "Wall Shear"]


def test_what_cannot_be_done_is_one_sentence(slipstream: Run, tmp_path: Path) -> None:
    write_folder(tmp_path / "cars")
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.vtk").write_text("Dear reader,\nthis is no mesh.\n")
    (tmp_path / "short.vtp").write_bytes((tmp_path / "cars/car_1.vtp").read_bytes()[:400])
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    save(ball(), tmp_path / "shapes" / "a.stl")
    for arguments, sentence in (
        (("nowhere",), "nowhere must be a mesh or a folder of meshes, got no such file"),
        (
            ("empty",),
            "empty must hold meshes (.vtp, .vtu, .vti, .vts, .vtr, .vtk, .vtm, .stl, .ply or",
        ),
        (("text.vtk",), "text.vtk must"),
        (("short.vtp",), "short.vtp must"),
        (("table.csv",), "table.csv must be"),
        (("cars", "--out", "no/card.yaml"), "no/card.yaml must be in a folder that exists"),
        (("cars", "--out", "c.yaml", "--file", "x"), "file must be one of mesh, got 'x'"),
        (("shapes", "--out", "c.yaml"), "must have an array to predict, got no arrays"),
    ):
        code, out, err = slipstream("inspect", *arguments)
        assert code == 2 and sentence in err, (arguments, err)
        assert err.startswith("slipstream: ") and err.count("\n") == 1 and not out, err
    assert not (tmp_path / "c.yaml").exists()


def test_a_file_of_all_samples_named_like_theirs(slipstream: Run, tmp_path: Path) -> None:
    for name in ("r1/s.vtp", "r2/s.vtp", "s.vtp"):
        save(with_fields(ball()), tmp_path / "runs" / name)
    code, out, err = slipstream("inspect", "runs")
    assert code == 0 and "\nshared_s: s.vtp" in out, err
    code, out, err = slipstream("inspect", "runs", "--out", "card.yaml")
    assert code == 0 and "! s.vtp has no id in its name" in out, err
    code, out, err = slipstream("ingest", "mesh", "runs", "store", "--card", "card.yaml")
    assert code == 0 and "2 written" in out, err


def test_names_do_not_steer_the_terminal(slipstream: Run, tmp_path: Path) -> None:
    """The first array's name turns a terminal red, the second begins a line, as in a log."""
    x = np.asarray(ball().points)
    arrays = {"p": pressure(x), "red\x1b[31m": x[:, 0], "line\n! all is well": np.full(162, np.nan)}
    for k in range(3):
        save(with_fields(ball(), **arrays), tmp_path / "cars" / f"{k}.vtk")
    (tmp_path / "cars" / "t.json").write_text(
        json.dumps([{"id": str(k), "yaw\x9b1m": k, "speed\u2028": k} for k in range(3)])
    )
    code, out, err = slipstream("inspect", "cars", "--out", "card.yaml")
    assert code == 0, err
    card = (tmp_path / "card.yaml").read_text("utf-8")
    for text in (out, card):
        assert not {"\x1b", "\x9b", "\u2028"} & {*text}
    assert r"red\x1b[31m" in out and "\n! all is well" not in out
    assert r"yaw\x9b1m" in card and "its name has letters that a card cannot hold" in card
    assert [f.name for f in read_card(tmp_path / "card.yaml").schema.features] == ["normals"]
    only = {"red\x1b[31m": np.arange(162)}
    save(with_fields(ball(), **only), tmp_path / "ids" / "a.vtk")
    code, out, err = slipstream("inspect", "ids", "--out", "no.yaml")
    assert code == 2 and r"got red\x1b[31m in mesh" in err and "\x1b" not in err


def test_what_is_said_of_closed_and_open_parts(slipstream: Run, tmp_path: Path) -> None:
    whole = ball()
    holed = pv.PolyData.from_regular_faces(whole.points + 5, whole.regular_faces[1:, ::-1])
    sheet = pv.Plane(center=(9, 9, 9), i_resolution=2, j_resolution=3).triangulate()
    for name, mesh, text in (
        ("a", whole, "closed, faces turned outward\n"),
        ("b", holed, "(319 triangle), closed but for small holes (3 open edges)\n"),
        ("c", sheet, "(12 triangle), open (10 open edges)\n"),
        (
            "d",
            whole.append_polydata(holed).append_polydata(sheet),
            "1 part closed (320 triangles), 1 part closed but for small holes (319 triangles, 3"
            " open edges), 1 part open (12 triangles, 10 open edges)\n",
        ),
        ("e", sheet.append_polydata(sheet.translate((1, 2, 3))), "2 parts open (20 open edges)\n"),
    ):
        code, out, err = slipstream("inspect", str(save(mesh, tmp_path / f"{name}.vtp")))
        assert code == 0 and text in out, (out, err)
    assert (
        "319 of the 639 triangles of the closed parts turn inward"
        in slipstream("inspect", "d.vtp")[1]
    )
