"""Samples unlike the others, and targets without variation, as `ingest` and `check` report them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from slipstream.data.store import check_store, open_store
from slipstream.runs.folder import RunFolder

from ..conftest import Command
from ..data.mesh_folders import ball, pressure, save, shear, with_fields

CARD = """
schema: 1
name: balls
files: {mesh: "{id}.vtp"}
coords: {name: position, unit: m}
targets:
  - {name: p, unit: Pa, from: {file: mesh, array: p}}
  - {name: tau, unit: Pa, from: {file: mesh, array: tau, components: 3}}
splits: {random: {train: 0.8, val: 0.1, test: 0.1}, seed: 0}
"""


def write_runs(folder: Path, count: int = 12, *, shears: bool = True) -> None:
    for k in range(count):
        size = 1 + 0.02 * k
        x = np.asarray(ball(size).points)
        tau = shear(x) if shears else 0 * shear(x)
        save(with_fields(ball(size), p=pressure(x), tau=tau), folder / f"run_{k}.vtp")


def rewrite(file: Path, *, scale: float = 1, shift: float = 0, spike: float = 0) -> None:
    x = np.asarray(ball().points)
    p = pressure(x) + shift
    p[3] += spike
    save(with_fields(ball(scale), p=p, tau=shear(x)), file)


def test_outliers_are_warnings(command: Command, tmp_path: Path) -> None:
    raw, store, card = tmp_path / "raw", tmp_path / "store", tmp_path / "card.yaml"
    card.write_text(CARD)
    write_runs(raw)
    rewrite(raw / "run_1.vtp", scale=1000)
    rewrite(raw / "run_4.vtp", shift=101325)
    rewrite(raw / "run_7.vtp", spike=-2500)
    done = command("data", "ingest", "mesh", raw, store, "--card", card)
    assert done.code == 0 and "12 written" in done.out, done.err
    warnings = [line for line in done.out.splitlines() if line.startswith("warning: ")]
    assert sorted(line[9:45] for line in warnings) == [
        "run_1: position extends over 2000 m,",
        "run_4: p has the mean 1.013e+05 Pa, ",
        "run_7: p reaches -2520 Pa: its large",
    ], done.out
    by_sample = {line[9:14]: line for line in warnings}
    assert by_sample["run_1"].endswith(": in mm?")
    assert by_sample["run_4"].endswith(": absolute pressure?")
    checked = command("data", "check", store)
    assert checked.code == 0 and "is good, but look at the warnings: 12 samples" in checked.out
    assert [line for line in checked.out.splitlines() if line[:9] == "warning: "] == warnings
    assert command("data", "check", store, "--strict").code == 1
    rows = json.loads(command("data", "check", store, "--json").out)
    assert [row["severity"] for row in rows] == ["warning"] * 3 and check_store(store) == []
    rewrite(raw / "run_7.vtp")
    said = command("data", "ingest", "mesh", raw, store, "--card", card, "--json")
    assert len(json.loads(said.out)["warnings"]) == 2


def test_targets_that_are_zero(command: Command, tmp_path: Path) -> None:
    raw, store, card = tmp_path / "raw", tmp_path / "store", tmp_path / "card.yaml"
    card.write_text(CARD)
    write_runs(raw, 4, shears=False)
    done = command("data", "ingest", "mesh", raw, store, "--card", card)
    sentence = (
        "warning: target 'tau' is zero at every point of every sample of the split 'train': it can"
        " be neither learned nor measured, so loss and errors leave it out"
    )
    assert done.code == 0 and done.out.count("warning: ") == 1 and sentence in done.out
    checked = command("data", "check", store)
    assert checked.code == 0 and sentence in checked.out
    train = open_store(store).ids("train")
    rewrite(raw / f"{train[0]}.vtp")
    again = command("data", "ingest", "mesh", raw, store, "--card", card)
    assert sentence not in again.out
    some = "warning: target 'tau' is zero at every point of 3 of 4 samples, "
    assert some in again.out and "no relative error of it in physical units" in again.out


TINY = (
    "--set", "steps=4", "--set", "evaluate_every=2", "--set", "batch=2", "--set", "data.points=50",
    "--set", "model.size={layers: 1, width: 8, heads: 2, slices: 3}", "--device", "cpu",
)  # fmt: skip


def test_training_and_evaluation_say_what_they_leave_out(command: Command, tmp_path: Path) -> None:
    raw, store, run, card = (tmp_path / name for name in ("raw", "store", "run", "card.yaml"))
    lists = "splits: {lists: {train: [run_0, run_1], val: [run_2], test: [run_3, run_4]}}"
    card.write_text(CARD[: CARD.index("splits: ")] + lists)
    write_runs(raw, 5, shears=False)
    assert command("data", "ingest", "mesh", raw, store, "--card", card).code == 0
    trained = command("train", "own", "--store", store, "--out", run, *TINY)
    assert trained.code == 0, trained.err
    (warning,) = [line for line in trained.err.splitlines() if line.startswith("warning: ")]
    assert warning.startswith("warning: target 'tau' is zero at every point of every sample")
    assert "tau not measured" in trained.out
    (start,) = RunFolder(run).history("start")
    assert f"warning: {start['warnings'][0]}" == warning
    said = command("evaluate", run, "--device", "cpu")
    sentence = (
        "composite tau, L1 tau, L2 tau: not measured; the truth is zero (for composite, once"
        " normalised) at every point of 2 of 2 samples.\n"
    )
    assert said.code == 0 and sentence in said.out
    (row,) = json.loads(command("evaluate", run, "--json").out)["evaluations"]
    assert row["left_out"] == {"composite tau": 2, "L1 tau": 2, "L2 tau": 2}


def test_nothing_to_learn_is_refused(command: Command, tmp_path: Path) -> None:
    raw, store, card = tmp_path / "raw", tmp_path / "store", tmp_path / "card.yaml"
    card.write_text("\n".join(line for line in CARD.splitlines() if "name: p," not in line))
    write_runs(raw, 10, shears=False)
    assert command("data", "ingest", "mesh", raw, store, "--card", card).code == 0
    refused = command("train", "own", "--store", store, "--out", tmp_path / "run", *TINY)
    assert refused.code == 2 and refused.err == (
        f"slipstream: {store} must have a target that varies over its split 'train', got only"
        " constants: tau\n"
    )
    assert not (tmp_path / "run/config.json").exists()
