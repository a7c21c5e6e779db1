"""A complete study in minutes on two CPU cores: data, training, evaluation, audit, report page.

    OUT/study/              potential flow past smooth bodies, four variants
    OUT/study/times.json    how long solver and model take for the body that is pictured
    OUT/report.html         a body, the errors of the variants, and what follows from them

Every part keeps existing results: the same call after an interruption continues. The quick demo is
the same with less of everything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from slipstream.audit.certificate import Certificate, write_certificate
from slipstream.audit.study_audit import certify
from slipstream.core.runtime import available_cores, device_name
from slipstream.evaluation.against_yardsticks import yardsticks_of
from slipstream.evaluation.predict_sample import predict_whole
from slipstream.evaluation.run_evaluation import EvaluationRequest, evaluate_runs, open_data_of
from slipstream.evaluation.summary import Summary, summarise
from slipstream.experiments import SMALL, potential_flow_surface
from slipstream.inference.calibrate import CalibrationRequest, calibrate, lacks_calibration
from slipstream.models.variants import BASELINE, Size
from slipstream.reports.content import Report
from slipstream.reports.study.gather import RunData, gather
from slipstream.reports.study.opening_facts import shown_run
from slipstream.reports.study.times import Times, write_times
from slipstream.runs.builtin_data import source_of
from slipstream.runs.calibration_file import write_calibration
from slipstream.runs.config import BuiltinData, ModelConfig, OptimConfig, RunConfig
from slipstream.runs.evaluation_file import Evaluation, Protocol, Yardstick
from slipstream.runs.model_file import load_model
from slipstream.training.study import (
    Ending,
    Resources,
    StudyCell,
    make_cells,
    prepare_study,
    run_study,
)

HEADLINE = (BASELINE, "no-token-attention")
"""The variants that are trained with two seeds, for a first idea of the scatter."""
OTHERS = ("slice-once", "mlp-only")
REPEATS = 6
CALLS = 5
"""Of solver and model each; the shortest counts, as other programs may take the machine's time."""
QUICK = (
    "This is the quick demo: few bodies, a small model, short training. Its numbers show what a"
    " report holds; they decide nothing beyond what they support. The full demo trains longer, with"
    " more bodies and seeds."
)
WatchStudy = Callable[[Sequence[StudyCell], int], None]


@dataclass(frozen=True)
class DemoResult:
    """The results of a demo."""

    endings: tuple[Ending, ...]
    """How each run ended; the other fields are filled only if all runs have finished."""
    summaries: tuple[Summary, ...] = ()
    yardsticks: tuple[Yardstick, ...] = ()
    """What needs no model, on the same samples."""
    certificate: Certificate | None = None
    report: Report | None = None


@dataclass(frozen=True)
class Plan:
    """What a demo trains and measures."""

    config: RunConfig
    twice: tuple[str, ...] = HEADLINE
    once: tuple[str, ...] = OTHERS
    repeats: int = REPEATS
    notice: str = ""
    """What a reader must know before all numbers."""
    one_thread: bool = False
    """Whether this process computes on one core, which costs less where all arrays are small."""


def quick_plan(seed: int = 0) -> Plan:
    """The demo with less of everything: some 30 CPU seconds."""
    config = demo_config(seed, 450)
    builtin = config.data.builtin
    assert builtin is not None
    fewer = replace(
        builtin,
        samples={"train": 160, "val": 16, "test": 16},
        points=2048,
        settings={**builtin.settings, "panels": 320},
    )
    config = replace(
        config,
        data=replace(config.data, builtin=fewer),
        batch=2,
        model=ModelConfig(size=Size(layers=2, width=32, heads=4, slices=16)),
        optim=replace(config.optim, learning_rate=4e-3),
        evaluate_every=100,
    )
    return Plan(
        config, twice=(), once=(*HEADLINE, "mlp-only"), repeats=2, notice=QUICK, one_thread=True
    )


def demo_config(seed: int = 0, steps: int | None = None) -> RunConfig:
    """The experiment `potential-flow-surface`, smaller: coarse panels, one body, varying inflow.

    With 720 panels the relative L1 error of the pressure on an ellipsoid is 0.7 %.
    """
    settings = {"panels": 720, "bodies": [1, 1], "inflow": "varying"}
    usual = potential_flow_surface()
    samples = {"train": 256, "val": 32, "test": 32}
    builtin = BuiltinData(samples=samples, points=4096, seed=seed, settings=settings)
    steps = usual.steps if steps is None else steps
    return replace(
        usual,
        data=replace(usual.data, builtin=builtin, points=256),
        model=ModelConfig(size=SMALL),
        optim=OptimConfig(warmup=0.05),
        steps=steps,
        evaluate_every=min(200, max(1, steps)),
        seed=seed,
    )


