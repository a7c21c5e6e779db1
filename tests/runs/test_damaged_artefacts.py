"""Every leaf of every artefact's JSON, removed or replaced: read, or refused in one sentence."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from slipstream.audit.certificate import NAME, read_certificate, write_certificate
from slipstream.audit.study_audit import certify
from slipstream.data.store import open_store
from slipstream.evaluation.run_evaluation import EvaluationRequest, evaluate_runs
from slipstream.runs.checkpoint import read_checkpoint, read_tensors, write_tensors
from slipstream.runs.evaluation_file import Protocol, prediction_file, read_evaluations
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import load_model
from slipstream.runs.prediction_file import read_prediction
from tests.evaluation.made_runs import make_run

Read = Callable[[], object]

DEEP: Any = json.loads("[" * 200 + "]" * 200)
OTHERS: tuple[Any, ...] = (None, "x", [], {}, -1, 2**63, 10**400, 1e300, True, [[1.5]], DEEP)


def mutants(value: Any, turn: Iterator[Any]) -> Iterator[str]:
    """Change one place after the other, in place; what is yielded names it.

    The values take turns, and of a list only the first entry is changed: all values at all places
    were read once, 9,000 mutants in two minutes.
    """
    entries = value.items() if isinstance(value, dict) else enumerate(value[:1])
    for key, part in list(entries):
        if isinstance(value, dict):
            del value[key]
            yield f"without {key}"
        for other in islice(turn, 2):
            value[key] = other
            yield f"{key}: {str(other)[:20]}"
        value[key] = part
        if isinstance(part, (dict, list)) and part:
            for name in mutants(part, turn):
                yield f"{key}.{name}"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    path = make_run(tmp_path_factory.mktemp("damaged") / "run")
    folder = RunFolder(path)
    evaluate_runs([folder], EvaluationRequest(device="cpu", protocol=Protocol(split="val")))
    write_certificate(certify(path), path)
    return folder


def refusals(value: Any, write: Callable[[Any], None], read: Read) -> int:
    """How many mutants of the value are refused; fails where an error is no single sentence."""
    refused = 0
    for name in mutants(value, cycle(OTHERS)):
        write(value)
        try:
            read()
        except ValueError as error:
            text = str(error)
            assert "\n" not in text and len(text) < 600, (name, text)
            refused += 1
        except Exception as error:
            pytest.fail(f"{name}: {error!r}")
    return refused


def _json_file(path: Path) -> Callable[[Any], None]:
    return lambda value: path.write_text(json.dumps(value)) and None


@pytest.mark.parametrize("what", ["config", "certificate", "manifest"])
def test_json_files(run: RunFolder, what: str) -> None:
    store = next(run.path.rglob("manifest.json")).parent
    path, read = {
        "config": (run.config_file, run.read_config),
        "certificate": (run.path / NAME, lambda: read_certificate(run.path)),
        "manifest": (store / "manifest.json", lambda: open_store(store)),
    }[what]
    before = path.read_text()
    try:
        assert refusals(json.loads(before), _json_file(path), read) > 20
    finally:
        path.write_text(before)
    read()


@pytest.mark.parametrize("what", ["records", "evaluations"])
def test_lines_of_records(run: RunFolder, what: str) -> None:
    path = run.path / f"{what}.jsonl"
    read: Read = run.history if what == "records" else lambda: read_evaluations(run)
    before = path.read_text()
    lines = {json.loads(line)["kind"]: json.loads(line) for line in before.splitlines()}
    refused = 0
    try:
        for row in lines.values():
            refused += refusals(row, lambda v: path.write_text(json.dumps(v) + "\n") and None, read)
    finally:
        path.write_text(before)
    assert refused > 20


@pytest.mark.parametrize("what", ["checkpoint", "model", "prediction"])
def test_headers_of_tensor_files(run: RunFolder, what: str, tmp_path: Path) -> None:
    sample = read_evaluations(run)[0].pictures[0]
    source, read = {
        "checkpoint": (run.checkpoint_file(12), read_checkpoint),
        "model": (run.model_file, load_model),
        "prediction": (prediction_file(run, sample, full=True), read_prediction),
    }[what]
    header, tensors = read_tensors(source, what)
    path = tmp_path / "file.safetensors"

    def write(value: Any) -> None:
        write_tensors(path, what, copy.deepcopy(value), tensors)

    assert refusals(header, write, lambda: read(path)) > 20
