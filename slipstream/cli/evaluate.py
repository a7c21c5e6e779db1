"""`slipstream evaluate`: test errors of trained models. Bad input raises ValueError."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.cli.evaluation_tables import (
    MOST_SAMPLES,
    errors_table,
    forces_table,
    noise_table,
    print_whole,
    samples_table,
)
from slipstream.cli.shared import On, Plugins, bar, direction, engine_for, load_plugins
from slipstream.cli.terminal import say
from slipstream.core.configs import differences
from slipstream.core.engine import Engine
from slipstream.evaluation.against_yardsticks import (
    HEADINGS,
    copies,
    force_sentences,
    unbeaten,
    yardsticks_of,
)
from slipstream.evaluation.run_evaluation import EvaluationRequest, evaluate_runs
from slipstream.evaluation.sample_bodies import ForceRequest
from slipstream.evaluation.summary import (
    definition_of,
    left_out_text,
    spread_text,
    summarise,
)
from slipstream.evaluation.vtk_export import write_vtk_files
from slipstream.inference.calibrate import CalibrationRequest, calibrate, lacks_calibration
from slipstream.inference.likeness import calibrate_likeness, lacks_likeness
from slipstream.runs.calibration_file import write_calibration
from slipstream.runs.config import FREE, OWN
from slipstream.runs.evaluation_file import Evaluation, Protocol
from slipstream.runs.folder import RunFolder, find_runs

EvaluatedRun = tuple[RunFolder, Evaluation]


def evaluate(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN_OR_STUDY...", help="Folders of runs, or studies.")
    ],
    split: Annotated[str, typer.Option(help="A split of the store.")] = "test",
    full: Annotated[bool, typer.Option("--full", help="All points of a sample at once.")] = False,
    repeats: Annotated[int, typer.Option(help="Independent draws of the points.")] = 1,
    samples: Annotated[
        str,
        typer.Option(help="Samples to predict for pictures, with commas; else the median one."),
    ] = "",
    store: Annotated[Path | None, typer.Option(help="Where the data are now, if moved.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "auto",
    on: On = None,
    plugin: Plugins = None,
    vtk: Annotated[
        bool, typer.Option("--vtk", help="Also write the predictions as files for ParaView.")
    ] = False,
    meshes: Annotated[
        Path | None,
        typer.Option(
            help="The folder that was ingested: for --forces, for --vtk onto its meshes, and for"
            " pictures with the faces of a surface."
        ),
    ] = None,
    slices: Annotated[
        bool, typer.Option("--slices", help="For --vtk: also the weights of all slices.")
    ] = False,
    forces: Annotated[
        bool, typer.Option("--forces", help="Also force coefficients; needs --meshes.")
    ] = False,
    area: Annotated[float | None, typer.Option(help="For --forces: m^2, of reference.")] = None,
    density: Annotated[float | None, typer.Option(help="For --forces: kg/m^3.")] = None,
    speed: Annotated[float | None, typer.Option(help="For --forces: m/s, of the stream.")] = None,
    drag: Annotated[str, typer.Option(help="For --forces: direction, as 1,0,0.")] = "",
    lift: Annotated[str, typer.Option(help="For --forces: direction, as 0,0,1.")] = "",
    flip_shear: Annotated[
        bool, typer.Option("--flip-shear", help="For --forces: the shear has the other sign.")
    ] = False,
    flip_normals: Annotated[
        bool, typer.Option("--flip-normals", help="For --forces: faces turn the other way.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Evaluate again what was evaluated so before.")
    ] = False,
    calibrated: Annotated[
        bool,
        typer.Option(
            "--calibrate/--no-calibrate",
            help="Also calibrate runs that are not: all points of the validation split.",
        ),
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Measure trained models on the test split, and save predictions for pictures.

    Relative L1 on normalised outputs as in training, relative L1 and L2 of each variable in
    physical units, beside the errors of the training set's mean and of the nearest training sample.
    What was measured so before is not measured again. Runs without a model yet are named and left
    out.

    Example: slipstream evaluate studies/flow --repeats 6
    """
    load_plugins(plugin)
    if slices and not vtk:
        raise ValueError("--slices must go with --vtk, got no --vtk")
    given: dict[str, Any] = {"area": area, "density": density, "speed": speed}
    given |= {"drag": direction("drag", drag), "lift": direction("lift", lift)}
    wanted = _force_request(forces, meshes, given, flip_shear, flip_normals)
    protocol = Protocol(split=split, full=full, repeats=repeats)
    pictures = tuple(name.strip() for name in samples.split(",") if name.strip())
    request = EvaluationRequest(
        protocol=protocol,
        pictures=pictures,
        device=device,
        store=store,
        again=again,
        meshes=meshes,
        forces=wanted,
    )
    runs, without = runs_below(paths)
    with engine_for(on) as engine:
        with bar("evaluate") as advance:
            rows = evaluate_runs(runs, request, lambda _, done, total: advance(done, total), engine)
        files = [
            file
            for run, row in (zip(runs, rows, strict=True) if vtk else ())
            for file in write_vtk_files(run, row, store=store, meshes=meshes, slices=slices)
        ]
        calibrations: dict[str, str] = {}
        if calibrated:
            with bar("calibrate") as advance:
                calibrations = _calibrated(runs, request, advance, engine)
    if as_json:
        evaluations = [_as_json(row) for row in rows]
        output = {
            "evaluations": evaluations,
            "without_model": without,
            "calibrations": calibrations,
        }
        vtk_json = {"vtk": [{**asdict(file), "path": str(file.path)} for file in files]}
        print(json.dumps(output | (vtk_json if vtk else {}), indent=2))
        return
    _print(list(zip(runs, rows, strict=True)))
    whole = sorted({row.experiment for row in rows if row.protocol.full})
    if whole and repeats > 1:
        names = ", ".join(whole)
        say(f"--repeats {repeats} repeats nothing where samples are taken whole: {names}.")
    for path in without:
        say(f"{path}: left out, no model yet")
    for path, what in calibrations.items():
        say(f"{path}: {what}")
    for file in files:
        say(f"Wrote {file.path}: {file.contents}.")


