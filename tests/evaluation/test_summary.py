from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from slipstream.evaluation.measure import MeasuredErrors
from slipstream.evaluation.run_evaluation import EvaluationRequest, evaluate_runs
from slipstream.evaluation.summary import left_out_text
from slipstream.metrics import Errors
from slipstream.runs.evaluation_file import Protocol
from slipstream.runs.folder import RunFolder

from .made_runs import make_run

REQUEST = EvaluationRequest(protocol=Protocol(split="val"), device="cpu")


def test_samples_that_a_number_leaves_out(tmp_path: Path) -> None:
    """p is zero in sample b, w in a and, at the points of the second repeat, in b."""
    groups = ("p", "w")
    first = Errors(groups, {"a": (0.5, None), "b": (None, 0.5), "c": (0.1, 0.2)})
    second = Errors(groups, {"a": (0.5, None), "b": (None, None), "c": (0.1, 0.2)})
    whole = Errors(groups, {"a": (0.5, 0.1), "b": (0.2, 0.5), "c": (0.1, 0.2)})
    measured = MeasuredErrors({"composite": (whole, whole), "L1": (first, second)})
    assert measured.left_out() == {"L1 p": 1, "L1 w": 2}
    (one,) = evaluate_runs([RunFolder(make_run(tmp_path / "run"))], REQUEST)
    assert left_out_text(replace(one, left_out={})) == []
    samples = {name: {"composite": 0.1} for name in "abc"}
    one = replace(one, samples=samples, left_out={"L1 p": 1, "L2 p": 1, "composite w": 3})
    assert left_out_text(one) == [
        "L1 p, L2 p: mean over 2 samples only; the truth is zero at every point of 1 of 3 samples.",
        "composite w: not measured; the truth is zero (for composite, once normalised) at every"
        " point of 3 of 3 samples.",
    ]
