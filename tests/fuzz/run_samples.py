"""The artefacts of a small real run: manifest, config, checkpoint, model, records and others.

What would differ from one machine or moment to the next (times, speeds, the commit) is fixed, so
that mutant i is the same file whenever it is made.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ..data.cards.test_card import WHOLE
from .samples import Sample

CARD = WHOLE.lstrip()
_MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"
_FIXED: dict[str, Any] = {
    "time": "2026-01-01T00:00:00+00:00",
    "points_per_second": 1000.0,
    "commit": "0123abc",
}


def artefact_samples(folder: Path) -> list[Sample]:
    """`folder` is for the run."""
    card = {"card.yaml": CARD.encode(), "test.txt": b"b\nc"}
    return [Sample("card", "card", card, "card.yaml"), *_run_samples(folder / "run")]


def _run_samples(path: Path) -> list[Sample]:
    import torch

    from slipstream.audit.certificate import write_certificate
    from slipstream.audit.study_audit import certify
    from slipstream.evaluation.run_evaluation import EvaluationRequest, evaluate_runs
    from slipstream.runs.evaluation_file import Protocol
    from slipstream.runs.folder import RunFolder
    from slipstream.runs.study_file import add_planned, planned

    from ..training.small import trainer

    torch.set_num_threads(1)
    trainer(path).run()
    run = RunFolder(path / "run")
    request = EvaluationRequest(protocol=Protocol(split="val"), device="cpu", store=path / "data")
    evaluate_runs([run], request)
    write_certificate(certify(run.path), run.path)
    add_planned(path, [planned(run.read_config(), path, run.path)])
    files = {
        "manifest": path / "data" / "manifest.json",
        "config": run.config_file,
        "certificate": run.path / "certificate.json",
        "study": path / "study.json",
        "records": run.records_file,
        "evaluations": run.path / "evaluations.jsonl",
        "model": run.model_file,
        "checkpoint": run.checkpoint_file(12),
        "prediction": next((run.path / "predictions").glob("*.safetensors")),
    }
    return [
        *(_artefact(format, file, path) for format, file in files.items()),
        _whole_folder("run", run.path, path),
        _whole_folder("store", path / "data", path),
    ]


def _whole_folder(format: str, folder: Path, path: Path) -> Sample:
    files = {
        file.relative_to(folder).as_posix(): _content(file, path)
        for file in sorted(folder.rglob("*"))
        if file.suffix in (".json", ".jsonl", ".safetensors", ".npy")
    }
    return Sample(format, format, files, ".")


def _artefact(format: str, file: Path, path: Path) -> Sample:
    given = "." if format in ("config", "certificate", "evaluations", "study") else file.name
    return Sample(format, format, {file.name: _content(file, path)}, given)


def _content(file: Path, path: Path) -> bytes:
    content = file.read_bytes()
    if file.suffix == ".jsonl":
        rows = [_fixed(json.loads(line), path) for line in content.splitlines()]
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if file.name == "certificate.json":
        return (json.dumps(_fixed(json.loads(content), path), indent=1) + "\n").encode()
    return content


def _fixed(value: Any, path: Path) -> Any:
    """The same JSON with constants in the place of times, speeds and this machine's paths."""
    if isinstance(value, dict):
        return {key: _FIXED.get(key, _fixed(item, path)) for key, item in value.items()}
    if isinstance(value, list):
        return [_fixed(item, path) for item in value]
    if isinstance(value, str):
        return re.sub(_MOMENT, _FIXED["time"], value.replace(str(path), "study"))
    return value
