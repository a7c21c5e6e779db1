"""`slipstream calibrate`: bounds of errors on new designs. Bad input raises ValueError."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.cli.evaluation_tables import print_whole
from slipstream.cli.shared import Json, On, Plugins, bar, direction, engine_for, load_plugins
from slipstream.cli.terminal import new_table, plain, say
from slipstream.core.engine import Engine
from slipstream.evaluation.calibration import band_promise, check_level, percent, promise
from slipstream.evaluation.sample_bodies import ForceRequest
from slipstream.inference.bounds import Bound, bound_of
from slipstream.inference.calibrate import CalibrationRequest
from slipstream.inference.calibrate import calibrate as measure
from slipstream.inference.likeness import calibrate_likeness
from slipstream.runs.calibration_file import Calibration, write_calibration
from slipstream.runs.folder import RunFolder

CHOSEN = (
    "The validation split chose the checkpoint of this model, so the bounds are slightly too"
    " narrow: --split test avoids it, where the test split decided nothing."
)


def calibrate(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folder of a run; several predict together."),
    ],
    split: Annotated[str, typer.Option(help="A split of the store, not train.")] = "val",
    meshes: Annotated[
        Path | None,
        typer.Option(help="The folder that was ingested: also force coefficients."),
    ] = None,
    level: Annotated[float, typer.Option(help="Probability of the bounds that are shown.")] = 0.9,
    area: Annotated[float | None, typer.Option(help="Of reference, m^2.")] = None,
    density: Annotated[float | None, typer.Option(help="Of the fluid, kg/m^3.")] = None,
    speed: Annotated[float | None, typer.Option(help="Of the free stream, m/s.")] = None,
    drag: Annotated[str, typer.Option(help="Direction of the drag, as 1,0,0.")] = "",
    lift: Annotated[str, typer.Option(help="Direction of the lift, as 0,0,1.")] = "",
    store: Annotated[Path | None, typer.Option(help="Where the data are now, if moved.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "auto",
    on: On = None,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Measure how far off the model may be on a new design, for `slipstream predict` to say.

    Split-conformal: errors on held-out samples bound that of a new design like them, with a
    probability that is stated. Writes RUN/calibration.json, which serves any level, and
    RUN/likeness.safetensors, by which predict says whether a mesh is like the training. Those of
    several runs are beside the first of them, for `slipstream predict` with the same runs.

    Example: slipstream calibrate runs/own --split test --meshes cars --area 2.2
    """
    load_plugins(plugin)
    check_level(level, "--level")
    given: dict[str, Any] = {"area": area, "density": density, "speed": speed}
    given |= {"drag": direction("drag", drag), "lift": direction("lift", lift)}
    if meshes is None and any(value is not None for value in given.values()):
        raise ValueError("reference values must go with --meshes FOLDER, got no --meshes")
    forces = None if meshes is None else ForceRequest(meshes, given)
    request = CalibrationRequest(split=split, device=device, store=store, forces=forces)
    runs = [_run_folder(path) for path in paths]
    with engine_for(on) as engine:
        with bar("calibrate") as advance:
            calibration = measure(runs, request, advance, engine)
        file = write_calibration([run.path for run in runs], calibration)
        likeness, notes = _likeness(runs, request, engine), list(_notes(calibration))
    if isinstance(likeness, str):
        notes.append(likeness)
    if as_json:
        shown = {"level": level, **_bounds(calibration, level), "notes": notes, "file": str(file)}
        print(json.dumps(shown, indent=2))
        return
    _print(calibration, level)
    for note in notes:
        say(f"Note: {note}")
    files = f"{file} and {likeness}" if isinstance(likeness, Path) else str(file)
    say(f"Wrote {files}, for slipstream predict.")


def _likeness(
    runs: list[RunFolder], request: CalibrationRequest, engine: Engine | None
) -> Path | str:
    """Write the likeness file too, or say why there is none."""
    try:
        with bar("likeness") as advance:
            return calibrate_likeness(runs, request, advance, engine)
    except ValueError as error:
        return f"Likeness to the training is not calibrated: {error}."


def _run_folder(path: Path) -> RunFolder:
    folder = RunFolder(path)
    if not folder.exists:
        raise ValueError(f"{path} must be the folder of a run, got no {folder.config_file.name}")
    if not folder.model_file.is_file():
        raise ValueError(f"{path} must have a {folder.model_file.name}, got none: train it first")
    return folder


def _bounds(calibration: Calibration, level: float) -> dict[str, Any]:
    """Bounds at a level, as JSON."""
    forces = calibration.forces
    by_field = calibration.fields.items()
    return {
        "split": calibration.split,
        "samples": len(calibration.samples),
        "models": calibration.models,
        "fields": {name: asdict(bound_of(own.errors, level)) for name, own in by_field},
        "bands": {
            name: {**asdict(_band(calibration, name, level)), "unit": own.unit}
            for name, own in by_field
        },
        "coefficients": {
            name: asdict(bound_of(own, level))
            for name, own in (forces.sizes() if forces else {}).items()
        },
        "promise": promise(len(calibration.samples), level),
        "band_promise": band_promise(len(calibration.samples), level),
    }


def _band(calibration: Calibration, name: str, level: float) -> Bound:
    """The half-width of a field's band in its unit, at a typical point."""
    own = calibration.fields[name]
    bound = bound_of(own.band, level)
    value = None if bound.value is None else bound.value * own.scale.typical
    return Bound(bound.samples, value, bound.reason)


def _print(calibration: Calibration, level: float) -> None:
    who = "" if calibration.models == 1 else f" of {calibration.models} models together"
    table = new_table(f"calibration{who} on the {calibration.split} split")
    for heading in ("of a new design", "bound", "samples"):
        table.add_column(heading, justify="right" if heading == "samples" else "left")
    share = percent(calibration.band_share)
    rows: list[tuple[str, str, Bound]] = []
    for name, own in calibration.fields.items():
        rows.append((f"relative error of {name}", "at most {}", bound_of(own.errors, level)))
    for name, own in calibration.fields.items():
        unit = "" if own.unit == "1" else f" {own.unit}"
        title = f"{name} at {share} of its points"
        form = "± {}" + unit + " in the median"
        rows.append((title, form, _band(calibration, name, level)))
    for name, sizes in (calibration.forces.sizes() if calibration.forces else {}).items():
        rows.append((name.capitalize(), "± {}", bound_of(sizes, level)))
    for title, form, bound in rows:
        text = bound.reason
        if bound.value is not None:
            text = f"{form.replace('{}', f'{bound.value:.3g}')} with {percent(level)}"
        table.add_row(plain(title), plain(text), str(bound.samples))
    print_whole(table)
    count = len(calibration.samples)
    if any(bound.value is not None for _, _, bound in rows):
        say(promise(count, level))
        say(f"Points: {band_promise(count, level)}")


def _notes(calibration: Calibration) -> Iterator[str]:
    if calibration.split == "val":
        yield CHOSEN
    for name, own in calibration.fields.items():
        zero = len(calibration.samples) - len(own.errors)
        if zero:
            yield f"{zero} samples have no error of {name}: it is 0 at all of their points."
    if calibration.forces is None:
        yield "Coefficients are not calibrated: --meshes FOLDER does it, for surfaces."
    else:
        yield f"Coefficients with {calibration.forces.definition}."
        left_out = calibration.forces.left_out
        if left_out:
            first = next(iter(left_out.values()))
            yield f"{len(left_out)} samples have no coefficients, the first: {first}."
