"""`slipstream predict`: folders, tables, going on after a stop, files beside, bad input."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv

from slipstream.core.records import read_records
from slipstream.runs.model_file import load_model
from slipstream.runs.tokens import load_tokens

from ..conftest import Command
from ..data.mesh_folders import ball, save, with_fields
from ..inference import flows
from ..inference.flows import body, room


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return flows.surface_run(tmp_path_factory.mktemp("surface"))


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return flows.volume_run(tmp_path_factory.mktemp("volume"))


@pytest.fixture
def designs(tmp_path: Path) -> Path:
    """Three designs in a folder, one of them no mesh, and a table of speeds."""
    folder = tmp_path / "designs"
    save(ball(1.05), folder / "a.stl")
    save(with_fields(ball(1.15), "cell"), folder / "wide" / "b.vtp")
    (folder / "c.stl").write_text("solid nothing")
    (tmp_path / "designs.csv").write_text("design,U\na,20.5\nb.vtp,22\nc,21\n")
    return folder


def test_a_folder_with_a_table(run: Path, designs: Path, command: Command) -> None:
    out, table = designs.parent / "out", designs.parent / "designs.csv"
    said = command("predict", run, designs, "--out", out, "--parameters", table, "--forces",
                   "--area", 3.5, "--json")  # fmt: skip
    assert said.code == 1
    a, c, b = json.loads(said.out)["predictions"]
    assert (a["name"], b["name"], c["name"]) == ("a", "wide/b", "c")
    assert [r["status"] for r in (a, b, c)] == ["predicted", "predicted", "failed"]
    assert c["reason"].startswith("c.stl must") and "\n" not in c["reason"]
    assert b["errors"].keys() == {"p", "tau"} and a["errors"] == {} and a["true_forces"] is None
    direct = load_model(run)
    mesh = pv.read(out / "a.vtp")
    expected = direct(flows.centres(mesh), {"normal": flows.convex_normals(mesh), "U_inf": 20.5})
    np.testing.assert_allclose(mesh.cell_data["p"], expected[:, 0], rtol=1e-4, atol=1e-4)
    assert a["forces"]["reference"]["speed"] == 20.5
    assert b["true_forces"]["coefficients"]["cd"] != b["forces"]["coefficients"]["cd"]
    # The same command again keeps what is there, and tries the bad one again.
    before = {file: file.stat().st_mtime_ns for file in out.rglob("*.vtp")}
    (designs / "c.stl").unlink()
    save(ball(1.25), designs / "c.stl")
    again = command("predict", run, designs, "--out", out, "--parameters", table, "--forces",
                    "--area", 3.5, "--json")  # fmt: skip
    rows = json.loads(again.out)["predictions"]
    assert again.code == 0 and [r["status"] for r in rows] == ["kept", "predicted", "kept"]
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert rows[2]["errors"] == b["errors"]
    # Other parameters are another prediction: nothing is replaced unless it is asked for.
    other = command("predict", run, designs / "a.stl", "--out", out, "--set", "U_inf=22")
    assert other.code == 2 and "a.vtp, which exists (--overwrite replaces it)" in other.err
    table_again = command("predict", run, designs / "a.stl", "--out", out, "--set", "U_inf=22",
                          "--overwrite")  # fmt: skip
    assert table_again.code == 0 and "22" in pv.read(out / "a.vtp").field_data[
        "slipstream_parameters"][0]  # fmt: skip


def test_meshes_are_tasks_of_an_engine(
    run: Path, designs: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files, results and their order are those of one process; what is there stays."""
    monkeypatch.chdir(designs.parent)
    how = ("--parameters", "designs.csv", "--forces", "--area", 3.5, "--device", "cpu", "--json")
    on = ("--on", "processes:1")
    shown = [command("predict", run, "designs", "--out", out, *how, *more)
             for out, more in (("here", ()), ("there", on))]  # fmt: skip
    assert [one.code for one in shown] == [1, 1]
    here, there = (one.out.replace("there/", "here/") for one in shown)
    assert json.loads(there) == json.loads(here)
    for file in Path("here").rglob("*.vtp"):
        assert file.read_bytes() == Path("there", file.relative_to("here")).read_bytes()
    assert not list(Path("there").glob(".engine-*"))
    Path("designs/c.stl").unlink()
    again = command("predict", run, "designs", "--out", "there", *how, *on)
    assert [row["status"] for row in json.loads(again.out)["predictions"]] == ["kept", "kept"]
    other = command("predict", run, "designs/a.stl", "--out", "there", "--set", "U_inf=9", *on)
    assert other.code == 2 and "a.vtp, which exists (--overwrite replaces it)" in other.err


