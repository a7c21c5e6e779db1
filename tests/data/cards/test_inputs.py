"""Which parameters are proposed as features, by their names: inputs of a flow, not its results."""

from __future__ import annotations

import pytest

from slipstream.data.cards.inputs import judge, words_of


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Cd_mean100", ["cd", "mean"]),
        ("stl_triangles", ["stl", "triangles"]),
        ("nCells", ["n", "cells"]),
        ("rideHeight", ["ride", "height"]),
        ("AoA", ["aoa"]),
        ("wing.span2", ["wing", "span"]),
    ],
)
def test_words(name: str, words: list[str]) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("yaw_deg", "deg"), ("yaw", "deg"), ("Yaw angle [deg]", "deg"), ("aoa_rad", "rad"),
        ("Rear_Diffusor_Angle", "deg"), ("alpha (deg)", "deg"), ("beta.deg", "deg"),
        ("U", "m/s"), ("U_inf", "m/s"), ("u_mps", "m/s"), ("speed_ms", "m/s"), ("Uinf", "m/s"),
        ("speed [m/s]", "m/s"), ("velocity (m/s)", "m/s"), ("speed_kmh", "km/h"),
        ("inlet_velocity", "m/s"), ("speed_m_s", "m/s"),
        ("rho", "kg/m^3"), ("rho_kg_m3", "kg/m^3"), ("density (kg/m³)", "kg/m^3"),
        ("nu", "m^2/s"), ("dynamic_viscosity", "Pa s"), ("mu_Pa_s", "Pa s"),
        ("T_inf", "K"), ("ambient_temperature_K", "K"), ("p_inf_Pa", "Pa"),
        ("Re", "1"), ("mach", "1"), ("ride_height_mm", "mm"), ("Vehicle_Ride_Height", "m"),
        ("wing.span", "m"), ("max_thickness_m", "m"), ("A_ref", "m^2"), ("frontal_area", "m^2"),
        ("ratio_height_nose", "1"), ("bottom_taper_angle", "deg"), ("inflow.direction", "1"),
    ],
)  # fmt: skip
def test_inputs_and_their_units(name: str, unit: str) -> None:
    judged = judge(name)
    assert (judged.unit, judged.against) == (unit, "")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Cd_mean100", "looks like a result: drag coefficient"),
        ("Cd_std100", "looks like a result: drag coefficient"),
        ("ClF", "looks like a result: lift coefficient"),
        ("cm_pitch", "looks like a result: moment coefficient"),
        ("drag_N", "looks like a result: drag"),
        ("Fx", "looks like a result: a force"),
        ("U_std", "looks like a result: how much something varies in time"),
        ("Umag_max", "nothing in its name says that it is an input"),
        ("max_velocity", "looks like a result: an average or an extreme of the flow"),
        ("separation_length", "looks like a result: of the flow"),
        ("results.yaw", "looks like a result: by its name"),
        ("iterations", "looks like a result: of the computation"),
        ("Nu", "looks like a result: of the flow"),
        ("nCells", "a count of the mesh"),
        ("ncells", "a count of the mesh"),
        ("n_points", "a count of the mesh"),
        ("stl_triangles", "a count of the mesh"),
        ("cell_size_m", "a property of the mesh"),
        ("layer_count", "a count of the mesh"),
        ("pressure", "a pressure, which is an input only if it is that of the inflow"),
        ("speed_Pa", "Pa is not a unit of a speed"),
        ("yaw [m/s]", "m/s is not a unit of an angle"),
        ("x17", "nothing in its name says that it is an input"),
        ("time", "nothing in its name says that it is an input"),
    ],
)
def test_all_others_with_the_reason(name: str, reason: str) -> None:
    assert judge(name).against == reason
