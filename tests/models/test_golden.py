"""Our Transolver is *the* Transolver: outputs and gradients of other people's code, in fp64.

The files were computed by thuml/Transolver, flashslice 0.3.0 (eager path) and the released LinearNO
layer; see tests/golden/README.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from slipstream import Size, Transolver

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = sorted(path.stem for path in GOLDEN.glob("*.safetensors"))
TOLERANCE = 1e-12

# Their name -> ours, as patterns tried in order.
RENAMES = (
    (r"^preprocess\.", "lift."),
    (r"linear_pre\.0\.", "expand."),
    (r"linear_post\.", "contract."),
    (r"^blocks\.\d+\.ln_3\.", "head_norm."),
    (r"^blocks\.\d+\.mlp2\.", "head."),
    (r"^blocks\.(\d+)\.ln_1\.", r"blocks.\1.coupling_norm."),
    (r"^blocks\.(\d+)\.ln_2\.", r"blocks.\1.mlp_norm."),
    (r"^blocks\.(\d+)\.mlp\.", r"blocks.\1.mlp."),
    (r"^blocks\.(\d+)\.Attn\.", r"blocks.\1.coupling."),
    (r"^token_blocks\.(\d+)\.ln_1\.", r"once.token_blocks.\1.attention_norm."),
    (r"^token_blocks\.(\d+)\.ln_2\.", r"once.token_blocks.\1.mlp_norm."),
    (r"^token_blocks\.(\d+)\.attn\.out_proj\.", r"once.token_blocks.\1.attention.output."),
    (r"^token_blocks\.(\d+)\.mlp\.", r"once.token_blocks.\1.mlp."),
    (r"^slice_proj\.", "once.slots."),
    (r"^slice_temperature$", "once.slots.temperature"),
    (r"^out_norm\.", "head_norm."),
    (r"^out_head\.", "head."),
    (r"coupling\.in_project_x\.", "coupling.query."),
    (r"coupling\.in_project_fx\.", "coupling.values."),
    (r"coupling\.in_project_slice\.", "coupling.slice_slots."),
    (r"coupling\.in_project_deslice\.", "coupling.deslice_slots."),
    (r"coupling\.temperature$", "coupling.slice_slots.temperature"),
    (r"coupling\.deslice_temperature$", "coupling.deslice_slots.temperature"),
)
TRANSOLVER = (
    (r"coupling\.to_q\.", "coupling.mix.query."),
    (r"coupling\.to_k\.", "coupling.mix.key."),
    (r"coupling\.to_v\.", "coupling.mix.value."),
    (r"coupling\.to_out\.0\.", "coupling.output."),
)
LINEAR_NO = (
    (r"coupling\.to_q\.", "coupling.deslice_slots."),
    (r"coupling\.to_k\.", "coupling.slice_slots."),
    (r"coupling\.to_v\.", "coupling.value."),
    (r"coupling\.tempreature_q$", "coupling.deslice_slots.temperature"),
    (r"coupling\.tempreature_k$", "coupling.slice_slots.temperature"),
    (r"coupling\.to_out\.0\.", "coupling.output.expand."),
    (r"coupling\.to_out\.2\.", "coupling.output.contract."),
)


def ours(tensors: dict[str, Tensor], kind: str, variant: str) -> dict[str, Tensor]:
    """Their tensors of one kind ("weight" or "grad") under our names and shapes."""
    renamed = {}
    for their_name, tensor in tensors.items():
        head, _, name = their_name.partition(".")
        if head != kind or name == "features":
            continue
        for pattern, replacement in RENAMES + (LINEAR_NO if variant == "untied-ln" else TRANSOLVER):
            name = re.sub(pattern, replacement, name)
        if name.endswith("temperature"):
            tensor = tensor.reshape(-1)
        if joined := re.match(r"token_blocks\.(\d+)\.attn\.in_proj_(\w+)$", name):
            layer, part = joined.groups()
            for role, third in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
                renamed[f"once.token_blocks.{layer}.attention.{role}.{part}"] = third
        else:
            renamed[name] = tensor
    return renamed


def relative(got: Tensor, expected: Tensor) -> float:
    return float((got.detach() - expected).norm() / expected.norm())


@pytest.mark.parametrize("name", FILES)
def test_outputs_and_every_gradient_match(name: str) -> None:
    with safe_open(GOLDEN / f"{name}.safetensors", "pt") as file:
        meta = file.metadata()
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    size = Size(
        layers=int(meta["layers"]),
        width=int(meta["width"]),
        heads=int(meta["heads"]),
        slices=int(meta["slices"]),
        mlp_ratio=int(meta["mlp_ratio"]),
        key_ratio=int(meta.get("key_ratio", 1)),
    )
    model = Transolver(3, 2, 4, variant=meta["variant"], size=size).double()
    theirs = ours(tensors, "weight", meta["variant"])
    untrained = ours(
        {f"weight.{key}": torch.empty(0) for key in meta["no_gradient"].split(",") if key},
        "weight",
        meta["variant"],
    )
    dead = {key for key in theirs if key.endswith("attention.key.bias")} | untrained.keys()
    assert theirs.keys() - dead == dict(model.named_parameters()).keys()
    model.load_state_dict({key: theirs[key] for key in theirs.keys() - dead})

    features = tensors["input.features"].requires_grad_()
    output = model(tensors["input.coords"], features)
    (output * tensors["input.cotangent"]).sum().backward()

    assert relative(output, tensors["output"]) < TOLERANCE
    assert features.grad is not None
    assert relative(features.grad, tensors["grad.features"]) < TOLERANCE
    expected = ours(tensors, "grad", meta["variant"])
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert relative(parameter.grad, expected[key]) < TOLERANCE, key
    for key in dead & expected.keys():  # the key biases: rounding is all they ever receive
        assert float(expected[key].norm()) < 1e-12 * float(tensors["grad.features"].norm()), key


def test_all_eight_files_are_here() -> None:
    assert len(FILES) == 8
