"""`slipstream bench stokes`, coarser: errors fall, pairs keep their points, and it continues."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from slipstream.bench import stokes as here
from slipstream.core.records import read_records
from slipstream.physics.bodies import sphere
from slipstream.physics.stokes_flow import wall_stress
from slipstream.physics.stokes_solver import solve_stokes

from ..conftest import Command


def test_the_command_continues_where_it_stopped(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PANELS": (80, 320), "RANDOM": 0, "POINTS": 200}.items():
        monkeypatch.setattr(here, name, value)
    shapes = {name: here.SHAPES[name] for name in ("sphere", "oblate 1:4")}
    monkeypatch.setattr(here, "SHAPES", shapes)
    out = tmp_path / "stokes.jsonl"
    said = command("bench", "stokes", "--out", out)
    assert said.code == 0 and "| oblate 1:4 across | 320 |" in said.out
    rows = read_records(out, "stokes")
    assert [row["name"] for row in rows[::2]] == ["sphere along", "oblate 1:4 along",
                                                  "oblate 1:4 across"]  # fmt: skip
    for coarse, fine in zip(rows[::2], rows[1::2], strict=True):
        assert all(fine["errors"][name] < error for name, error in coarse["errors"].items())
    out.write_text("".join(out.read_text().splitlines(keepends=True)[:-1]))
    again = command("bench", "stokes", "--out", out)
    assert again.code == 0 and read_records(out)[:5] == rows[:5] and len(read_records(out)) == 6


def test_random_scenes_against_a_finer_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "RANDOM", 1)
    rows = list(here.random_rows(panels=180, finest=400))
    names = ["blunt 1", "slender 1", "car 1", "wing 1", "two bodies 1"]
    assert [row["name"] for row in rows] == names
    assert rows[-1]["panels"] == 160 and rows[-1]["finest"] == 360
    assert all(0 < row["errors"]["shear"] < 0.3 for row in rows)
    known = {(row["name"], row["panels"]) for row in rows}
    assert list(here.random_rows(known, panels=180)) == []


def test_points_stay_where_they_are_on_another_mesh() -> None:
    pair = (sphere(), sphere(0.5, (2.0, 0.0, 0.0)))
    stream = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    one, other = (solve_stokes(pair, stream, frequency=n) for n in (2, 3))
    at = here.wall_points(one)
    moved = here.on_mesh(at, one, other)
    torch.testing.assert_close(wall_stress(one, at)[0], wall_stress(other, moved)[0])
