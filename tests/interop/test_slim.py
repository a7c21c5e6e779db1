"""The token attention taken out of a model: the fit, the certificate, the refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from slipstream.audit.run_audit import audit_run
from slipstream.core.configs import overlay
from slipstream.data.store import open_store
from slipstream.interop.fewer_slices import Limits
from slipstream.interop.slim import SlimRequest, slim, validation_error
from slipstream.interop.token_maps import _Fit, fit_token_maps, without_attention
from slipstream.models.coupling import Coupling, TokenLinear
from slipstream.models.transolver import Transolver
from slipstream.models.variants import Size, variant_named
from slipstream.runs.model_file import load_model
from slipstream.training.session import train

from ..evaluation.made_runs import failures
from ..training.small import small


def test_the_fit_is_that_of_weighted_least_squares() -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, 50, 4, generator=draw, dtype=torch.float64)
    mass = torch.rand(2, 3, 50, generator=draw, dtype=torch.float64)
    y = torch.randn(2, 3, 50, 4, generator=draw, dtype=torch.float64)
    fit = _Fit(4)
    for part in range(2):
        fit.add(x[part], y[part], mass[part])
    root = mass.flatten().sqrt()[:, None]
    flat = x.flatten(0, -2), y.flatten(0, -2)
    expected = torch.linalg.lstsq(root * flat[0], root * flat[1]).solution.T
    torch.testing.assert_close(fit.weight(), expected)
    left = (root * (flat[0] @ expected.T - flat[1])).norm() / (root * flat[1]).norm()
    assert fit.residual() == pytest.approx(float(left)) and fit.tokens == 300


@pytest.mark.parametrize("variant", ["baseline", "untied", "frozen-slice"])
def test_attention_that_is_linear_is_taken_out_without_loss(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = Size(layers=2, width=8, heads=2, slices=5)
    model = Transolver(3, 0, 2, variant, size=size).double()
    for block in model.blocks:
        coupling = block.coupling
        assert isinstance(coupling, Coupling)
        coupling.mix = _Square(4)
    clouds = [_Cloud(torch.randn(2, 40, 3, dtype=torch.float64)) for _ in range(3)]
    weights, fits = fit_token_maps(model, lambda: clouds)  # type: ignore[arg-type,return-value]
    assert max(fit.residual for fit in fits) < 1e-6
    slimmed = Transolver(3, 0, 2, without_attention(variant_named(variant)).name, size=size)
    slimmed.double().load_state_dict(weights)
    points = clouds[0].inputs[0]
    torch.testing.assert_close(slimmed(points), model(points))


class _Square(torch.nn.Module):
    """A mix of tokens that is a linear map, though not as a TokenLinear is written."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.maps = torch.randn(2, width, width, dtype=torch.float64)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens @ self.maps[0] @ self.maps[1]


class _Cloud:
    def __init__(self, coords: torch.Tensor) -> None:
        self.inputs = (coords, None)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("slim") / "run"
    train(small(), path, device="cpu")
    return path


def test_slim_and_fine_tuning(trained: Path, tmp_path: Path) -> None:
    out, store = tmp_path / "out", trained / "data"
    certificate = slim(trained, store, out, SlimRequest(steps=4, device="cpu"))
    assert certificate == json.loads((out / "slim.json").read_text())
    source, final = load_model(trained), load_model(out)
    assert final.config.model.variant == "no-token-attention"
    mix = final.model.blocks[0].coupling
    assert isinstance(mix, Coupling) and isinstance(mix.mix, TokenLinear)
    opened, errors = open_store(store), certificate["validation"]
    assert errors["before"]["error"] == pytest.approx(source.metric["error"], rel=1e-5)
    now = validation_error(final, source, opened).mean()
    assert now == pytest.approx(min(errors[n]["error"] for n in ("closed form", "fine-tuned")))
    assert failures(audit_run(out / "fine-tuning")) == {}
    assert slim(trained, store, out, SlimRequest(steps=4, device="cpu"))["validation"] == errors
    files = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    for other, words in (
        (SlimRequest(device="cpu"), r"\(saved, given\): steps: 4, 0; learning_rate: 0.0003, None$"),
        (SlimRequest(steps=4, limits=Limits(merge_alike=0.9), device="cpu"), "merge_alike: None, "),
    ):
        with pytest.raises(ValueError, match=words):
            slim(trained, store, out, other)
    assert all(file.read_bytes() == content for file, content in files.items())


def test_bad_input_leaves_nothing(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    changes = {"model.variant": "mlp-only", "data.store": str(trained / "data")}
    train(overlay(small(steps=4), changes), tmp_path / "m", device="cpu")
    with pytest.raises(ValueError, match="must have token attention that can be taken out"):
        slim(tmp_path / "m", trained / "data", out, SlimRequest(device="cpu"))
    with pytest.raises(ValueError, match="must be an empty folder, or one of slim, got"):
        slim(trained, trained / "data", tmp_path / "m", SlimRequest(device="cpu"))
    with pytest.raises(ValueError, match="must be another folder than that of the model"):
        slim(trained, trained / "data", trained, SlimRequest(device="cpu"))
    with pytest.raises(ValueError, match="steps must be"):
        SlimRequest(steps=-1)
    assert not out.exists()
