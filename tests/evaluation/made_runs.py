"""Small real runs for the audit, and ways to tamper with them that leave no file unreadable."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from slipstream.audit.certificate import RunAudit
from slipstream.audit.run_audit import audit_run
from slipstream.core.configs import overlay
from slipstream.experiments import experiment
from slipstream.runs.checkpoint import read_tensors, weights_hash, write_tensors
from slipstream.runs.config import RunConfig
from slipstream.training.data import open_data
from slipstream.training.session import train

Tensors = dict[str, Tensor]
SMALL = {
    "steps": 12,
    "batch": 2,
    "evaluate_every": 4,
    "log_every": 2,
    "optim.learning_rate": 0.03,  # in so few steps less would not move some temperatures by a bit
    "data.builtin.samples": {"train": 6, "val": 2},
    "data.builtin.points": 32,
    "model.size": {"layers": 2, "width": 8, "heads": 2, "slices": 3},
}


def small(changes: Mapping[str, Any] | None = None) -> RunConfig:
    return overlay(overlay(experiment("poisson"), SMALL), changes or {})


def make_run(path: Path, changes: Mapping[str, Any] | None = None, **how: Any) -> Path:
    train(small(changes), path, device="cpu", **how)
    return path


def make_store(path: Path) -> str:
    return str(open_data(small().data, path).path.resolve())


def make_study(path: Path, variants: tuple[str, ...], seeds: tuple[int, ...] = (0,)) -> Path:
    """As `slipstream study` lays it out."""
    store = make_store(path / "data" / "poisson")
    cells = []
    for variant in variants:
        for seed in seeds:
            place = f"runs/poisson/{variant}/seed-{seed}"
            changes = {"data.store": store, "model.variant": variant, "seed": seed}
            make_run(path / place, changes)
            names = {"experiment": "poisson", "variant": variant, "seed": seed}
            cells.append({**names, "path": place})
    (path / "study.json").write_text(json.dumps({"schema": 1, "cells": cells}))
    return path


class Killed(Exception):
    """In the place of SIGKILL: nothing is saved."""


def killed_at(step: int) -> Callable[[str, Mapping[str, Any]], None]:
    def listen(kind: str, row: Mapping[str, Any]) -> None:
        if kind == "train" and row["step"] == step:
            raise Killed

    return listen


def stopped_at(step: int) -> Callable[[str, Mapping[str, Any]], None]:
    """By a signal that comes during the validation of that step."""

    def listen(kind: str, row: Mapping[str, Any]) -> None:
        if kind == "validation" and row["step"] == step:
            os.kill(os.getpid(), signal.SIGTERM)

    return listen


def checkpoint(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"step-{step:08d}.safetensors"


def files_of(run: Path) -> list[Path]:
    return [*sorted((run / "checkpoints").iterdir()), run / "model.safetensors"]


def edit_file(path: Path, change: Callable[[dict[str, Any], Tensors], None]) -> None:
    """Change header and tensors of a checkpoint or model file, and the hash of its content."""
    what = "model" if path.name == "model.safetensors" else "checkpoint"
    header, tensors = read_tensors(path, what)
    change(header, tensors)
    content = write_tensors(path, what, header, tensors)
    if what == "checkpoint":
        edit_rows(path.parents[1], "checkpoint", header["step"], {"content": content})


def edit_records(run: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change the list of rows in place, or give another one."""
    file = run / "records.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    changed = change(rows)
    rows = rows if changed is None else changed
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def edit_rows(run: Path, kind: str, step: int, fields: Mapping[str, Any]) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        here = [row for row in rows if row["kind"] == kind and row["step"] == step]
        assert here
        for row in here:
            row.update(fields)

    edit_records(run, change)


def drop_rows(run: Path, kind: str, step: int) -> None:
    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = [row for row in rows if (row["kind"], row["step"]) != (kind, step)]
        assert len(kept) < len(rows)
        return kept

    edit_records(run, change)


def edit_config(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """In config.json and in every other file, so that all agree."""
    file = run / "config.json"
    value = json.loads(file.read_text())
    change(value["config"])
    file.write_text(json.dumps(value))
    for path in files_of(run):
        edit_file(path, lambda header, tensors: change(header["config"]))


def edit_weights(run: Path, step: int, change: Callable[[Tensors], None]) -> None:
    """In a checkpoint, in the model file of that step, and in the hashes of their records."""
    path, model = checkpoint(run, step), run / "model.safetensors"
    edit_file(path, lambda header, tensors: change(tensors))
    _, tensors = read_tensors(path, "checkpoint")
    weights = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
    header, _ = read_tensors(model, "model")
    if header["metric"]["step"] == step:
        write_tensors(model, "model", header, weights)

    def rehash(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            if row["step"] == step and "weights" in row:
                row["weights"] = weights_hash(weights)

    edit_records(run, rehash)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def failures(found: RunAudit) -> dict[str, str]:
    return {finding.check: finding.sentence for finding in found.findings if not finding.holds}


def sentence(found: RunAudit, check: str) -> str:
    return next(finding.sentence for finding in found.findings if finding.check == check)


def notes(found: RunAudit) -> str:
    return " ".join(note for finding in found.findings for note in finding.notes)


def fails(run: Path, *checks: str, saying: str) -> None:
    """These checks and no others, the first with these words."""
    found = failures(audit_run(run))
    assert set(found) == set(checks), found
    assert saying in found[checks[0]]
