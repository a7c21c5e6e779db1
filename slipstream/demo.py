"""A complete study in minutes on two CPU cores: data, training, evaluation, audit, report page.

    OUT/study/          potential flow past smooth bodies, four variants
    OUT/report.html     the errors of the variants, and what follows from them

Every part keeps existing results: the same call after an interruption continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slipstream.audit.certificate import Certificate, write_certificate
from slipstream.audit.study_audit import certify
from slipstream.core.runtime import available_cores
from slipstream.evaluation.against_yardsticks import yardsticks_of
from slipstream.evaluation.run_evaluation import EvaluationRequest, evaluate_runs
from slipstream.evaluation.summary import Summary, summarise
from slipstream.experiments import SMALL, potential_flow_surface
from slipstream.models.variants import BASELINE
from slipstream.reports.content import Report
from slipstream.runs.config import BuiltinData, ModelConfig, OptimConfig, RunConfig
from slipstream.runs.evaluation_file import Protocol, Yardstick
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


def demo_cells(config: RunConfig, out: Path) -> list[StudyCell]:
    study = out / "study"
    first = make_cells([config], HEADLINE, (config.seed, config.seed + 1), study)
    return first + make_cells([config], OTHERS, (config.seed,), study)


def run_demo(
    config: RunConfig,
    out: Path,
    *,
    device: str = "cpu",
    watch: WatchStudy = lambda running, done: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> DemoResult:
    """All parts in order; `say` is called with what begins. Stops early if a run is unfinished."""
    out.mkdir(parents=True, exist_ok=True)
    study = out / "study"
    builtin = config.data.builtin
    assert builtin is not None
    say(f"Data: {sum(builtin.samples.values())} bodies, {builtin.points} points each")
    cells = prepare_study(demo_cells(config, out), study)
    on_cpu = device == "cpu"
    resources = Resources(device=device, parallel=min(2, available_cores()) if on_cpu else 1)
    say(f"Training: {len(cells)} runs of {config.steps} steps")
    endings = tuple(run_study(cells, study, resources, watch))
    if any(ending.status != "finished" for ending in endings):
        return DemoResult(endings)
    say("Evaluation on the test split, and audit")
    request = EvaluationRequest(protocol=Protocol(repeats=REPEATS), device=device)
    evaluations = evaluate_runs([cell.folder for cell in cells], request)
    certificate = certify(study)
    write_certificate(certificate, study)
    say("Report")
    from slipstream.reports.write import write_report  # here: matplotlib takes a second to import

    title = "Does a Transolver need a Transformer? Potential flow past smooth bodies"
    report = write_report([study], out, title=title)
    yardsticks = yardsticks_of(evaluations)
    return DemoResult(endings, tuple(summarise(evaluations)), yardsticks, certificate, report)