def demo_cells(plan: Plan, out: Path) -> list[StudyCell]:
    config, study = plan.config, out / "study"
    first = make_cells([config], plan.twice, (config.seed, config.seed + 1), study)
    return first + make_cells([config], plan.once, (config.seed,), study)


def run_demo(
    plan: Plan,
    out: Path,
    *,
    device: str = "cpu",
    watch: WatchStudy = lambda running, done: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> DemoResult:
    """All parts in order; `say` is called with what begins. Stops early if a run is unfinished."""
    with _one_thread() if plan.one_thread else nullcontext():
        return _run_demo(plan, out, device, watch, say)


def _run_demo(
    plan: Plan, out: Path, device: str, watch: WatchStudy, say: Callable[[str], None]
) -> DemoResult:
    out.mkdir(parents=True, exist_ok=True)
    config, study = plan.config, out / "study"
    builtin = config.data.builtin
    assert builtin is not None
    say(f"Data: {sum(builtin.samples.values())} bodies, {builtin.points} points each")
    cells = prepare_study(demo_cells(plan, out), study)
    on_cpu = device == "cpu"
    resources = Resources(device=device, parallel=min(2, available_cores()) if on_cpu else 1)
    say(f"Training: {len(cells)} runs of {config.steps} steps")
    endings = tuple(run_study(cells, study, resources, watch))
    if any(ending.status != "finished" for ending in endings):
        return DemoResult(endings)
    say("Evaluation on the test split, and audit")
    request = EvaluationRequest(protocol=Protocol(repeats=plan.repeats), device=device)
    evaluations = evaluate_runs([cell.folder for cell in cells], request)
    certificate = certify(study)
    write_certificate(certificate, study)
    say("Times of solver and model, and calibration")
    _measure_shown(gather([study]).runs, evaluations, study, device)
    say("Report")
    from slipstream.reports.write import write_report  # here: matplotlib takes a second to import

    title = "Does a Transolver need a Transformer? Potential flow past smooth bodies"
    report = write_report([study], out, title=title, notice=plan.notice)
    yardsticks = yardsticks_of(evaluations)
    return DemoResult(endings, tuple(summarise(evaluations)), yardsticks, certificate, report)


def _measure_shown(
    runs: Sequence[RunData], evaluations: Sequence[Evaluation], study: Path, device: str
) -> None:
    """What the report says first, of the model that it begins with: times on the sample it shows,
    errors with all points at once, as `slipstream predict` takes them, and a calibration."""
    sample = evaluations[0].pictures[0]
    run = shown_run(runs, sample)
    if run is None:
        return
    protocol = Protocol(full=True, repeats=1)
    request = EvaluationRequest(protocol=protocol, pictures=(sample,), device=device)
    evaluate_runs([run.folder], request)
    write_times(study, measure_times(run, sample, protocol, device))
    wanted = CalibrationRequest(device=device)
    if lacks_calibration(run.folder, wanted):
        write_calibration([run.folder.path], calibrate([run.folder], wanted))


def measure_times(run: RunData, sample: str, protocol: Protocol, device: str) -> Times:
    """Solve a sample of a run on built-in data again, and predict it, both on one core of a CPU.

    After one call of each to warm up the two are called in turns.
    """
    trained = load_model(run.folder.path, device=device)
    store, data = open_data_of(trained, None, run.folder), run.config.data
    assert data.builtin is not None and run.evaluation is not None
    solver = source_of(data)
    seconds: dict[str, list[float]] = {"solver": [], "model": []}
    with _one_thread():
        name = device_name(trained.device)
        for _ in range(1 + CALLS):
            seconds["solver"].append(_timed(lambda: solver.read(sample)))
            seconds["model"].append(_timed(lambda: predict_whole(trained, store, sample, protocol)))
    return Times(
        experiment=run.config.experiment,
        sample=sample,
        variant=run.variant,
        seed=run.config.seed,
        weights=run.evaluation.weights,
        points=data.builtin.points,
        solver=f"a panel method with at most {data.builtin.settings['panels']} panels, a quick one",
        solver_seconds=min(seconds["solver"][1:]),
        model_seconds=min(seconds["model"][1:]),
        calls=CALLS,
        device=name,
        date=datetime.now(UTC).date().isoformat(),
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun
