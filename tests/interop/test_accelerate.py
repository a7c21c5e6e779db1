"""`accelerate` on a module from the formula in thuml's names, and on what peers are there."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import slipstream
from slipstream.core.runtime import generator
from slipstream.interop.accelerate import Accelerated
from slipstream.kernels.plan import Operation, make_plan
from tests.interop.thuml_attention import Model, Physics_Attention_Irregular_Mesh

Named = dict[str, Tensor]
SLICES = pytest.mark.parametrize("slices", [8, 24])
"""With eight the projections are folded into the slots, with more than a head's width not."""


def draw(points: int = 60, width: int = 3, batch: int = 2) -> Tensor:
    return torch.randn(batch, points, width, generator=generator(0, "x", points, width)).double()


def everything(model: Callable[..., Any], *inputs: Tensor) -> Named:
    """The output, and the gradients of the inputs and of every parameter."""
    leaves = {f"input {i}": x.clone().requires_grad_() for i, x in enumerate(inputs)}
    output = model(*leaves.values())
    output = output[0] if isinstance(output, tuple) else output
    leaves |= dict(model.named_parameters())  # type: ignore[attr-defined]
    cotangent = torch.randn(output.shape, generator=generator(1)).to(output.dtype)
    gradients = torch.autograd.grad(output, list(leaves.values()), cotangent, allow_unused=True)
    named = zip(leaves, gradients, strict=True)
    return {"output": output.detach(), **{n: g for n, g in named if g is not None}}


def assert_close(found: Named, expected: Named, tolerance: float = 1e-12) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        error = (found[name] - tensor).abs().max() / tensor.abs().max().clamp(min=1e-3)
        assert error <= tolerance, f"{name}: {error:.1e}"


def assert_same(found: Named, expected: Named) -> None:
    assert found.keys() == expected.keys()
    assert [name for name in expected if not torch.equal(found[name], expected[name])] == []


def replaced_all(report: Accelerated, count: int) -> None:
    assert len(report.replaced) == count and not report.left_alone, str(report)


@SLICES
def test_outputs_and_gradients_in_fp64_and_back_to_the_bit(slices: int) -> None:
    model, x = Model(slices=slices).double(), draw()
    before, parameters = everything(model, x), dict(model.named_parameters())
    keys, kind = list(model.state_dict()), type(model.blocks[0].Attn)
    report = slipstream.accelerate(model)
    replaced_all(report, 2)
    assert (
        report.replaced[0].attention.epsilon == 1e-5 and report.replaced[0].name == "blocks.0.Attn"
    )
    assert "2 of 2" in str(report) and "chunked" in str(report)
    found = everything(model, x)
    assert_close(found, before)
    assert any(
        not torch.equal(found[name], before[name]) for name in before
    )  # it was computed anew
    assert list(model.state_dict()) == keys and isinstance(model.blocks[0].Attn, kind)
    assert all(now is parameters[name] for name, now in model.named_parameters())
    report.restore()
    report.restore()
    assert type(model.blocks[0].Attn) is kind
    assert_same(everything(model, x), before)


@pytest.mark.parametrize("autocast", [False, True], ids=["fp32", "bf16"])
@SLICES
def test_errors_are_those_of_the_module_itself(slices: int, autocast: bool) -> None:
    """Each tensor's error against fp64, summed over draws, at most twice its own."""
    model = Model(slices=slices)
    own: dict[str, float] = {}
    ours: dict[str, float] = {}
    for points in (300, 301, 302, 303):
        x = draw(points).float()
        exact = everything(copy.deepcopy(model).double(), x.double())
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            plain = everything(model, x)
            report = slipstream.accelerate(model)
            fast = everything(model, x)
        report.restore()
        assert fast["output"].dtype == (torch.bfloat16 if autocast else torch.float32)
        for name, tensor in exact.items():
            own[name] = own.get(name, 0.0) + float((plain[name] - tensor).norm() / tensor.norm())
            ours[name] = ours.get(name, 0.0) + float((fast[name] - tensor).norm() / tensor.norm())
    ratios = {name: ours[name] / own[name] for name in own}
    assert max(ratios.values()) < 2, sorted(ratios.items(), key=lambda item: -item[1])[:5]


