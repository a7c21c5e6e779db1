"""What goes wrong with meshes, and what each mistake does to a result: the table of docs/traps.md.

    python benchmarks/traps.py FOLDER             all: data, training, FOLDER/traps.jsonl
    python benchmarks/traps.py FOLDER --steps 50  quicker, to see that it runs
    python benchmarks/traps.py FOLDER --prepare   stop before training, and print its commands

Bodies in Stokes flow, whose pressure, wall shear and forces are known. A trap is either in half or
a quarter of the training meshes (then a model is trained on them, and tested on clean meshes) or in
the mesh that a command is given. A record for each trap has the errors, Cd and what was said.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyvista as pv
import yaml

import slipstream
from slipstream.core import runtime
from slipstream.evaluation.force_reference import FlowReference
from slipstream.evaluation.mesh_forces import mesh_forces

SAMPLES, TESTS, PANELS = 120, 12, 320
MOST_LINES = 2
"""Of what was said, in a record: the same warning may come for every sample."""
DENSITY, SPEED, AREA, ATMOSPHERE = 1.2, 1.0, 1.0, 101325.0
FLOW: dict[str, Any] = {
    "density": DENSITY,
    "speed": SPEED,
    "area": AREA,
    "drag": (1.0, 0.0, 0.0),
    "lift": (0.0, 0.0, 1.0),
}
REFERENCE = FlowReference(**FLOW)
Mesh = Any
Spring = Callable[[Mesh], None]


def reverse_normals(mesh: Mesh) -> None:
    mesh.cell_data["outward"] = -np.asarray(mesh.cell_data["outward"])


def flip_shear(mesh: Mesh) -> None:
    mesh.cell_data["wall_shear"] = -np.asarray(mesh.cell_data["wall_shear"])


def divide_by_density(mesh: Mesh) -> None:
    mesh.cell_data["pressure"] = np.asarray(mesh.cell_data["pressure"]) / DENSITY


def to_millimetres(mesh: Mesh) -> None:
    mesh.points = np.asarray(mesh.points) * 1000


def make_absolute(mesh: Mesh) -> None:
    mesh.cell_data["pressure"] = np.asarray(mesh.cell_data["pressure"]) + ATMOSPHERE


def turn_faces(mesh: Mesh) -> None:
    mesh.flip_faces(inplace=True)


@dataclass(frozen=True)
class TrainingTrap:
    """A mistake in every `every`-th of the training meshes."""

    name: str
    spring: Spring
    every: int


ALL_ABSOLUTE = TrainingTrap("absolute-in-all", make_absolute, 1)
TRAINING = (
    TrainingTrap("normals-reversed-in-half", reverse_normals, 2),
    TrainingTrap("shear-flipped-in-half", flip_shear, 2),
    TrainingTrap("kinematic-in-half", divide_by_density, 2),
    TrainingTrap("millimetres-in-a-quarter", to_millimetres, 4),
    TrainingTrap("absolute-in-a-quarter", make_absolute, 4),
    ALL_ABSOLUTE,
)


class Bench:
    """A folder with clean meshes, a model trained on them, and what each trap did."""

    def __init__(self, folder: Path, steps: int) -> None:
        self.folder, self.steps = folder, steps
        self.records: list[dict[str, Any]] = []

    def command(self, *arguments: str | Path) -> list[str]:
        """What a command says, on both streams, without progress and tables."""
        called = [sys.executable, "-m", "slipstream", *map(str, arguments)]
        environment = {**os.environ, "COLUMNS": "300"}
        done = subprocess.run(called, capture_output=True, text=True, env=environment)
        if done.returncode and arguments[0] in ("data", "train"):
            raise RuntimeError(f"{called}: {done.stderr}")
        lines = (done.stderr + done.stdout).splitlines()
        return [line.strip() for line in lines if _is_told(line)]

    def make_meshes(self) -> None:
        for name, number, settings in (
            ("clean", SAMPLES, ("inflow=varying",)),
            ("symmetric", TESTS, ("amplitude=0", "families=[blunt,slender]")),
        ):
            if not (self.folder / name).is_dir():
                chosen = [word for one in settings for word in ("--set", one)]
                self.command(
                    *("data", "make", "stokes-surface", "--samples", str(number)),
                    *("--points", str(PANELS), "--set", f"panels={PANELS}"),
                    *("--set", "bodies=[1,1]", *chosen),
                    *("--out", self.folder / f"{name}-made", "--meshes", self.folder / name),
                )

    def trap_meshes(self, name: str, spring: Spring | None, every: int) -> Path:
        """A copy of the clean meshes with the trap in all, or in every `every`-th but for the test
        meshes."""
        to = self.folder / name
        if to.is_dir():
            return to
        to.mkdir()
        for number, file in enumerate(sorted((self.folder / "clean").glob("*.vtp"))):
            mesh = _with_normals(pv.read(file))
            is_test = number >= SAMPLES - TESTS
            if spring is not None and number % every == 0 and (every == 1 or not is_test):
                spring(mesh)
            mesh.save(to / file.name)
        (to / "parameters.csv").write_bytes((self.folder / "clean/parameters.csv").read_bytes())
        card = yaml.safe_load((self.folder / "clean/card.yaml").read_text("utf-8"))
        array = {"array": "outward", "components": 3}
        if spring is reverse_normals:  # else they are computed, and no file can have them wrong
            card["features"] = [{"name": "normal", "unit": "1", "from": array}]
        ids = [file.stem for file in sorted(to.glob("*.vtp"))]
        train, validation = ids[: -2 * TESTS], ids[-2 * TESTS : -TESTS]
        card["splits"] = {"lists": {"train": train, "val": validation, "test": ids[-TESTS:]}}
        card["reference"] = {"area": AREA, "density": DENSITY, "speed": SPEED}
        (to / "card.yaml").write_text(yaml.safe_dump(card), "utf-8")
        return to

    def ingest(self, name: str, spring: Spring | None = None, every: int = 1) -> list[str]:
        """Meshes and a store of that name; what the commands said."""
        meshes = self.trap_meshes(f"meshes-{name}", spring, every)
        card = meshes / "card.yaml"
        store = self.folder / f"store-{name}"
        return [
            *self.command("data", "inspect", meshes),
            *self.command("data", "ingest", "mesh", meshes, store, "--card", card),
        ]

    def training(self, name: str) -> tuple[str, ...]:
        """The command that trains the model of that name."""
        fields = {
            "steps": self.steps,
            "evaluate_every": max(self.steps // 10, 1),
            "data.points": PANELS,
            "data.workers": 0,
        }
        chosen = [word for key, value in fields.items() for word in ("--set", f"{key}={value}")]
        store, run = self.folder / f"store-{name}", self.folder / f"run-{name}"
        return ("train", "own", "--store", str(store), "--out", str(run), *chosen)

    def parameters(self, file: Path) -> dict[str, float]:
        with (file.parent / "parameters.csv").open() as table:
            rows = {row.pop("sample"): row for row in csv.DictReader(table)}
        return {name: float(value) for name, value in rows[file.stem].items()}

    def tests(self, name: str = "clean") -> list[Path]:
        return sorted((self.folder / name).glob("*.vtp"))[-TESTS:]

    def predicted(self, run: str, spring: Spring | None = None, name: str = "clean") -> Result:
        """Errors and Cd of a model on clean test meshes, or on those with a trap in them."""
        trained = slipstream.load_model(self.folder / f"run-{run}")
        result = Result()
        for file in self.tests(name):
            mesh = _with_normals(pv.read(file))
            if spring is not None:
                spring(mesh)
            prediction = slipstream.predict(trained, mesh, **self.parameters(file))
            shift = ATMOSPHERE if run == ALL_ABSOLUTE.name else 0.0
            result.add_fields(prediction, mesh, shift)
            result.cd.append(prediction.forces(**FLOW).cd)
            result.said |= set(prediction.warnings)
        return result

    def with_normals_given_reversed(self) -> Result:
        """The model asked in Python, with normals of the other sign."""
        trained = slipstream.load_model(self.folder / "run-clean")
        result = Result()
        for file in self.tests():
            mesh = _with_normals(pv.read(file))
            shared = self.parameters(file)
            features = {"normal": -np.asarray(mesh.cell_data["outward"]), **shared}
            values = np.asarray(trained(np.asarray(mesh.cell_centers().points), features))
            result.add_arrays({"pressure": values[:, 0], "wall_shear": values[:, 1:]}, mesh)
            mesh.cell_data["pressure"], mesh.cell_data["wall_shear"] = values[:, 0], values[:, 1:]
            result.cd.append(self.forces_of(mesh))
        return result

    def forces_of(self, mesh: Mesh, reference: FlowReference = REFERENCE) -> float:
        file = self.folder / "given.vtp"
        mesh.save(file)
        cd = mesh_forces(file, reference).cd
        assert cd is not None, "speed, density and area are given"
        return float(cd)

    def forces(self, spring: Spring | None = None, name: str = "clean") -> list[float]:
        """Cd of the true fields, by the faces of the test meshes."""
        values = []
        for file in self.tests(name):
            mesh = pv.read(file)
            if spring is not None:
                spring(mesh)
            values.append(self.forces_of(mesh))
        return values

    def told_by_forces(self, spring: Spring, name: str = "clean") -> list[str]:
        mesh = pv.read(self.tests(name)[0])
        spring(mesh)
        mesh.save(self.folder / "given.vtp")
        flow = ("--speed", str(SPEED), "--density", str(DENSITY), "--area", str(AREA))
        return self.command("forces", self.folder / "given.vtp", *flow)

    def told_by_predict(self, spring: Spring) -> list[str]:
        file = self.tests()[0]
        mesh = pv.read(file)
        spring(mesh)
        mesh.save(self.folder / "given.vtp")
        shared = [f"--set={name}={value}" for name, value in self.parameters(file).items()]
        out = self.folder / "predicted"
        command = ("predict", self.folder / "run-clean", self.folder / "given.vtp", *shared)
        return self.command(*command, "--out", out, "--overwrite", "--forces")

    def record(self, trap: str, where: str, told: list[str], **numbers: Any) -> None:
        told = [line for line in told if str(self.folder) not in line]
        told.sort(key=lambda line: "warning" not in line)
        few = told[:MOST_LINES] + (["..."] if len(told) > MOST_LINES else [])
        self.records.append({"trap": trap, "where": where, **numbers, "told": few})
        print(json.dumps(self.records[-1]), flush=True)


class Result:
    """Relative L1 errors and drag coefficients over the test meshes."""

    def __init__(self) -> None:
        self.errors: dict[str, list[float]] = {"pressure": [], "wall_shear": []}
        self.as_told: list[float] = []
        """Errors of the pressure over the size that it has in the files of the trap."""
        self.cd: list[float] = []
        self.said: set[str] = set()

    def add_fields(self, prediction: Any, truth: Mesh, shift: float) -> None:
        fields = {name: np.asarray(prediction.fields[name]) for name in self.errors}
        if shift:
            true = np.asarray(truth.cell_data["pressure"], np.float64) + shift
            self.as_told.append(float(np.abs(fields["pressure"] - true).sum() / true.sum()))
        fields["pressure"] = fields["pressure"] - shift
        self.add_arrays(fields, truth)

    def add_arrays(self, fields: dict[str, Any], truth: Mesh) -> None:
        for name, errors in self.errors.items():
            true = np.asarray(truth.cell_data[name], np.float64)
            errors.append(float(np.abs(fields[name] - true).sum() / np.abs(true).sum()))

    def numbers(self) -> dict[str, float]:
        named = {name: float(np.mean(values)) for name, values in self.errors.items()}
        told = {"as_told": float(np.mean(self.as_told))} if self.as_told else {}
        return {**named, **told, "cd": float(np.mean(self.cd))}


def half(mesh: Mesh) -> None:
    """What is at y > 0, cut by the plane, in place."""
    mesh.copy_from(mesh.clip("y", origin=(0, 0, 0), invert=False))


def half_absolute(mesh: Mesh) -> None:
    half(mesh)
    make_absolute(mesh)


def _with_normals(mesh: Mesh) -> Mesh:
    mesh.cell_data["outward"] = mesh.compute_normals(
        point_normals=False, auto_orient_normals=True, consistent_normals=True
    ).cell_data["Normals"]
    return mesh


def _is_told(line: str) -> bool:
    """A warning, a refusal or what was taken for granted; no progress and no table."""
    return line.startswith(("warning", "slipstream:", "pressure:", "shear:", "faces:")) or any(
        word in line for word in ("absolute", "mm?", "differ", "unlike", "open surface", "warn")
    )


def prepare(bench: Bench) -> dict[str, list[str]]:
    """All that is trained on; what was said of each store."""
    bench.make_meshes()
    return {
        "clean": bench.ingest("clean"),
        **{trap.name: bench.ingest(trap.name, trap.spring, trap.every) for trap in TRAINING},
    }


def measure(bench: Bench, told: dict[str, list[str]]) -> None:
    for name in told:
        told[name] += bench.command(*bench.training(name))
    whole, symmetric = bench.predicted("clean"), bench.predicted("clean", name="symmetric")
    true, true_symmetric = np.mean(bench.forces()), np.mean(bench.forces(name="symmetric"))
    bench.record("none", "clean", told["clean"], **whole.numbers(), true_cd=true)
    bench.record("none", "symmetric", [], **symmetric.numbers(), true_cd=true_symmetric)
    turned = bench.predicted("clean", turn_faces)
    bench.record("faces turned", "predict", bench.told_by_predict(turn_faces), **turned.numbers())
    given = bench.with_normals_given_reversed()
    bench.record("normals reversed", "Python", [], **given.numbers())
    bench.record("millimetres", "predict", bench.told_by_predict(to_millimetres))
    cut = bench.predicted("clean", half, "symmetric")
    bench.record("half a body", "predict", sorted(cut.said), **cut.numbers())
    for name, spring, meshes in (
        ("faces turned", turn_faces, "clean"),
        ("wall shear flipped", flip_shear, "clean"),
        ("kinematic pressure", divide_by_density, "clean"),
        ("millimetres", to_millimetres, "clean"),
        ("absolute pressure", make_absolute, "clean"),
        ("half a body", half, "symmetric"),
        ("half a body, absolute pressure", half_absolute, "symmetric"),
    ):
        cd = float(np.mean(bench.forces(spring, meshes)))
        bench.record(name, "forces", bench.told_by_forces(spring, meshes), cd=cd)
    for trap in TRAINING:
        numbers = bench.predicted(trap.name).numbers()
        bench.record(trap.name, "training", told[trap.name], **numbers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--prepare", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(given.folder, given.steps)
    told = prepare(bench)
    if given.prepare:
        for name in told:
            print("slipstream", *bench.training(name))
        return
    measure(bench, told)
    made = {
        "kind": "traps",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": runtime.commit(),
        "versions": runtime.versions(),
        "training": {"samples": SAMPLES - 2 * TESTS, "tests": TESTS, "steps": given.steps},
    }
    lines = "".join(json.dumps(record) + "\n" for record in (made, *bench.records))
    (given.folder / "traps.jsonl").write_text(lines, "utf-8")


if __name__ == "__main__":
    main()
