"""`slipstream predict`: a trained model on meshes of any kind. Bad input raises ValueError."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

import typer

from slipstream.cli.predict_text import show_results
from slipstream.cli.shared import (
    Json,
    On,
    Plugins,
    ReadMemory,
    ReadTimeout,
    bar,
    direction,
    engine_for,
    load_plugins,
    parse_settings,
)
from slipstream.cli.terminal import say
from slipstream.core.checks import check_choice
from slipstream.data.meshes import SUFFIXES, MeshInput, ReadLimits, find_inputs, read_within
from slipstream.inference.bounds import Calibrated
from slipstream.inference.densities import Density
from slipstream.inference.designs import Designs
from slipstream.inference.many import MeshResult, Outputs, earlier_outputs
from slipstream.inference.many_meshes import ManyMeshes, predict_meshes
from slipstream.inference.mesh_fields import InputChoices
from slipstream.inference.predict import Choices, recipe_of
from slipstream.inference.prediction_forces import ForceWishes
from slipstream.inference.queries import Line, Plane
from slipstream.inference.remesh import exceeding
from slipstream.inference.wishes import Wishes
from slipstream.models.sweep_plan import Parked
from slipstream.runs.ensemble import Ensemble, as_ensemble
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import TrainedModel, model_path


def predict(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN... MESH...",
            help="Folder of a run, or a model file; several predict together. Then VTP, VTU, VTK,"
            " VTM, STL, PLY, OpenFOAM cases, or folders of them.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder of the predictions; for one mesh it may be a file.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A parameter of the flow, as U_inf=33; again for more."),
    ] = None,
    parameters: Annotated[
        Path | None, typer.Option(help="Table with the parameters of many meshes, a row for each.")
    ] = None,
    forces: Annotated[
        bool, typer.Option("--forces", help="Also forces and coefficients of a surface.")
    ] = False,
    area: Annotated[float | None, typer.Option(help="Reference area, m^2.")] = None,
    flow_density: Annotated[float | None, typer.Option(help="Of the fluid, kg/m^3.")] = None,
    speed: Annotated[float | None, typer.Option(help="Of the free stream, m/s.")] = None,
    drag: Annotated[str | None, typer.Option(help="Direction of the drag, as 1,0,0.")] = None,
    lift: Annotated[str | None, typer.Option(help="Direction of the lift, as 0,0,1.")] = None,
    mirror: Annotated[
        str | None, typer.Option(help="x, y or z: the mesh is half of a body, cut where it is 0.")
    ] = None,
    flip_shear: Annotated[
        bool, typer.Option("--flip-shear", help="For forces: the other sign of the shear.")
    ] = False,
    plane: Annotated[
        list[str] | None,
        typer.Option(help="Also the flow on a plane: y=0.5, or 0,0,0;0,1,0 (point;normal)."),
    ] = None,
    line: Annotated[
        list[str] | None,
        typer.Option(help="Also along a line, as a table: 0,0,0;1,0,0 or 0,0,0;1,0,0;500."),
    ] = None,
    points: Annotated[
        list[Path] | None,
        typer.Option(help="Also at the points of a mesh, or of a CSV with columns x, y, z."),
    ] = None,
    slices: Annotated[
        bool, typer.Option("--slices", help="Also the slice weights of the last layer.")
    ] = False,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Also the mixed tokens, NAME.tokens.safetensors.")
    ] = False,
    bands: Annotated[
        bool,
        typer.Option("--bands", help="Also how wide the fields' bands are, of a calibrated model."),
    ] = False,
    remesh: Annotated[
        int | None,
        typer.Option(
            metavar="COUNT",
            help="Also how far it moves on so many other meshes of the same geometry; takes as long"
            " as so many more predictions.",
        ),
    ] = None,
    density: Annotated[
        str,
        typer.Option(
            help="Where tokens come from: subsets as dense as in training, full (all points), or"
            " auto: subsets where the mesh is far denser."
        ),
    ] = "auto",
    location: Annotated[
        str | None,
        typer.Option(help="point or cell, where the training does not say where fields are."),
    ] = None,
    scale: Annotated[
        float, typer.Option(help="Factor on coordinates: 0.001 for a mesh in mm.")
    ] = 1.0,
    surface: Annotated[
        str | None,
        typer.Option(help="The body that distances are to; {name} stands for the mesh's name."),
    ] = None,
    patches: Annotated[
        list[str] | None,
        typer.Option(help="Patches of a case, or blocks of a .vtm, as 'motorBike*'."),
    ] = None,
    flip_normals: Annotated[
        bool, typer.Option("--flip-normals", help="Normals to the other side.")
    ] = False,
    accept_undecided: Annotated[
        bool,
        typer.Option("--accept-undecided", help="Also where the outer side is not known."),
    ] = False,
    precision: Annotated[str, typer.Option(help="fp32, or bf16 on a GPU.")] = "fp32",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "auto",
    on: On = None,
    chunk: Annotated[int | None, typer.Option(help="Points taken at a time.")] = None,
    park: Annotated[
        str, typer.Option(help="Where chunks wait: auto, device, host, file, recompute.")
    ] = "auto",
    level: Annotated[
        float, typer.Option(help="Probability of the bounds of errors, of a calibrated model.")
    ] = 0.9,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse meshes that are not like the training.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace outputs that exist.")
    ] = False,
    plugin: Plugins = None,
    read_memory: ReadMemory = None,
    read_timeout: ReadTimeout = None,
    as_json: Json = False,
) -> None:
    """Predict the fields on meshes that the model has never seen, at all of their points.

    The output is the mesh itself with the predicted arrays, for ParaView. The same command goes on
    where it was stopped. Exit code 1 where one of several meshes failed, 2 where all did.

    Example: slipstream predict runs/own designs/*.stl --out predicted --set U_inf=33 --forces
    """
    load_plugins(plugin)
    given: dict[str, Any] = {
        "area": area,
        "density": flow_density,
        "speed": speed,
        "drag": direction("drag", drag),
        "lift": direction("lift", lift),
        "mirror": mirror,
    }
    if not forces and (flip_shear or any(value is not None for value in given.values())):
        raise ValueError(
            "--area, --flow-density, --speed, --drag, --lift, --mirror and --flip-shear must go"
            " with --forces, got no --forces"
        )
    wishes = Wishes(
        ForceWishes(given, flip_shear) if forces else None,
        tuple(map(Plane.parse, plane or ())),
        tuple(map(Line.parse, line or ())),
        tuple(points or ()),
        slices,
        tokens,
        remesh=remesh,
    )
    inputs = InputChoices(
        parse_settings(settings or ()),
        cast(Literal["point", "cell"] | None, _location(location)),
        scale,
        None,
        tuple(patches or ()),
        flip_normals,
        accept_undecided,
    )
    if density not in get_args(Density):
        raise ValueError(
            f"--density must be one of {', '.join(get_args(Density))}, got {density!r} (that of the"
            " fluid is --flow-density)"
        )
    check_choice("--park", park, get_args(Parked))
    base = Choices(inputs, cast(Any, density), cast(Any, precision), chunk, cast(Any, park))
    runs, meshes = _runs_and_meshes(places)
    models = as_ensemble(runs, device=device if on is None else "cpu")
    calibrated = Calibrated(runs, models, level, base)
    if bands:
        wishes = replace(wishes, bands=calibrated.bands())
    outputs = _outputs(out, overwrite)
    named = _named(meshes, outputs)
    limits = ReadLimits(read_memory, read_timeout)
    many = ManyMeshes(outputs=outputs, wishes=wishes, strict=strict, limits=limits)
    title = f"predict {len(named)} mesh{'es' if len(named) > 1 else ''}, percent"
    with engine_for(on) as engine, bar(title) as advance:
        progress = _Progress(advance, len(named))
        choose = _chooser(base, models.first, parameters, surface, progress)
        with read_within(limits):
            several = predict_meshes(
                models, runs, named, many, choose, engine=engine, device=device
            )
            results = [progress.done(one) for one in several]
    order = {mesh.name: place for place, mesh in enumerate(named)}
    results.sort(key=lambda result: order[result.name])
    results = [_bounded(result, calibrated, given) for result in results]
    _finish(results, models, outputs, as_json)


def _bounded(result: MeshResult, calibrated: Calibrated, given: dict[str, Any]) -> MeshResult:
    if result.status == "failed":
        return result
    bounds, remesh = calibrated.bounds(result.forces, given), result.remesh
    if remesh is not None:
        remesh = {**remesh, "exceeding": exceeding(remesh, bounds)}
    return replace(result, bounds=bounds, remesh=remesh)


def _finish(
    results: Sequence[MeshResult], models: Ensemble, outputs: Outputs, as_json: bool
) -> None:
    failed = [result for result in results if result.status == "failed"]
    if len(results) == 1 and failed:
        raise ValueError(failed[0].reason)
    if as_json:
        print(json.dumps({"predictions": [asdict(result) for result in results]}, indent=2))
    else:
        show_results(results, models.validation_error)
        say(f"Records: {outputs.records}")
    if failed:
        raise typer.Exit(2 if len(failed) == len(results) else 1)


class _Progress:
    """One bar over all meshes, that also moves within one."""

    def __init__(self, advance: Callable[[int, int], None], meshes: int) -> None:
        self._advance, self._meshes, self._done = advance, meshes, 0

    def within(self, done: int, total: int) -> None:
        self._advance(int(100 * (self._done + done / total) / self._meshes), 100)

    def done(self, result: MeshResult) -> MeshResult:
        self._done += 1
        self.within(0, 1)
        return result


def _runs_and_meshes(places: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The first place, and those after it that are runs or model files too; and all others.

    ValueError where the first is a mesh, and where no mesh is left.
    """
    first = Path(places[0])
    if first.suffix.lower() in SUFFIXES and not first.is_dir():
        swapped = len(places) == 2 and model_path(places[1]).is_file()
        hint = f": slipstream predict {places[1]} {first} ..." if swapped else ""
        raise ValueError(
            f"RUN, the first argument, must be the folder of a run or a model file, got the mesh"
            f" {first}{hint}"
        )
    count = 1 + sum(1 for _ in takewhile(_is_model, places[1:]))
    if count == len(places):
        raise ValueError(f"MESH must be given after the run, got none after {places[-1]}")
    return [Path(place) for place in places[:count]], list(places[count:])


def _is_model(place: str) -> bool:
    path = Path(place)
    return RunFolder(path).exists or (path.is_file() and path.suffix == model_path("").suffix)


def _outputs(out: Path, overwrite: bool) -> Outputs:
    """A folder, or a file where the name ends with the suffix of a mesh."""
    if out.suffix.lower() in SUFFIXES and not out.is_dir():
        return Outputs(out.parent, out, overwrite)
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out must be a folder or a new mesh file, got {out}, another file")
    return Outputs(out, None, overwrite)


def _named(meshes: Sequence[str], outputs: Outputs) -> list[MeshInput]:
    """The meshes that are meant, without the outputs of earlier calls among them."""

    def tell(error: OSError) -> None:
        say(f"warning: {error.filename}: {error.strerror}", error=True)

    earlier = earlier_outputs(outputs.records)
    for mesh in meshes:
        if str(Path(mesh).resolve()) in earlier:
            raise ValueError(
                f"MESH must not be a prediction, got {mesh}, which an earlier call has written to"
                f" {outputs.folder}"
            )
    named = find_inputs(meshes, tell=tell, without=earlier)
    if outputs.single is not None and len(named) > 1:
        raise ValueError(
            f"--out must be a folder for {len(named)} meshes, got the file {outputs.single}"
        )
    return named


def _chooser(
    base: Choices,
    trained: TrainedModel,
    table: Path | None,
    surface: str | None,
    progress: _Progress,
) -> Callable[[MeshInput], Choices]:
    """The choices of each mesh: its own row of the table, and its own surface."""
    designs = Designs(table, recipe_of(trained)) if table is not None else None

    def choose(mesh: MeshInput) -> Choices:
        inputs = base.inputs
        if designs is not None:
            own = designs.parameters(mesh.name, mesh.path.name)
            inputs = replace(inputs, parameters={**own, **inputs.parameters})
        if surface is not None:
            file = Path(surface.replace("{name}", Path(mesh.name).name))
            if not file.exists():
                raise ValueError(f"--surface must be a file of a surface, got no {file}")
            inputs = replace(inputs, surface=file)
        return replace(base, inputs=inputs, watch=progress.within)

    return choose


def _location(text: str | None) -> str | None:
    if text not in (None, "point", "cell"):
        raise ValueError(f"--location must be point or cell, got {text!r}")
    return text
