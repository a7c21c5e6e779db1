"""Audit of a run's records: steps, learning rate, draws, and what computed each step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace

from slipstream.audit.artefacts import Artefacts, Record
from slipstream.audit.certificate import Finding, StepSpan, finding_from, listed
from slipstream.models.plugins import Plugin, plugin_of
from slipstream.runs.config import RunConfig, is_due

_TOLERANCE = 1e-12
"""Share of the largest rate: near its end the cosine cancels, and libraries differ in the last
bit."""


@dataclass
class Session:
    """The steps that one process contributed: those after `begin` up to `end`."""

    start: Record
    begin: int
    end: int
    train: list[Record] = field(default_factory=list)


def sessions_of(run: Artefacts) -> list[Session]:
    """The processes whose steps count, each up to the step from which the next one continued.

    Starts at steps 0, 100 and 40: the second process was undone by the third, which continued from
    a checkpoint before it. What counts is 0 to 40 and 40 to the end.
    """
    sessions: list[Session] = []
    for row in run.rows or ():
        if row["kind"] == "start":
            sessions = [session for session in sessions if session.begin < row["step"]]
            if sessions:
                sessions[-1].end = row["step"]
            sessions.append(Session(row, row["step"], run.step))
        elif row["kind"] == "train" and sessions:
            sessions[-1].train.append(row)
    return sessions


def check_finished(run: Artefacts) -> Finding:
    """The run has reached its last step and has a record of it."""
    assert run.config
    wrong, last = [], run.config.steps
    if run.step != last:
        wrong.append(f"the newest checkpoint must be of step {last}, got {run.step}")
    stops = [row for row in run.of_kind("stop") if row["reason"] == "finished"]
    if not any(row["step"] == last for row in stops):
        wrong.append(f"the run must have a record that it finished at step {last}, got none")
    when = f" at {stops[-1]['time']}" if stops else ""
    return finding_from("finished", wrong, f"all {last} steps, finished{when}")


def check_records(run: Artefacts) -> Finding:
    """There is a record of every loss and validation that was due."""
    assert run.config
    config = run.config
    due = {
        step for step in range(1, run.step + 1) if is_due(step, config.evaluate_every, config.steps)
    }
    validated = {row["step"] for row in run.of_kind("validation") if row["step"] <= run.step}
    missing = _missing_train(run, config)
    wrong = []
    if missing:
        wrong.append(
            f"a train record must be there for every step due, got none of {listed(missing)}"
        )
    if due - validated:
        absent = sorted(due - validated)
        wrong.append(f"a validation must be there for every step due, got none of {listed(absent)}")
    if validated - due:
        extra = sorted(validated - due)
        wrong.append(f"validations must be where they are due only, got some of {listed(extra)}")
    trained = sum(row["step"] <= run.step for row in run.of_kind("train"))
    seen = f"{trained} train records and {len(due)} validations, at every step due"
    return finding_from("records", wrong, seen)


def _missing_train(run: Artefacts, config: RunConfig) -> list[int]:
    """Steps without a train record that was due; `log_every` may differ between sessions."""
    missing: list[int] = []
    for session in sessions_of(run):
        recorded = {row["step"] for row in session.train}
        every = session.start.get("log_every", config.log_every)
        steps = range(session.begin + 1, session.end + 1)
        missing += [s for s in steps if is_due(s, every, config.steps) and s not in recorded]
    return missing


def check_optimizer(run: Artefacts) -> Finding:
    """Every parameter was updated in every step that was not skipped."""
    assert run.last
    taken = run.step - run.last.state["skipped"]
    state, weights = run.last.optimizer, run.last.weights
    frozen = run.last.config.optim.frozen(weights)
    names = {name: weight for name, weight in weights.items() if name not in frozen}
    wrong = []
    without = [name for name in names if run.step and f"{name}.step" not in state]
    if without:
        wrong.append(
            f"the optimiser must have a state of every parameter, got none of {listed(without)}"
        )
    counts = {name: state[f"{name}.step"].item() for name in names if f"{name}.step" in state}
    other = [f"{name} {count:g}" for name, count in counts.items() if count != taken]
    if other:
        wrong.append(
            f"the optimiser must have updated every parameter {taken} times, got {listed(other)}"
        )
    unknown = {key.rpartition(".")[0] for key in state} - names.keys()
    if unknown:
        wrong.append(
            f"the optimiser must know the model's parameters only, got {listed(sorted(unknown))}"
        )
    moments = ((name, state.get(f"{name}.exp_avg_sq")) for name in names)
    idle = [name for name, moment in moments if moment is not None and not moment.any()]
    notes = [f"no gradient has come to {listed(idle)} for long"] if idle else []
    skipped = f", {run.last.state['skipped']} steps skipped" if run.last.state["skipped"] else ""
    return finding_from(
        "optimiser", wrong, f"{taken} updates of each of {len(counts)} parameters{skipped}", notes
    )


def check_draws(run: Artefacts) -> Finding:
    """One batch was drawn for each step, of the config's size, in the order of its seed."""
    assert run.config
    config = run.config
    wrong = []
    for step, saved in run.checkpoints.items():
        loader, groups = saved.state["loader"], _groups(saved.state["processes"], config)
        expected = {"seed": config.seed, "batch_size": config.batch, "world_size": groups}
        expected |= {"shuffle": True, "even": True}
        wrong += [
            f"{saved.name} must draw with {name} {value}, got {loader.get(name)}"
            for name, value in expected.items()
            if loader.get(name) != value
        ]
        # 10 samples, 2 in a batch, 2 processes: an epoch has ceil(10 / 4) = 3 batches.
        epoch = math.ceil(loader["samples"] / max(1, config.batch * groups))
        drawn = loader["epoch"] * epoch + loader["position"]
        if drawn != step:
            wrong.append(f"{saved.name} must have drawn {step} batches, got {drawn}")
    samples = config.batch * (_groups(run.last.state["processes"], config) if run.last else 1)
    seen = f"{run.step} batches of {samples} samples, in the order of seed {config.seed}"
    return finding_from("draws", wrong, seen)


