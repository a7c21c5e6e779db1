"""Cases in a folder: each is solved once, checked, and kept with all of the solver's files.

settings.json         what all cases depend on; surface.yaml, volume.yaml: cards for their stores
solved/<id>/          a case that converged: mesh, fields of the last iteration, logs, forces
solved/<id>/case.json its parameters, the solver's coefficients and how well it converged
failed/<id>/          the last attempt at one that did not, with the reason in reason.txt
work/                 cases that are being solved
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.core.files import process_number, read_json, write_text
from slipstream.core.locks import take_lock
from slipstream.physics.openfoam.case_config import CaseConfig
from slipstream.physics.openfoam.convergence import Outcome, not_converged, read_outcome
from slipstream.physics.openfoam.program import OpenFoam
from slipstream.physics.openfoam.solver_setup import extend

SCHEMA = 1
SOLVED, FAILED, WORK = "solved", "failed", "work"
FACTS = "case.json"
_LOCK = ".lock"
_LONGER = (1, 2, 4)
"""Times the usual number of iterations after which it is looked whether a flow has converged."""


@dataclass(frozen=True, kw_only=True)
class CaseFacts:
    """What is known of a case before it is solved."""

    parameters: Mapping[str, float]
    """Inputs of the flow: features of a store."""
    described: Mapping[str, Any]
    """Whatever else its case.json says."""
    reynolds: float
    patch: str
    """Of the body."""
    commands: tuple[tuple[str, ...], ...] = ()
    """Tools, with arguments, that make the mesh where it is not written."""


WriteCase = Callable[[Path, int], CaseFacts]
"""Writes all files of a sample's case into a folder."""


@dataclass(frozen=True)
class Cases:
    """A folder of cases. It is pickled and sent to workers."""

    folder: Path
    openfoam: OpenFoam

    def prepare(self, settings: Mapping[str, Any], cards: Mapping[str, str]) -> None:
        """Make the folder, or check that it is one of the same settings.

        ValueError, having written nothing, where it holds cases of others.
        """
        path = self.folder / "settings.json"
        wanted = json.loads(json.dumps({"schema": SCHEMA, **settings}))
        if path.exists():
            held = read_json(path)
            other = [name for name in {**wanted, **held} if wanted.get(name) != held.get(name)]
            if other:
                name = other[0]
                raise ValueError(
                    f"{self.folder} must hold cases made with these settings, got others ({name}"
                    f" {held.get(name)}, now {wanted.get(name)}): --cases names another folder"
                )
        elif self.folder.exists() and any(self.folder.iterdir()):
            raise ValueError(f"{self.folder} must be a new folder or one of cases, got other files")
        for name in (SOLVED, FAILED, WORK):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for name, text in cards.items():
            write_text(self.folder / name, text)
        write_text(path, json.dumps(wanted, indent=2) + "\n")

    def solved(self, sample: str, config: CaseConfig, write: WriteCase) -> Path:
        """The folder of a solved case, which is solved now where it is not there.

        ValueError says why a case cannot be made, fails or does not converge; its files are then
        in `failed`.
        """
        done = self.folder / SOLVED / sample
        if (done / FACTS).is_file():
            return done
        with _work_folder(self.folder / WORK / f"{sample}.{process_number()}") as work:
            try:
                self._solve(work, sample, config, write)
            except ValueError as error:
                (work / "reason.txt").write_text(f"{error}\n", encoding="utf-8")
                _move(work, self.folder / FAILED / sample)
                raise
            if not (done / FACTS).is_file():  # another process may have solved it meanwhile
                _move(work, done)
        shutil.rmtree(self.folder / FAILED / sample, ignore_errors=True)
        return done

    def _solve(self, case: Path, sample: str, config: CaseConfig, write: WriteCase) -> None:
        facts = write(case, int(sample))
        for tool, *arguments in facts.commands:
            self.openfoam.run(tool, case, *arguments, seconds=config.seconds)
        if facts.commands:
            _check_patch(case, facts.patch)
        outcome = self._converged(case, config)
        write_text(case / FACTS, json.dumps(_facts(sample, facts, outcome, case), indent=2) + "\n")

    def _converged(self, case: Path, config: CaseConfig) -> Outcome:
        """Solve further while it helps; ValueError says why a flow has not converged."""
        reason = None
        for times in _LONGER:
            extend(case, times * config.iterations)
            log = self.openfoam.run("simpleFoam", case, seconds=config.seconds)
            outcome = read_outcome(case, log, config.limits.window)
            reason = not_converged(outcome, config.limits)
            if reason is None:
                return outcome
        raise ValueError(reason)


def read_facts(case: Path) -> dict[str, Any]:
    return read_json(case / FACTS)


def remove_unfinished(folder: Path) -> None:
    """Remove cases that killed processes left; those of others that still run stay."""
    for lock in (folder / WORK).glob(f"*{_LOCK}"):
        with suppress(FileNotFoundError), lock.open("r+b") as held:
            if take_lock(held):
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink()


@contextmanager
def _work_folder(folder: Path) -> Iterator[Path]:
    """A new folder, locked while this process works in it, and gone afterwards."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = folder.with_name(folder.name + _LOCK)
    with lock.open("wb") as held:
        take_lock(held)
        try:
            folder.mkdir()
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            lock.unlink(missing_ok=True)


def _facts(sample: str, facts: CaseFacts, outcome: Outcome, case: Path) -> dict[str, Any]:
    return {
        "sample": sample,
        **facts.described,
        "reynolds": facts.reynolds,
        "parameters": dict(facts.parameters),
        "coefficients": outcome.coefficients,
        "ranges": outcome.ranges,
        "iterations": outcome.iterations,
        "residuals": outcome.residuals,
        "y_plus": _y_plus(case),
    }


def _check_patch(case: Path, patch: str) -> None:
    text = (case / "constant" / "polyMesh" / "boundary").read_text(encoding="ascii")
    faces = re.search(rf"\b{patch}\s*\{{[^}}]*\bnFaces\s+(\d+)", text)
    if faces is None or not int(faces[1]):
        raise ValueError(
            f"the mesh must have faces on the {patch}, got none: it may be thinner than the cells"
            " of the background, of which the setting `coarse` makes more"
        )


def _y_plus(case: Path) -> dict[str, float]:
    """Least, largest and mean, as the solver wrote them."""
    files = sorted(case.glob("postProcessing/yPlus/*/yPlus.dat"))
    rows = [line.split() for file in files for line in file.read_text().splitlines()]
    numbers = [row for row in rows if row and not row[0].startswith("#")]
    if not numbers:
        raise ValueError("the solver must write y+, got none")
    return dict(zip(("min", "max", "mean"), map(float, numbers[-1][-3:]), strict=True))


def _move(folder: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    to.parent.mkdir(parents=True, exist_ok=True)
    os.replace(folder, to)
