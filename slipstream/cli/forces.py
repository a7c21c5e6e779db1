"""`slipstream forces`: forces and coefficients of meshes that carry pressure and shear."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.cli.force_text import print_forces
from slipstream.cli.shared import Json, ReadMemory, ReadTimeout, bar
from slipstream.cli.terminal import say
from slipstream.data.cards import read_card
from slipstream.data.meshes import MeshInput, ReadLimits, find_inputs, read_within
from slipstream.evaluation.force_reference import FlowReference, Vector
from slipstream.evaluation.force_result import Forces
from slipstream.evaluation.mesh_forces import ForceChoices, mesh_forces

_Number = float | None


def _option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text)


def forces(
    meshes: Annotated[
        list[str],
        typer.Argument(metavar="MESH...", help="Meshes, OpenFOAM cases, folders or patterns."),
    ],
    speed: Annotated[_Number, _option("Speed of the free stream, m/s.")] = None,
    density: Annotated[_Number, _option("Density of the fluid, kg/m^3.")] = None,
    area: Annotated[_Number, _option("Reference area, m^2: of the whole body.")] = None,
    length: Annotated[_Number, _option("Reference length of moments, m.")] = None,
    drag: Annotated[str | None, _option("Direction of the flow. [default: 1,0,0]")] = None,
    lift: Annotated[str | None, _option("Direction of lift. [default: 0,0,1]")] = None,
    centre: Annotated[str | None, _option("Point of moments. [default: 0,0,0]")] = None,
    reference_pressure: Annotated[
        _Number, _option("Subtracted from the pressure, in its own unit. [default: 0]")
    ] = None,
    mirror: Annotated[
        str | None,
        _option("x, y or z: meshes are halves of bodies, cut where this coordinate is 0."),
    ] = None,
    card: Annotated[
        Path | None, _option("Card whose `reference` gives what no option gives.")
    ] = None,
    patches: Annotated[
        list[str] | None,
        _option("Patches of a case or blocks of a .vtm, by name or pattern; again for more."),
    ] = None,
    pressure: Annotated[str | None, _option("Name of the array of the pressure.")] = None,
    shear: Annotated[str | None, _option("Name of the array of the shear.")] = None,
    pressure_form: Annotated[
        str | None, _option("kinematic (m^2/s^2), dimensional (Pa) or coefficient.")
    ] = None,
    shear_form: Annotated[str | None, _option("The same for the shear.")] = None,
    flip_shear: Annotated[
        bool, _option("Take the shear with the other sign than was found.", "--flip-shear")
    ] = False,
    flip_normals: Annotated[
        bool, _option("Turn all faces the other way than was found.", "--flip-normals")
    ] = False,
    scale: Annotated[float, _option("What coordinates are multiplied by: 0.001 for mm.")] = 1.0,
    read_memory: ReadMemory = None,
    read_timeout: ReadTimeout = None,
    as_json: Json = False,
) -> None:
    """Forces on bodies from the pressure and shear on their surfaces, and drag, lift and side
    coefficients.

    What units, signs and orientations were taken is said with the reason; options change it.

    Example: slipstream forces run/case --patches 'motorBike*' --speed 20 --area 0.75
    """
    vectors = {"drag": drag, "lift": lift, "centre": centre}
    reference = FlowReference.of(
        _of_card(card, {"speed": speed, "density": density}),
        None,
        speed=speed,
        density=density,
        area=area,
        length=length,
        pressure=reference_pressure,
        mirror=mirror,
        **{name: _vector(name, text) for name, text in vectors.items()},
    )
    choices = ForceChoices(
        pressure=pressure,
        shear=shear,
        pressure_form=pressure_form,
        shear_form=shear_form,
        patches=tuple(patches or ()),
        scale=scale,
        flip_normals=flip_normals,
        flip_shear=flip_shear,
    )
    unread: list[str] = []
    inputs = find_inputs(meshes, tell=lambda error: unread.append(str(error)))
    with read_within(ReadLimits(read_memory, read_timeout)):
        made, failed = _all(inputs, reference, choices)
    if as_json:
        bodies = [{"mesh": name, **one.to_json()} for name, one in made.items()]
        print(json.dumps({"forces": bodies, "failed": failed, "unread": unread}))
    else:
        print_forces(made)
        for name, reason in failed.items():
            say(f"{name}: {reason}")
        for reason in unread:
            say(f"warning: {reason}")
    if failed:
        raise typer.Exit(2)


def _all(
    inputs: Sequence[MeshInput], reference: FlowReference, choices: ForceChoices
) -> tuple[dict[str, Forces], dict[str, str]]:
    """The forces of each mesh, or why it has none; the reason of a single mesh is raised."""
    made: dict[str, Forces] = {}
    failed: dict[str, str] = {}
    with bar("forces") as advance:
        for index, one in enumerate(inputs):
            advance(index, len(inputs))
            try:
                made[one.name] = mesh_forces(one.path, reference, choices)
            except ValueError as error:
                if len(inputs) == 1:
                    raise
                failed[one.name] = str(error)
    return made, failed


def _of_card(card: Path | None, given: Mapping[str, float | None]) -> dict[str, Any]:
    """The reference of a card; ValueError where it names a parameter that no option gives."""
    if card is None:
        return {}
    values = dict(read_card(card).reference or {})
    if not values:
        raise ValueError(f"{card} must have the key 'reference', got a card without it")
    for name, number in given.items():
        if number is not None:
            values.pop(name, None)
        elif isinstance(values.get(name), str):
            raise ValueError(
                f"--{name} must be given, since it is the parameter {values[name]!r} in {card}"
                " and differs between samples, got none"
            )
    return values


def _vector(name: str, text: str | None) -> Vector | None:
    if text is None:
        return None
    try:
        x, y, z = map(float, text.split(","))
    except ValueError:
        raise ValueError(
            f"--{name} must be three numbers with commas, as 1,0,0, got {text!r}"
        ) from None
    return x, y, z
