"""Coarse cases from the generator to the store, by a real OpenFOAM; skipped without one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.data.cards import original_mesh
from slipstream.data.store import check_store, ingest, open_store, row_order
from slipstream.evaluation.force_reference import FlowReference
from slipstream.evaluation.mesh_forces import ForceChoices, mesh_forces
from slipstream.physics.openfoam import openfoam_source

from .foam_files import cell_values, face_values, last_time

pytestmark = pytest.mark.skipif(
    shutil.which("simpleFoam") is None, reason="OpenFOAM is not installed: no simpleFoam on PATH"
)
AIRFOIL: dict[str, Any] = {
    "around": 48, "wake": 12, "growth": 1.5, "far": 20.0, "y_plus": 150.0, "iterations": 150,
    "residual": 0.05, "steadiness": 0.05, "window": 20,
}  # fmt: skip
BODY: dict[str, Any] = {
    "families": ["blunt"], "coarse": 4, "level": 1, "iterations": 20, "residual": 0.5,
    "steadiness": 0.5, "window": 5,
}  # fmt: skip


def _made(
    problem: str, folder: Path, settings: dict[str, Any], *, name: str = "store", samples: int = 1
) -> Path:
    source = openfoam_source(
        problem, samples=samples, seed=3, cases=folder / "cases", settings=settings
    )
    summary = ingest(source, folder / name, seed=3)
    assert not summary.quarantined
    return folder / name


@pytest.fixture(scope="module")
def airfoils(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("airfoils")
    _made("openfoam-airfoil", folder, AIRFOIL, samples=2)
    return folder


def _check_forces(case: Path, patch: str, reference: FlowReference, names: str) -> None:
    """Ours against the solver's, to 1e-6."""
    forces = mesh_forces(case, reference, ForceChoices(patches=(patch,)))
    solver = json.loads((case / "case.json").read_text())["coefficients"]
    for theirs in names.split():
        ours = forces.coefficients[{"Cd": "cd", "Cl": "cl", "CmPitch": "cm_pitch"}[theirs]]
        assert ours == pytest.approx(solver[theirs], rel=1e-6), theirs
    assert not forces.warnings


def test_an_airfoil_as_the_solver_wrote_it(airfoils: Path) -> None:
    assert check_store(airfoils / "store") == []
    store = open_store(airfoils / "store")
    for sample in ("000000", "000001"):
        case = airfoils / "cases" / "solved" / sample
        rows, time = np.asarray(store.array(sample)), last_time(case)
        order = row_order(3, sample, len(rows))
        for field, name, components in (("pressure", "p", 1), ("wall_shear", "wallShearStress", 3)):
            written = face_values(time / name, "airfoil", components).reshape(48, components)
            stored = rows[:, store.schema.columns(field)]
            np.testing.assert_array_equal(stored, written[order].astype(np.float32))
        facts = json.loads((case / "case.json").read_text())
        parameters = store.manifest.samples[sample].parameters
        assert parameters["solver_cd"] == facts["coefficients"]["Cd"] > 0.005
        assert rows[0, store.schema.columns("speed")] == np.float32(parameters["speed"])
        speed = float(facts["parameters"]["speed"])
        reference = FlowReference(speed=speed, area=1.0, length=1.0, centre=(0.25, 0.0, 0.0))
        _check_forces(case, "airfoil", reference, "Cd Cl CmPitch")
        normal = rows[:, store.schema.columns("normal")]
        assert np.abs(normal.mean(0)).max() < 0.7 and np.abs(normal[:, 1]).max() < 1e-6
        assert original_mesh(store, sample, airfoils / "cases").rows.tolist() == order.tolist()


def test_the_same_cases_make_a_store_of_the_volume_without_solving_again(airfoils: Path) -> None:
    case = airfoils / "cases" / "solved" / "000001"
    before = (case / "case.json").stat().st_mtime_ns
    settings = {**AIRFOIL, "rows": "volume"}
    store = open_store(_made("openfoam-airfoil", airfoils, settings, name="volume", samples=2))
    assert (case / "case.json").stat().st_mtime_ns == before
    rows = np.asarray(store.array("000001"))
    order = row_order(3, "000001", len(rows))
    velocity = cell_values(last_time(case) / "U", 3)[order]
    np.testing.assert_array_equal(
        rows[:, store.schema.columns("velocity")], velocity.astype(np.float32)
    )
    distance = rows[:, store.schema.columns("distance")]
    assert 0 < distance.min() < 0.01 and distance.max() > 15


def test_a_case_is_the_same_to_the_last_bit_when_it_is_made_again(
    airfoils: Path, tmp_path: Path
) -> None:
    _made("openfoam-airfoil", tmp_path, AIRFOIL)
    one, other = (folder / "store/samples/000000.npy" for folder in (airfoils, tmp_path))
    assert one.read_bytes() == other.read_bytes()


def test_a_flow_that_does_not_converge_is_kept_apart_with_the_reason(tmp_path: Path) -> None:
    settings = {**AIRFOIL, "iterations": 10, "window": 5, "residual": 1e-9}
    source = openfoam_source(
        "openfoam-airfoil", samples=1, seed=3, cases=tmp_path, settings=settings
    )
    with pytest.raises(ValueError, match="must fall to 1e-09, got .* after 40 iterations"):
        source.read("000000")
    failed = tmp_path / "failed" / "000000"
    assert "must fall to 1e-09" in (failed / "reason.txt").read_text()
    assert (failed / "log.simpleFoam").is_file() and not any((tmp_path / "work").iterdir())


def test_a_solver_that_diverges_or_takes_too_long_says_so(tmp_path: Path) -> None:
    for number, (settings, sentence) in enumerate(
        (
            ({"speed": [1e200, 1e200], "viscosity": 1e194}, "simpleFoam must end well, got "),
            ({"seconds": 1e-3}, "simpleFoam must end within 0.001 s"),
        )
    ):
        source = openfoam_source(
            "openfoam-airfoil",
            samples=1,
            seed=3,
            cases=tmp_path / str(number),
            settings=AIRFOIL | settings,
        )
        with pytest.raises(ValueError, match=sentence):
            source.read("000000")


def test_a_body_by_snappy_hex_mesh(tmp_path: Path) -> None:
    store = open_store(_made("openfoam-body", tmp_path, BODY))
    case = tmp_path / "cases" / "solved" / "000000"
    speed = float(json.loads((case / "case.json").read_text())["parameters"]["speed"])
    _check_forces(case, "body", FlowReference(speed=speed, area=1.0, length=1.0), "Cd Cl")
    rows = np.asarray(store.array("000000"))
    written = face_values(last_time(case) / "p", "body", 1)[row_order(3, "000000", len(rows))]
    np.testing.assert_array_equal(
        rows[:, store.schema.columns("pressure")][:, 0], written.astype(np.float32)
    )
    outward = (rows[:, :3] * rows[:, store.schema.columns("normal")]).sum(1)
    assert (outward > 0).mean() > 0.99


def test_a_body_that_the_mesh_does_not_see(tmp_path: Path) -> None:
    settings = {**BODY, "families": ["wing"], "coarse": 1}
    source = openfoam_source("openfoam-body", samples=1, seed=3, cases=tmp_path, settings=settings)
    with pytest.raises(ValueError, match="must have faces on the body, got none"):
        source.read("000000")