@pytest.mark.parametrize("training", [True, False])
@SLICES
def test_dropout_draws_the_same(slices: int, training: bool) -> None:
    model, x = Model(slices=slices, dropout=0.3).double().train(training), draw()
    torch.manual_seed(3)
    before = everything(model, x)
    state = torch.get_rng_state()
    replaced_all(slipstream.accelerate(model), 2)
    assert torch.equal(torch.get_rng_state(), state)  # the trial draws from none of the caller's
    torch.manual_seed(3)
    assert_close(everything(model, x), before)


def test_an_optimiser_goes_on_with_the_same_parameters() -> None:
    """Its moments too: three steps of AdamW, the model accelerated after the first."""
    start, x, target = Model().double(), draw(), draw(width=2)

    def train(model: nn.Module, *, accelerated: bool) -> Named:
        optimiser = torch.optim.AdamW(model.parameters(), 1e-3)
        for step in range(3):
            if accelerated and step == 1:
                replaced_all(slipstream.accelerate(model), 2)
            optimiser.zero_grad()
            (model(x) - target).square().mean().backward()
            optimiser.step()
        return model.state_dict()

    expected = train(copy.deepcopy(start), accelerated=False)
    assert_close(train(copy.deepcopy(start), accelerated=True), expected, 1e-10)


def test_copies_and_pickles_stay_accelerated(tmp_path: Path) -> None:
    model, x = Model().double(), draw()
    plain = copy.deepcopy(model)
    slipstream.accelerate(model)
    before = everything(model, x)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert type(other.blocks[0].Attn) is type(model.blocks[0].Attn)
        assert other.blocks[0].Attn.temperature is not model.blocks[0].Attn.temperature
        assert_same(everything(other, x), before)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    plain.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    model.load_state_dict(plain.state_dict())
    assert_same(everything(model, x), before)


def test_checkpointing_and_hooks() -> None:
    model, x = Model(dropout=0.2), draw().float()
    calls: list[str] = []
    model.blocks[0].Attn.register_forward_hook(lambda *_: calls.append("attention"))
    model.blocks[0].Attn.in_project_x.register_forward_hook(lambda *_: calls.append("query"))
    replaced_all(slipstream.accelerate(model), 2)
    assert calls == []  # the trial calls none
    model(x)
    assert calls == ["query", "attention"]
    torch.manual_seed(0)
    before = everything(model, x)
    stream = model.preprocess(x)
    torch.manual_seed(0)
    for block in model.blocks:
        stream = checkpoint(block, stream, use_reentrant=False)
    torch.testing.assert_close(model.head(stream), before["output"])


COMPILED = """
import torch
import slipstream
from tests.interop.thuml_attention import Model

model, x = Model().double(), torch.rand(2, 60, 3).double()
expected = model(x)
compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
was = compiled(x)
report = slipstream.accelerate(compiled)  # in its place: the compiled model holds this one
assert len(report.replaced) == 2, report
now = compiled(x)
assert not torch.equal(now, was)
torch.testing.assert_close(now, expected, rtol=1e-12, atol=1e-12)
now.sum().backward()
assert all(p.grad is not None for p in model.parameters())
report.restore()
assert torch.equal(compiled(x), was)
print("one graph each")
"""


