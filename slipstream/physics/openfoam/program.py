"""OpenFOAM as a program: where it is, which version, and running its tools."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from slipstream.core.runtime import child_environment, environment

SEEN = ("1912",)
"""Versions that the generators were seen to work with."""
HOW_TO_GET = "on Debian and Ubuntu `apt-get install --no-install-recommends openfoam` installs it"
_LEAST_DISK = 1 << 22
"""Bytes below which a tool is taken to have failed for want of room."""
_SETTINGS = "controlDict"
"""The file in OpenFOAM's folder `etc` without which no tool starts."""


class SolverFailed(ValueError):
    """A tool of OpenFOAM ended with an error, or took too long; the message says which."""


@dataclass(frozen=True)
class OpenFoam:
    """An installation; all tools lie in one folder."""

    tools: str
    """The folder of the programs."""
    project: str
    """The folder with `etc`, WM_PROJECT_DIR."""
    version: str

    def run(self, tool: str, case: Path, *arguments: str, seconds: float) -> Path:
        """Run a tool in a case; its output is CASE/log.TOOL, which is returned.

        SolverFailed where it is not there, ends with an error, or takes longer than `seconds`.
        """
        program = Path(self.tools) / tool
        log = case / f"log.{tool}"
        command = [*_ending_with_us(), str(program), *arguments]
        with log.open("wb") as output:
            try:
                done = subprocess.run(
                    command,
                    cwd=case,
                    env=child_environment(WM_PROJECT_DIR=self.project, PWD=str(case.absolute())),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=seconds,
                )
            except subprocess.TimeoutExpired:
                raise SolverFailed(f"{tool} must end within {seconds:g} s, got no end") from None
            except FileNotFoundError:
                raise SolverFailed(f"{tool} must be in {self.tools}, got none") from None
        if done.returncode:
            if shutil.disk_usage(case).free < _LEAST_DISK:  # no fault of this case
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(case))
            raise SolverFailed(f"{tool} must end well, got {_reason(log, done.returncode)}")
        return log


def find_openfoam(
    folder: Path | None = None, *, tools: tuple[str, ...] = ("simpleFoam",)
) -> OpenFoam:
    """The installation in a folder (or its `bin`), or on PATH where that is None.

    ValueError, in one sentence, where there is none that starts, or one that lacks a tool.
    """
    first = tools[0]
    if folder is None:
        where, path = "on PATH", shutil.which(first)
    else:
        where = f"in {folder}"
        path = shutil.which(first, path=f"{folder}:{folder / 'bin'}")
    if path is None:
        raise ValueError(f"OpenFOAM's {first} must be {where}, got none: {HOW_TO_GET}")
    home = Path(path).absolute().parent
    missing = [tool for tool in tools if not (home / tool).exists()]
    if missing:
        raise ValueError(f"OpenFOAM in {home} must have {', '.join(tools)}, got no {missing[0]}")
    project = _project(home)
    return OpenFoam(str(home), project, _version(str(home / first), project))


def version_warning(openfoam: OpenFoam) -> list[str]:
    """A sentence where the version is none that was seen to work."""
    if openfoam.version in SEEN:
        return []
    return [
        f"OpenFOAM {openfoam.version} was never tried; versions seen to work: {', '.join(SEEN)}"
    ]


def _project(home: Path) -> str:
    """The folder with `etc`: of the environment, or beside the programs as packages have it."""
    given = environment("WM_PROJECT_DIR")
    resolved = home.resolve()
    places = [Path(given)] if given else []
    places += [
        resolved.parent / "share" / "openfoam",
        *resolved.parents,
        Path("/usr/share/openfoam"),
    ]
    for place in places:
        if (place / "etc" / _SETTINGS).is_file():
            return str(place)
    raise ValueError(
        f"OpenFOAM in {home} must have a folder etc with {_SETTINGS}, got none: set WM_PROJECT_DIR,"
        " as OpenFOAM's own etc/bashrc does"
    )


@cache
def _version(program: str, project: str) -> str:
    """By the help of a tool, which names the build; ValueError where it does not start."""
    try:
        done = subprocess.run(
            [program, "-help"],
            env=child_environment(WM_PROJECT_DIR=project),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(f"{program} must start, got {error}") from None
    said = done.stdout + done.stderr
    if done.returncode:
        raise ValueError(f"{program} must start, got exit code {done.returncode}: {_last(said)}")
    found = re.search(r"OpenFOAM-v?(\d+)|OpenFOAM-\S* \((\d+)\)", said)
    return next(filter(None, found.groups()), "unknown") if found else "unknown"


@cache
def _ending_with_us() -> tuple[str, ...]:
    """A prefix by which the system ends a program when the process that started it is gone.

    Where there is no setpriv, as outside Linux, a solver whose parent is killed runs to its end;
    what it writes is removed by the next call.
    """
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL") if setpriv else ()


def _reason(log: Path, code: int) -> str:
    """OpenFOAM's own sentence, or how the program ended."""
    text = log.read_text(encoding="utf-8", errors="replace")
    if "sigFpe" in text or code == -8:
        return "a floating point exception: the flow diverged"
    fatal = re.search(r"FOAM FATAL (?:IO )?ERROR\s*:?\s*\n(.+?)\n\s*\n", text, re.S)
    said = " ".join((fatal[1] if fatal else _last(text)).split())[:300]
    ended = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"{ended}: {said}" if said else ended


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
