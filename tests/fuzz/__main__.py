"""python -m tests.fuzz: see --help."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from .examine import FAILURES, Examiner, Outcome
from .folder_samples import folder_samples
from .mutate import FORMATS, format_of
from .outcomes import Tally
from .run_samples import artefact_samples
from .samples import Sample, mesh_samples

_FORK = multiprocessing.get_context("fork")
# Of the processes that examine, set in each of them when it begins.
_examiner: Examiner
_samples: list[Sample]
_seed: int


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="slipstream-fuzz-") as scratch:
        samples = make_samples(Path(scratch), options.formats)
        if options.only is not None:
            return _show(samples, options, Path(scratch))
        return _run(samples, options, Path(scratch))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    add = parser.add_argument
    add("--mutants", type=int, default=1000, help="how many")
    add("--seed", type=int, default=0)
    add("--jobs", type=int, default=2, help="mutants read at the same time")
    add("--out", type=Path, help="write the counts and groups of failures to this JSON file")
    add("--keep", type=Path, help="write the files of each failure into this folder")
    add("--only", type=int, help="examine this one mutant and say all about it")
    add("--formats", default=",".join(FORMATS), help="separated by commas")
    options = parser.parse_args()
    options.formats = options.formats.split(",")
    unknown = {*options.formats} - {*FORMATS}
    if unknown:
        parser.error(f"--formats must be among {', '.join(FORMATS)}, got {min(unknown)}")
    return options


def make_samples(folder: Path, formats: Sequence[str]) -> list[Sample]:
    """In a process of its own: threads of the training would not survive a fork."""
    with ProcessPoolExecutor(1, _FORK) as executor:
        makers = (mesh_samples, artefact_samples, folder_samples)
        made = [executor.submit(make, folder) for make in makers]
        samples = [sample for future in made for sample in future.result()]
    return [sample for sample in samples if sample.format in formats]


def _run(samples: list[Sample], options: argparse.Namespace, scratch: Path) -> int:
    started = time.monotonic()
    tally = Tally()
    wrong = 0
    for outcome in _outcomes(samples, options, scratch):
        if outcome.index < 0:
            wrong += _report_original(outcome)
            continue
        tally.add(outcome)
        if options.keep and outcome.kind in FAILURES:
            _keep(outcome, options.keep)
    seconds = time.monotonic() - started
    print(tally.table())
    for title, outcomes in (("failures", tally.failures), ("lenient", tally.lenient)):
        print(f"\n{title}: {len(outcomes)}")
        for group in tally.groups(outcomes):
            print("  {count:5d}  {format} {class}: {what}  (--only {mutants})".format(**group))
            print("         as {example}".format(**group))
    print(f"\n{seconds:.0f} s, at most {tally.peak / 2**20:.0f} MB more than before")
    if options.out:
        record = tally.record(seed=options.seed, seconds=seconds)
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if tally.failures or wrong else 0


def _outcomes(
    samples: list[Sample], options: argparse.Namespace, scratch: Path
) -> Iterator[Outcome]:
    """Of the undamaged samples, with index -1, and of all mutants, in no certain order."""
    numbers = [i for i in range(options.mutants) if format_of(i) in options.formats]
    arguments = samples, scratch, options.seed
    with ProcessPoolExecutor(options.jobs, _FORK, _begin, arguments) as executor:
        yield from executor.map(_examine_original, range(len(samples)))
        yield from executor.map(_examine, numbers, chunksize=4)


def _begin(samples: list[Sample], scratch: Path, seed: int) -> None:
    """In each process that examines."""
    global _examiner, _samples, _seed
    place = Path(tempfile.mkdtemp(dir=scratch)) / "examiner"
    _examiner, _samples, _seed = Examiner(samples, place), samples, seed


def _examine(index: int) -> Outcome:
    return _examiner.examine(_seed, index)


def _examine_original(number: int) -> Outcome:
    return _examiner.examine_original(_samples[number])


def _report_original(outcome: Outcome) -> bool:
    """Say so if an undamaged file is not read, or not as VTK reads it."""
    if outcome.kind != "same":
        print(f"undamaged {outcome.sample.name}: {outcome.kind} {outcome.detail}")
    return outcome.kind != "same"


def _show(samples: list[Sample], options: argparse.Namespace, scratch: Path) -> int:
    examiner = Examiner(samples, scratch / "examiner")
    outcome = examiner.examine(options.seed, options.only)
    examiner.close()
    print(f"mutant {outcome.index} of seed {options.seed}: {outcome.sample.name}")
    print(*(f"  {mutation}" for mutation in outcome.mutations), sep="\n")
    print(f"{outcome.kind}: {outcome.detail}")
    folder = _keep(outcome, options.keep or Path(tempfile.mkdtemp(prefix="fuzz-")))
    print(f"its files are in {folder}")
    return 1 if outcome.kind in FAILURES else 0


def _keep(outcome: Outcome, folder: Path) -> Path:
    name = f"{outcome.index:06d}-{outcome.sample.format}-{outcome.kind}"
    shutil.rmtree(folder / name, ignore_errors=True)
    outcome.sample.write(folder / name)
    about = "\n".join([*outcome.mutations, f"{outcome.kind}: {outcome.detail}"])
    (folder / name / "ABOUT.txt").write_text(about + "\n")
    return folder / name


if __name__ == "__main__":
    sys.exit(main())