def test_the_table_of_a_terminal(run: Path, designs: Path, command: Command) -> None:
    out = designs.parent / "out"
    said = command("predict", run, designs / "a.stl", designs / "wide", "--out", out, "--set",
                   "U_inf=30", "--forces")  # fmt: skip
    assert said.code == 0
    for text in ("p [m^2/s^2]", "error of tau", "force [m^4/s^2 (N over the density)]",
                 "Coefficients need area (--area).",
                 "warning: U_inf [m/s] is outside of its range in training, 20 to 22: got 30",
                 "The model's validation error is"):  # fmt: skip
        assert text in said.out


def test_outputs_beside_inputs_are_not_taken_for_meshes(
    run: Path, designs: Path, command: Command
) -> None:
    (designs / "c.stl").unlink()
    folder = designs / "wide"
    save(ball(1.0), folder / "d.stl")
    how = ("predict", run, folder / "d.stl", "--set", "U_inf=21", "--out", folder)
    assert command(*how).code == 0
    again = command(*how[:2], folder, *how[3:], "--json")
    rows = {row["name"]: row["status"] for row in json.loads(again.out)["predictions"]}
    assert rows == {"b": "failed", "d": "kept"}, "b.vtp would have to replace itself"


def test_a_single_file(run: Path, designs: Path, command: Command) -> None:
    out = designs.parent / "one" / "result.vtp"
    how = ("--set", "U_inf=21", "--slices", "--tokens")
    assert command("predict", run, designs / "a.stl", "--out", out, *how).code == 0
    data = pv.read(out)
    assert {"p", "tau", "cp", "cf", "slice_entropy", "most_probable_slice"} <= {*data.array_names}
    assert data.cell_data["slice_weights_head_0"].shape == (320, 3)
    tokens = load_tokens(out.with_name("result.tokens.safetensors"))
    assert tokens.points == 320 and len(tokens.layers) == 2
    two = command("predict", run, designs, "--out", designs.parent / "x.vtp", *how)
    assert two.code == 2 and "--out must be a folder for 3 meshes" in two.err