def _groups(processes: int, config: RunConfig) -> int:
    """How many groups of processes draw samples: those of a group share the points of theirs."""
    return processes // config.mesh.points


def check_schedule(run: Artefacts) -> Finding:
    """The learning rate of every record is that of the config."""
    assert run.config
    optim = run.config.optim
    rows = run.of_kind("train")
    wrong = []
    for row in rows:
        expected = _rate(row["step"], run.config)
        if not abs(row["learning_rate"] - expected) <= _TOLERANCE * optim.learning_rate:
            wrong.append(f"{row['learning_rate']} at step {row['step']} instead of {expected}")
    length = run.config.schedule or run.config.steps
    seen = (
        f"{len(rows)} records have the rate of {optim.learning_rate}, warm-up {optim.warmup} and a"
        f" cosine over {length} steps"
    )
    sentence = [f"the learning rate must be the config's, got {listed(wrong)}"] if wrong else []
    return finding_from("schedule", sentence, seen)


def _rate(step: int, config: RunConfig) -> float:
    """The learning rate of a step: linear to the largest rate, then half a cosine down to zero.

    Written again here, and not imported from training, so that a mistake there is noticed.
    """
    length = config.schedule or config.steps
    rising = max(1, round(config.optim.warmup * length))
    if step <= rising:
        return config.optim.learning_rate * (step / rising)
    passed = (step - rising - 1) / max(1, length - rising)
    return config.optim.learning_rate * math.cos(math.pi / 2 * passed) ** 2


def check_implementation(run: Artefacts) -> Finding:
    """The records say what computed each step, without gaps, in the precision of the config."""
    assert run.config and run.last
    sessions, spans = sessions_of(run), spans_of(run)
    wrong, notes = [], []
    begin = sessions[0].begin if sessions else run.step
    if begin:
        wrong.append(f"a start must be recorded at step 0, got none for steps 1 to {begin}")
    processes = run.last.state["processes"]
    for session in sessions:
        start, where = session.start, f"the start at step {session.begin}"
        if start["precision"] != run.config.precision:
            wrong.append(
                f"{where} must have precision {run.config.precision}, got {start['precision']}"
            )
        if start["processes"] != processes:
            wrong.append(f"{where} must have {processes} processes, got {start['processes']}")
        wrong += _wrong_mesh(start, where, run.config)
    for span in spans:
        if span.kernels is None:
            steps = f"steps {span.first} to {span.last}"
            notes.append(f"{steps} were interrupted before a record of their kernels")
    differing = _differing(spans)
    if differing:
        notes.append(f"not the same in all steps: {', '.join(differing)}")
    notes += _other_plugins(sessions, plugin_of(run.config.model.variant))
    kernels = dict.fromkeys(span.kernels for span in spans if span.kernels)
    seen = f"steps 1 to {run.step} in {len(sessions)} sessions, {run.config.precision}"
    if run.config.mesh.points > 1:
        seen += f", {run.config.mesh.points} processes a sample"
    return finding_from("implementation", wrong, f"{seen}: {'; '.join(kernels)}", notes)


def _wrong_mesh(start: Record, where: str, config: RunConfig) -> list[str]:
    """What is wrong with how the processes of a start were arranged."""
    points, processes = config.mesh.points, start["processes"]
    expected = None if points == 1 else {"data": processes // points, "points": points}
    got = start.get("mesh")
    return [f"{where} must have the mesh {expected}, got {got}"] if got != expected else []


def _other_plugins(sessions: list[Session], now: Plugin | None) -> Iterator[str]:
    """Steps that ran other code than that of the plug-in that is loaded now."""
    for session in sessions:
        recorded = session.start.get("plugin")
        if recorded != (asdict(now) if now else None) and session.begin < session.end:
            known = recorded if isinstance(recorded, dict) else {}
            yield (
                f"steps {session.begin + 1} to {session.end} ran the plug-in {known.get('file')},"
                f" SHA-256 {str(known.get('sha256'))[:12]}; the one loaded now is {now}"
            )


def spans_of(run: Artefacts) -> tuple[StepSpan, ...]:
    """What computed which steps; neighbouring spans that differ in their steps only are joined."""
    spans: list[StepSpan] = []
    for span in _single_spans(run):
        if spans and replace(spans[-1], first=span.first, last=span.last) == span:
            spans[-1] = replace(spans[-1], last=span.last)
        else:
            spans.append(span)
    return tuple(spans)


def _single_spans(run: Artefacts) -> Iterator[StepSpan]:
    for session in sessions_of(run):
        start = session.start
        ends = [
            (row["step"], row["kernels"]) for row in session.train if row["step"] <= session.end
        ]
        # Between its last record and its interruption a process computes as before.
        ends.append((session.end, ends[-1][1] if ends else start.get("kernels")))
        begin = session.begin
        for end, kernels in ends:
            if end > begin:
                yield StepSpan(
                    begin + 1,
                    end,
                    kernels,
                    start["precision"],
                    start["device"],
                    start["threads"],
                    start["processes"],
                    start.get("commit"),
                    start["versions"],
                )
                begin = end


def _differing(spans: tuple[StepSpan, ...]) -> list[str]:
    names = ("kernels", "precision", "device", "threads", "processes", "commit", "versions")
    return [n for n in names if any(getattr(s, n) != getattr(spans[0], n) for s in spans)]