def _calibrated(
    runs: Sequence[RunFolder],
    request: EvaluationRequest,
    watch: Callable[[int, int], None],
    engine: Engine | None,
) -> dict[str, str]:
    """Calibrate the runs that are not on their validation split; what became of each, by path."""
    said = {}
    for run in runs:
        wanted = CalibrationRequest(
            device=request.device, store=request.store, forces=request.forces
        )
        try:
            if lacks_calibration(run, wanted):
                calibration = calibrate([run], wanted, watch, engine)
                write_calibration([run.path], calibration)
                said[str(run.path)] = (
                    f"calibrated on {len(calibration.samples)} samples of the {calibration.split}"
                    " split, for slipstream predict"
                )
            if lacks_likeness(run):
                calibrate_likeness([run], wanted, watch, engine)
        except ValueError as error:
            said[str(run.path)] = f"not calibrated: {error}"
    return said


def _force_request(
    forces: bool, meshes: Path | None, given: dict[str, Any], flip_shear: bool, flip_normals: bool
) -> ForceRequest | None:
    if not forces:
        if flip_shear or flip_normals or any(value is not None for value in given.values()):
            raise ValueError("reference values must go with --forces, got no --forces")
        return None
    if meshes is None:
        raise ValueError("--forces must go with --meshes FOLDER, got no --meshes")
    return ForceRequest(meshes, given, flip_shear, flip_normals)


def _as_json(row: Evaluation) -> dict[str, Any]:
    """The evaluation as in its record, with the relative standard deviation of every number."""
    numbers = [{**asdict(number), "relative_std": number.relative_std} for number in row.numbers]
    return {**asdict(row), "numbers": numbers}


def runs_below(paths: Sequence[Path]) -> tuple[list[RunFolder], list[str]]:
    """The runs with a model at or below some folders, and the paths of those without one."""
    runs: list[RunFolder] = []
    for path in paths:
        below = list(find_runs(path))
        if not below:
            raise ValueError(
                f"{path} must be a run or a folder with runs below it, got neither"
                if path.is_dir()
                else f"{path} must be the folder of a run or a study, got no such folder"
            )
        runs += below
    with_model = [run for run in runs if run.model_file.is_file()]
    if not with_model:
        raise ValueError(
            f"{runs[0].path} must have a {runs[0].model_file.name}, got none: train it first"
        )
    return with_model, [str(run.path) for run in runs if not run.model_file.is_file()]