def test_compiled_before_and_after_and_restored() -> None:
    """In a process of its own: the shape checker of the other tests would break the graph."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", COMPILED], capture_output=True, text=True, cwd=root
    )
    assert "one graph each" in done.stdout, done.stderr[-2000:]


@pytest.fixture
def one_process() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("one_process")
def test_distributed_data_parallel() -> None:
    model, x = Model().double(), draw()
    before = everything(model, x)
    wrapped = DistributedDataParallel(model)
    replaced_all(slipstream.accelerate(wrapped), 2)
    wrapped(x).backward(torch.randn(2, 60, 2, generator=generator(1)).double())
    assert_close(
        {name: p.grad for name, p in model.named_parameters() if p.grad is not None},
        {name: before[name] for name, _ in model.named_parameters()},
    )


class Causal(Physics_Attention_Irregular_Mesh):
    def attend(self, tokens: Tensor) -> Tensor:
        maps = (self.to_q, self.to_k, self.to_v)
        attention = nn.functional.scaled_dot_product_attention
        return attention(*(of(tokens) for of in maps), is_causal=True)


class WithNoise(Physics_Attention_Irregular_Mesh):
    def attend(self, tokens: Tensor) -> Tensor:
        return super().attend(tokens + torch.randn_like(tokens) if self.training else tokens)


class MoreArguments(Physics_Attention_Irregular_Mesh):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return super().forward(x)


def attention(**changed: object) -> nn.Module:
    module = Physics_Attention_Irregular_Mesh(16, 2, 4)
    for name, value in changed.items():
        setattr(module, name, value)
    return module


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (attention(in_project_x=nn.Conv2d(16, 16, 3)), "convolutions of a structured .*Conv2d"),
        (attention(plus=True), "it is Transolver"),
        (attention(bias=nn.Parameter(torch.ones(3))), "it also has the parameter bias"),
        (attention(ln=nn.LayerNorm(3)), "it also has ln"),
        (attention(to_q=None), "it has no to_q"),
        (attention(to_k=nn.Linear(8, 8)), "it also has the parameter to_k.bias"),
        (attention(to_k=nn.Bilinear(8, 8, 8)), "its to_k is a torch.*Bilinear, not a Linear"),
        (attention(temperature=nn.Parameter(torch.ones(1, 4, 1, 1))), "2 heads and 4 temperatures"),
        (attention(in_project_slice=nn.Linear(4, 4)), "its head layout is another"),
        (attention(forward=lambda x: x), "replaced already, on the object"),
        (attention(scale=None), "it has no scale"),
        (attention(epsilon=1e-3), "it computes something else"),
        (attention(scale=1.0).to("meta"), "meta"),
        (Causal(16, 2, 4), "may be causal"),
        (WithNoise(16, 2, 4), "it computes something else"),
        (MoreArguments(16, 2, 4), r"its forward takes \(x, mask\)"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_what_is_left_alone_and_why(module: nn.Module, reason: str) -> None:
    kind, model = type(module), nn.Sequential(module)
    report = slipstream.accelerate(model)
    assert not report.replaced and type(model[0]) is kind
    assert [one.name for one in report.left_alone] == ["0"]
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(report.left_alone[0].reason)
    assert f"left alone: 0 ({kind.__module__}." in str(report)


def test_constants_are_found() -> None:
    module = Physics_Attention_Irregular_Mesh(16, 2, 4, epsilon=1e-2)
    report = slipstream.accelerate(module)
    assert (
        report.replaced[0].attention.epsilon == 1e-2 and report.replaced[0].attention.clamp is None
    )
    again = slipstream.accelerate(module)
    assert again.left_alone[0].reason == "it has been accelerated already"
    assert again.left_alone[0].name == "the model itself"
    again.restore()
    report.restore()
    assert type(module) is Physics_Attention_Irregular_Mesh


def test_bad_arguments_replace_nothing() -> None:
    model = Model()
    with pytest.raises(ValueError, match="model must be a torch.nn.Module, got int"):
        slipstream.accelerate(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="impl must be"):
        slipstream.accelerate(model, impl="single-tile")
    with pytest.raises(ValueError, match="precision must be"):
        slipstream.accelerate(model, precision="fp8")
    assert type(model.blocks[0].Attn) is Physics_Attention_Irregular_Mesh
    report = slipstream.accelerate(model, impl="reference")
    assert report.replaced[0].plan.family == "reference"
    model.blocks[0].Attn.__class__ = Causal
    with pytest.raises(ValueError, match="undo what came later first"):
        report.restore()
    assert type(model.blocks[1].Attn) is not Physics_Attention_Irregular_Mesh
    assert "Nothing replaced" in str(slipstream.accelerate(nn.Linear(2, 2)))


def test_the_report_says_what_runs_under_autocast_too() -> None:
    shape = {"slices": 32, "head_width": 32, "value_width": 32}
    single, half = (
        make_plan(Operation("cuda", dtype, **shape))  # type: ignore[arg-type]
        for dtype in ("float32", "bfloat16")
    )
    made = slipstream.accelerate(Model()).replaced[0]
    on_gpu = replace(made, plan=single, under_autocast=half)
    both = "single-tile, ieee dots; under bf16 autocast single-tile, bf16 dots"
    assert on_gpu.dots == both and made.dots == str(made.plan)
    report = slipstream.accelerate(Model(), precision="tf32x3")
    assert str(report).count("bf16 autocast is refused with this precision") == 2
    x = torch.rand(1, 9, 3)
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(ValueError, match="precision must be"),
    ):
        model = Model()
        slipstream.accelerate(model, precision="tf32x3")
        model(x)


def peer(module: str, name: str) -> Any:
    """A class of a peer; the test is skipped where it cannot be imported."""
    try:
        return getattr(import_module(module), name)
    except Exception as raised:
        pytest.skip(f"{module} cannot be imported: {type(raised).__name__}: {raised}")


FLASHSLICE: list[dict[str, Any]] = [
    {}, {"slice_num": 24}, {"untie_slice_weights": True}, {"no_token_attention": True},
    {"dim_head": 16, "slice_dim_head": 12}, {"untie_slice_weights": True, "slice_num": 24},
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", FLASHSLICE, ids=str)
def test_flashslice(options: dict[str, Any]) -> None:
    build = peer("flashslice", "Transolver")
    sizes = {"n_hidden": 32, "n_heads": 4, "n_layers": 2, "slice_num": 8, **options}
    check_peer(build(space_dim=3, fun_dim=2, out_dim=2, **sizes), draw(), draw(width=2))


@pytest.mark.filterwarnings("ignore")
def test_flashslice_that_shares_slices_is_left_alone() -> None:
    build = peer("flashslice", "Transolver")
    report = slipstream.accelerate(build(n_hidden=32, n_layers=2, share_slice_across_layers=True))
    assert not report.replaced and "slice weights of the first layer" in str(report)
    assert "slices once" in str(slipstream.accelerate(build(n_hidden=32, slice_once=True)))
    attention = peer("flashslice", "Physics_Attention_Irregular_Mesh")(16, 2, 8, slice_num=4)
    replaced_all(slipstream.accelerate(attention), 1)
    with pytest.raises(ValueError, match="slice_weights_in must be None"):
        attention(draw(width=16).float(), slice_weights_in=torch.ones(2, 2, 60, 4))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("slices", [8, 24])
def test_physicsnemo(slices: int) -> None:
    build = peer("physicsnemo.models.transolver", "Transolver")
    sizes = {"n_hidden": 32, "n_head": 4, "n_layers": 2, "slice_num": slices, "use_te": False}
    model = build(functional_dim=2, out_dim=2, embedding_dim=3, **sizes)
    with torch.no_grad():
        for block in model.blocks:  # one temperature below its range, one above
            block.Attn.temperature.copy_(torch.tensor([0.2, 0.7, 3.0, 6.0]).view(1, 1, 4, 1))
    report = check_peer(model, draw(width=2), draw())
    found = report.replaced[0].attention
    assert (found.epsilon, found.clamp) == (1e-2, (0.5, 5.0))
    plus = build(functional_dim=2, out_dim=2, embedding_dim=3, plus=True, **sizes)
    assert "Transolver++" in str(slipstream.accelerate(plus))
    grid = build(functional_dim=2, out_dim=2, structured_shape=(4, 4), unified_pos=True, **sizes)
    assert "Conv2d" in str(slipstream.accelerate(grid))


def check_peer(model: nn.Module, *inputs: Tensor) -> Accelerated:
    """Outputs and gradients to 1e-12 in fp64, and back to the bit."""
    model = model.double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator(2, name)))
    before = everything(model, *inputs)
    report = slipstream.accelerate(model)
    replaced_all(report, 2)
    assert_close(everything(model, *inputs), before)
    report.restore()
    assert_same(everything(model, *inputs), before)
    return report
