"""Forces as a table and sentences on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table

from slipstream.cli.terminal import new_console, new_table, plain, say
from slipstream.evaluation.force_reference import Vector
from slipstream.evaluation.force_result import MOMENTS, Forces

_ANY_WIDTH = 10_000
_ROUNDING = 1e-12


def print_forces(made: Mapping[str, Forces]) -> None:
    """A table of all meshes; then conventions and warnings, each with the meshes that have it."""
    if not made:
        return
    for table in (_force_table(made), _coefficient_table(made)):
        if table is not None:
            width = new_console(width=_ANY_WIDTH).measure(table).maximum
            new_console(width=max(new_console().width, width)).print(table)
    missing = {name for one in made.values() for name in one.missing}
    if missing:
        lacking = [name for name in ("area", "speed", "density") if name in missing]
        options = " and ".join(f"--{name}" for name in lacking)
        say(f"Coefficients need the {' and '.join(lacking)}: give {options}.")
    _say_each({name: list(_conventions(one)) for name, one in made.items()}, "")
    _say_each({name: one.warnings for name, one in made.items()}, "warning: ")


def _say_each(sentences: Mapping[str, Sequence[str]], before: str) -> None:
    """Each sentence once; where only some meshes have it, with their names."""
    by_text: dict[str, list[str]] = {}
    for name, texts in sentences.items():
        for text in texts:
            by_text.setdefault(text, []).append(name)
    for text, names in by_text.items():
        some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        say(f"{before}{text}" if len(names) == len(sentences) else f"{before}{some}: {text}")


def _conventions(forces: Forces) -> Iterator[str]:
    conventions, reference = forces.conventions, forces.reference
    yield f"pressure: {conventions.pressure.value} ({conventions.pressure.reason})"
    if reference.pressure:
        yield f"pressure: {reference.pressure:g} subtracted"
    if forces.friction is not None:
        yield f"shear: {conventions.shear.value} ({conventions.shear.reason})"
        yield f"shear: the traction {conventions.traction.value} ({conventions.traction.reason})"
    yield f"faces: {forces.facing.value} ({forces.facing.reason})"
    given = [f"{name} {_numbers(getattr(reference, name))}" for name in ("drag", "lift", "centre")]
    numbers = {"speed": "m/s", "density": "kg/m^3", "area": "m^2", "length": "m"}
    for name, unit in numbers.items():
        value = getattr(reference, name)
        given.append(f"{name} {value:g} {unit}" if value is not None else f"{name} not known")
    yield f"reference: {', '.join(given)}"
    if reference.mirror:
        yield (
            f"mirror: the other half is added at {reference.mirror} = 0: forces are doubled, and 0"
            f" along {reference.mirror}"
        )


def _force_table(made: Mapping[str, Forces]) -> Table:
    table = new_table(box=None, header_style="bold", pad_edge=False)
    table.add_column("mesh")
    units = {one.unit for one in made.values()}
    unit = f" [{units.pop()}]" if len(units) == 1 else ""
    for heading in (f"force{unit}", "pressure", "friction", "moment", "sum S [m^2]", "area [m^2]"):
        table.add_column(plain(heading), justify="right")
    for name, one in made.items():
        vectors = (one.total, one.pressure, one.friction, one.moment)
        cells = [plain(_numbers(vector)) for vector in vectors]
        cells.append(plain(_numbers(one.area_sum, one.wetted)))
        table.add_row(plain(name), *cells, plain(f"{one.wetted:.6g}"))
    return table


def _coefficient_table(made: Mapping[str, Forces]) -> Table | None:
    known = [one.coefficients for one in made.values()]
    names = [name for name in _ORDER if any(name in values for values in known)]
    if not names:
        return None
    table = new_table(box=None, header_style="bold", pad_edge=False)
    table.add_column("mesh")
    for name in names:
        table.add_column(plain(_heading(name)), justify="right")
    for mesh, values in zip(made, known, strict=True):
        cells = [f"{values[name]:.6g}" if name in values else "-" for name in names]
        table.add_row(plain(mesh), *map(plain, cells))
    return table


_ORDER = (
    *(f"{name}{part}" for name in ("cd", "cl", "cs") for part in ("", "_pressure", "_friction")),
    *MOMENTS,
)


def _heading(name: str) -> str:
    return name.capitalize().replace("_", " ")


def _numbers(vector: Vector | None, size: float | None = None) -> str:
    """The components; what is below 1e-12 of the size, or of the largest, is rounding."""
    if vector is None:
        return "-"
    least = _ROUNDING * (max(map(abs, vector)) if size is None else size)
    return ", ".join(f"{x:.5g}" if abs(x) > least else "0" for x in vector)
