"""Forces from some of the faces: unbiased, and inside the interval as often as it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slipstream.data.meshes import mesh_of
from slipstream.evaluation.force_conventions import Conventions
from slipstream.evaluation.force_estimate import (
    Draw,
    draw_by_area,
    estimate_forces,
    mean_interval,
)
from slipstream.evaluation.force_faces import outward_faces
from slipstream.evaluation.force_reference import FlowReference
from slipstream.evaluation.forces import face_forces

from .test_forces import warped

FACES = 20_000
KINEMATIC = Conventions.given("kinematic")
REFERENCE = FlowReference(speed=2.0, area=3.0)


def skewed() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Area vectors, pressure and shear of faces whose areas differ by a factor of 1000: the force
    of a face along the flow has a skewness of 5."""
    draw = np.random.default_rng(1)
    normals = draw.normal(size=(FACES, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    areas = np.exp(draw.normal(size=FACES))
    cp = 1 - 2.25 * (1 - normals[:, 0] ** 2)
    shear = 0.2 * np.eye(3)[0] - 0.2 * normals[:, :1] * normals
    return normals * areas[:, None], -np.abs(cp) * np.sign(normals[:, 0]), shear


@pytest.mark.parametrize("by_area", (False, True))
def test_95_percent_of_the_intervals_cover_the_truth(by_area: bool) -> None:
    vectors, pressure, shear = skewed()
    areas = np.linalg.norm(vectors, axis=1)
    along = -pressure * vectors[:, 0] + shear[:, 0] * areas
    skewness = ((along - along.mean()) ** 3).mean() / along.std() ** 3
    assert 4 < skewness < 8
    draw, count = np.random.default_rng(2), 200
    intervals = []
    for seed in range(1000):
        if by_area:
            rows = draw_by_area(areas, count, seed)
            values, kept = along[rows] / areas[rows] * areas.sum(), 1.0
        else:
            rows = draw.choice(FACES, count, replace=False)
            values, kept = along[rows] * FACES, 1 - count / FACES
        intervals.append(mean_interval(values, kept))
    truth = along.sum()
    share = np.mean([one.low <= truth <= one.high for one in intervals])
    assert 0.93 <= share <= 0.97
    values = [one.value for one in intervals]
    assert abs(np.mean(values) - truth) < 3 * np.std(values) / 1000**0.5, "unbiased"


def test_an_estimate_has_the_forces_of_its_faces() -> None:
    vectors, pressure, shear = skewed()
    rows = np.random.default_rng(3).choice(FACES, 500, replace=False)
    got = estimate_forces(vectors[rows], pressure[rows], shear[rows], REFERENCE, KINEMATIC,
                          Draw(FACES))  # fmt: skip
    areas = np.linalg.norm(vectors, axis=1, keepdims=True)
    each = (-pressure[:, None] * vectors + shear * areas)[rows]
    np.testing.assert_allclose(
        [got.force[name].value for name in ("drag", "side", "lift")], each.mean(0) * FACES
    )
    cd = got.coefficients["cd"]
    assert cd.value == pytest.approx(each[:, 0].mean() * FACES / (0.5 * 4 * 3))
    error = each[:, 0].std(ddof=1) * FACES * ((1 - 500 / FACES) / 500) ** 0.5 / 6
    assert 1.8 < (cd.high - cd.value) / error < 5
    assert cd.value - cd.low == pytest.approx(cd.high - cd.value)
    assert "intervals may be too short" in got.warnings[0]
    rows = draw_by_area(areas[:, 0], 500)
    whole = Draw(FACES, float(areas.sum()))
    got = estimate_forces(vectors[rows], pressure[rows], None, REFERENCE, KINEMATIC, whole)
    stress = (-pressure[:, None] * vectors / areas)[rows, 0].mean()
    assert not got.warnings, "areas do not matter"
    assert got.force["drag"].value == pytest.approx(stress * areas.sum())
    assert got.to_json()["coefficients"].keys() == {"cd", "cs", "cl"}


def test_all_faces_leave_no_doubt() -> None:
    vectors, pressure, shear = skewed()
    got = estimate_forces(vectors, pressure, shear, REFERENCE, KINEMATIC, Draw(FACES))
    for one in got.coefficients.values():
        assert one.low == one.value == one.high
    mesh = mesh_of(warped())
    faces = outward_faces(mesh)
    values = np.arange(float(mesh.info.cells))
    rows = np.tile(np.arange(mesh.info.cells), 4)  # by hand: every face four times
    reference = FlowReference(speed=2.0, area=3.0, mirror="y")
    exact = face_forces(faces, values, None, reference, KINEMATIC)
    got = estimate_forces(np.tile(faces.vectors, (4, 1)), values[rows], None, reference,
                          KINEMATIC, Draw(len(rows)))  # fmt: skip
    assert got.coefficients["cd"].value / 4 == pytest.approx(exact.cd)
    assert got.coefficients["cs"].value == 0


def test_many_values_are_resampled_in_pieces() -> None:
    """Of values that are not skewed, the interval is Student's."""
    values = np.random.default_rng(0).normal(size=5000) + 3
    one = mean_interval(values)
    assert (one.high - one.value) / (values.std(ddof=1) / 5000**0.5) == pytest.approx(1.96, abs=0.2)
    assert one == mean_interval(values) and one != mean_interval(values, seed=1)


def test_too_few_or_too_many_faces_are_refused() -> None:
    vectors, pressure, _ = skewed()

    def estimate(count: int, draw: Draw, **options: Any) -> None:
        estimate_forces(vectors[:count], pressure[:count], None, REFERENCE, KINEMATIC, draw,
                        **options)  # fmt: skip

    with pytest.raises(ValueError, match="at least 30 and at most 20,000 faces, got 29"):
        estimate(29, Draw(FACES))
    with pytest.raises(ValueError, match="at least 30 and at most 99 faces, got 100"):
        estimate(100, Draw(99))
    with pytest.raises(ValueError, match="confidence must be between 0 and 1, got 95"):
        estimate(100, Draw(FACES), confidence=95.0)
