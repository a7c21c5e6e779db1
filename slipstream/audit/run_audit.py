"""The audit of one run: whether it is the ablation it claims to be, from its files only.

No function of the training is called. What must hold is written again here, in weight_checks.py and
in history_checks.py, so that a mistake in the training does not also hide itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from slipstream.audit.artefacts import Artefacts, read_artefacts
from slipstream.audit.certificate import Finding, RunAudit, finding_from
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
from slipstream.data.store import (
    MANIFEST_NAME,
    Store,
    data_hash,
    open_store,
    split_hash,
    with_training_samples,
)
from slipstream.runs.builtin_data import source_of
from slipstream.runs.checkpoint import weights_hash
from slipstream.runs.config import FREE, RunConfig

_HASHES = {"data_hash": data_hash, "split_hash": split_hash}


def audit_run(path: Path, name: str | None = None) -> RunAudit:
    """Every check on the run of a folder. An unreadable file is a failed check, not an error.

    `name` is the name of the folder in the certificate. Raises ValueError where the variant is a
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
    """The files can be read; else the sentence names them and the checks that were left out."""
    wrong = list(run.problems)
    if left_out:
        wrong.append(f"so these could not be checked: {', '.join(left_out)}")
    seen = f"config, {len(run.rows or ())} records, {len(run.checkpoints)} checkpoints, model file"
    return finding_from("readable", wrong, seen)


def check_config(run: Artefacts) -> Finding:
    """Every file has the same config, except for the fields that a resumed run may change."""
    assert run.config
    wrong = []
    for saved in run.saved:
        differing = differences(run.config, saved.config, ignored=FREE)
        if differing:
            wrong.append(
                f"{saved.name} must have the config of config.json, got other values (config.json,"
                f" it) of {'; '.join(differing)}"
            )
    return finding_from(
        "config", wrong, f"the same in config.json and {len(run.saved)} other files"
    )


def check_data(run: Artefacts) -> Finding:
    """All files have the same data and split hashes, those of the store if it is there."""
    assert run.config
    wrong, notes = [], []
    store = _find_store(run, run.config)
    opened: Store | None = None
    if store is None:
        where = run.config.data.store or "the folder data of the run"
        notes.append(f"not compared with the store: {where} is not there")
    else:
        try:
            opened = with_training_samples(open_store(store), run.config.data.train)
            wrong += [*_wrong_origin(opened, run, run.config), *_wrong_units(opened, run)]
        except (ValueError, OSError, LookupError, TypeError) as error:
            wrong.append(f"the store {store} must be whole: {error}")
    recorded = [(f"the start at step {row['step']}", row) for row in run.of_kind("start")]
    recorded += [(saved.name, dict(saved.state)) for saved in run.saved]
    for key, function in _HASHES.items():
        places: dict[str, list[str]] = {}
        for name, values in recorded:
            places.setdefault(values[key], []).append(name)
        if opened is not None:
            places.setdefault(function(opened), []).append(f"the store {store}")
        if len(places) > 1:
            got = (f"{value[:12]} ({', '.join(names)})" for value, names in places.items())
            wrong.append(f"{key} must be the same everywhere, got {' and '.join(got)}")
    where = f" and in the manifest of {store}" if opened else ""
    return finding_from("data", wrong, f"the same hashes in {len(recorded)} places{where}", notes)


def _find_store(run: Artefacts, config: RunConfig) -> Path | None:
    """The store a run was trained on, also where a study was moved together with its data."""
    stores = [config.data.store, *(saved.config.data.store for saved in run.saved)]
    recorded = [Path(store) for store in dict.fromkeys(stores) if store]
    shared = _shared_data(run, config)
    candidates = [run.folder.path / "data"] if config.data.store is None else []
    candidates += recorded
    # OLD/data/poisson is recorded and STUDY/data/poisson is here: the study was moved.
    if any(path.parts[-2:] == shared.parts[-2:] for path in recorded):
        candidates.append(shared)
    return next((path for path in candidates if (path / MANIFEST_NAME).is_file()), None)


def _shared_data(run: Artefacts, config: RunConfig) -> Path:
    """STUDY/data/<experiment> for the run STUDY/runs/<experiment>/<variant>/.../seed-<seed>."""
    folder = run.folder.path.resolve()
    study = next((above.parent for above in folder.parents if above.name == "runs"), folder)
    return study / "data" / config.experiment


def _wrong_origin(store: Store, run: Artefacts, config: RunConfig) -> list[str]:
    """What is wrong with built-in data that are not those that the config describes."""
    data = config.data
    own = (run.folder.path.resolve() / "data", _shared_data(run, config))
    if data.builtin is None or data.problem is None or store.path.resolve() not in own:
        return []
    source = source_of(data)
    origin = store.manifest.origin
    actual = {"source": origin.source, "samples": len(store.manifest.samples), **origin.options}
    expected = {"source": source.name, "samples": len(source.ids()), **source.options}
    expected = json.loads(json.dumps(expected))  # tuples become lists, as in the manifest
    names = [name for name in {**expected, **actual} if actual.get(name) != expected.get(name)]
    if not names:
        return []
    got = "; ".join(f"{name} {actual.get(name)} instead of {expected.get(name)}" for name in names)
    return [f"{store.path} must hold the data that the config describes, got {got}"]


def _wrong_units(store: Store, run: Artefacts) -> list[str]:
    """What is wrong with a model file whose fields or normaliser are not those of the store."""
    if run.config is None or run.model is None or store.manifest.statistics is None:
        return []
    scale = run.config.data.coord_scale
    normaliser = make_normaliser(store.schema, store.statistics, coord_scale=scale)
    expected = {"fields": store.schema.identity(), "normaliser": normaliser.to_json()}
    fields = None if run.schema is None else run.schema.identity()
    actual = {**run.model.state, "fields": fields}
    names = [name for name in expected if actual.get(name) != expected[name]]
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
"""The checks by name, each with the fields of `Artefacts` that it needs."""
