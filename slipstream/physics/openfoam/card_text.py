"""The cards by which stores are read from cases: one for the body's faces, one for the cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def card_text(
    problem: str,
    rows: str,
    *,
    patch: str,
    parameters: Mapping[str, str],
    area: float,
    length: float,
    centre: Sequence[float],
) -> str:
    """A card in YAML; `parameters` are units by name."""
    of_case = [
        f"      - {{name: {name}, unit: {unit}, from: parameters.{name}}}"
        for name, unit in parameters.items()
    ]
    lines = [
        "schema: 1",
        f"name: {problem}",
        "files:",
        '  case: "solved/{id}/"',
        *(['  body: "solved/{id}/body.stl"'] if rows == "volume" else []),
        "location: cell",
        *([f"patches: [{patch}]"] if rows == "surface" else []),
        "features:",
        *(_SURFACE if rows == "surface" else _VOLUME),
        "parameters:",
        '  - file: "solved/{id}/case.json"',
        "    features:",
        *of_case,
        "reference:",
        f"  {{speed: speed, area: {area:g}, length: {length:g}, drag: [1, 0, 0], lift: [0, 0, 1],",
        f"   centre: [{', '.join(f'{x:g}' for x in centre)}]}}",
        "",
    ]
    return "\n".join(lines)


_SURFACE = (
    "  - {name: normal, computed: normals}",
    "targets:  # kinematic: over the density; the shear as OpenFOAM has it, on the fluid",
    "  - {name: pressure, unit: m^2/s^2, from: {file: case, array: p}}",
    "  - {name: wall_shear, unit: m^2/s^2,",
    "     from: {file: case, array: wallShearStress, components: 3}}",
)
_VOLUME = (
    "  - {name: distance, computed: distance, to: body}",
    "targets:  # the pressure is kinematic: over the density",
    "  - {name: pressure, unit: m^2/s^2, from: {file: case, array: p}}",
    "  - {name: velocity, unit: m/s, from: {file: case, array: U, components: 3}}",
)
