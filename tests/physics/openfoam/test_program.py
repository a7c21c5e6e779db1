"""Finding OpenFOAM, reading how a run ended, and settings that cannot be; without a solver."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.core.locks import take_lock
from slipstream.physics.bodies import icosphere
from slipstream.physics.openfoam import AirfoilFlow, BodyFlow, find_openfoam, openfoam_source
from slipstream.physics.openfoam.airfoil_case import draw
from slipstream.physics.openfoam.airfoils import naca
from slipstream.physics.openfoam.body_case import draw as draw_body
from slipstream.physics.openfoam.cases import Cases
from slipstream.physics.openfoam.convergence import Limits, not_converged, read_outcome
from slipstream.physics.openfoam.foam_text import dictionary_text
from slipstream.physics.openfoam.program import OpenFoam, SolverFailed, version_warning
from slipstream.physics.openfoam.surface_files import write_stl

from ...conftest import Command

LIMITS = Limits(residual=1e-3, steadiness=0.01, window=3)


def _tool(folder: Path, name: str, script: str) -> Path:
    """A program of its own, as an installation whose tools end in a given way."""
    (folder / "etc").mkdir(parents=True, exist_ok=True)
    (folder / "etc" / "controlDict").touch()
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_without_a_solver_the_command_says_so(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = command("data", "make", "openfoam-airfoil", "--out", "s", "--samples", 1)
    assert done.code == 2 and "OpenFOAM's simpleFoam must be on PATH, got none" in done.err
    done = command("data", "make", "openfoam-body", "--out", "s", "--openfoam", "nowhere")
    assert done.code == 2 and "simpleFoam must be in nowhere, got none" in done.err
    for options, sentence in (
        (("openfoam-airfoil", "--points", 9), "must have neither --points nor --device"),
        (("poisson", "--cases", "c"), "--cases and --openfoam must go with openfoam-airfoil"),
        (("openfoam-airfoil", "--set", "camber=[0.2,0.3]"), "the camber of a NACA airfoil must be"),
        (("openfoam-airfoil", "--set", "around=61"), "around must be even"),
        (("openfoam-airfoil", "--set", "y_plus=1"), "y_plus must be from 10 to 300, got 1"),
    ):
        done = command("data", "make", *options, "--out", "s")
        assert done.code == 2 and sentence in done.err, done.err
    assert not list(tmp_path.iterdir())


def test_versions_and_tools(tmp_path: Path) -> None:
    said = "echo 'Using: OpenFOAM-v2312 (2312) - visit www.openfoam.com'"
    _tool(tmp_path, "simpleFoam", said)
    found = find_openfoam(tmp_path)
    assert (found.version, found.project) == ("2312", str(tmp_path))
    assert version_warning(found) == ["OpenFOAM 2312 was never tried; versions seen to work: 1912"]
    with pytest.raises(ValueError, match="must have simpleFoam, blockMesh, got no blockMesh"):
        find_openfoam(tmp_path, tools=("simpleFoam", "blockMesh"))
    _tool(tmp_path / "other", "simpleFoam", "echo broken library >&2; exit 127")
    with pytest.raises(ValueError, match="must start, got exit code 127: broken library"):
        find_openfoam(tmp_path / "other")


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo 'FOAM FATAL ERROR :'; echo '    no patch'; echo; exit 1", "exit code 1: no patch"),
        ("echo 'Foam::sigFpe::sigHandler(int)'; kill -8 $$", "the flow diverged"),
        ("kill -9 $$", "signal 9"),
    ],
)
def test_a_tool_that_fails(tmp_path: Path, script: str, sentence: str) -> None:
    _tool(tmp_path, "simpleFoam", script)
    openfoam = OpenFoam(str(tmp_path / "bin"), str(tmp_path), "1912")
    with pytest.raises(SolverFailed, match=f"simpleFoam must end well, got .*{sentence}"):
        openfoam.run("simpleFoam", tmp_path, seconds=60.0)
    assert (tmp_path / "log.simpleFoam").is_file()


def _ended(case: Path, cd: list[float], residual: str) -> Path:
    folder = case / "postProcessing" / "forceCoeffs" / "0"
    folder.mkdir(parents=True)
    rows = "".join(f"{k}\t{x}\t0\t{2 * x}\t0\t0\t0\n" for k, x in enumerate(cd, start=1))
    head = "# Force coefficients\n# Time\tCd\tCs\tCl\tCmRoll\tCmPitch\tCmYaw\n"
    (folder / "coefficient.dat").write_text(head + rows)
    log = case / "log.simpleFoam"
    line = "smoothSolver:  Solving for {}, Initial residual = {}, Final residual = 0, No Iterations"
    steps = [("Ux", "0.5"), ("p", "0.5")], [("Ux", "1e-05"), ("p", residual), ("p", "0.9")]
    log.write_text(
        "".join(
            f"\nTime = {k}\n\n" + "".join(line.format(*one) + " 1\n" for one in step)
            for k, step in enumerate(steps, start=1)
        )
    )
    return log


@pytest.mark.parametrize(
    ("cd", "residual", "reason"),
    [
        ([0.5, 0.01, 0.01, 0.01005], "0.0005", None),
        ([0.5, 0.01, 0.01, 0.01], "0.002", "the residual of p must fall to 0.001, got 0.002"),
        ([0.01, 0.01, 0.0102, 0.01], "0.0005", "Cd must be steady within 0.0001"),
        ([0.01, 0.01, 0.01, float("nan")], "0.0005", "Cd must be steady within nan"),
        ([0.01, 0.01, 0.01, 0.01], "nan", "the residual of p must fall"),
    ],
)
def test_convergence(tmp_path: Path, cd: list[float], residual: str, reason: str | None) -> None:
    outcome = read_outcome(tmp_path, _ended(tmp_path, cd, residual), LIMITS.window)
    assert outcome.residuals["Ux"] == 1e-5 and outcome.iterations == 4
    said = not_converged(outcome, LIMITS)
    assert said is None if reason is None else reason in str(said)


def test_a_folder_of_cases_has_one_set_of_settings(tmp_path: Path) -> None:
    _tool(tmp_path / "foam", "simpleFoam", "echo 'Using: OpenFOAM-v1912 (1912)'")
    where: dict[str, Any] = {"cases": tmp_path / "cases", "openfoam": tmp_path / "foam"}
    make = lambda **other: openfoam_source(  # noqa: E731
        "openfoam-airfoil", **({"samples": 2, "seed": 0} | where | other)
    )
    source, volume = make(), make(settings={"rows": "volume"})
    assert source.ids() == ["000000", "000001"] and source.options["generator"]["seed"] == 0
    assert volume.schema.computed("distance") and source.schema.computed("normals")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=r"got others \(seed 0, now 1\): --cases names another"):
        make(seed=1)
    with pytest.raises(ValueError, match=r"got others \(around 128, now 64\)"):
        make(settings={"around": 64})
    with pytest.raises(ValueError, match="must be a new folder or one of cases, got other files"):
        make(cases=tmp_path / "foam")
    assert sorted(tmp_path.rglob("*")) == before


def test_samples_are_functions_of_seed_and_number() -> None:
    config = AirfoilFlow(airfoils=("0012", "2412"))
    drawn = [draw(config, seed=0, sample=k) for k in range(12)]
    again = draw(config, seed=0, sample=7)
    assert (again.name, again.speed, again.incidence) == (
        drawn[7].name, drawn[7].speed, drawn[7].incidence
    )  # fmt: skip
    assert {one.name for one in drawn} == {"0012", "2412"}
    assert all(30 <= one.speed <= 90 and -4 <= one.incidence <= 8 for one in drawn)
    assert len({one.speed for one in drawn}) == 12
    with pytest.raises(ValueError, match="families must be one of"):
        BodyFlow(families=("round",))


def test_files_of_a_users_own(tmp_path: Path) -> None:
    foil, body = tmp_path / "foil.dat", tmp_path / "body.stl"
    t = np.linspace(1, -1, 81)
    foil.write_text("foil\n" + "".join(f"{x} {y}\n" for x, y in naca("2412").at(t)))
    drawn = draw(AirfoilFlow(airfoils=(str(foil),)), seed=0, sample=0)
    assert drawn.name == str(foil)
    assert drawn.airfoil.at(np.array([0.5]))[0, 1] == pytest.approx(0.07, abs=0.02)
    with pytest.raises(ValueError, match="nowhere.dat: an airfoil must be a file"):
        draw(AirfoilFlow(airfoils=(str(tmp_path / "nowhere.dat"),)), seed=0, sample=0)
    sphere = icosphere(4)
    points, triangles = sphere.vertices.numpy(), sphere.faces.numpy()
    write_stl(body, points, triangles)
    flow = BodyFlow(bodies=(str(body),), incidence=(5.0, 5.0))
    assert draw_body(flow, seed=0, sample=0).frontal_area == pytest.approx(np.pi, rel=0.05)
    write_stl(body, points, triangles[1:])
    with pytest.raises(ValueError, match="must be a closed surface, got 3 open edges"):
        draw_body(flow, seed=0, sample=0)


def test_dictionaries_read_as_openfoam_writes_them() -> None:
    text = dictionary_text({"a": 1, "b": {"c": (1.5, True), "d": "word"}})
    assert text == "a 1;\nb\n{\n    c (1.5 yes);\n    d word;\n}\n"


def test_unfinished_cases_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    _tool(tmp_path / "foam", "simpleFoam", "echo 'Using: OpenFOAM-v1912 (1912)'")
    left = tmp_path / "cases" / "work" / "000000.1"
    make = lambda: openfoam_source(  # noqa: E731
        "openfoam-airfoil", samples=1, seed=0, cases=tmp_path / "cases", openfoam=tmp_path / "foam"
    )
    make()
    left.mkdir()
    (left / "0").write_text("")
    lock = left.with_name("000000.1.lock")
    with lock.open("wb") as held:
        assert take_lock(held)
        make()
        assert left.exists()  # another process works there
    assert isinstance(make().cases, Cases) and os.listdir(left.parent) == []
