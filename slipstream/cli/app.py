"""The command line. Bad input ends with one sentence and exit code 2, never a traceback.

SIGINT (Ctrl-C) and SIGTERM end it with one sentence and exit code 130 or 143.

A command is imported when it is called, so that a command without kernels need not load Triton and
`slipstream --version` need not load torch.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from slipstream.cli.lazy import lazy_group
from slipstream.core.errors import TrainingStopped
from slipstream.core.signals import Interrupted, raising_interrupted
from slipstream.core.text import printable_lines
from slipstream.core.version import VERSION

COMMANDS = {
    "bench": "slipstream.cli.bench:app",
    "data": "slipstream.cli.data:app",
    "demo": "slipstream.cli.demo:demo",
    "plan": "slipstream.cli.plan:plan",
    "train": "slipstream.cli.train:train",
    "slim": "slipstream.cli.slim:slim",
    "study": "slipstream.cli.study:study",
    "audit": "slipstream.cli.audit:audit",
    "evaluate": "slipstream.cli.evaluate:evaluate",
    "calibrate": "slipstream.cli.calibrate:calibrate",
    "forecast": "slipstream.cli.forecast:forecast",
    "forces": "slipstream.cli.forces:forces",
    "report": "slipstream.cli.report:report",
    "predict": "slipstream.cli.predict:predict",
    "compare": "slipstream.cli.compare:compare",
    "export": "slipstream.cli.export:export",
    "model": "slipstream.cli.model:model",
    "import": "slipstream.cli.import_weights:import_command",
    "export-weights": "slipstream.cli.import_weights:export_command",
    "variants": "slipstream.cli.machine:variants",
    "doctor": "slipstream.cli.machine:doctor",
}
"""The module and name of each command: a function, or an app of several commands."""


app = typer.Typer(
    cls=lazy_group(COMMANDS),
    name="slipstream",
    help="Transolver neural operators: ablations, fused slice/deslice, prediction on meshes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    # MKL promises equal digits from run to run in this mode only. It reads the variable once.
    os.environ.setdefault("MKL_CBWR", "AUTO")
    try:
        with raising_interrupted():
            app(prog_name="slipstream")
    except OSError as error:
        where = f"cannot use {str(error.filename)!r}: " if error.filename else ""
        _end(f"{where}{error.strerror or error}", 2)
    except ValueError as error:
        _end(str(error), 2)
    except TrainingStopped as error:
        _end(str(error), 1)
    except Interrupted as error:
        _end(str(error), error.code)


def _end(sentence: str, code: int) -> NoReturn:
    # A name from a file may be quoted in it.
    print(f"slipstream: {printable_lines(sentence)}", file=sys.stderr)
    distributed = sys.modules.get("slipstream.training.distributed")
    if distributed is not None:  # else this process trains nothing
        distributed.leave_world(code)
    sys.exit(code)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(f"slipstream {VERSION}")
        raise typer.Exit
