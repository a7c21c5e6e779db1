"""`slipstream bench compare`: are verdicts right, and how often are there any?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream.bench.compare import make_variants, mean_of, predict_all, try_splits
from slipstream.cli.shared import bar
from slipstream.cli.terminal import say
from slipstream.core import runtime
from slipstream.core.checks import check_whole
from slipstream.core.records import append_record
from slipstream.evaluation.calibration import check_level

_SHOWN = ("compare", "two separate", "two separate, corrected")


def compare(
    bodies: Annotated[
        Path, typer.Argument(help="Folder of `slipstream.bench.half_bodies.make_store`.")
    ],
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Models of its store.")],
    out: Annotated[Path, typer.Option(help="File of records; rows are appended.")] = Path(
        "out/compare.jsonl"
    ),
    variants: Annotated[
        Path, typer.Option(help="Folder for small changes of test samples; kept.")
    ] = Path("out/variants"),
    count: Annotated[int, typer.Option(help="Test samples that have variants.")] = 100,
    splits: Annotated[int, typer.Option(help="Random calibrations of each size.")] = 20,
    samples: Annotated[str, typer.Option(help="Sizes of calibrations.")] = "40,80,160",
    errors: Annotated[
        str,
        typer.Option(
            help="Factors on the models' errors, as 1,0.2: also as a better model might be, whose"
            " errors are of the same kind and smaller."
        ),
    ] = "1",
    level: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Of the bodies, and of the splits.")] = 0,
) -> None:
    """Try comparisons on pairs whose true difference is known: coverage, verdicts, wrong ones.

    For each model alone, and for all together where there are several.

    Example: slipstream bench compare bodies runs/seed-* --out out/compare.jsonl
    """
    check_level(level, "--level")
    check_whole("splits", splits, 1)
    sizes = [int(size) for size in _numbers("samples", samples)]
    factors = _numbers("errors", errors)
    with bar("variants") as advance:
        first = _first_number(bodies)
        make_variants(variants, range(first, first + count), seed, advance)
    several = []
    with bar("predict") as advance:
        for done, run in enumerate(runs, start=1):
            several.append(predict_all(run, bodies, variants, count))
            advance(done, len(runs))
    models = {"each alone": several}
    if len(several) > 1:
        models["together"] = [mean_of(several)]
    tries = [(name, factor, size) for factor in factors for name in models for size in sizes]
    with bar("compare") as advance:
        for done, (name, factor, size) in enumerate(tries, start=1):
            own = [one.with_errors(factor) for one in models[name]]
            about = {"runs": len(runs), "models": name, "errors_times": factor, "samples": size,
                     "splits": splits, "level": level, "commit": runtime.commit()}  # fmt: skip
            rows = list(try_splits(own, samples=size, splits=splits, level=level, seed=seed))
            append_record(out, "compare", {**about, "results": rows})
            for row in rows:
                _tell({**about, **row})
            advance(done, len(tries))
    say(f"Records: {out}")


def _first_number(bodies: Path) -> int:
    """The number of the first test sample."""
    from slipstream.data.store import open_store

    return int(open_store(bodies / "store").splits["test"][0])


def _numbers(name: str, text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(number > 0 for number in numbers):
        raise ValueError(f"--{name} must be numbers above 0, as 1 or 1,2, got {text!r}")
    return numbers


def _tell(row: Mapping[str, Any]) -> None:
    if row["interval"] in _SHOWN and row["coefficient"] == "cd":
        say(
            f"{row['models']}, errors times {row['errors_times']:g}, {row['samples']} samples,"
            f" {row['designs']}, {row['interval']}: covered {row['covered']:.3f}, decided"
            f" {row['decided']:.3f}, wrong {row['wrong']:.3f} of {row['cases']}"
        )
