"""Every special check on a small case; those of CUDA graphs only where there is a GPU."""

from __future__ import annotations

import pytest
import torch

from slipstream.bench import large, modules, operators, special
from slipstream.bench.gate import DRAWS, Way
from slipstream.bench.operators import OperatorProblem
from slipstream.bench.parity_cases import SpecialCase, special_cases
from slipstream.kernels import api
from slipstream.kernels.membership import Axis
from slipstream.kernels.operands import Backward

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def check(name: str, **fields: object) -> special.Verdict:
    case = SpecialCase(check=name, **{"points": 9, "layers": 1, **fields})  # type: ignore[arg-type]
    return special.run_special(case, DEVICE)


def test_checkpointing() -> None:
    verdict = check("checkpointing", variant="frozen-slice", layers=2)
    assert verdict.green and "blocks.1.coupling.values.weight" in verdict.ratios


def test_trajectory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(special, "STEPS", 3)
    verdict = check("trajectory", variant="no-token-attention")
    assert verdict.green, verdict
    assert verdict.limit >= special.TRAJECTORY_LIMIT
    assert verdict.ratios["eager in another order"] > 0


def test_a_trajectory_that_parts_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(special, "STEPS", 2)
    build = modules.build

    def other(case, impl, precision=None):  # noqa: ANN001, ANN202
        module = build(case, impl, precision)
        with torch.no_grad():
            next(iter(module.parameters())).mul_(1 + 1e-4 * (impl == "fused"))
        return module

    monkeypatch.setattr(modules, "build", other)
    assert not check("trajectory", variant="no-token-attention").green


@pytest.mark.parametrize("fields", [{}, {"slices": 24}, {"over": "points"}])
def test_one_point_and_strides(fields: dict[str, object]) -> None:
    assert check("one point", points=1, **fields).green
    assert check("strided", **fields).green


@pytest.mark.parametrize("slices", [8, 16])
def test_idle_slots(slices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that the check sees what it is there for: centring by a plain mean, as once was."""
    monkeypatch.setattr(special, "draws_on", lambda device: DRAWS)  # of 8 biases two are chance
    assert check("idle slots", slices=slices, points=16).green
    monkeypatch.setattr(Backward, "_shares", lambda of: torch.tensor(1 / of.tokens.shape[-2]))
    verdict = check("idle slots", slices=slices, points=16)
    assert verdict.green == (slices == 16), "only the blocked family centres"


@pytest.mark.parametrize(
    ("regime", "slices", "dtype", "precision"),
    [
        ("sharp slices", 16, "bf16", "bf16"),
        ("even slices", 24, "bf16", "bf16"),
        ("even slices", 16, "fp32", "tf32"),
        ("idle slots", 24, "fp32", "tf32"),
        ("one far point", 24, "bf16", "bf16"),
    ],
)
def test_what_a_trained_model_may_come_to(
    regime: str, slices: int, dtype: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(special, "draws_on", lambda device: DRAWS)
    verdict = check(regime, slices=slices, points=16, dtype=dtype, precision=precision)
    assert verdict.green, verdict


def test_the_regimes_are_what_they_say() -> None:
    def weights(regime: operators.Regime) -> torch.Tensor:
        """Of the points, (B, H, N, G)."""
        problem = OperatorProblem(slices=16, width=8, points=50, device="cpu", regime=regime)
        given = operators.inputs_of(problem)
        logits = torch.einsum("bnhd,gd->bhng", given["query"], given["slot_weight"])
        logits = logits + given["slot_bias"]
        return (logits / given["temperature"][:, None, None]).softmax(-1)

    used, idle = weights("idle slots").sum(2).split(8, -1)
    assert used.amin() > 0.05 and idle.amax() < 0.02 and idle.amin() < 1e-6
    assert weights("sharp slices").amax(-1).mean() > 0.9
    assert (weights("even slices") * 16 - 1).abs().amax() < 0.2
    problem = OperatorProblem(slices=4, width=8, points=50, device="cpu", regime="one far point")
    given = operators.inputs_of(problem)
    values = given["values"].abs()
    assert values[:, 0].mean() > 1000 * values[:, 1:].mean()
    means = given["values"][:1, 1:5, 0]
    tokens = means @ given["mix"]
    assert torch.equal(operators._mix(problem, given, means), tokens), "without attention"
    idle = OperatorProblem(slices=4, width=8, points=50, device="cpu", regime="idle slots")
    assert not torch.equal(operators._mix(idle, given, means), tokens)


def test_models_of_two_samples_and_of_one_point() -> None:
    assert check("batch of two", variant="untied-ln").green
    assert check("one point, model", variant="slice-once", points=1).green


@pytest.mark.parametrize(("over", "slices"), [("slots", 16), ("points", 16)])
def test_large_in_chunks(over: Axis, slices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "HEADS", 2)
    how = {"over": over, "points": 21, "slices": slices, "device": DEVICE, "chunk": 8}
    verdict = large.check_in_chunks(Way("fused", "ieee"), **how)  # type: ignore[arg-type]
    assert verdict.green and "gradient of query, last 5 points" in verdict.ratios
    right = api.deslice_tokens

    def overflowing(membership, tokens, **how):  # noqa: ANN001, ANN003, ANN202
        out = right(membership, tokens, **how)
        return torch.cat((out[:, :16], out[:, :5]), 1) if out.shape[1] == 21 else out

    monkeypatch.setattr(large, "deslice_tokens", overflowing)
    wrong = large.check_in_chunks(Way("fused", "ieee"), **how)  # type: ignore[arg-type]
    assert not wrong.green and wrong.ratios["out, last 5 points"] > 0.1


def test_every_row_names_a_check_and_every_check_has_a_row() -> None:
    assert {row.check for row in special_cases(5)} == special.CHECKS.keys()


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["graph inference", "graph training"])
def test_graphs(name: str) -> None:
    assert check(name, points=300).green
