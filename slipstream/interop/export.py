"""`slipstream export`: one file of a trained model for programs that know nothing of it.

The content is made in memory, run beside the model (export_check.py), and only then written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.core.checks import check_choice
from slipstream.core.extras import need
from slipstream.core.files import write_bytes
from slipstream.interop.export_check import Agreement, Run, check_agreement, onnx_run, torch_run
from slipstream.interop.export_facts import export_facts
from slipstream.interop.export_graph import onnx_bytes, torch_bytes
from slipstream.interop.out_file import check_out
from slipstream.runs.model_file import TrainedModel


@dataclass(frozen=True)
class Format:
    suffix: str
    content: Callable[[TrainedModel, Mapping[str, Any]], bytes]
    run: Callable[[bytes], Run]
    needs: tuple[str, ...] = ()
    """Packages of the extra `export`."""


FORMATS = {
    "torch": Format(".pt2", torch_bytes, torch_run),
    "onnx": Format(".onnx", onnx_bytes, onnx_run, ("onnx", "onnxscript", "onnxruntime")),
}


@dataclass(frozen=True)
class Exported:
    """What was written, and how far it is from the model."""

    file: Path
    size: int
    """Bytes."""
    facts: dict[str, Any]
    """What the file says of itself (export_facts.py)."""
    agreement: list[Agreement]


def export_model(
    trained: TrainedModel, out: Path | str, *, form: str, overwrite: bool = False
) -> Exported:
    """Write the model to `out` in the format `torch` or `onnx`.

    Raises ValueError, and writes nothing, where the format is unknown or not installed, `out` is
    not a new file with its suffix, the variant cannot be exported, or the result differs from the
    model by more than the tolerance.
    """
    out = Path(out)
    check_target(out, form, overwrite=overwrite)
    chosen = FORMATS[form]
    facts = export_facts(trained, form)
    content = chosen.content(trained, facts)
    agreement = check_agreement(trained, chosen.run(content))
    write_bytes(out, content)
    return Exported(out, len(content), facts, agreement)


def check_target(out: Path, form: str, *, overwrite: bool = False) -> None:
    """Raise ValueError unless a file of this format can be made and may be written there."""
    check_choice("--format", form, list(FORMATS))
    chosen = FORMATS[form]
    if out.suffix != chosen.suffix:
        raise ValueError(f"--out must end with {chosen.suffix} for {form}, got {str(out)!r}")
    check_out(out, overwrite=overwrite)
    for package in chosen.needs:
        need(package, "export")