def _print(measured: Sequence[EvaluatedRun]) -> None:
    """A table for every experiment, and one for every other size, setting or data of it."""
    for experiment in dict.fromkeys(row.experiment for _, row in measured):
        groups = _alike([pair for pair in measured if pair[1].experiment == experiment])
        for group in groups:
            _print_group(group)
            other = _other(groups[0][0], group[0])
            if other:
                say(f"Not as in the first table of {experiment} (there, here): {other}.")


def _alike(measured: Sequence[EvaluatedRun]) -> list[list[EvaluatedRun]]:
    """Groups of runs that differ in variant and seed only."""
    groups: list[list[EvaluatedRun]] = []
    for pair in measured:
        alike = next((group for group in groups if not _other(group[0], pair)), None)
        if alike is None:
            groups.append([pair])
        else:
            alike.append(pair)
    return groups


def _other(one: EvaluatedRun, other: EvaluatedRun) -> str:
    """What differs between two runs, besides variant and seed; empty where nothing does."""
    differing = differences(one[0].read_config(), other[0].read_config(), ignored=(*FREE, *OWN))
    hashes = [row.data_hash for _, row in (one, other)]
    if hashes[0] != hashes[1]:
        differing.append(f"data: {hashes[0][:12]}, {hashes[1][:12]}")
    return "; ".join(differing)


def _print_group(measured: Sequence[EvaluatedRun]) -> None:
    rows = [row for _, row in measured]
    summaries, first = summarise(rows), rows[0]
    title = f"{first.experiment}: errors on the {first.protocol.split} split"
    yardsticks = yardsticks_of(rows)
    print_whole(errors_table(title, summaries, yardsticks))
    for measure in first.definitions:
        say(f"{measure}: {definition_of(first, measure)}.")
    for one in yardsticks:
        say(f"{HEADINGS[one.kind]}: {one.definition}.")
    for sentence in (*left_out_text(first), *unbeaten(summaries, yardsticks), *copies(yardsticks)):
        say(sentence)
    if spread_text(summaries):
        say(spread_text(summaries))
    noise = max((s.noise for s in summaries if s.noise is not None), default=None)
    if noise is not None:
        print_whole(noise_table(f"{first.experiment}: noise over the draws", summaries))
        say("Standard deviation over the draws, and its share of the error; mean over the seeds.")
        say(f"Largest relative standard deviation over the draws: {100 * noise:.2g} %.")
    _print_samples(rows)
    for sentence in _not_shown(measured):
        say(sentence)


def _print_samples(rows: Sequence[Evaluation]) -> None:
    """The samples of the first run, which is that of the first variant, and the forces of all."""
    first = rows[0]
    title = f"{first.experiment}: samples, {_who(first, rows)}, worst first"
    print_whole(samples_table(title, first))
    more = len(first.samples) - MOST_SAMPLES
    if more > 0:
        say(f"and {more} more; --json and the report have all of them.")
    for row in rows:
        if row.forces is not None:
            title = f"{row.experiment}: force coefficients, {_who(row, rows)}"
            print_whole(forces_table(title, row.forces))
            say(f"Coefficients with {row.forces.definition}.")
            for sentence in (*force_sentences(row.forces), *row.forces.warnings):
                say(f"Note: {sentence}.")


def _who(row: Evaluation, rows: Sequence[Evaluation]) -> str:
    return f"{row.variant} seed {row.seed}" if len(rows) > 1 else row.variant


def _not_shown(measured: Sequence[EvaluatedRun]) -> Iterator[str]:
    """A sentence for each run left out because a later one has the same variant and seed."""
    shown = {(row.variant, row.seed): run for run, row in measured}
    for run, row in measured:
        last = shown[row.variant, row.seed]
        if run.path != last.path:
            name = f"{row.experiment} {row.variant} seed {row.seed}"
            yield f"{run.path}: not in the table, which has {name} of {last.path}"