def test_planes_lines_and_points(volume: Path, tmp_path: Path, command: Command) -> None:
    mesh = save(room(5), tmp_path / "room.vtu")
    surface = save(body(), tmp_path / "body.stl")
    probes = tmp_path / "probes.csv"
    probes.write_text("name,X,y,z\nfront,-0.5,0,0\nrear,0.5,0.1,0.2\n")
    wake = save(pv.Plane(center=(0.6, 0, 0), direction=(1, 0, 0)), tmp_path / "wake.vtp")
    said = command("predict", volume, mesh, "--out", tmp_path / "out", "--surface", surface,
                   "--plane", "y=0.1", "--plane", "0,0,0;1,1,0", "--line", "-1,0,0;1,0,0;5",
                   "--points", probes, "--points", wake, "--tokens")  # fmt: skip
    assert said.code == 0, said.err
    names = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert names == [
        "predictions.jsonl", "room.tokens.safetensors", "room.vtu", "room_at_probes.csv",
        "room_at_wake.vtp", "room_line.csv", "room_plane_1.vtp", "room_plane_2.vtp",
    ]  # fmt: skip
    trained = load_model(volume)
    tokens = load_tokens(tmp_path / "out" / "room.tokens.safetensors")

    def by_hand(points: np.ndarray) -> np.ndarray:
        distance = pv.PolyData(np.asarray(points, np.float64)).compute_implicit_distance(body())
        gap = np.abs(distance.point_data["implicit_distance"])
        return np.asarray(trained.decode(np.asarray(points), {"gap": gap}, tokens=tokens))

    plane = pv.read(tmp_path / "out" / "room_plane_2.vtp")
    assert np.allclose(plane.points[:, 0], -plane.points[:, 1], atol=1e-6)
    np.testing.assert_allclose(plane.point_data["p"], by_hand(plane.points)[:, 0], atol=1e-3)
    with (tmp_path / "out" / "room_line.csv").open() as file:
        line = list(csv.DictReader(file))
    assert [float(row["distance"]) for row in line] == [0, 0.5, 1, 1.5, 2]
    points = np.array([[float(row[axis]) for axis in "xyz"] for row in line])
    values = np.array([[float(row[n]) for n in ("p", "U_x", "U_y", "U_z")] for row in line])
    np.testing.assert_allclose(values, by_hand(points), rtol=1e-4, atol=1e-4)
    with (tmp_path / "out" / "room_at_probes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["front", "rear"] and rows[1]["X"] == "0.5"
    expected = by_hand(np.array([[-0.5, 0, 0], [0.5, 0.1, 0.2]]))
    np.testing.assert_allclose([float(row["p"]) for row in rows], expected[:, 0], atol=1e-3)
    asked = pv.read(tmp_path / "out" / "room_at_wake.vtp")
    np.testing.assert_allclose(asked.point_data["p"], by_hand(asked.points)[:, 0], atol=1e-3)


def test_a_killed_command_goes_on(run: Path, tmp_path: Path, command: Command) -> None:
    """Killed in the middle, the same command ends in what an undisturbed one gives."""
    for k in range(6):
        save(ball(1 + 0.02 * k), tmp_path / "many" / f"m{k:02}.stl")
    how = ["predict", run, tmp_path / "many", "--set", "U_inf=21"]
    assert command(*how, "--out", tmp_path / "whole").code == 0
    out = tmp_path / "out"
    arguments = [sys.executable, "-m", "slipstream", *map(str, how), "--out", str(out)]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (out / "m01.vtp").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    # As if it had been killed between writing a file and saying so.
    done = [r for r in read_records(out / "predictions.jsonl") if r["kind"] == "mesh-prediction"]
    said = command(*how, "--out", out, "--json")
    rows = json.loads(said.out)["predictions"]
    assert said.code == 0 and len(rows) == 6
    assert sum(row["status"] == "kept" for row in rows) == len(done) < 6
    assert not [name for name in os.listdir(out) if name.endswith(".partial")]
    for k in range(6):
        one, other = (pv.read(folder / f"m{k:02}.vtp") for folder in (out, tmp_path / "whole"))
        np.testing.assert_array_equal(one.cell_data["p"], other.cell_data["p"])


def test_a_file_that_was_begun_is_replaced(run: Path, tmp_path: Path, command: Command) -> None:
    mesh, out = save(ball(1.1), tmp_path / "a.stl"), tmp_path / "out"
    how = ("predict", run, mesh, "--out", out, "--set", "U_inf=21")
    assert command(*how).code == 0
    records = out / "predictions.jsonl"
    begun = records.read_text().splitlines()[0]
    assert '"mesh-prediction-begun"' in begun
    records.write_text(begun + "\n")
    said = command(*how, "--json")
    assert said.code == 0 and json.loads(said.out)["predictions"][0]["status"] == "predicted"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.stl"], "nowhere.stl must exist"),
        (["{empty}"], "must hold a mesh"),
        (["{ball}"], r"the parameter U_inf \[m/s\] must be given"),
        (["{ball}", "--set", "V=3"], "a parameter must be one of U_inf, got 'V'"),
        (["{ball}", "--set", "U_inf"], "--set must be name=value, got 'U_inf'"),
        (["{ball}", "--set", "U_inf=21", "--area", "2"], "must go with --forces"),
        (["{ball}", "--set", "U_inf=21", "--plane", "y=0"], "a plane has no normal"),
        (["{ball}", "--set", "U_inf=21", "--plane", "nowhere"], "plane must be as y=0.5"),
        (["{ball}", "--set", "U_inf=21", "--points", "{table}"], "must have columns x, y and z"),
        (["{ball}", "--set", "U_inf=21", "--density", "1"], "that of the fluid is --flow-density"),
        (["{ball}", "--set", "U_inf=21", "--park", "moon"], "--park must be"),
        (["{ball}", "--set", "U_inf=21", "--precision", "fp8"], "precision must be"),
        (["{ball}", "--set", "U_inf=21", "--location", "edge"], "--location must be point or cell"),
        (["{ball}", "--set", "U_inf=21", "--scale", "0"], "scale must be a positive number"),
        (["{ball}", "--set", "U_inf=21", "--chunk", "0"], "chunk must be"),
        (["{ball}", "--set", "U_inf=21", "--forces", "--drag", "1,0"], "--drag must be three"),
        (["{ball}", "--set", "U_inf=21", "--forces", "--area", "-2"], "area must be a positive"),
        (["{ball}", "--parameters", "{table}"], "must have a row for 'ball'"),
        (["{huge}", "--set", "U_inf=21"], r"is it in mm\? \(--scale 0.001\)"),
        (["{half}", "--set", "U_inf=21"], "must be a whole file|must "),
    ],
)
def test_bad_input_is_one_sentence(
    run: Path, tmp_path: Path, command: Command, arguments: list[str], sentence: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "table.csv").write_text("id,U\nother,21\n")
    files = {
        "empty": tmp_path / "empty",
        "ball": save(ball(1.1), tmp_path / "ball.stl"),
        "huge": save(ball(1100.0), tmp_path / "huge.stl"),
        "half": tmp_path / "half.vtp",
        "table": tmp_path / "table.csv",
    }
    whole = save(ball(1.1), tmp_path / "whole.vtp").read_bytes()
    files["half"].write_bytes(whole[: len(whole) // 2])
    given = [argument.format(**files) for argument in arguments]
    said = command("predict", run, *given, "--out", tmp_path / "out")
    assert said.code == 2 and re.search(sentence, said.err), said.err
    assert said.err.count("\n") == 1 and said.out == "", said.err
    assert not list((tmp_path / "out").rglob("*.vtp")) if (tmp_path / "out").exists() else True


def test_a_model_that_is_none(run: Path, tmp_path: Path, command: Command) -> None:
    mesh = save(ball(1.1), tmp_path / "ball.stl")
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes((run / "model.safetensors").read_bytes()[:-100])
    foreign = tmp_path / "foreign.safetensors"
    foreign.write_bytes(b"\x80\x02cfoo")
    for path in (tmp_path / "none", cut, foreign, tmp_path):
        said = command("predict", path, mesh, "--out", tmp_path / "out")
        assert said.code == 2 and said.err.count("\n") == 1, said.err


def test_another_output_file_is_another_prediction(
    run: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = save(ball(1.05), tmp_path / "a.stl")
    how = ("predict", run, mesh, "--set", "U_inf=21", "--json", "--out")

    def status(out: Path | str) -> str:
        (row,) = json.loads(command(*how, out).out)["predictions"]
        assert row["file"] and Path(row["file"]).is_file()
        return f"{row['status']} {Path(row['file']).name}"

    out = tmp_path / "out"
    names = ("one.vtp", "two.vtp", "one.vtp", "")
    assert [status(out / name) for name in names] == [
        "predicted one.vtp", "predicted two.vtp", "kept one.vtp", "predicted a.vtp",
    ]  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert status("out") == "kept a.vtp", "the same folder by another path"


def test_arguments_that_are_no_model_or_no_input(
    run: Path, tmp_path: Path, command: Command
) -> None:
    mesh, out = save(ball(1.05), tmp_path / "a.stl"), tmp_path / "out"
    how = ("--set", "U_inf=21", "--out")
    swapped = command("predict", mesh, run, *how, out)
    assert swapped.code == 2 and f"slipstream predict {run} {mesh} ..." in swapped.err
    assert command("predict", run, mesh, *how, out).code == 0
    itself = command("predict", run, out / "a.vtp", *how, out)
    assert itself.code == 2 and "MESH must not be a prediction, got" in itself.err
    of_output = command("predict", run, out / "a.vtp", *how, tmp_path / "again")
    assert of_output.code == 2 and "give the mesh that it was made from" in of_output.err
    assert not list(tmp_path.rglob("again/*.vtp"))


def test_points_of_a_table_with_decimal_commas(
    volume: Path, tmp_path: Path, command: Command
) -> None:
    mesh, ball_file = save(room(), tmp_path / "room.vtu"), save(body(), tmp_path / "body.stl")
    (tmp_path / "a.csv").write_text("X;Y;Z;probe\n0,5;-0,25;0,125;nose, left\n0,75;0;0,5;tail\n")
    (tmp_path / "b.csv").write_text("x,y,z\n0.5,-0.25,0.125\n0.75,0,0.5\n")
    said = command("predict", volume, mesh, "--surface", ball_file, "--out", tmp_path / "out",
                   "--points", tmp_path / "a.csv", "--points", tmp_path / "b.csv")  # fmt: skip
    assert said.code == 0, said.err
    with (tmp_path / "out" / "room_at_a.csv").open() as file:
        commas = list(csv.DictReader(file))
    with (tmp_path / "out" / "room_at_b.csv").open() as file:
        plain = list(csv.DictReader(file))
    assert [row.pop("probe") for row in commas] == ["nose, left", "tail"]
    for one, other in zip(commas, plain, strict=True):
        assert [float(text) for text in one.values()] == [float(text) for text in other.values()]


def test_points_that_have_changed_are_asked_again(
    volume: Path, tmp_path: Path, command: Command
) -> None:
    mesh, ball_file = save(room(), tmp_path / "room.vtu"), save(body(), tmp_path / "body.stl")
    table, out = tmp_path / "a.csv", tmp_path / "out"
    table.write_text("x,y,z\n0.5,-0.25,0.125\n")
    how = ("predict", volume, mesh, "--surface", ball_file, "--out", out, "--points", table)
    assert command(*how).code == 0
    assert "(kept)" in command(*how).out
    table.write_text("x,y,z\n0.75,-0.25,0.125\n0,0,0.5\n")
    said = command(*how)
    assert said.code == 2 and "which exists (--overwrite replaces it)" in said.err
    assert command(*how, "--overwrite").code == 0
    assert len((out / "room_at_a.csv").read_text().splitlines()) == 3
    other = tmp_path / "other" / "a.csv"
    other.parent.mkdir()
    other.write_text(table.read_text())
    twice = command(*how, "--points", other, "--overwrite")
    assert twice.code == 2 and "files of --points must have different names" in twice.err
