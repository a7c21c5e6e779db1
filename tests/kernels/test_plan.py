from __future__ import annotations

import pytest

from slipstream.kernels.plan import ALLOWED, PRODUCTS, Operation, Plan, Precision, make_plan

PAPER = Operation(device="cuda", dtype="bfloat16", slices=32, head_width=32, value_width=32)


def plan(**changes: object) -> str:
    return str(make_plan(PAPER._replace(**changes)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "single-tile, bf16 dots"),
        ({"dtype": "float32"}, "single-tile, ieee dots"),
        ({"dtype": "float16"}, "single-tile, ieee dots"),
        ({"slices": 128, "head_width": 128, "value_width": 128}, "single-tile, bf16 dots"),
        (
            {"slices": 128, "head_width": 128, "value_width": 128, "dtype": "float32"},
            "blocked, ieee dots",
        ),
        ({"slices": 256}, "blocked, bf16 dots"),
        ({"slices": 8}, "blocked, bf16 dots"),
        ({"slices": 48}, "blocked, bf16 dots"),
        ({"head_width": 56, "value_width": 56}, "blocked, bf16 dots"),
        ({"value_width": 64}, "blocked, bf16 dots"),
        ({"head_width": 256, "value_width": 256}, "blocked, bf16 dots"),
        ({"over": "points"}, "blocked, bf16 dots"),
        ({"device": "cpu"}, "chunked: no CUDA device (the tensors are on cpu)"),
        ({"device": "cpu", "dtype": "float64"}, "chunked: no CUDA device (the tensors are on cpu)"),
        ({"device": "cpu", "triton": False}, "chunked: no CUDA device (the tensors are on cpu)"),
        (
            {"device": "cpu", "plain": False},
            "reference: the model is being exported or transformed",
        ),
        ({"device": "mps"}, "reference: no CUDA device (the tensors are on mps)"),
        ({"triton": False}, "reference: Triton is not installed"),
        (
            {"dtype": "float64"},
            "reference: the kernels take float32, bfloat16, float16, not float64",
        ),
        ({"head_width": 257}, "reference: the kernels take widths up to 256, not 257"),
        (
            {"over": "points", "deslice": True},
            "reference: no kernel deslices by weights normalised over the points",
        ),
    ],
)
def test_routing(changes: dict[str, object], expected: str) -> None:
    assert plan(**changes) == expected


def test_reference_on_request() -> None:
    assert str(make_plan(PAPER, impl="reference")) == "reference: asked for"


def test_chunked_is_for_cpus() -> None:
    assert str(make_plan(PAPER._replace(device="cpu"), impl="chunked")) == "chunked: asked for"
    with pytest.raises(ValueError, match='impl must not be "chunked" here: it is for CPUs'):
        make_plan(PAPER, impl="chunked")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"device": "cpu"}, "no CUDA device"),
        ({"head_width": 300}, "the kernels take widths up to 256, not 300"),
        ({"shared_memory": 49152}, "the kernels need .* a block, and this GPU has 49152"),
    ],
)
def test_fused_is_refused_with_the_reason(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=f'got "fused": {reason}'):
        make_plan(PAPER._replace(**changes), impl="fused")  # type: ignore[arg-type]


def test_the_interpreter_runs_only_on_request() -> None:
    on_cpu = PAPER._replace(device="cpu", dtype="float32", interpreted=True)
    assert make_plan(on_cpu, impl="fused") == Plan("single-tile", Precision.IEEE)
    assert make_plan(on_cpu).family == "chunked"


def test_bad_requests(no_shape_checks: None) -> None:
    with pytest.raises(
        ValueError, match="impl must be one of auto, fused, single-tile, .* got 'fast'"
    ):
        make_plan(PAPER, impl="fast")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="precision must be one of ieee, .*, got 'bf15'"):
        make_plan(PAPER, precision="bf15")


@pytest.mark.parametrize("dtype", ALLOWED)
@pytest.mark.parametrize("precision", Precision)
def test_each_dtype_has_its_precisions(dtype: str, precision: Precision) -> None:
    problem = PAPER._replace(dtype=dtype)
    if precision in ALLOWED[dtype]:
        assert make_plan(problem, precision=precision).precision == precision
        assert precision in PRODUCTS
    else:
        with pytest.raises(ValueError, match=f"for {dtype} inputs, got '{precision}'"):
            make_plan(problem, precision=precision)


def test_a_family_can_be_asked_for_by_name() -> None:
    assert make_plan(PAPER, impl="blocked").family == "blocked"
    assert make_plan(PAPER, impl="single-tile").family == "single-tile"
    odd = PAPER._replace(slices=33)
    with pytest.raises(ValueError, match='got "single-tile": one tile holds .* not G = 33, D = 32'):
        make_plan(odd, impl="single-tile")


def test_less_shared_memory_holds_smaller_tiles() -> None:
    small = PAPER._replace(slices=128, head_width=128, value_width=128, shared_memory=101376)
    assert make_plan(small).family == "blocked"
    assert make_plan(small._replace(shared_memory=232448)).family == "single-tile"
    assert make_plan(PAPER._replace(shared_memory=101376)).family == "single-tile"
