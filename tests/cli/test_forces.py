"""`slipstream forces` as a user meets it: files of several formats, options, mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv

from slipstream.data.meshes import mesh_of
from slipstream.evaluation.force_conventions import Conventions
from slipstream.evaluation.force_faces import outward_faces
from slipstream.evaluation.force_reference import FlowReference
from slipstream.evaluation.forces import face_forces

from ..conftest import Command
from ..data.mesh_files import volume, write_case
from ..evaluation.test_forces import box, scrambled

SPEED, AREA = 2.0, 3.0
GIVEN = ("--speed", SPEED, "--area", AREA)


def body(**arrays: Any) -> pv.PolyData:
    """A box of rectangles, half of them turned, with cell data."""
    mesh = scrambled(box())
    for name, values in arrays.items():
        mesh.cell_data[name] = values
    return mesh


def fields(mesh: pv.PolyData) -> tuple[Any, Any]:
    """A kinematic pressure, and the traction of a flow along x on the body."""
    x = np.asarray(mesh.cell_centers().points)
    return 3 - x[:, 0] + 0.2 * x[:, 2], 0.1 + 0 * x + [0.2, 0, 0]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    p, tau = fields(body())
    body(p=p, wallShearStress=-tau, U=np.tile([2.0, 0, 0], (len(p), 1))).save(tmp_path / "box.vtp")
    return tmp_path / "box.vtp"


def expected(mesh: pv.PolyData, reference: FlowReference | None = None) -> Any:
    faces = outward_faces(mesh_of(mesh))
    reference = reference or FlowReference(speed=SPEED, area=AREA)
    return face_forces(faces, *fields(mesh), reference, Conventions.given("kinematic"))


def test_a_table_conventions_and_json(file: Path, command: Command) -> None:
    said = command("forces", file, *GIVEN)
    assert said.code == 0, said.err
    true = expected(body())
    assert f"{true.cd:.6g}" in said.out and "Cd pressure" in said.out and "sum S" in said.out
    assert "pressure: kinematic (a guess, OpenFOAM's names" in said.out
    assert "the traction on the fluid (OpenFOAM's; its mean is against the flow by" in said.out
    assert "faces: out of the body (found from the geometry" in said.out
    assert "density not known" in said.out and "warning" not in said.out
    (one,) = json.loads(command("forces", file, *GIVEN, "--json", "--length", 2).out)["forces"]
    assert one["mesh"] == "box" and one["coefficients"]["cd"] == pytest.approx(true.cd)
    assert {"cm_roll", "cs_friction"} <= one["coefficients"].keys() and one["unit"][:3] == "m^4"
    assert one["conventions"]["traction"]["value"] == "on the fluid" and not one["open"]


def test_what_was_found_can_be_changed(file: Path, command: Command) -> None:
    def forces(*options: object) -> dict[str, Any]:
        said = command("forces", file, *GIVEN, *options, "--json")
        assert said.code == 0, said.err
        return dict(json.loads(said.out)["forces"][0])

    true, plain = expected(body()), forces()
    flipped = forces("--flip-shear")
    assert flipped["coefficients"]["cd_friction"] == pytest.approx(-true.cd_friction)
    assert "reversed by --flip-shear, though" in flipped["conventions"]["traction"]["reason"]
    turned = forces("--flip-normals")
    assert turned["coefficients"]["cd_pressure"] == pytest.approx(-true.cd_pressure)
    assert turned["coefficients"]["cd_friction"] == pytest.approx(true.cd_friction)
    assert forces("--scale", 0.1)["total"] == pytest.approx([0.01 * f for f in plain["total"]])
    large = "the faces have"
    assert not [sentence for sentence in plain["warnings"] if large in sentence]
    (sentence,) = [s for s in forces("--scale", 1000)["warnings"] if large in s]
    assert f"{1e6 * plain['wetted'] / AREA:.3g} times the reference area" in sentence
    heavy = forces("--density", 4)
    assert heavy["unit"] == "N" and heavy["total"] == pytest.approx([4 * f for f in plain["total"]])
    pascals = forces("--density", 4, "--pressure-form", "dimensional", "--shear-form", "kinematic")
    assert pascals["pressure"] == pytest.approx(plain["pressure"])
    assert pascals["friction"] == pytest.approx([4 * f for f in plain["friction"]])
    along = forces("--drag", "0,0,1", "--lift=-1,0,0")["coefficients"]
    assert along["cd"] == pytest.approx(true.cl) and along["cl"] == pytest.approx(-true.cd)
    level = forces("--reference-pressure", 1000)
    assert level["coefficients"]["cd"] == pytest.approx(true.cd), "a closed body does not care"
    moved = forces("--centre", "0,0,1")
    shift = np.cross([0, 0, -1], plain["total"])
    np.testing.assert_allclose(moved["moment"], np.array(plain["moment"]) + shift)
    half = forces("--mirror", "y")
    assert half["total"][1] == 0 and half["total"][0] == pytest.approx(2 * plain["total"][0])


def test_units_of_the_file_are_taken(tmp_path: Path, command: Command) -> None:
    p, tau = fields(body())
    body(**{"Pressure (kPa)": p, "tau": tau}).save(tmp_path / "named.vtp")
    said = command("forces", tmp_path / "named.vtp", *GIVEN, "--density", 4)
    assert "pressure: dimensional (in its name: kPa)" in said.out
    assert "shear: dimensional (a guess, like the pressure)" in said.out
    assert "the traction on the body (its mean is along the flow by 0.905" in said.out
    assert f"{1000 * expected(body()).cd_pressure / 4:.6g}" in said.out
    mesh = body(pressure=p)
    array = mesh.GetCellData().GetArray("pressure")
    array.GetInformation().Set(array.UNITS_LABEL(), "m^2/s^2")
    mesh.save(tmp_path / "labelled.vtp")
    said = command("forces", tmp_path / "labelled.vtp")
    assert "pressure: kinematic (the unit in the file: m^2/s^2)" in said.out
    assert "Coefficients need the area and speed: give --area and --speed." in said.out
    assert "warning: there is no shear" in said.out and "Cd" not in said.out


def test_a_named_array_is_a_pressure_whatever_its_name(tmp_path: Path, command: Command) -> None:
    p, tau = fields(body())
    body(p=0 * p, a=100 * p, b=-tau).save(tmp_path / "own.vtp")
    said = command("forces", tmp_path / "own.vtp", "--pressure", "a", "--shear", "b")
    assert "pressure: dimensional (a guess, the usual one; gauge" in said.out
    assert "shear: dimensional (a guess, like the pressure)" in said.out
    assert "the traction on the fluid (its mean is against the flow by 0.905" in said.out


def test_a_case_by_its_patches_and_dimensions(tmp_path: Path, command: Command) -> None:
    case = write_case(tmp_path / "case")
    field = case / "10" / "p"
    field.write_text(field.read_text().replace("[0 0 0 0 0 0 0]", "[0 2 -2 0 0 0 0]"))
    said = command("forces", case)
    assert said.code == 2 and "--patches must name the patches of case" in said.err
    assert "walls, inlet, outlet" in said.err
    said = command("forces", case, "--patches", "*let", "--json", "--area", 1, "--speed", 2)
    (one,) = json.loads(said.out)["forces"]
    # The inlet at x = 0 and the outlet at x = 2 have p = 10 and 11, and face out of the fluid.
    assert one["pressure"] == pytest.approx([-10 + 11, 0, 0])
    assert one["coefficients"]["cd"] == pytest.approx(0.5)
    assert "OpenFOAM" in one["facing"]["reason"]
    assert one["conventions"]["pressure"]["reason"] == "the dimensions in its file: m^2/s^2"
    one = json.loads(command("forces", case, "--patches", "outlet", "--json").out)["forces"][0]
    assert one["pressure"] == pytest.approx([11, 0, 0]) and one["open"]
    assert one["area_sum"] == pytest.approx([-1, 0, 0])


def test_point_data_parts_of_vectors_and_several_meshes(tmp_path: Path, command: Command) -> None:
    mesh = body()
    x = np.asarray(mesh.points)
    mesh.point_data["Cp"] = x[:, 0] - 2
    for axis in range(3):
        mesh.cell_data["Cf" + "xyz"[axis]] = np.full(mesh.n_cells, 0.1 * (axis + 1))
    (tmp_path / "in").mkdir()
    mesh.save(tmp_path / "in" / "a.vtp")
    mesh.save(tmp_path / "in" / "b.vtk")
    body().save(tmp_path / "in" / "c.stl")
    said = command("forces", tmp_path / "in", "--area", 2, "--json")
    assert said.code == 2, "one of them failed"
    made = json.loads(said.out)
    assert [one["mesh"] for one in made["forces"]] == ["a", "b"]
    assert list(made["failed"]) == ["c"] and "got no arrays" in made["failed"]["c"]
    for one in made["forces"]:
        wetted = 2 * (2 * 3 + 3 * 4 + 2 * 4)
        assert one["friction"] == pytest.approx([0.1 * wetted, 0.2 * wetted, 0.3 * wetted])
        assert one["coefficients"]["cd_pressure"] == pytest.approx(-24 / 2, rel=1e-6)
        assert "the mean of its corners" in one["warnings"][0]
    table = command("forces", tmp_path / "in", "--area", 2)
    assert table.out.count("warning: values are at points") == 1 and "c: c.stl must" in table.out


def test_reference_values_of_a_card(file: Path, command: Command) -> None:
    card = file.with_name("card.yaml")
    card.write_text(
        "schema: 1\nfiles: {mesh: '{id}.vtp'}\nlocation: cell\n"
        "targets: [{name: p, unit: m^2/s^2, from: {array: p}}]\n"
        "parameters: [{file: a.csv, id: run, features: [{name: U, unit: m/s}]}]\n"
        "reference: {speed: U, area: 3, length: 2, drag: [0, 0, 2], lift: [1, 0, 0]}\n"
    )
    said = command("forces", file, "--card", card)
    assert said.code == 2 and "--speed must be given, since it is the parameter 'U'" in said.err
    (one,) = json.loads(command("forces", file, "--card", card, "--speed", 2, "--json").out)[
        "forces"
    ]
    assert one["coefficients"]["cd"] == pytest.approx(expected(body()).cl)
    assert one["reference"]["length"] == 2
    options = ("--card", card, "--speed", 2, "--area", 6, "--json")
    (other,) = json.loads(command("forces", file, *options).out)["forces"]
    assert other["coefficients"]["cd"] == pytest.approx(one["coefficients"]["cd"] / 2)


@pytest.mark.usefixtures("no_shape_checks")
def test_bad_input_is_one_sentence(file: Path, command: Command) -> None:
    folder = file.parent
    p, _ = fields(body())
    body(p=np.where(p > p.min(), p, np.nan)).save(folder / "nan.vtp")
    body(p=p, pMean=p).save(folder / "two.vtp")
    body(wss=p, p=p).save(folder / "size.vtp")
    volume().save(folder / "volume.vtu")
    body().save(folder / "bare.vtp")
    for arguments, words in (
        ((folder / "none.vtp",), "must exist, got no such file"),
        ((folder / "bare.vtp",), "must have an array that is a pressure by its name"),
        ((folder / "nan.vtp",), "p of nan.vtp must be finite, got 4 of 94 cells"),
        ((folder / "two.vtp",), "must have one array that is a pressure, got p, pMean: --pressure"),
        ((folder / "volume.vtu", "--pressure", "heat"), "must be a surface of polygons"),
        ((file, "--pressure", "q"), "--pressure must be an array of box.vtp (p, "),
        ((file, "--pressure", "U"), "'U' of box.vtp must have one component, got 3"),
        ((file, "--shear", "p"), "'p' of box.vtp must have 3 components, got 1"),
        ((file, "--area", 0), "area must be a positive number, got 0.0"),
        ((file, "--drag", "1,0"), "--drag must be three numbers with commas, as 1,0,0, got '1,0'"),
        ((file, "--drag", "0,0,1"), "lift must be perpendicular to drag"),
        ((file, "--mirror", "q"), "mirror must be one of x, y, z, got 'q'"),
        ((file, "--pressure-form", "kinematics"), "did you mean 'kinematic'?"),
        ((file, "--scale", "-1"), "scale must be a positive number, got -1.0"),
        ((file, "--card", folder / "none.yaml"), "must be a YAML file, got no such file"),
    ):
        said = command("forces", *arguments)
        assert said.code == 2 and words in said.err, said.err
        assert said.err.count("\n") == 1 and not said.out
    said = command("forces", folder / "two.vtp", "--pressure", "pMean")
    assert said.code == 0
    said = command("forces", folder / "size.vtp")
    assert "warning: wss was left out: one component does not say where it pulls" in said.out


def test_a_profile_whose_lift_is_along_y(tmp_path: Path, command: Command) -> None:
    whole = box()
    sides = whole.extract_cells(np.abs(np.asarray(whole.face_normals)[:, 2]) < 0.5)
    sides = sides.extract_surface(algorithm="dataset_surface")
    sides.cell_data["Cp"] = np.asarray(sides.cell_centers().points)[:, 1]
    sides.save(tmp_path / "sides.vtp")

    def forces(*options: object) -> dict[str, Any]:
        said = command("forces", tmp_path / "sides.vtp", "--area", 3, *options, "--json")
        return dict(json.loads(said.out)["forces"][0])

    sentence = "no face of the mesh faces along the lift"
    along_z, along_y = forces(), forces("--lift", "0,1,0")
    assert along_z["coefficients"]["cl"] == pytest.approx(0) and along_z["total"][1] != 0
    assert any(sentence in one for one in along_z["warnings"])
    assert along_y["coefficients"]["cl"] == pytest.approx(along_z["total"][1] / 3)
    assert not any(sentence in one for one in along_y["warnings"])
