"""The result of an audit, as values, JSON and text.

Schema 1 of certificate.json: schema, what ("certificate"), path, date, versions, holds, verdict;
runs, each with its checks (check, holds, sentence, notes) and its implementation (first and last
step, kernels, precision, device, threads, processes, commit, versions); across, the checks of
several runs together, by experiment.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from slipstream.core.files import naming_file, read_json, remove_partials, write_text
from slipstream.core.schemas import Count, Positive, parsed
from slipstream.runs.config import RunConfig

NAME = "certificate.json"
SCHEMA = 1
_NAMED = 6
"""How many names a sentence lists; it counts the others."""


@dataclass(frozen=True)
class Finding:
    """One check: whether it holds and what was seen."""

    check: str
    holds: bool
    sentence: str
    notes: tuple[str, ...] = ()
    """Facts worth knowing that do not make the check fail."""


def finding_from(check: str, wrong: Sequence[str], seen: str, notes: Iterable[str] = ()) -> Finding:
    """A check holds if nothing is wrong, with the sentence `seen`; else it says what is wrong."""
    return Finding(check, not wrong, "; ".join(wrong) or seen, tuple(notes))


def listed(names: Collection[object]) -> str:
    """The first names, and how many more there are: "a, b, c, d, e, f and 3 more"."""
    shown = [str(name) for name in names][:_NAMED]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


@dataclass(frozen=True)
class StepSpan:
    """Steps, first to last, that ran with the same kernels, precision, device and versions."""

    first: int
    last: int
    kernels: str | None
    """None where the run was interrupted before it recorded which."""
    precision: str
    device: str
    threads: int
    processes: int
    commit: str | None
    versions: Mapping[str, str]

    def __str__(self) -> str:
        packages = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return (
            f"steps {self.first} to {self.last}: {self.kernels or 'kernels not recorded'};"
            f" {self.precision}; {self.device}; {self.processes} processes; {packages};"
            f" commit {self.commit or 'unknown'}"
        )


@dataclass(frozen=True)
class RunAudit:
    """The checks of one run, and what is needed to compare it with other runs."""

    path: str
    config: RunConfig | None
    """None where it cannot be read."""
    findings: tuple[Finding, ...]
    step: int = 0
    """The step of the newest checkpoint."""
    spans: tuple[StepSpan, ...] = ()
    numbers: int = 0
    """How many numbers all parameters together have."""
    data_hash: str | None = None
    split_hash: str | None = None
    initial: Mapping[str, tuple[tuple[int, ...], str]] = field(default_factory=dict)
    """Shape and hash of every parameter of the first checkpoint."""

    @property
    def holds(self) -> bool:
        return all(finding.holds for finding in self.findings)

    @property
    def name(self) -> str:
        return self.path if self.config is None else self.config.name

    @property
    def kernels(self) -> list[str]:
        """The implementations that ran, in the order of the steps."""
        return list(dict.fromkeys(span.kernels or "not recorded" for span in self.spans))

    def to_json(self) -> dict[str, Any]:
        config = self.config
        return {
            "path": self.path,
            "experiment": config and config.experiment,
            "variant": config and config.model.variant,
            "seed": config and config.seed,
            "holds": self.holds,
            "step": self.step,
            "numbers": self.numbers,
            "data_hash": self.data_hash,
            "split_hash": self.split_hash,
            "checks": [asdict(finding) for finding in self.findings],
            "implementation": [asdict(span) for span in self.spans],
        }


@dataclass(frozen=True)
class Certificate:
    path: str
    date: str
    versions: Mapping[str, str]
    """Versions of the packages that audited, not of those that trained."""
    runs: tuple[RunAudit, ...]
    across: Mapping[str, tuple[Finding, ...]]
    """By experiment; empty for a single run."""

    @property
    def findings(self) -> list[Finding]:
        parts = [run.findings for run in self.runs] + list(self.across.values())
        return [finding for part in parts for finding in part]

    @property
    def holds(self) -> bool:
        return all(finding.holds for finding in self.findings)

    @property
    def verdict(self) -> str:
        failed, total = sum(not f.holds for f in self.findings), len(self.findings)
        runs = f"{len(self.runs)} run" + ("s" if len(self.runs) != 1 else "")
        if not failed:
            return f"{self.path}: all {total} checks of {runs} hold"
        return f"{self.path}: {failed} of {total} checks of {runs} do not hold"

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "what": "certificate",
            "path": self.path,
            "date": self.date,
            "versions": dict(self.versions),
            "holds": self.holds,
            "verdict": self.verdict,
            "runs": [run.to_json() for run in self.runs],
            "across": {name: [asdict(f) for f in part] for name, part in self.across.items()},
        }

    def text(self) -> str:
        """The whole certificate as text."""
        packages = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        lines = [f"Certificate of {self.path}, {self.date}, by {packages}", ""]
        for run in self.runs:
            lines += [f"{run.name}: {run.path}", *_lines(run.findings)]
            lines += [f"  ran    {span}" for span in run.spans] + [""]
        for name, findings in self.across.items():
            lines += [f"{name}, all runs", *_lines(findings), ""]
        return "\n".join([*lines, f"Verdict: {self.verdict}."]) + "\n"

    def summary(self) -> str:
        """A line for each run, the checks that do not hold, and the verdict."""
        lines = []
        for run in self.runs:
            lines.append(_summary_line(run) if run.holds else f"FAILS  {run.name}: {run.path}")
            lines += _lines(f for f in run.findings if not f.holds)
        for name, findings in self.across.items():
            failed = [finding for finding in findings if not finding.holds]
            lines += [f"FAILS  {name}, all runs"] * bool(failed) + _lines(failed)
        return "\n".join([*lines, f"{self.verdict}."])


def write_certificate(certificate: Certificate, folder: Path) -> Path:
    """Write certificate.json and certificate.txt, and return the path of the latter."""
    text = folder / "certificate.txt"
    content = json.dumps(certificate.to_json(), indent=1, allow_nan=False, ensure_ascii=False)
    remove_partials(folder, NAME, text.name)
    write_text(folder / NAME, content + "\n")
    write_text(text, certificate.text())
    return text


@dataclass(frozen=True)
class WrittenCertificate:
    """A certificate as read from its file."""

    holds: bool
    verdict: str
    runs: Mapping[str, tuple[Finding, ...]]
    """The checks of each run, by its path relative to the folder of the certificate."""


@dataclass(frozen=True)
class _WrittenRun:
    """What `RunAudit.to_json` returns."""

    path: str
    experiment: str | None
    variant: str | None
    seed: int | None
    holds: bool
    step: Count
    numbers: Count
    data_hash: str | None
    split_hash: str | None
    checks: tuple[Finding, ...]
    implementation: tuple[StepSpan, ...]


@dataclass(frozen=True)
class _Written:
    """What `Certificate.to_json` returns."""

    schema: Positive
    what: Literal["certificate"]
    path: str
    date: str
    versions: dict[str, str]
    holds: bool
    verdict: str
    runs: tuple[_WrittenRun, ...]
    across: dict[str, tuple[Finding, ...]]


def has_certificate(folder: Path) -> bool:
    return (folder / NAME).is_file()


def read_certificate(folder: Path) -> WrittenCertificate | None:
    """The certificate in a folder; None where there is none, ValueError where it cannot be read."""
    file = folder / NAME
    if not has_certificate(folder):
        return None
    with naming_file(file):
        written = parsed(_Written, read_json(file))
    path, checks = written.path, {run.path: run.checks for run in written.runs}
    # The certificate of a single run names it by the path given to the audit; here it is ".".
    single = list(checks) == [path]
    runs = {".": checks[path]} if single else checks
    return WrittenCertificate(written.holds, written.verdict, runs)


def _lines(findings: Iterable[Finding]) -> list[str]:
    lines = []
    for finding in findings:
        lines.append(
            f"  {'holds' if finding.holds else 'FAILS'}  {finding.check}: {finding.sentence}"
        )
        lines += [f"  note   {finding.check}: {note}" for note in finding.notes]
    return lines


def _summary_line(run: RunAudit) -> str:
    return (
        f"holds  {run.name}: {len(run.findings)} checks, {run.step} steps, {run.numbers:,}"
        f" parameters, {' then '.join(run.kernels)}"
    )
