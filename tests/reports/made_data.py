"""Runs that were never trained, as the tables see them: a config, a curve, and what is wanted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from slipstream.evaluation.compare import Curve
from slipstream.experiments import experiment
from slipstream.reports.study.gather import RunData
from slipstream.runs.evaluation_file import Evaluation, Locality, Number, Protocol
from slipstream.runs.folder import RunFolder


def run(
    variant: str,
    error: float,
    seed: int = 0,
    *,
    name: str = "poisson",
    evaluation: Evaluation | None = None,
    parameters: int = 100,
    steps: int = 200,
    **size: int,
) -> RunData:
    """A finished run with two validations; `layers=2`, `slices=8` change the size."""
    config = replace(experiment("poisson"), steps=steps)
    model = replace(config.model, variant=variant, size=replace(config.model.size, **size))
    config = replace(config, model=model, seed=seed, experiment=name)
    curve = Curve(name, variant, seed, {steps // 2: 2 * error, steps: error}, steps)
    starts = ({"parameters": parameters, "device": "a CPU"},)
    return RunData(RunFolder(Path("nowhere")), config, curve, True, starts, evaluation, ())


def evaluation(variant: str, seed: int = 0, repeats: int = 1, **errors: float) -> Evaluation:
    """L1 errors by variable; L2 ones are twice as large. Repeats spread by 1 %."""
    numbers = []
    for measure, factor in (("L1", 1.0), ("L2", 2.0)):
        for variable, error in errors.items():
            std = 0.01 * factor * error if repeats > 1 else None
            numbers.append(Number(measure, variable, (factor * error,), factor * error, std))
    return Evaluation(
        experiment="poisson",
        variant=variant,
        seed=seed,
        step=1,
        validation=0.5,
        parameters=1,
        weights="",
        data_hash="",
        protocol=Protocol(repeats=repeats),
        points=16,
        device="a CPU",
        kernels="none",
        definitions={"L1": "the sum of it", "L2": "the root of it"},
        numbers=tuple(numbers),
        samples={},
        pictures=(),
        slices=(),
        locality=Locality("limit", {variable: 0.9 for variable in errors}),
    )
