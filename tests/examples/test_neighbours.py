"""examples/flare.py and examples/transolver_plus.py against their formulas, and the peers' own."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slipstream import VARIANTS, Size, Transolver
from slipstream.models import lean, load_plugin
from slipstream.models.sweeps import Points, Sweeping, stream_through
from slipstream.runs.folder import RunFolder

from ..conftest import Command, registry_restored
from ..evaluation.made_runs import SMALL

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = {"flare": EXAMPLES / "flare.py", "transolver-plus": EXAMPLES / "transolver_plus.py"}
NEIGHBOURS = ("flare", "flare-plain", "transolver-plus", "transolver-plus-no-noise")
SIZE = Size(layers=2, width=12, heads=3, slices=5)
EXACT = {"rtol": 1e-12, "atol": 1e-12}
Given = dict[str, Tensor]


@pytest.fixture(scope="module", autouse=True)
def loaded() -> Iterator[None]:
    with registry_restored():
        for file in FILES.values():
            load_plugin(file)
        yield


def drawn(module: nn.Module) -> Any:
    """In fp64, far from the initial values."""
    draw = torch.Generator().manual_seed(1)
    module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=draw, dtype=torch.double))
    return module


def coupling(variant: str, impl: str = "auto") -> Any:
    how: Any = {"impl": impl, "precision": None}
    return drawn(VARIANTS[variant].make_coupling(SIZE, 0, how))


def plugin(module: nn.Module) -> ModuleType:
    return sys.modules[type(module).__module__]


def points(count: int = 23) -> Tensor:
    draw = torch.Generator().manual_seed(2)
    return torch.randn(2, count, SIZE.width, generator=draw, dtype=torch.double)


def heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (SIZE.heads, -1)).transpose(1, 2)  # B H N D


def joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def linear(given: Given, name: str, x: Tensor) -> Tensor:
    return F.linear(x, given[f"{name}.weight"], given.get(f"{name}.bias"))


def deep(given: Given, name: str, x: Tensor) -> Tensor:
    for number in range(4):
        x = x + F.gelu(linear(given, f"{name}.hidden.{number}", x), approximate="tanh")
    return x + linear(given, f"{name}.last", x)


def flare(given: Given, x: Tensor, project: Callable[[Given, str, Tensor], Tensor]) -> Tensor:
    key, values = (heads(project(given, name, x)) for name in ("key", "values"))
    logits = key @ given["latents"].mT  # B H N M
    tokens = logits.softmax(2).mT @ values
    return linear(given, "output", joined(logits.softmax(3) @ tokens))


def transolver_plus(given: Given, x: Tensor, noise: Callable[[Tensor], Tensor]) -> Tensor:
    own = heads(linear(given, "features", x))
    change = linear(given, "temperature.expand", own)
    change = F.gelu(linear(given, "temperature.contract", F.gelu(change)))
    temperature = (given["slots.temperature"][:, None, None] + change).clamp(min=0.01)
    weights = ((linear(given, "slots", own) + noise(own)) / temperature).softmax(-1)
    tokens = weights.mT @ own / (weights.sum(2)[..., None] + 1e-5)
    query, key, value = (linear(given, f"mix.{name}", tokens) for name in ("query", "key", "value"))
    tokens = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value
    return linear(given, "output", joined(weights @ tokens))


def formula(module: nn.Module, variant: str) -> Callable[[Given, Tensor], Tensor]:
    if variant.startswith("flare"):
        return partial(flare, project=deep if variant == "flare" else linear)
    noisy = variant == "transolver-plus" and module.training
    draw = plugin(module).gumbel_noise
    return partial(
        transolver_plus,
        noise=lambda own: draw(own.transpose(1, 2), SIZE.slices).transpose(1, 2) if noisy else 0.0,
    )


def with_gradients(function: Callable[[Tensor], Tensor], x: Tensor, given: Given) -> list[Tensor]:
    x = x.clone().requires_grad_()
    output = function(x)
    weight = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return [output, *torch.autograd.grad((output * weight).sum(), [x, *given.values()])]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("impl", ["chunked", "reference"])
@pytest.mark.parametrize("variant", NEIGHBOURS)
def test_the_coupling_is_its_formula(variant: str, impl: str, training: bool) -> None:
    module = coupling(variant, impl).train(training)
    given, x = dict(module.named_parameters()), points()
    found = with_gradients(lambda x: module(x)[0], x, given)
    expected = with_gradients(partial(formula(module, variant), given), x, given)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, **EXACT)


@pytest.mark.parametrize("variant", NEIGHBOURS)
def test_chunks_and_shards_are_the_cloud(variant: str) -> None:
    model: Transolver = drawn(Transolver(3, 2, 1, variant, size=SIZE)).eval()
    cloud = torch.rand(1, 23, 5, dtype=torch.double)
    coords, features = cloud[..., :3], cloud[..., 3:]
    parts: list[Tensor] = []
    with torch.no_grad():
        expected = model(coords, features)
        source = Points(23, lambda a, b: (coords[:, a:b], features[:, a:b]))
        stream_through(model, source, Sweeping(6), lambda a, b, part: parts.append(part))
        for block in model.blocks:  # another process with the same points
            block.coupling.complete_sums = lambda sums: sums + sums  # type: ignore[union-attr]
        sharded = model(coords, features)
        for block in model.blocks:
            del block.coupling.complete_sums  # type: ignore[union-attr]
        whole = model(coords.repeat(1, 2, 1), features.repeat(1, 2, 1))
    torch.testing.assert_close(torch.cat(parts, 1), expected, **EXACT)
    torch.testing.assert_close(sharded, whole[:, :23], **EXACT)


def test_noise_is_a_function_of_the_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computed again, or in chunks: the same. Uniform before it is Gumbel's; off in evaluation."""
    module = coupling("transolver-plus")
    noise = plugin(module).gumbel_noise
    x = 0.2 * torch.randn(1, 4000, 2, 8, generator=torch.Generator().manual_seed(0))
    drawn_noise = noise(x, 5)
    torch.testing.assert_close(noise(x[:, 7:9], 5), drawn_noise[:, 7:9], rtol=0, atol=1e-6)
    uniform = (-(-drawn_noise).exp()).exp().flatten(0, 2)
    assert abs(float(uniform.mean()) - 1 / 2) < 0.01
    assert abs(float(uniform.var()) - 1 / 12) < 0.002
    assert float(torch.corrcoef(uniform.T).fill_diagonal_(0).abs().max()) < 0.04

    x = points()
    with torch.no_grad():
        training, evaluation = module(x)[0], module.eval()(x)[0]
        assert float((training - evaluation).norm() / evaluation.norm()) > 0.01
        assert torch.equal(evaluation, coupling("transolver-plus-no-noise")(x)[0])

    monkeypatch.setitem(lean.CHUNK, "cpu", 5)
    model: Transolver = drawn(Transolver(3, 2, 1, "transolver-plus", size=SIZE))
    given = dict(model.named_parameters())
    cloud = torch.rand(2, 23, 5, dtype=torch.double, generator=torch.Generator().manual_seed(3))
    passes = []
    for keeps in ("normal", "recompute", "lean"):
        model.recompute, model.memory = (
            keeps == "recompute",
            "lean" if keeps == "lean" else "normal",
        )
        passes.append(with_gradients(lambda x: model(x[..., :3], x[..., 3:]), cloud, given))
    assert all(torch.equal(one, other) for one, other in zip(*passes[:2], strict=True))
    for one, other in zip(passes[0], passes[2], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


def peer(module: str) -> Any:
    try:
        with warnings.catch_warnings(action="ignore"):
            return importlib.import_module(module)
    except Exception as error:  # whatever of its many needs is absent
        pytest.skip(f"nvidia-physicsnemo cannot be imported here: {type(error).__name__}: {error}")


@pytest.mark.untraced
def test_flare_is_that_of_physicsnemo() -> None:
    """Its keys and values are two maps after another, which is one of ours."""
    theirs = peer("physicsnemo.nn.module.flare_attention").FLARE(
        SIZE.width, SIZE.heads, SIZE.head_width, n_global_queries=SIZE.slices
    )
    drawn(theirs)
    given = dict(theirs.named_parameters())

    def ours(x: Tensor) -> Tensor:
        weight, bias = given["in_project_x.weight"], given["in_project_x.bias"]
        state = {"latents": given["q_global"][0], "output.weight": given["out_linear.weight"]}
        state["output.bias"] = given["out_linear.bias"]
        for name, theirs in (("key", "self_k"), ("values", "self_v")):
            own = torch.block_diag(*[given[f"{theirs}.weight"]] * SIZE.heads)
            state[f"{name}.weight"] = own @ weight
            state[f"{name}.bias"] = own @ bias + given[f"{theirs}.bias"].repeat(SIZE.heads)
        return torch.func.functional_call(coupling("flare-plain"), state, x)[0]

    for one, other in zip(
        with_gradients(ours, points(), given), with_gradients(theirs, points(), given), strict=True
    ):
        torch.testing.assert_close(one, other, **EXACT)


@pytest.mark.untraced
def test_transolver_plus_is_that_of_physicsnemo(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its constant added to the mass, 1e-2, and its noise, which it draws in evaluation too.

    Their dividing by the mass comes before the sum, and their three maps of a token are one.
    """
    module = peer("physicsnemo.nn.module.physics_attention").PhysicsAttentionIrregularMesh
    width = SIZE.head_width
    theirs = module(SIZE.width, SIZE.heads, width, 0.0, SIZE.slices, use_te=False, plus=True)
    drawn(theirs)
    given, own = dict(theirs.named_parameters()), coupling("transolver-plus")
    own.epsilon = 1e-2
    names = {
        "features": "in_project_x", "output": "out_linear", "slots": "in_project_slice",
        "temperature.expand": "proj_temperature.0", "temperature.contract": "proj_temperature.2",
    }  # fmt: skip

    def gumbel(x: Tensor, slices: int) -> Tensor:
        torch.manual_seed(0)
        uniform = torch.rand(*x.shape[:-1], slices, dtype=x.dtype)
        return -(-(uniform + 1e-8).log() + 1e-8).log()

    monkeypatch.setattr(plugin(own), "gumbel_noise", gumbel)

    def ours(x: Tensor) -> Tensor:
        state = {
            f"{a}.{p}": given[f"{b}.{p}"] for a, b in names.items() for p in ("weight", "bias")
        }
        state["slots.temperature"] = given["temperature"].flatten()
        maps = given["qkv_project.weight"].chunk(3)
        state |= {
            f"mix.{n}.weight": m for n, m in zip(("query", "key", "value"), maps, strict=True)
        }
        return torch.func.functional_call(own, state, x)[0]

    def peers(x: Tensor) -> Tensor:
        torch.manual_seed(0)
        return theirs(x)

    for one, other in zip(
        with_gradients(ours, points(), given), with_gradients(peers, points(), given), strict=True
    ):
        torch.testing.assert_close(one, other, **EXACT)


@pytest.mark.parametrize("variant", ["transolver-plus"])  # FLARE draws nothing: one will do
def test_train_resume_audit_evaluate(variant: str, tmp_path: Path, command: Command) -> None:
    run = tmp_path / "run"
    plug_in = ("--plugin", FILES[variant], "--device", "cpu")
    settings = {**SMALL, "data.builtin.samples": '{"train": 4, "val": 2, "test": 2}'}
    settings["model.size"] = "{layers: 2, width: 8, heads: 2, slices: 3}"
    given = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    said = command("train", "poisson", "--variant", variant, "--out", run, *plug_in, *given)
    assert said.code == 0, said.err
    last = RunFolder(run).checkpoint_file(12)
    expected = last.read_bytes()
    last.unlink()
    assert command("train", "--out", run, *plug_in).code == 0
    assert last.read_bytes() == expected, "a resumed run is the run, with noise too"
    audited = command("audit", run, *plug_in[:2])
    assert audited.code == 0, audited.out
    measured = command("evaluate", run, *plug_in)
    assert measured.code == 0 and variant in measured.out, measured
