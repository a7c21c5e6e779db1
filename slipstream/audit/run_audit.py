"""The audit of one run: from its files alone, whether it is the ablation it claims to be.

Nothing of the training is called. What must hold is written down here and in weight_checks.py and
history_checks.py a second time, so that a mistake in the training cannot vouch for itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from slipstream.audit.artefacts import Artefacts, read_artefacts
from slipstream.audit.certificate import Finding, RunAudit, judge
from slipstream.audit.history_checks import (
    check_draws,
    check_finished,
    check_implementation,
    check_optimizer,
    check_records,
    check_schedule,
    spans_of,
)
from slipstream.audit.weight_checks import (
    check_changed,
    check_hashes,
    check_initial,
    check_memberships,
    check_parameters,
)
from slipstream.core.configs import differences
from slipstream.data.batches import make_normaliser
from slipstream.data.store import MANIFEST_NAME, Store, data_hash, open_store, split_hash
from slipstream.physics.builtin import builtin_config, builtin_source
from slipstream.runs.checkpoint import weights_hash
from slipstream.runs.config import FREE, RunConfig

_HASHES = {"data_hash": data_hash, "split_hash": split_hash}


def audit_run(path: Path, name: str | None = None) -> RunAudit:
    """Every check on the run of a folder. Whatever is wrong with its files is a finding.

    `name` is how the certificate calls the folder. Raises ValueError where the variant is a
    plug-in's that is not loaded.
    """
    run = read_artefacts(path)
    if run.config is not None:
        run.config.model.check_loaded(str(path))
    if run.config is not None and not run.begun:
        waiting = Finding("finished", False, "the run must have finished, got one not begun yet")
        return RunAudit(name or str(path), run.config, (waiting,))
    findings, left_out = [], []
    for check, (needs, function) in CHECKS.items():
        if all(getattr(run, need) is not None for need in needs):
            findings.append(function(run))
        else:
            left_out.append(check)
    findings.insert(0, _readable(run, left_out))
    hashes = run.last.state if run.last else {}
    numbers = sum(tensor.numel() for tensor in run.last.weights.values()) if run.last else 0
    return RunAudit(
        path=name or str(path),
        config=run.config,
        findings=tuple(findings),
        step=run.step,
        spans=spans_of(run),
        numbers=numbers,
        data_hash=hashes.get("data_hash"),
        split_hash=hashes.get("split_hash"),
        initial={
            n: (tuple(w.shape), weights_hash({n: w}))
            for n, w in (run.first.weights.items() if run.first else ())
        },
    )


def _readable(run: Artefacts, left_out: Sequence[str]) -> Finding:
    """Files that cannot be read, and what could not be checked for it."""
    wrong = list(run.problems)
    if left_out:
        wrong.append(f"so these could not be checked: {', '.join(left_out)}")
    seen = f"config, {len(run.rows or ())} records, {len(run.checkpoints)} checkpoints, model file"
    return judge("readable", wrong, seen)


def check_config(run: Artefacts) -> Finding:
    """Every file says the same config, but for what a resumed run may change."""
    assert run.config
    wrong = []
    for saved in run.saved:
        found = differences(run.config, saved.config, ignored=FREE)
        if found:
            wrong.append(
                f"{saved.name} must have the config of config.json, got other values (config.json,"
                f" it) of {'; '.join(found)}"
            )
    return judge("config", wrong, f"the same in config.json and {len(run.saved)} other files")


def check_data(run: Artefacts) -> Finding:
    """One data hash and one split hash in all files, and those of the store where it is there."""
    assert run.config
    wrong, notes = [], []
    store = _find_store(run, run.config)
    opened: Store | None = None
    if store is None:
        where = run.config.data.store or "the folder data of the run"
        notes.append(f"not compared with the store: {where} is not there")
    else:
        try:
            opened = open_store(store)
            wrong += [*_wrong_origin(opened, run, run.config), *_wrong_units(opened, run)]
        except (ValueError, OSError, LookupError, TypeError) as error:
            wrong.append(f"the store {store} must be whole: {error}")
    said = [(f"the start at step {row['step']}", row) for row in run.of_kind("start")]
    said += [(saved.name, dict(saved.state)) for saved in run.saved]
    for key, function in _HASHES.items():
        places: dict[str, list[str]] = {}
        for name, values in said:
            places.setdefault(values[key], []).append(name)
        if opened is not None:
            places.setdefault(function(opened), []).append(f"the store {store}")
        if len(places) > 1:
            got = (f"{value[:12]} ({', '.join(names)})" for value, names in places.items())
            wrong.append(f"{key} must be the same everywhere, got {' and '.join(got)}")
    where = f" and in the manifest of {store}" if opened else ""
    return judge("data", wrong, f"the same hashes in {len(said)} places{where}", notes)


def _find_store(run: Artefacts, config: RunConfig) -> Path | None:
    """The store a run was trained on, also where a study was moved together with its data."""
    stored = [config.data.store, *(saved.config.data.store for saved in run.saved)]
    given = [Path(place) for place in dict.fromkeys(stored) if place]
    shared = _shared_data(run, config)
    places = [run.folder.path / "data"] if config.data.store is None else []
    places += given
    if any(place.parts[-2:] == shared.parts[-2:] for place in given):
        places.append(shared)
    return next((place for place in places if (place / MANIFEST_NAME).is_file()), None)


def _shared_data(run: Artefacts, config: RunConfig) -> Path:
    """Of STUDY/runs/<experiment>/<variant>/seed-<seed>: STUDY/data/<experiment>."""
    folder = run.folder.path.resolve()
    study = folder.parents[min(3, len(folder.parents) - 1)]
    return study / "data" / config.experiment


def _wrong_origin(store: Store, run: Artefacts, config: RunConfig) -> list[str]:
    """Built-in data made for the run, or its study, must be those that its config describes."""
    data = config.data
    own = (run.folder.path.resolve() / "data", _shared_data(run, config))
    if data.builtin is None or data.problem is None or store.path.resolve() not in own:
        return []
    wanted = builtin_source(
        data.problem,
        samples=sum(data.builtin.samples.values()),
        points=data.builtin.points,
        seed=data.builtin.seed,
        config=builtin_config(data.problem, data.builtin.settings),
    )
    origin = store.manifest.origin
    here = {"source": origin.source, "samples": len(store.manifest.samples), **origin.options}
    there = {"source": wanted.name, "samples": len(wanted.ids()), **wanted.options}
    there = json.loads(json.dumps(there))
    names = [name for name in {**there, **here} if here.get(name) != there.get(name)]
    if not names:
        return []
    got = "; ".join(f"{name} {here.get(name)} instead of {there.get(name)}" for name in names)
    return [f"{store.path} must hold the data that the config describes, got {got}"]


def _wrong_units(store: Store, run: Artefacts) -> list[str]:
    """The model file takes and gives the fields of the store, normalised by its statistics."""
    if run.config is None or run.model is None or store.manifest.statistics is None:
        return []
    scale = run.config.data.coord_scale
    normaliser = make_normaliser(store.schema, store.statistics, coord_scale=scale)
    wanted = {"fields": store.schema.to_json(), "normaliser": normaliser.to_json()}
    names = [name for name in wanted if run.model.state.get(name) != wanted[name]]
    return [f"the model file must have the {name} of {store.path}, got others" for name in names]


Check = Callable[[Artefacts], Finding]
CHECKS: dict[str, tuple[tuple[str, ...], Check]] = {
    "config": (("config",), check_config),
    "structure": (("config", "rows", "first", "last", "model", "schema"), check_parameters),
    "memberships": (("config", "first", "last", "model"), check_memberships),
    "initial values": (("config", "first", "schema"), check_initial),
    "changed": (("config", "first", "last"), check_changed),
    "finished": (("config", "rows"), check_finished),
    "records": (("config", "rows", "last"), check_records),
    "optimiser": (("last",), check_optimizer),
    "draws": (("config", "last"), check_draws),
    "schedule": (("config", "rows"), check_schedule),
    "data": (("config", "rows"), check_data),
    "weights": (("rows", "model"), check_hashes),
    "implementation": (("config", "rows", "last"), check_implementation),
}
"""By name: what must have been read for it, and the check."""
