"""`slipstream bench`: parity, measurements and tiles. Bad input raises ValueError: a sentence."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import torch
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

from slipstream.bench import cases as measured
from slipstream.bench import cpu as on_cpu
from slipstream.bench import cpu_subjects, cpu_tables, run, subjects, tables
from slipstream.bench import data as draws
from slipstream.bench import parity as parity_grid
from slipstream.bench.mesh import measure_mesh
from slipstream.cli.bench_accelerate import accelerate
from slipstream.cli.bench_compare import compare
from slipstream.cli.bench_forecast import forecast
from slipstream.cli.bench_kept import memory_kept
from slipstream.cli.bench_likeness import likeness
from slipstream.cli.bench_remesh import remesh
from slipstream.cli.bench_slim import finetune, slim
from slipstream.cli.bench_stokes import stokes
from slipstream.cli.bench_streaming import streaming
from slipstream.cli.bench_training import resume, trainer
from slipstream.cli.bench_trust import coverage
from slipstream.cli.terminal import new_console, text_column
from slipstream.core import runtime
from slipstream.core.checks import check_whole
from slipstream.core.records import append_record, read_records
from slipstream.data.store import open_store

app = typer.Typer(
    name="bench",
    add_completion=False,
    help="Check and time the kernels on this machine; records, and markdown beside them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command()(accelerate)
app.command()(compare)
app.command()(trainer)
app.command()(resume)
app.command()(forecast)
app.command()(stokes)
app.command()(streaming)
app.command(name="memory-kept")(memory_kept)
app.command()(coverage)
app.command()(remesh)
app.command()(likeness)
app.command()(slim)
app.command()(finetune)
Only = Annotated[str, typer.Option(help="Only cases whose name contains this; A|B is A or B.")]
Workers = Annotated[
    int | None, typer.Option(help="Processes; 0 does all in this one. [default: cores - 2]")
]
Peer = Annotated[bool, typer.Option(help="Also time flashslice, where installed.")]
Reference = Annotated[bool, typer.Option(help="Also time the eager reference.")]
Repeats = Annotated[int, typer.Option(help="Timed repetitions; fewer where a step takes seconds.")]


class Named(Protocol):
    @property
    def name(self) -> str: ...


NamedCase = TypeVar("NamedCase", bound=Named)


@app.command()
def parity(
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/parity.jsonl"
    ),
    workers: Workers = None,
    only: Only = "",
    device: Annotated[str, typer.Option(help="cuda, cuda:N, cpu or auto.")] = "auto",
) -> None:
    """Hold the kernels to fp64, in every family, precision, dtype and variant.

    Every output and gradient is held by name to eager's own error on the same inputs. Ends with
    exit code 1 where a case is not green. Without a GPU, TRITON_INTERPRET=1 checks what Triton's
    interpreter can do, slowly: choose with --only.

    Example: slipstream bench parity --out out/parity.jsonl --only "model baseline"
    """
    chosen = runtime.pick_device(device)
    if chosen.type != "cuda" and not runtime.TRITON_INTERPRETED:
        raise ValueError(
            "parity needs a CUDA device, or TRITON_INTERPRET=1 in the environment to run the"
            " kernels on the CPU"
        )
    _check_file(out)
    selected = _select(parity_grid.all_cases(str(chosen)), only)
    count = _workers(workers, default=runtime.available_cores() - 2 if chosen.type == "cuda" else 0)
    records = parity_grid.run_parity(selected, out, device=str(chosen), workers=count)
    rows = _watch("parity", _with_markdown(records, out), len(selected), _say_if_red)
    red = sum(not row["green"] for row in rows)
    typer.echo(f"{len(rows) - red} of {len(rows)} green. Records: {out}")
    if red:
        raise typer.Exit(1)


@app.command()
def kernels(
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/kernels.jsonl"
    ),
    only: Only = "",
    reference: Reference = False,
    peer: Peer = False,
    repeats: Repeats = 10,
) -> None:
    """Time one layer, at large slice counts above all.

    Our time is taken behind a check of correctness only.

    Example: slipstream bench kernels --peer --reference --only G=256
    """
    _measure("kernels", out, only, _subjects(reference, peer), repeats)


@app.command()
def model(
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/model.jsonl"
    ),
    only: Only = "",
    reference: Reference = False,
    peer: Peer = False,
    repeats: Repeats = 10,
) -> None:
    """Time the whole model: eager, compiled, checkpointed, and every variant.

    Example: slipstream bench model --peer --only "bf16/bf16 training compiled"
    """
    _measure("model", out, only, _subjects(reference, peer), repeats)


@app.command()
def memory(
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/memory.jsonl"
    ),
    only: Only = "",
    reference: Reference = False,
    peer: Peer = False,
    repeats: Repeats = 10,
) -> None:
    """Memory and time against slice count and depth.

    Says whether memory is flat in the slice count.

    Example: slipstream bench memory --reference --only layer
    """
    _measure("memory", out, only, _subjects(reference, peer), repeats)


@app.command()
def cpu(
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/cpu.jsonl"
    ),
    only: Only = "",
    reference: Reference = False,
    peer: Annotated[
        bool, typer.Option(help="Also time flashslice, PhysicsNeMo and thuml, where importable.")
    ] = False,
    repeats: Annotated[int, typer.Option(help="Timed steps of each subject.")] = 7,
    cores: Annotated[int, typer.Option(help="That all compute on, a thread each.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print the records as JSON.")] = False,
) -> None:
    """Time a layer and the whole model on a CPU, with their peak memory.

    Each subject has a process of its own and is timed only where its outputs and gradients are
    ours. docs/kernels.md says how the peers are installed. Exit code 1 where one of those found
    fails.

    Example: slipstream bench cpu --peer --only eager
    """
    _check_file(out)
    check_whole("repeats", repeats, 1)
    check_whole("cores", cores, 1)
    pinned = on_cpu.first_cores(cores)
    selected = _select(on_cpu.cpu_cases(), only)
    subjects_asked = _cpu_subjects(selected, reference, peer)
    records = on_cpu.run_cpu_cases(selected, subjects_asked, out, cores=pinned, repeats=repeats)

    def say(record: dict[str, Any]) -> None:
        if not as_json:
            others = cpu_tables.other_subjects([record])
            typer.echo(" | ".join(cpu_tables.cpu_measurement(record, others)))
        _write(out, "cpu", cpu_tables.cpu_measurements)

    rows = _watch("cpu", records, len(selected), say)
    typer.echo(json.dumps(rows, indent=2) if as_json else f"Records: {out}")
    if not all(on_cpu.succeeded(row) for row in rows):
        raise typer.Exit(1)


@app.command()
def tune(
    out: Annotated[Path, typer.Option(help="Tile table; its timings go beside it.")] = Path(
        "out/tiles.toml"
    ),
    only: Only = "",
    workers: Workers = None,
) -> None:
    """Sweep the kernels' tiles, write a table of the fastest.

    The table is the one in use with the winners put in; the timings are records beside it.

    Example: slipstream bench tune --only "single-tile/backward bf16 G=32"
    """
    if not runtime.HAS_TRITON:
        raise ValueError("bench tune needs Triton, and it is not installed")
    from slipstream.bench import tune as sweep  # it imports Triton

    selected = _select(sweep.tune_cases(), only)
    count = _workers(workers, default=runtime.available_cores() - 2)
    device = torch.device(_gpu("tune"))
    timings = out.with_suffix(".jsonl")
    common = {"device": runtime.device_name(device), "commit": runtime.commit()}
    winners = []
    for case, outcome in sweep.tune(selected, workers=count):
        rows = [{**asdict(each.tile), "ms": each.milliseconds} for each in outcome.result or ()]
        fields = {"name": case.name, "case": asdict(case), "timings": rows, "error": outcome.error}
        append_record(timings, "tune", {**fields, **common})
        if outcome.error is not None:
            typer.echo(f"{case.name}: {tables.one_line(outcome.error)}")
            continue
        fastest = outcome.result[0]
        typer.echo(f"{case.name}: {fastest.milliseconds:.3f} ms with {fastest.tile}")
        winners.append(fastest.tile)
        out.write_text(sweep.tuned_table(winners, device))
    typer.echo(f"Table: {out}. Timings: {timings}")
    if len(winners) < len(selected):
        raise typer.Exit(1)


@app.command()
def data(
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/data.jsonl"
    ),
    rows: Annotated[int, typer.Option(help="Of the sample that is drawn from.")] = 40_000_000,
    points: Annotated[int, typer.Option(help="Of one draw.")] = 266_000,
    repeats: Repeats = 10,
    mesh_points: Annotated[int, typer.Option(help="Of the mesh that is ingested.")] = 10_000_000,
) -> None:
    """Draw points from a large sample (window, exact, whole, loader), and ingest a volume mesh.

    Writes a store of random rows aside (40 bytes a row), then a mesh (130 bytes a point), and
    removes them again.

    Example: slipstream bench data --rows 40000000 --points 266000
    """
    _check_file(out)
    named = {"rows": rows, "points": points, "repeats": repeats, "mesh_points": mesh_points}
    for name, number in named.items():
        check_whole(name, number, 1)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        figures = draws.measure_draws(Path(folder), rows=rows, points=points, repeats=repeats)
        store = open_store(folder)
        loaders = [
            draws.measure_loader(store, points=points, workers=workers, draws=5 * repeats)
            for workers in (0, 1, 2)
        ]
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        figures["mesh"] = measure_mesh(Path(folder), points=mesh_points)
    machine = {"device": runtime.device_name(torch.device("cpu")), "commit": runtime.commit()}
    record = append_record(out, "data", {**figures, "loaders": loaders, **machine})
    out.with_suffix(".md").write_text(tables.data(record))
    print(tables.data(record))


def _measure(
    command: str, out: Path, only: str, chosen: tuple[subjects.Subject, ...], repeats: int
) -> None:
    _check_file(out)
    check_whole("repeats", repeats, 1)
    selected = _select(measured.CASES[command](), only)
    if "flashslice" in chosen and not subjects.has_peer():
        raise ValueError("--peer needs the package flashslice, and it is not installed")
    _gpu(command)
    records = run.run_cases(selected, chosen, out, command=command, repeats=repeats)

    def say(record: dict[str, Any]) -> None:
        typer.echo(" | ".join(tables.measurement(record)))
        _write(out, "bench", tables.measurements)

    rows = _watch(command, records, len(selected), say)
    for line in tables.flatness(rows):
        typer.echo(line)
    typer.echo(f"Records: {out}")
    if any(not run.succeeded(row) for row in rows):
        raise typer.Exit(1)


def _check_file(out: Path) -> None:
    if out.is_dir():
        raise ValueError(f"out must be a file of records, got the folder {out}")


def _subjects(reference: bool, peer: bool) -> tuple[subjects.Subject, ...]:
    wanted: list[subjects.Subject] = ["reference"] if reference else []
    return (*wanted, "fused", "flashslice") if peer else (*wanted, "fused")


def _cpu_subjects(
    selected: Sequence[measured.Case], reference: bool, peer: bool
) -> list[cpu_subjects.Subject]:
    peers = list(cpu_subjects.PEERS) if peer else []
    if peer and not any(cpu_subjects.is_on_path(p, case) for p in peers for case in selected):
        names = ", ".join(p.name for p in peers)
        raise ValueError(
            f"--peer needs one of {names} on the path, and none is: docs/kernels.md says how"
        )
    return [cpu_subjects.OURS, *([cpu_subjects.REFERENCE] if reference else []), *peers]


def _select(cases: Sequence[NamedCase], only: str) -> list[NamedCase]:
    """The cases whose name contains one of the parts of `only`, which | separates."""
    selected = [case for case in cases if any(part in case.name for part in only.split("|"))]
    if not selected:
        raise ValueError(
            f"only must be part of the name of a case, as in {cases[0].name!r}, got {only!r}"
        )
    return selected


def _workers(asked: int | None, *, default: int) -> int:
    if asked is None:
        return max(default, 0)
    check_whole("workers", asked, 0)
    return asked


def _gpu(command: str) -> str:
    if not torch.cuda.is_available():
        raise ValueError(f"bench {command} needs a CUDA device, and this machine has none")
    return "cuda"


def _watch(
    what: str,
    records: Iterable[dict[str, Any]],
    total: int,
    say: Callable[[dict[str, Any]], None],
) -> list[dict[str, Any]]:
    """All records as a list; meanwhile a progress bar is shown, and `say` is called with each."""
    columns = (text_column("{task.description}"), BarColumn(), MofNCompleteColumn())
    rows = []
    with Progress(*columns, TimeElapsedColumn(), console=new_console(stderr=True)) as progress:
        task = progress.add_task(what, total=total)
        for record in records:
            rows.append(record)
            progress.advance(task)
            say(record)
    return rows


def _say_if_red(record: dict[str, Any]) -> None:
    if not record["green"]:
        typer.echo(tables.failure(record))


def _with_markdown(records: Iterable[dict[str, Any]], out: Path) -> Iterator[dict[str, Any]]:
    """The records of parity; the markdown is written after every 100, as a run may be cut short."""
    for number, record in enumerate(records, start=1):
        yield record
        if number % 100 == 0:
            _write(out, "parity", tables.parity)
    _write(out, "parity", tables.parity)


def _write(out: Path, kind: str, form: Callable[[list[dict[str, Any]]], str]) -> None:
    """Write the markdown of all records in the file, of each name the last."""
    out.with_suffix(".md").write_text(form(tables.latest(read_records(out, kind))))
