"""What `data inspect` sees: roles, units, shapes, layouts, differences, and a card that works."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv
import yaml

from slipstream.data.cards import MeshSource, draft_card, look_at, look_at_file, read_card
from slipstream.data.cards.layout import find_layout, patterns_with_ids
from slipstream.data.cards.roles import Numbers, guess, role_of, split_unit, vectors_of_scalars
from slipstream.data.store import check_store, ingest, open_store

from ..mesh_folders import (
    ball,
    block,
    pressure,
    save,
    shear,
    shuffled,
    with_fields,
    write_case,
)


@pytest.mark.parametrize(
    ("name", "components", "role"),
    [
        ("p", 1, "pressure"),
        ("pMeanTrim", 1, "pressure"),
        ("pressure_average", 1, "pressure"),
        ("Static Pressure [Pa]", 1, "pressure"),
        ("CpMeanTrim", 1, "pressure coefficient"),
        ("Total Pressure", 1, "total pressure"),
        ("pPrime2Mean", 1, "fluctuation"),
        ("U", 3, "velocity"),
        ("UMeanTrim", 3, "velocity"),
        ("U", 1, "other"),
        ("Wall Shear Stress (N/m²)", 3, "wall shear"),
        ("wallShearStressMeanTrim", 3, "wall shear"),
        ("Normals", 3, "normals"),
        ("T", 1, "temperature"),
        ("rho", 1, "density"),
        ("nut", 1, "turbulence"),
        ("sdf", 1, "distance"),
        ("PatchID", 1, "id"),
        ("vtkOriginalPointIds", 1, "id"),
        ("solid", 1, "other"),
        ("x", 1, "coordinates"),
    ],
)
def test_roles_by_name(name: str, components: int, role: str) -> None:
    assert role_of(name, components) == role


def test_whole_numbers_units_in_names_and_vectors_of_scalars() -> None:
    assert role_of("p", 1, whole_numbers=True) == "id"
    units = {"P (Pa)": "Pa", "tau [N/m²]": "N/m^2", "Ma [-]": "1", "grad(p)": None, "U[i]": None}
    assert {name: split_unit(name)[1] for name in units} == units
    names = ["Ux", "Uy", "Uz", "X Shear", "Y Shear", "Z Shear", "V[i] (m/s)", "V[j] (m/s)"]
    assert vectors_of_scalars([*names, "V[k] (m/s)", "p", "q_0", "q_1"]) == {
        "U": ("Ux", "Uy", "Uz"),
        "Shear": ("X Shear", "Y Shear", "Z Shear"),
        "V": ("V[i] (m/s)", "V[j] (m/s)", "V[k] (m/s)"),
    }
    assert vectors_of_scalars(["u", "w", "v"]) == {"velocity": ("u", "v", "w")}


@pytest.mark.parametrize(
    ("low", "mean", "high", "openfoam", "speed", "unit", "reason", "warned"),
    [
        (1.00e5, 101300, 1.02e5, False, None, "Pa", "mean 1.01e+05: looks absolute, in Pa", True),
        (2.3e4, 23840, 2.4e4, False, None, "Pa", "looks absolute", True),
        (-1.9, -0.2, 1.0, False, None, "1", "within +-2: looks like a coefficient", False),
        (-900, -50, 450, True, 30.0, "m^2/s^2", "up to 900 at speeds up to 30: kinematic", False),
        (-1.5, 0, 0.5, True, 1.0, "m^2/s^2", "kinematic", False),
        (-900, -50, 450, True, None, "m^2/s^2", "kinematic where incompressible", False),
        (-900, -50, 450, False, 30.0, "Pa", "gauge, since it is not near 101325", False),
        (1.00e5, 101300, 1.02e5, True, 30.0, "Pa", "looks absolute", True),
    ],
)
def test_pressure_by_its_numbers(
    low: float, mean: float, high: float, openfoam: bool, speed: float | None, unit: str,
    reason: str, warned: bool,
) -> None:  # fmt: skip
    numbers = Numbers((float(low),), (float(mean),), (float(high),))
    found = guess("p", numbers, whole_numbers=False, openfoam=openfoam, speed=speed)
    assert found.unit == unit and reason in found.reason and bool(found.warning) == warned
    named = guess("p [bar]", numbers, whole_numbers=False, openfoam=openfoam, speed=speed)
    assert (named.unit, named.reason) == ("bar", "in its name")


@pytest.mark.parametrize(("offset", "unit"), [(0.0, "m^2/s^2"), (101325.0, "Pa")])
def test_an_absolute_pressure_means_a_compressible_solver(
    tmp_path: Path, offset: float, unit: str
) -> None:
    body = ball()
    x = np.asarray(body.points)
    fields = {"p": 300 * x[:, 0] + offset, "wallShearStress": x}
    look = look_at_file(save(with_fields(body, **fields), tmp_path / "a.vtp"))
    assert {array.name: array.guess.unit for array in look.arrays} == {
        "p": unit,
        "wallShearStress": unit,
    }


def _kind(path: str) -> str:
    """As if files with the same words held the same arrays."""
    return re.sub(r"[\d/_.]", "", path.rpartition("/")[2])


def _same(path: str) -> int:
    return 0


RUNS = range(1, 13)


@pytest.mark.parametrize(
    ("paths", "holds", "files"),
    [
        ([f"case_{k:03d}.vtp" for k in RUNS], _same, {"mesh": "{id}.vtp"}),
        (["estate.vtk", "fastback.vtk"], _same, {"mesh": "{id}.vtk"}),
        (
            [f"a {k}/Surface Data.vtp" for k in RUNS],
            _same,
            {"Surface_Data": "{id}/Surface Data.vtp"},
        ),
        (
            [f"run_{k}/{f}" for k in RUNS for f in ("surface.vtp", "volume.vtu")],
            _kind,
            {"surface": "{id}/surface.vtp", "volume": "{id}/volume.vtu"},
        ),
        (
            [f"run_{k}/{f}" for k in RUNS for f in (f"boundary_{k}.vtp", f"drivaer_{k}.stl")],
            _kind,
            {"boundary": "run_{id}/boundary_{id}.vtp", "drivaer": "run_{id}/drivaer_{id}.stl"},
        ),
        (
            [f"case_{k:03d}_{kind}.vtk" for k in RUNS for kind in ("p", "wss")],
            _kind,
            {"p": "{id}_p.vtk", "wss": "{id}_wss.vtk"},
        ),
        (
            [
                f"{kind}/{name}.vtk"
                for kind in ("pressure", "shear")
                for name in ("aa_1", "bb", "c")
            ],
            lambda path: path.partition("/")[0],
            {"pressure": "pressure/{id}.vtk", "shear": "shear/{id}.vtk"},
        ),
        (
            [f"{kind}/{c}/{c}_{k}.vtk" for kind in "PS" for c in ("F_D", "E_S") for k in RUNS],
            lambda path: path[0],
            {"P": "P/*/{id}.vtk", "S": "S/*/{id}.vtk"},
        ),
        ([f"w_{a}_{b}.vtp" for a in "abc" for b in ("low", "high")], _same, {"mesh": "{id}.vtp"}),
        ([f"cases/angle_{k}/" for k in (0, 5, 10)], _same, {"cases": "cases/{id}/"}),
        (["run_1/a.vtp", "run_1/b.stl"], _kind, {"a": "{id}/a.vtp", "b": "{id}/b.stl"}),
        (["run_1/p.vtp", "run_1/t.vtp"], _kind, {"p": "{id}/p.vtp", "t": "{id}/t.vtp"}),
        (["run_1/a.vtp", "run_1/b.vtp"], _same, {"run_1": "run_1/{id}.vtp"}),
        (["wing.vtp"], _same, {"mesh": "{id}.vtp"}),
        (
            [f"run_{k}/s.vtp" for k in RUNS] + [f"run_{k}/b.stl" for k in RUNS if k != 3],
            _kind,
            {"b": "{id}/b.stl", "s": "{id}/s.vtp"},
        ),
    ],
)
def test_layouts(paths: list[str], holds: Callable[[str], Any], files: dict[str, str]) -> None:
    assert find_layout(paths, holds).files == files
    assert find_layout(paths[::-1], holds).files == files


def test_layouts_with_known_ids_times_and_many_files() -> None:
    flat = [f"case_{k:03d}.vtp" for k in RUNS]
    assert find_layout(flat, _same, {"001", "002"}).files == {"case": "case_{id}.vtp"}
    series = find_layout([f"c{k}/out_{t}.vtk" for k in RUNS for t in (5, 50, 100)], _same)
    assert series.files == {"out_100": "{id}/out_100.vtk"}
    assert series.earlier == {"out_100": ("{id}/out_5.vtk", "{id}/out_50.vtk")}
    many = [f"run_{k}/{kind}_{k}.vtp" for k in range(5000) for kind in ("p", "tau")]
    assert set(find_layout(many, _kind).files.values()) == {
        "run_{id}/p_{id}.vtp",
        "run_{id}/tau_{id}.vtp",
    }
    few = find_layout([f"c{k}/out_{t}.vtk" for k in (1, 2) for t in range(1, 11)], _same)
    assert few.files == {"out_10": "{id}/out_10.vtk"}
    twice = ["a/1.vtp", "a/2.vtp", "b/2.vtp", *(f"{c}/{i}.vtp" for i, c in enumerate("cdefg", 4))]
    assert "*/{id}.vtp" not in find_layout(twice, _same).files.values()
    names = ["x.json", *(f"run_{k}/{name}.json" for k in RUNS for name in ("in", "out"))]
    ids = {f"run_{k}" for k in RUNS}
    assert patterns_with_ids(names, ids) == ["{id}/in.json", "{id}/out.json"]


def test_a_look_at_a_file(tmp_path: Path) -> None:
    body = with_fields(ball())
    body.point_data["tau"][[3, 7], 1] = np.nan
    body.point_data["tau"][4, 0] = np.inf
    body.point_data["PatchID"] = np.arange(body.n_points)
    body.cell_data["Normals"] = -np.asarray(body.face_normals)
    look = look_at_file(save(body, tmp_path / "a.vtp"))
    shape = look.shape
    assert (shape.kind, shape.points, shape.cells) == ("surface", 162, 320)
    assert shape.cell_kinds == {"triangle": 320}
    assert (shape.twins, shape.unused, shape.degenerate, shape.open_edges) == (0, 0, 0, 0)
    assert shape.outward is True
    tau = look.array("tau", "point")
    assert tau is not None and (tau.components, tau.nan, tau.infinite) == (3, 2, 1)
    y = np.asarray(body.points)[:, 0]
    assert tau.numbers.low[1] == pytest.approx(-np.delete(y, [3, 7]).max(), rel=1e-6)
    assert tau.numbers.mean[2] == pytest.approx(1, abs=1e-6)
    assert "tau has 2 NaN and 1 infinite values" in look.warnings
    assert "Normals point inward" in look.warnings
    said = json.loads(json.dumps(look.to_json(), allow_nan=False))
    assert {a["name"]: a["role"] for a in said["arrays"]} == {
        "p": "pressure", "tau": "wall shear", "PatchID": "id", "Normals": "normals"
    }  # fmt: skip


def test_what_is_wrong_with_a_shape(tmp_path: Path) -> None:
    body = ball()
    faces = body.regular_faces.copy()
    faces[0] = faces[0][[0, 0, 1]]
    points = np.vstack([body.points, body.points[:2], [(9, 9, 9)]]).astype(np.float32)
    torn = pv.PolyData.from_regular_faces(points, faces)
    shape = look_at_file(save(torn, tmp_path / "torn.vtp")).shape
    assert (shape.twins, shape.unused, shape.degenerate, shape.open_edges) == (2, 3, 1, 3)
    assert shape.outward is None
    soup = body.points[body.regular_faces].reshape(-1, 3)  # no triangle shares its corners
    loose = pv.PolyData.from_regular_faces(soup, np.arange(len(soup)).reshape(-1, 3)[:, ::-1])
    shape = look_at_file(save(loose, tmp_path / "soup.vtp")).shape
    assert (shape.open_edges, shape.outward, shape.twins) == (0, False, 960 - 162)
    shape = look_at_file(save(block(), tmp_path / "v.vtu")).shape
    assert (shape.kind, shape.cell_kinds, shape.degenerate) == ("volume", {"hexahedron": 24}, 0)
    assert (shape.low, shape.high) == ((0, 0, 0), (4, 3, 2))
    many = pv.ImageData(dimensions=(61, 61, 41)).cast_to_unstructured_grid()
    shape = look_at_file(save(many, tmp_path / "many.vtu")).shape
    assert shape.cells == 144_000 and shape.cell_kinds == {"voxel": 144_000}
    shape = look_at_file(save(pv.PolyData(np.eye(3)), tmp_path / "cloud.vtp")).shape
    assert shape.kind == "points" and shape.open_edges is None
    holes = np.ones((60, 3))
    holes[5, 1] = np.inf
    tau = look_at_file(save(with_fields(block(), tau=holes), tmp_path / "inf.vtu")).arrays[0]
    assert (tau.nan, tau.infinite, tau.numbers.high) == (0, 1, (1, 1, 1))
    nothing = np.full(162, np.nan)
    look = look_at_file(save(with_fields(body, p=nothing), tmp_path / "nan.vtp"))
    assert look.to_json()["arrays"][0]["mean"] == [None]


def _folder(raw: Path, count: int = 6) -> None:
    """Cars as people have them: two files in different order, absolute pressure, a table."""
    lines = ["case,speed [m/s],yaw,Cd,rho,remark"]
    for k in range(1, count + 1):
        body = ball(1 + 0.1 * k)
        x = np.asarray(body.points)
        body.point_data["PatchID"] = np.ones(162, np.int32)
        save(with_fields(body, p=101325 + pressure(x)), raw / f"run_{k}" / "pressure.vtp")
        other = shuffled(
            with_fields(ball(1 + 0.1 * k), **{"Wall Shear Stress (N/m²)": shear(x)}), k
        )
        save(other, raw / f"run_{k}" / "wss.vtk")
        lines.append(f"run_{k},{30 + k},{k / 2},{0.3 + k / 100},1.2,ok")
    (raw / "designs.csv").write_text("\n".join(lines))
    (raw / "notes.txt").write_text("hello")


def test_samples_without_a_file_or_parameters(tmp_path: Path) -> None:
    _folder(tmp_path)
    (tmp_path / "run_2" / "wss.vtk").unlink()
    lines = (tmp_path / "designs.csv").read_text().splitlines()
    (tmp_path / "designs.csv").write_text("\n".join(line for line in lines if "run_5" not in line))
    notes = look_at(tmp_path).notes
    assert "1 samples lack the file wss, as run_2" in notes
    assert "designs.csv has nothing on 1 samples, as run_5" in notes


def test_from_a_folder_to_a_store_without_editing_the_card(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    _folder(raw)
    look = look_at(raw)
    assert look.ids == tuple(f"run_{k}" for k in range(1, 7))
    assert list(look.looks["pressure"]) == ["run_1", "run_4", "run_6"]
    assert len(look_at(raw, every=True).looks["pressure"]) == 6
    json.dumps(look.to_json(), allow_nan=False)
    assert any("looks absolute: subtract 101325?" in note for note in look.notes)
    (tmp_path / "card.yaml").write_text(text := draft_card(look), "utf-8")
    card = read_card(tmp_path / "card.yaml")
    assert card.match == "coordinates" and card.location == "point"
    fields = [(f.name, f.unit, f.components) for f in card.schema.fields]
    assert fields == [
        ("position", "m", 3), ("normals", "1", 3), ("speed [m/s]", "m/s", 1), ("yaw", "deg", 1),
        ("pressure", "Pa", 1), ("wall_shear", "N/m^2", 3),
    ]  # fmt: skip
    assert '# - {name: Cd, unit: "1"}  # looks like a result: drag coefficient' in text
    assert "# - {name: remark, unit: \"1\"}  # no number: 'ok'" in text
    report = ingest(MeshSource(raw, card), tmp_path / "store")
    assert len(report.written) == 6 and not report.quarantined
    assert check_store(tmp_path / "store") == []
    store = open_store(tmp_path / "store")
    rows = np.array(store.array("run_2"))
    x, targets = rows[:, :3], rows[:, store.schema.columns("targets")]
    np.testing.assert_allclose(targets[:, 0], 101325 + pressure(x), rtol=1e-6)
    np.testing.assert_allclose(targets[:, 1:], shear(x), atol=1e-5)
    assert (rows[:, 6:8] == (32, 1)).all()
    assert store.schema.computed("normals") == store.schema.field("normals")
    assert store.schema.field("normals").computed == "normals"


def test_a_volume_at_cells_with_a_body_and_a_file_of_parameters_each(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    for k in range(3):
        grid = block(2.0 + k)
        x = np.asarray(grid.cell_centers().points)
        arrays = {"p": 400 * x[:, 0] - 1500, "nut": x[:, 0], "pPrime2Mean": x[:, 1]}
        arrays["Cp"] = x[:, 0]
        arrays |= {f"U{axis}": 10 * x[:, i] for i, axis in enumerate("xyz")}
        save(with_fields(grid, "cell", **arrays), raw / f"flow_{k}.vtu")
        save(ball(), raw / f"body_{k}.stl")
        (raw / f"flow_{k}.json").write_text(
            json.dumps({"velocity": 30 + k, "wing": {"span": 1 + k}})
        )
    (tmp_path / "card.yaml").write_text(text := draft_card(look_at(raw)), "utf-8")
    card = read_card(tmp_path / "card.yaml")
    assert card.location == "cell" and card.files["flow"] == "flow_{id}.vtu"
    names = [(f.name, f.unit) for f in card.schema.fields]
    assert names[1:] == [
        ("distance", "m"), ("sample_velocity", "m/s"), ("wing.span", "m"), ("pressure", "m^2/s^2"),
        ("velocity", "m/s"),
    ]  # fmt: skip
    assert "# - {name: turbulence" in text and "# - {name: pressure_coefficient" in text
    assert "Prime2" not in text
    source = MeshSource(raw, card)
    assert source.ids() == ["0", "1", "2"]
    assert not ingest(source, tmp_path / "store").quarantined
    store = open_store(tmp_path / "store")
    rows = np.array(store.array("1"))
    np.testing.assert_allclose(
        rows[:, store.schema.columns("velocity")], 10 * rows[:, :3], rtol=1e-6
    )
    assert store.schema.field("distance").computed == "distance"
    distance = rows[:, store.schema.columns("distance")][:, 0]
    exact = np.linalg.norm(rows[:, :3], axis=1) - 1
    assert (distance >= exact - 1e-6).all() and (distance - exact).max() < 0.05


def test_names_of_parts_get_other_names(tmp_path: Path) -> None:
    for k in range(3):
        save(with_fields(ball(), features=np.arange(162.0)), tmp_path / f"{k}.vtp")
    (tmp_path / "t.csv").write_text("id,targets\n0,1\n1,2\n2,3\n")
    (tmp_path / "card.yaml").write_text(text := draft_card(look_at(tmp_path)), "utf-8")
    names = [field.name for field in read_card(tmp_path / "card.yaml").schema.fields]
    assert names == ["position", "normals", "features_2"]
    assert '# - {name: sample_targets, unit: "1", from: targets}' in text


def test_arrays_that_a_card_cannot_tell_apart(tmp_path: Path) -> None:
    ones = np.ones(162)
    for k in range(3):
        arrays = {"p": ones, "p\u00a0old": 2 * ones, "q\u00a0new": 3 * ones}
        save(with_fields(ball(), **arrays), tmp_path / f"{k}.vtp")
    text = draft_card(look_at(tmp_path))
    assert '# - {name: p_old, unit: "1", from: {array: "p*"}}  # other arrays begin like' in text
    assert '{array: "q*"}' in text


def test_what_differs_between_samples_is_said(tmp_path: Path) -> None:
    x = np.asarray(ball().points)
    save(with_fields(ball(), p=pressure(x), T=x[:, 0]), tmp_path / "a.vtp")
    save(with_fields(ball(), p=101325 + pressure(x)), tmp_path / "b.vtp")
    save(with_fields(ball(), p=shear(x), T=x[:, 0]), tmp_path / "c.vtp")
    (tmp_path / "d.vtp").write_text("text")
    look = look_at(tmp_path, every=True)
    for note in (
        "mesh: point data 'T' is not in b",
        "mesh: the components of 'p' differ between samples: 1 in a, 1 in b, 3 in c",
    ):
        assert note in look.notes, look.notes
    assert any("left out: d.vtp must" in note for note in look.notes)
    assert [a.name for a in look.common("mesh")] == []
    save(with_fields(ball(), p=0.01 * pressure(x)), tmp_path / "c.vtp")
    notes = look_at(tmp_path, every=True).notes
    assert any("looks absolute" in note and note.endswith("(in b)") for note in notes)
    unit = "mesh: the unit, by its numbers, of 'p' differ between samples: Pa in a, Pa in b, 1 in c"
    assert unit in notes


def test_files_left_out_times_and_the_other_file(tmp_path: Path) -> None:
    for k in range(3):
        for t in (1, 2, 10):
            save(with_fields(ball(), p=np.full(162, 100.0 * t)), tmp_path / f"c{k}/s_{t}.vtp")
        save(with_fields(block(), U=shear(np.asarray(block().points))), tmp_path / f"c{k}/v.vtu")
    save(ball(), tmp_path / "body.stl")
    look = look_at(tmp_path)
    assert any("3 files of a sample differ in a number only" in note for note in look.notes)
    assert "body.stl has no id in its name: taken for all samples' own" in look.notes
    surface = yaml.safe_load(draft_card(look))
    assert surface["files"] == {"s_10": "{id}/s_10.vtp"}
    volume = yaml.safe_load(draft_card(look, "v"))
    assert volume["files"] == {"v": "{id}/v.vtu", "body": "body.stl"}
    for k in range(4):
        save(ball(), tmp_path / f"{'abcd'[k] * (k + 1)}_odd{k}" / f"{'wxyz'[k]}.ply")
    assert any("5 meshes fit no pattern and are left out" in n for n in look_at(tmp_path).notes)
    assert [t["name"] for t in volume["targets"]] == ["velocity"]
    with pytest.raises(ValueError, match="file must be one of s_10, v, body, got 'w'"):
        draft_card(look, "w")


def test_an_openfoam_case_and_a_single_file(tmp_path: Path) -> None:
    for k in range(2):
        write_case(tmp_path / "cases" / f"c{k}", (3.0 + k, 5.0))
    text = draft_card(look_at(tmp_path / "cases"))
    (tmp_path / "card.yaml").write_text(text, "utf-8")
    card = read_card(tmp_path / "card.yaml")
    assert card.files == {"mesh": "{id}/"} and card.location == "cell"
    assert "# patches: [wall, ends]\n" in text
    assert MeshSource(tmp_path / "cases", card).read("c1").rows == 2
    one = look_at(save(with_fields(ball()), tmp_path / "one" / "wing.vtp"))
    (tmp_path / "one.yaml").write_text(draft_card(one), "utf-8")
    source = MeshSource(one.folder, read_card(tmp_path / "one.yaml"))
    assert source.ids() == ["wing"] and source.read("wing").rows == 162
    case = look_at(tmp_path / "cases" / "c0")
    assert case.ids == ("c0",) and case.folder == tmp_path / "cases"


def test_nothing_to_see(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must hold meshes .* got an empty folder"):
        look_at(tmp_path)
    (tmp_path / "a.txt").touch()
    with pytest.raises(ValueError, match="must hold meshes .* got .txt"):
        look_at(tmp_path)
    (tmp_path / "a.vtk").write_text("not a mesh")
    with pytest.raises(ValueError, match="a.vtk must"):
        look_at(tmp_path)
    save(ball(), tmp_path / "only" / "shape.stl")
    with pytest.raises(ValueError, match="must have an array to predict, got no arrays in mesh"):
        draft_card(look_at(tmp_path / "only"))
