"""Anybody's meshes become a store: every format, every trap, and reasons for what is left out."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv
import torch
import yaml
from numpy.typing import NDArray

from slipstream.data.cards import MeshSource, read_card
from slipstream.data.store import Reference, Source, check_store, ingest, open_store

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
from ..samples import contents

P = {"name": "p", "unit": "Pa", "from": {"array": "p"}}
TAU = {"name": "tau", "unit": "Pa", "from": {"array": "tau", "components": 3}}


def source_of(raw: Path, **card: Any) -> MeshSource:
    card = {"schema": 1, "files": {"mesh": "{id}.vtp"}, "targets": [P, TAU], **card}
    path = raw.parent / f"{raw.name}.yaml"
    path.write_text(yaml.safe_dump(card), "utf-8")
    return MeshSource(raw, read_card(path))


def columns(source: MeshSource, sample: str) -> dict[str, NDArray[Any]]:
    rows = np.concatenate(list(source.read(sample).blocks()))
    return {f.name: rows[:, source.schema.columns(f.name)] for f in source.schema.fields}


def check_values(found: dict[str, NDArray[Any]]) -> None:
    x = found["position"].astype(np.float64)
    np.testing.assert_allclose(found["p"][:, 0], pressure(x), atol=1e-4)
    np.testing.assert_allclose(found["tau"], shear(x), atol=1e-5)


def joined(mesh: Any) -> Any:
    return pv.MultiBlock(
        [mesh.extract_cells(range(10)), mesh.extract_cells(range(10, mesh.n_cells))]
    )


@pytest.mark.parametrize("location", ["point", "cell"])
@pytest.mark.parametrize(
    ("suffix", "make", "options"),
    [
        ("vtp", ball, {}),
        ("vtu", lambda: ball().cast_to_unstructured_grid(), {}),
        ("vtu", block, {"binary": False}),
        ("vtk", ball, {}),
        ("vtk", block, {"binary": False}),
        ("vtm", lambda: joined(block()), {}),
    ],
)
def test_every_format_comes_out_as_it_went_in(
    suffix: str, make: Any, options: dict[str, Any], location: str, tmp_path: Path
) -> None:
    mesh = make()
    blocks = [with_fields(b, location) for b in mesh] if suffix == "vtm" else None
    mesh = pv.MultiBlock(blocks) if blocks else with_fields(mesh, location)
    for sample in ("b", "a", "c"):
        save(mesh, tmp_path / "raw" / f"{sample}.{suffix}", **options)
    source = source_of(tmp_path / "raw", files={"mesh": f"{{id}}.{suffix}"}, location=location)
    assert isinstance(source, Source) and list(source.ids()) == ["a", "b", "c"]
    assert len(source.files("a")) == (3 if suffix == "vtm" else 1)
    report = ingest(source, tmp_path / "store")
    assert report.written == ("a", "b", "c") and check_store(tmp_path / "store") == []
    store = open_store(tmp_path / "store")
    found = store.array("b")
    check_values({f.name: found[:, store.schema.columns(f.name)] for f in store.schema.fields})
    rows = sum(b.n_points if location == "point" else b.n_cells for b in blocks or [mesh])
    assert store.rows("b") == rows


def test_an_openfoam_case(tmp_path: Path) -> None:
    for k in range(2):
        write_case(tmp_path / "raw" / f"case{k}", (3.0 + k, 5.0))
    velocity = {"name": "U", "unit": "m/s", "from": {"array": "U", "components": 3}}
    files = {"case": "{id}/"}
    source = source_of(tmp_path / "raw", files=files, location="cell", targets=[P, velocity])
    found = columns(source, "case1")
    np.testing.assert_allclose(found["position"], [(0.5, 0.5, 0.5), (1.5, 0.5, 0.5)])
    np.testing.assert_allclose(found["p"][:, 0], [4, 5])
    np.testing.assert_allclose(found["U"], [(1, 2, 3), (4, 5, 6)])
    names = set(source.files("case0"))
    assert {"case0/constant/polyMesh/points", "case0/10/p", "case0/system/controlDict"} <= names
    assert not any("/0/" in name for name in names)
    walls = source_of(
        tmp_path / "raw", files=files, location="cell", patches=["wal*"], targets=[P],
        features=[{"name": "normal", "computed": "normals"}],
    )  # fmt: skip
    found = columns(walls, "case1")
    assert len(found["p"]) == 8 and np.allclose(np.linalg.norm(found["normal"], axis=1), 1)
    away = found["position"] - (1, 0.5, 0.5)
    assert ((found["normal"] * away).sum(1) > 0).all()


@pytest.mark.parametrize("location", ["point", "cell"])
def test_two_files_in_different_order(location: str, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    for k in range(3):
        body = ball(1 + k)
        at = np.asarray(body.points if location == "point" else body.cell_centers().points)
        save(with_fields(body, location, p=pressure(at)), raw / f"r{k}" / "one.vtp")
        other = with_fields(body, location, tau=shear(at))
        save(other if k == 2 else shuffled(other, k), raw / f"r{k}" / f"tau_{k}.vtk")
    targets = [{**P, "from": {"file": "one", "array": "p"}}]
    targets += [{**TAU, "from": {"file": "two", "array": "tau", "components": 3}}]
    files = {"one": "r{id}/one.vtp", "two": "r{id}/tau_{id}.vtk"}
    card = {"files": files, "targets": targets, "location": location}
    check_values(columns(source_of(raw, **card), "1"))
    in_order = source_of(raw, **card, match="order")
    check_values(columns(in_order, "2"))
    with pytest.raises(ValueError, match=r"tau_1.vtk must have row \d+ at .*, got .*coordinates"):
        in_order.read("1")
    save(with_fields(ball(9), location), raw / "r1" / "tau_1.vtk")
    with pytest.raises(ValueError, match=r"tau_1.vtk must .*have a .* at \(.*\), like one.vtp"):
        source_of(raw, **card).read("1")
    save(with_fields(pv.Icosphere(nsub=1), location), raw / "r1" / "tau_1.vtk")
    with pytest.raises(ValueError, match="tau_1.vtk must have .* rows, got .*, like one.vtp"):
        source_of(raw, **card).read("1")


def test_points_that_cannot_be_told_apart(tmp_path: Path) -> None:
    """Two sides of a thin plate: harmless while their values agree, refused where they differ."""
    points = np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0)] * 2, np.float32)
    plate = pv.PolyData.from_regular_faces(points, [(0, 1, 2), (3, 5, 4)])
    files = {"one": "{id}/one.vtp", "two": "{id}/two.vtp"}
    targets = [{**P, "from": {"file": "one", "array": "p"}}]
    targets += [{"name": "q", "unit": "1", "from": {"file": "two", "array": "q"}}]
    for sample, values in (("same", [1.0, 2, 3, 1, 2, 3]), ("sides", [1.0, 2, 3, 1, 2, 4])):
        save(with_fields(plate, p=np.arange(6.0)), tmp_path / "raw" / sample / "one.vtp")
        save(shuffled(with_fields(plate, q=np.array(values))), tmp_path / f"raw/{sample}/two.vtp")
    source = source_of(tmp_path / "raw", files=files, targets=targets)
    assert columns(source, "same")["q"][:, 0].tolist() == [1, 2, 3, 1, 2, 3]
    with pytest.raises(ValueError, match="two.vtp: 'q' must have one value at each place .* got 1"):
        source.read("sides")


def test_features_from_geometry_box_and_arithmetic(tmp_path: Path) -> None:
    grid = block(-1.0)
    x = np.asarray(grid.points)
    arrays = {"p (Pa)": 101325 + pressure(x), "tx": x[:, 0], "ty": x[:, 1], "tz": x[:, 2]}
    save(with_fields(grid, **arrays), tmp_path / "raw" / "a.vtu")
    square = pv.Plane(i_size=99, j_size=99, i_resolution=1, j_resolution=1)
    save(square.translate((0, 0, -3)), tmp_path / "raw" / "ground.stl")
    source = source_of(
        tmp_path / "raw",
        files={"mesh": "{id}.vtu", "ground": "ground.stl"},
        features=[{"name": "height", "computed": "distance", "to": "ground"}],
        targets=[
            {"name": "p", "unit": "kPa", "subtract": 101325, "scale": 1e-3,
             "from": {"file": "mesh", "array": "p (P*"}},
            {"name": "x", "unit": "m", "subtract": [1, 0, 0],
             "from": {"file": "mesh", "array": ["tx", "ty", "tz"]}},
        ],
        box={"low": [-0.5, None, None], "high": [2, 2, None]},
    )  # fmt: skip
    found = columns(source, "a")
    x = found["position"]
    assert len(x) == 3 * 3 * 3 and x.min(0).tolist() == [0, 0, 0] and x.max(0).tolist() == [2, 2, 2]
    np.testing.assert_allclose(found["height"][:, 0], x[:, 2] + 3, rtol=1e-6)
    np.testing.assert_allclose(found["p"][:, 0], 1e-3 * pressure(x), atol=1e-5)
    np.testing.assert_allclose(found["x"], x - (1, 0, 0))
    assert source.read("a").parameters == {"rows_left_out": 60 - 27}
    elsewhere = source_of(
        tmp_path / "raw", files={"mesh": "{id}.vtu"}, box={"low": [9] * 3, "high": [10] * 3},
        targets=[{"name": "x", "unit": "m", "from": {"array": "tx"}}],
    )  # fmt: skip
    with pytest.raises(
        ValueError, match=r"the box must hold some .* are \(-1, 0, 0\) to \(3, 3, 2"
    ):
        elsewhere.read("a")


@pytest.mark.parametrize("location", ["point", "cell"])
@pytest.mark.parametrize("inward", [False, True])
def test_computed_normals_point_out_of_the_body(
    location: str, inward: bool, tmp_path: Path
) -> None:
    body = with_fields(ball(), location)
    save(body.flip_faces() if inward else body, tmp_path / "raw" / "a.vtp")
    normals = [{"name": "normal", "computed": "normals"}]
    found = columns(source_of(tmp_path / "raw", location=location, features=normals), "a")
    away = found["position"] / np.linalg.norm(found["position"], axis=1, keepdims=True)
    np.testing.assert_allclose((found["normal"] * away).sum(1), 1, atol=2e-2)


def test_normals_of_an_open_surface_are_those_of_its_faces(tmp_path: Path) -> None:
    sheet = pv.Plane(i_resolution=3, j_resolution=2).rotate_x(180)  # faces turn to -z
    save(with_fields(sheet), tmp_path / "raw" / "a.vtp")
    normals = [{"name": "normal", "computed": "normals"}]
    found = columns(source_of(tmp_path / "raw", features=normals), "a")
    np.testing.assert_allclose(found["normal"], np.tile((0, 0, -1), (12, 1)), atol=1e-6)


@pytest.mark.parametrize(("height", "sign"), [(4, 1), (0.2, -1)])
def test_normals_of_an_open_tube(height: float, sign: int, tmp_path: Path) -> None:
    """Out of a long one, which is seen from outside more; of a ring those of its faces."""
    tube = pv.Cylinder(capping=False, resolution=24, height=height, direction=(0, 0, 1))
    tube = tube.triangulate().flip_faces()
    save(with_fields(tube), tmp_path / "raw" / "a.vtp")
    normals = [{"name": "normal", "computed": "normals"}]
    found = columns(source_of(tmp_path / "raw", features=normals), "a")
    assert (sign * (found["normal"] * found["position"])[:, :2].sum(1) > 0).all()


def test_an_array_at_the_other_location_is_averaged(tmp_path: Path) -> None:
    grid = block()
    at = np.asarray(grid.cell_centers().points)
    grid = with_fields(
        with_fields(grid, "cell", c=pressure(at)), p=pressure(np.asarray(grid.points))
    )
    save(grid, tmp_path / "raw" / "a.vtu")
    cells = {"name": "c", "unit": "Pa", "from": {"array": "c", "location": "cell"}}
    files = {"mesh": "{id}.vtu"}
    found = columns(source_of(tmp_path / "raw", files=files, targets=[P, cells]), "a")
    inside = (found["position"] == (2, 1, 1)).all(1)
    assert inside.sum() == 1 and np.allclose(found["c"][inside], found["p"][inside])
    points = {**P, "from": {"array": "p", "location": "point"}}
    source = source_of(tmp_path / "raw", files=files, location="cell", targets=[points])
    found = columns(source, "a")
    np.testing.assert_allclose(found["p"][:, 0], pressure(found["position"]), rtol=1e-5)
    lonely = pv.PolyData(np.vstack([ball().points, [(9, 9, 9)]]).astype(np.float32), ball().faces)
    save(with_fields(lonely, "cell", c=np.ones(lonely.n_cells)), tmp_path / "more" / "b.vtp")
    with pytest.raises(ValueError, match="every point of b.vtp must be in a cell .* got 1 that"):
        source_of(tmp_path / "more", targets=[cells]).read("b")


@pytest.mark.parametrize("kind", ["csv", "json", "yaml", "json-each", "yaml-each", "csv-each"])
def test_parameters_become_features(kind: str, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    rows = {k: {"U": 30.0 + k, "yaw": -2.0 * k} for k in (1, 2)}  # none for the third
    for k in (1, 2, 3):
        save(with_fields(ball(), p=np.ones(162)), raw / f"run_{k}" / "s.vtp")
    suffix, _, each = kind.partition("-")
    dump = {"json": json.dumps, "yaml": yaml.safe_dump}.get(suffix)
    if dump and each:
        for k, row in rows.items():
            (raw / f"run_{k}" / f"in.{suffix}").write_text(dump(row))
    elif dump:
        (raw / f"all.{suffix}").write_text(dump({str(k): row for k, row in rows.items()}))
    elif each:
        for k, row in rows.items():
            (raw / f"run_{k}" / "in.csv").write_text(f"U,yaw\n{row['U']},{row['yaw']}\n")
    else:
        lines = [f"{k:03d};{row['U']};{row['yaw']}" for k, row in rows.items()]
        (raw / "all.csv").write_text("\n".join(["case;U;yaw", *lines]))
    place = {"file": f"run_{{id}}/in.{suffix}"} if each else {"file": f"all.{suffix}", "id": "case"}
    features = [{"name": "speed", "unit": "m/s", "from": "U"}, {"name": "yaw", "unit": "deg"}]
    source = source_of(
        raw, files={"s": "run_{id}/s.vtp"}, targets=[P],
        parameters=[{**place, "features": features}],
    )  # fmt: skip
    report = ingest(source, tmp_path / "store")
    assert report.written == ("1", "2") and list(report.quarantined) == ["3"]
    reason = "file like 'run_{id}/in" if each else f"all.{suffix} must have parameters for '3'"
    assert reason in report.quarantined["3"]
    store = open_store(tmp_path / "store")
    for k in (1, 2):
        found = store.array(str(k))[:, store.schema.columns("features")]
        assert (found == (30 + k, -2 * k)).all()
    assert store.manifest.samples["2"].parameters == {"speed": 32.0, "yaw": -4.0}


def test_targets_are_divided_by_a_reference_of_the_sample(tmp_path: Path) -> None:
    """p / (0.5 rho U^2), and U^-1 tau; the first sample stands still, one has no density."""
    raw = tmp_path / "raw"
    speeds, densities = (0.0, 10.0, 30.0, 20.0), (1.2, 1.2, 0.9, 0.0)
    for k, row in enumerate(zip(speeds, densities, strict=True)):
        save(with_fields(ball()), raw / f"{k}.vtp")
        (raw / f"{k}.json").write_text(json.dumps(dict(zip(("U", "rho"), row, strict=True))))
    features = [{"name": n, "unit": "SI", "from": k} for n, k in (("speed", "U"), ("rho", "rho"))]
    by = {"factor": 0.5, "by": {"rho": 1, "speed": 2}, "unit": "Pa"}
    cp = {**P, "name": "cp", "unit": "1", "subtract": 7, "divide": by}
    card: dict[str, Any] = {"parameters": [{"file": "{id}.json", "features": features}]}
    plain = source_of(raw, **card)
    source = source_of(raw, **card, targets=[cp, TAU])
    report = ingest(source, tmp_path / "store", fractions={"train": 1.0})
    assert report.written == ("1", "2") and check_store(tmp_path / "store") == []
    assert report.quarantined["0"] == (
        "cp: the reference 0.5 rho speed^2 must be a finite number other than 0, got 0 from rho"
        " 1.2, speed 0"
    )
    assert "got 0 from rho 0, speed 20" in report.quarantined["3"]
    store = open_store(tmp_path / "store")
    field = store.schema.field("cp")
    assert (field.unit, field.undivided_unit) == ("1", "Pa")
    assert field.divided == Reference({"rho": 1.0, "speed": 2.0}, 0.5, "Pa")
    for sample, dynamic in (("1", 60.0), ("2", 405.0)):
        rows = np.array(store.array(sample))
        x = rows[:, :3]
        features_, targets = (rows[:, store.schema.columns(p)] for p in ("features", "targets"))
        np.testing.assert_allclose(targets[:, 0], (pressure(x) - 7) / dynamic, atol=1e-6)
        np.testing.assert_allclose(targets[:, 1:], shear(x), atol=1e-6)
        for kind in (np.asarray, torch.from_numpy):
            whole = np.asarray(store.schema.undivided(kind(targets), kind(features_)))
            np.testing.assert_allclose(whole[:, 0], pressure(x) - 7, atol=1e-4)
            np.testing.assert_array_equal(whole[:, 1:], targets[:, 1:])
    assert "divided" not in json.dumps([plain.schema.to_json(), plain.options])
    ingest(plain, tmp_path / "plain", fractions={"train": 1.0})
    with pytest.raises(ValueError, match="fields must be what .* was begun with, targets.0.name"):
        ingest(source, tmp_path / "plain", fractions={"train": 1.0})


def test_bad_samples_are_left_out_with_a_reason(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    good = with_fields(ball())
    for name in ("good", "late", "more"):
        save(good, raw / f"{name}.vtp")
    holes = pressure(np.asarray(good.points))
    holes[[3, 5]] = np.nan, np.inf
    save(with_fields(ball(), p=holes, tau=shear(np.asarray(good.points))), raw / "nan.vtp")
    whole = (raw / "good.vtp").read_bytes()
    (raw / "cut.vtp").write_bytes(whole[: len(whole) // 2])
    save(pv.PolyData(), raw / "empty.vtp")
    save(with_fields(ball(), p=np.ones(162)), raw / "lacks.vtp")
    save(with_fields(ball(), p=np.ones(162), tau=np.ones(162)), raw / "scalar.vtp")
    save(with_fields(ball(), "cell"), raw / "cells.vtp")
    (raw / "text.vtp").write_text("this is not a mesh\n")
    source = source_of(raw)
    report = ingest(source, tmp_path / "store")
    assert report.written == ("good", "late", "more") and check_store(tmp_path / "store") == []
    reasons = {
        "nan": "field 'p' must be finite in float32, got 1 NaN and 1 infinite values at rows 3, 5",
        "cut": "cut.vtp must",
        "empty": "empty.vtp must have at least one point, got none",
        "lacks": "lacks.vtp must have point data 'tau', got point data 'p'",
        "scalar": "'tau' of scalar.vtp must have 3 components, got 1",
        "cells": "cells.vtp must have 'p' as point data, got it as cell data",
        "text": "text.vtp must",
    }
    assert set(report.quarantined) == set(reasons)
    for sample, reason in reasons.items():
        assert reason in report.quarantined[sample], report.quarantined[sample]
    kept = source_of(raw, drop="non-finite").read("nan")
    assert kept.rows == 160 and kept.parameters["rows_left_out"] == 2
    (raw / "good.vtp").rename(raw / "x.vtp")
    with pytest.raises(ValueError, match="sample good must have a file like '{id}.vtp', got none"):
        source_of(raw).read("good")


def test_a_card_that_fits_no_sample(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    for k in range(4):
        save(with_fields(ball()), raw / f"{k}.vtp")
    wrong = [{**P, "from": {"array": "pressure"}}]
    with pytest.raises(
        ValueError, match="0.vtp must have point data 'pressure', got point data 'p'"
    ):
        source_of(raw, targets=wrong)
    with pytest.raises(ValueError, match=r"must have files like '\{id\}.vtu' \(mesh\), got none"):
        source_of(raw, files={"mesh": "{id}.vtu"})
    with pytest.raises(ValueError, match="must have files like 'all.csv', got none"):
        source_of(raw, parameters=[{"file": "all.csv", "id": "a", "features": []}])
    with pytest.raises(ValueError, match="nowhere must be a folder of meshes, got none"):
        source_of(tmp_path / "nowhere")
    source = source_of(raw, splits={"lists": {"train": [0, 1, 2], "test": [4]}})
    with pytest.raises(
        ValueError, match="splits must hold every sample of the source, got none of"
    ):
        ingest(source, tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_name_that_ends_with_a_star_is_itself_before_it_is_a_beginning(tmp_path: Path) -> None:
    ones = np.ones(162)
    save(with_fields(ball(), **{"u": ones, "u*": 2 * ones, "v (m)": 3 * ones}), tmp_path / "a.vtp")
    for array, value in (("u", 1), ("u*", 2), ("v*", 3)):
        wanted = [{"name": "u", "unit": "m/s", "from": {"array": array}}]
        assert (columns(source_of(tmp_path, targets=wanted), "a")["u"] == value).all()


def test_folders_that_are_links(tmp_path: Path) -> None:
    raw, disk = tmp_path / "raw", tmp_path / "disk"
    save(with_fields(ball()), raw / "a" / "r0.vtp")
    for k in range(1, 4):
        save(with_fields(ball(1 + 0.1 * k)), disk / f"r{k}.vtp")
    (raw / "b").symlink_to(disk)
    source = source_of(raw, files={"mesh": "**/{id}.vtp"})
    assert list(source.ids()) == ["r0", "r1", "r2", "r3"]
    assert list(source.files("r3")) == ["b/r3.vtp"]
    assert len(ingest(source, tmp_path / "store").written) == 4


def test_splits_ids_and_files(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    for k in range(10):
        save(with_fields(ball(1 + 0.1 * k)), raw / f"run {k}.vtp")
    lists = {"train": [f"run {k}" for k in range(8)], "test": ["run 9", "run 8"]}
    source = source_of(raw, splits={"lists": lists})
    assert source.ids()[0] == "run_0" and list(source.files("run_3")) == ["run 3.vtp"]
    again = pickle.loads(pickle.dumps(source))
    assert again == source and list(again.ids()) == list(source.ids())
    ingest(source, tmp_path / "one")
    ingest(again, tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    store = open_store(tmp_path / "one")
    assert store.ids("test") == ("run_9", "run_8") and len(store.ids("train")) == 8
    assert store.manifest.origin.options["files"] == {"mesh": "{id}.vtp"}
    drawn = {"random": {"train": 0.5, "test": 0.5}, "seed": 3}
    splits = source_of(raw, splits=drawn).splits()
    other = source_of(raw, splits={**drawn, "seed": 4}).splits()
    assert splits is not None and len(splits["train"]) == 5 and splits != other
