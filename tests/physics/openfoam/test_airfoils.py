"""NACA's airfoils against the published formulas and tables, and files of coordinates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slipstream.physics.openfoam.airfoil_files import read_airfoil
from slipstream.physics.openfoam.airfoils import (
    FIVE,
    THICKNESS,
    Naca,
    enclosed_area,
    naca,
    spread,
    two_sided,
)

DENSE = np.linspace(-1, 1, 20001)


def test_naca_0012_has_the_points_and_the_area_of_its_formula() -> None:
    """Abbott and von Doenhoff's ordinates of the open airfoil, which the closed one leaves
    towards the trailing edge, and the integral of the polynomial."""
    x = np.array([0.0125, 0.05, 0.1, 0.2, 0.3])
    upper = naca("0012").at(np.sqrt(x))
    np.testing.assert_allclose(upper[:, 0], x, atol=1e-15)
    np.testing.assert_allclose(
        upper[:, 1], [0.01894, 0.03555, 0.04683, 0.05737, 0.06002], atol=2e-5
    )
    curve = naca("0012").at(DENSE)
    np.testing.assert_allclose(curve[[0, -1]], [[1, 0], [1, 0]], atol=1e-15)
    powers = np.array([0.5, 1, 2, 3, 4])
    exact = 2 * 5 * 0.12 * float((np.array(THICKNESS) / (powers + 1)).sum())
    assert enclosed_area(curve) == pytest.approx(exact, rel=1e-7)


def test_camber_of_four_and_five_digits() -> None:
    """2412: 2 % at 0.4. 23012: r = 0.2025 and k1 = 15.957 in NACA's report 537, to its digits."""
    x = np.array([0.2, 0.4, 0.7])
    height, slope = naca("2412")._mean_line(x)
    np.testing.assert_allclose(height, [0.015, 0.02, 0.015], atol=1e-15)
    np.testing.assert_allclose(slope, [0.05, 0.0, -0.1 / 3], atol=1e-15)
    r, k1 = 0.2025, 15.957
    fore = k1 / 6 * (x**3 - 3 * r * x**2 + r**2 * (3 - r) * x)
    height, _ = naca("23012")._mean_line(x)
    np.testing.assert_allclose(height, np.where(x < r, fore, k1 / 6 * r**3 * (1 - x)), rtol=3e-3)
    assert Naca(0.02, 0.15, 0.1, FIVE).at(np.array([-1.0, 1.0])) == pytest.approx(
        np.array([[1.0, 0], [1, 0]]), abs=1e-15
    )


@pytest.mark.parametrize("name", ["12", "001x", "22112", "10012"])
def test_names_that_are_no_airfoil(name: str) -> None:
    with pytest.raises(ValueError, match=f"got '{name}'"):
        naca(name)


def test_points_are_spread_with_the_spacings_asked_for() -> None:
    t = spread(naca("2412"), 200, leading=0.001, trailing=0.004)
    gaps = np.linalg.norm(np.diff(naca("2412").at(t), axis=0), axis=1)
    assert t[100] == 0 and (np.diff(t) > 0).all()
    assert gaps[[0, -1]] == pytest.approx([0.004] * 2, rel=0.05)
    assert gaps[[99, 100]] == pytest.approx([0.001] * 2, rel=0.1)
    assert (np.abs(np.diff(np.log(gaps))) < 0.15).all()
    for first, last in ((0.2, 0.2), (0.05, 0.05), (0.01, 0.2)):
        share = two_sided(10, first, last)
        assert (np.diff(share) > 0).all() and share[[0, -1]].tolist() == [0, 1]


def _file(folder: Path, layout: str, gap: float = 0.0) -> Path:
    """NACA 2412 as a file in which an open edge, another chord and an angle must be undone."""
    t = np.sqrt((1 - np.cos(np.linspace(0, np.pi, 61))) / 2)
    upper, lower = naca("2412").at(t), naca("2412").at(-t)
    upper[:, 1] += gap / 2 * upper[:, 0]
    lower[:, 1] -= gap / 2 * lower[:, 0]
    turn = np.array([[np.cos(0.1), -np.sin(0.1)], [np.sin(0.1), np.cos(0.1)]])
    upper, lower = (3 * side @ turn + (1, 2) for side in (upper, lower))
    if layout != "lednicer":
        rows = [*upper[::-1], *lower[1:]]
        rows = rows[::-1] if layout == "lower side first" else rows
        text = "NACA 2412\n" + "".join(f"{x:.7f}  {y:.7f}\n" for x, y in rows)
    else:
        upper, lower = ((side - upper[0]) / 3 for side in (upper, lower))
        sides = ["".join(f" {x:.7f} {y:.7f}\n" for x, y in side) for side in (upper, lower)]
        text = "NACA 2412\n 61. 61.\n\n" + "\n".join(sides)
    path = folder / f"{layout}.dat"
    path.write_text(text)
    return path


@pytest.mark.parametrize("layout", ["selig", "lower side first", "lednicer"])
def test_files_give_the_airfoil_that_was_written(tmp_path: Path, layout: str) -> None:
    read = read_airfoil(_file(tmp_path, layout, gap=0.002))
    curve, exact = read.at(DENSE), naca("2412").at(DENSE)
    assert enclosed_area(curve) == pytest.approx(enclosed_area(exact), rel=2e-3)
    assert np.abs(curve[[0, -1]] - (1, 0)).max() < 1e-12
    for side in (DENSE > 0, DENSE < 0):
        order = np.argsort(exact[side][:, 0])
        height = np.interp(curve[side][:, 0], *exact[side][order].T)
        inside = curve[side][:, 0] > 0.005
        assert np.abs(curve[side][:, 1] - height)[inside].max() < 4e-4


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("title\n1 0\n0 0\n1 0\n", "must have at least 10 points, got 3"),
        ("title\n" + "1 0\n" * 5 + "one two\n", "must be two numbers, got 'one two'"),
        ("title\n5 9\n" + "".join(f"{k / 9} 0\n" for k in range(10)), "5 and 9 points"),
        ("title\n" + "".join(f"{k / 20} 0.1\n" for k in range(20)), "round the leading edge"),
    ],
)
def test_files_that_are_no_airfoil(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "bad.dat"
    path.write_text(text)
    with pytest.raises(ValueError, match=sentence) as error:
        read_airfoil(path)
    assert "bad.dat" in str(error.value)
