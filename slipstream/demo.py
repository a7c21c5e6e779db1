"""The whole story in minutes on two CPU cores: data, training, evaluation, audit, report page.

    OUT/study/          potential flow past smooth bodies, four variants
    OUT/report.html     what they found

Each part keeps what is there: the same call after an interruption goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slipstream.audit.certificate import Certificate, write_certificate
from slipstream.audit.study_audit import certify
from slipstream.core.runtime import available_cores
from slipstream.evaluation.run_evaluation import Wanted, evaluate_runs
from slipstream.evaluation.summary import Summary, summarise
from slipstream.experiments import SMALL, potential_flow_surface
from slipstream.models.variants import BASELINE
from slipstream.reports.content import Report
from slipstream.runs.config import BuiltinData, ModelConfig, OptimConfig, RunConfig
from slipstream.runs.evaluation_file import Protocol
from slipstream.training.study import Cell, Ending, Means, make_cells, prepare_study, run_study

HEADLINE = (BASELINE, "no-token-attention")
"""With two seeds, for a first idea of the noise."""
OTHERS = ("slice-once", "mlp-only")
REPEATS = 6
Watch = Callable[[Sequence[Cell], int], None]


@dataclass(frozen=True)
class Outcome:
    """What a demo came to."""

    endings: tuple[Ending, ...]
    """Of the runs; the rest is there only where all have finished."""
    summaries: tuple[Summary, ...] = ()
    certificate: Certificate | None = None
    report: Report | None = None


def demo_config(seed: int = 0, steps: int | None = None) -> RunConfig:
    """The experiment `potential-flow-surface`, smaller: coarse panels, one body, varying inflow.

    With 720 panels the relative L1 error of the pressure on an ellipsoid is 0.7 %.
    """
    settings = {"panels": 720, "bodies": [1, 1], "inflow": "varying"}
    usual = potential_flow_surface()
    samples = {"train": 256, "val": 32, "test": 32}
    made = BuiltinData(samples=samples, points=4096, seed=seed, settings=settings)
    steps = usual.steps if steps is None else steps
    return replace(
        usual,
        data=replace(usual.data, builtin=made, points=256),
        model=ModelConfig(size=SMALL),
        optim=OptimConfig(warmup=0.05),
        steps=steps,
        evaluate_every=min(200, max(1, steps)),
        seed=seed,
    )


def demo_cells(config: RunConfig, out: Path) -> list[Cell]:
    study = out / "study"
    first = make_cells([config], HEADLINE, (config.seed, config.seed + 1), study)
    return first + make_cells([config], OTHERS, (config.seed,), study)


def run_demo(
    config: RunConfig,
    out: Path,
    *,
    device: str = "cpu",
    watch: Watch = lambda running, done: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> Outcome:
    """Everything, in order; `say` is told what begins. Ends early where a run has not finished."""
    out.mkdir(parents=True, exist_ok=True)
    study = out / "study"
    builtin = config.data.builtin
    assert builtin is not None
    say(f"Data: {sum(builtin.samples.values())} bodies, {builtin.points} points each")
    cells = prepare_study(demo_cells(config, out), study)
    on_cpu = device == "cpu"
    means = Means(device=device, parallel=min(2, available_cores()) if on_cpu else 1)
    say(f"Training: {len(cells)} runs of {config.steps} steps")
    endings = tuple(run_study(cells, study, means, watch))
    if any(ending.status != "finished" for ending in endings):
        return Outcome(endings)
    say("Evaluation on the test split, and audit")
    wanted = Wanted(protocol=Protocol(repeats=REPEATS), device=device)
    rows = evaluate_runs([cell.folder for cell in cells], wanted)
    certificate = certify(study)
    write_certificate(certificate, study)
    say("Report")
    from slipstream.reports.write import write_report  # matplotlib: a second for no other command

    title = "Does a Transolver need a Transformer? Potential flow past smooth bodies"
    report = write_report([study], out, title=title)
    return Outcome(endings, tuple(summarise(rows)), certificate, report)
