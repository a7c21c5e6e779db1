"""A model handed on: physical units in and out, for any number of points, or refused."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slipstream.data.batches import Normaliser
from slipstream.data.store import Field, Reference, Schema
from slipstream.interop.export_check import TOLERANCE, check_agreement, draw_inputs
from slipstream.runs.checkpoint import read_tensors, weights_hash, write_tensors
from slipstream.runs.model_file import TrainedModel, build_model, load_model, write_model

from ..conftest import Command
from ..training.small import small

SCHEMA = Schema(
    (Field("position", "m", components=3),),
    (Field("speed", "m/s"), Field("normal", "1", components=3, computed="normals")),
    (
        # exporters call a value inside so, and this one must come out undivided
        Field("linear", "1", divided=Reference({"speed": 2.0}, 0.6, "Pa")),
        Field("wall shear [0]", "Pa", components=3),
    ),
)
NORMALISER = Normaliser.from_json(
    {
        "coords": {"shift": [100.0, -3.0, 0.5], "scale": [4.0, 4.0, 4.0]},
        "features": {"shift": [30.0, 0.1, 0.0, 0.0], "scale": [5.0, 0.5, 0.6, 0.7]},
        "targets": {"shift": [-0.2, 1.0, 0.0, -2.0], "scale": [0.3, 2.0, 3.0, 0.5]},
    }
)
PLUGIN = """
import torch
from slipstream import register_variant
from slipstream.models.variants import Variant


class Largest(torch.nn.Module):
    def forward(self, x, previous):
        return torch.full_like(x, x.max().item()) if x.max().item() > 0 else x, None


register_variant(
    Variant("largest", "x", coupling=lambda *given: Largest(), structure=lambda *given: {})
)
"""


def written(path: Path, variant: str) -> Path:
    """The file of a model with initial values, whose head is large enough to be seen."""
    config = small(model__variant=variant)
    model = build_model(config, SCHEMA)
    with torch.no_grad():
        model.head.weight.mul_(30)
    best = {"step": 1, "error": 0.5, "by_group": {"linear": 0.5}}
    about = {"data_hash": "d", "split_hash": "s"}
    write_model(path, TrainedModel(model, SCHEMA, NORMALISER, config, best, about))
    return path


def clouds(points: int) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(points)
    coords = 100 + torch.randn(points, 3, generator=draw)
    normal = torch.nn.functional.normalize(torch.randn(points, 3, generator=draw), dim=-1)
    return {"coords": coords, "features": torch.cat((torch.full((points, 1), 42.0), normal), -1)}


def check_outputs(trained: TrainedModel, inputs: dict[str, torch.Tensor], got: Any) -> None:
    expected = trained(inputs["coords"], inputs["features"])
    assert list(got) == ["linear", "wall shear [0]"]
    for name, columns in (("linear", slice(0, 1)), ("wall shear [0]", slice(1, 4))):
        size = expected[:, columns].abs().max()
        torch.testing.assert_close(
            torch.as_tensor(got[name]), expected[:, columns], rtol=0, atol=float(1e-5 * size)
        )


def test_torch(tmp_path: Path, command: Command, no_shape_checks: None) -> None:
    model, out = written(tmp_path / "model.safetensors", "untied-ln"), tmp_path / "own.pt2"
    said = command("export", model, "--format", "torch", "--out", out)
    assert said.code == 0 and "column 0: speed [m/s]" in said.out and not said.err
    extra = {"slipstream.json": ""}
    exported = torch.export.load(io.BytesIO(out.read_bytes()), extra_files=extra).module()
    trained = load_model(model)
    for points in (1, 33, 4001):
        inputs = clouds(points)
        check_outputs(trained, inputs, exported(inputs["coords"], inputs["features"]))
    facts = json.loads(extra["slipstream.json"])
    assert facts["weights"] == weights_hash(dict(trained.model.named_parameters()))
    assert str(tmp_path) not in said.out.replace(str(out), "")
    before = out.read_bytes()
    again = command("export", model, "--format", "torch", "--out", out)
    assert again.code == 2 and "--overwrite replaces it" in again.err
    assert out.read_bytes() == before


def test_onnx(tmp_path: Path, command: Command, no_shape_checks: None) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model, out = written(tmp_path / "model.safetensors", "baseline"), tmp_path / "own.onnx"
    out.write_text("older")
    said = command("export", model, "--format", "onnx", "--out", out, "--overwrite", "--json")
    assert said.code == 0 and not said.err
    facts = json.loads(said.out)
    assert [one["points"] for one in facts["agreement"]] == [5, 1000, 10_000]
    assert max(one["difference"] for one in facts["agreement"]) <= TOLERANCE
    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    kept = json.loads(session.get_modelmeta().custom_metadata_map["slipstream"])
    assert kept == {key: facts[key] for key in kept} and kept["versions"]["onnx"]
    assert [(one["name"], one["unit"], one["shape"]) for one in kept["outputs"]] == [
        ("linear", "Pa", ["N", 1]),
        ("wall shear [0]", "Pa", ["N", 3]),
    ]
    features = kept["inputs"][1]["fields"]
    assert [(field["name"], field["columns"]) for field in features] == [
        ("speed", [0, 0]),
        ("normal", [1, 3]),
    ]
    assert "normals" in features[1]["how"][0]
    assert [(one.name, one.shape) for one in session.get_inputs()] == [
        ("coords", ["N", 3]),
        ("features", ["N", 4]),
    ]
    names = [one.name for one in session.get_outputs()]
    trained = load_model(model)
    for points in (1, 33, 4001):
        inputs = clouds(points)
        got = session.run(None, {name: value.numpy() for name, value in inputs.items()})
        check_outputs(trained, inputs, dict(zip(names, got, strict=True)))
    assert str(Path.cwd()).encode() not in out.read_bytes()


def test_what_cannot_be_exported_is_one_sentence(
    tmp_path: Path, command: Command, registry: None, no_shape_checks: None
) -> None:
    plugin, out = tmp_path / "largest.py", tmp_path / "own.pt2"
    plugin.write_text(PLUGIN)
    from slipstream.models.plugins import load_plugin

    load_plugin(plugin)
    model = written(tmp_path / "model.safetensors", "largest")
    said = command("export", model, "--format", "torch", "--out", out, "--plugin", plugin)
    assert said.code == 2 and said.err.count("\n") == 1
    assert "variant 'largest' must be exportable to torch, got" in said.err

    assert not list(tmp_path.glob("*.pt2*")) and not list(tmp_path.glob(".*"))


def test_a_file_that_differs_is_refused(tmp_path: Path) -> None:
    trained = load_model(written(tmp_path / "model.safetensors", "baseline"))

    def run(inputs: Any, off: float) -> dict[str, torch.Tensor]:
        got = trained(inputs["coords"], inputs["features"])
        return {"linear": got[:, :1], "wall shear [0]": got[:, 1:] + off}

    assert check_agreement(trained, lambda inputs: run(inputs, 0.0))[0].difference == 0
    for off in (1e-3, np.nan):
        with pytest.raises(ValueError, match=r"to 1e-05 of .* in 'wall shear \[0\]' of 5 points"):
            check_agreement(trained, lambda inputs, off=off: run(inputs, off))


def test_the_clouds_are_in_the_ranges_of_the_training(tmp_path: Path) -> None:
    trained = load_model(written(tmp_path / "model.safetensors", "baseline"))
    inputs = draw_inputs(trained, 500)
    assert inputs["coords"][:, 0].min() >= 96 and inputs["coords"][:, 0].max() <= 104
    assert (inputs["features"][:, 0] == 30).all()  # the reference must be one that was there
    assert inputs["features"][:, 1].std() > 0.2
    plain = replace(SCHEMA, targets=SCHEMA.targets[1:])
    assert draw_inputs(replace(trained, schema=plain), 500)["features"][:, 0].std() > 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("tensorflow", "own.onnx"), "--format must be one of torch, onnx, got 'tensorflow'"),
        (("onnx", "own.pt2"), "--out must end with .onnx for onnx, got"),
        (("torch", "folder.pt2"), "got a folder"),
        (("torch", "none/own.pt2"), "--out must be in a folder that exists"),
        (("torch", "own.pt2"), "normaliser"),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, command: Command, options: tuple[str, str], words: str
) -> None:
    (tmp_path / "folder.pt2").mkdir()
    model = written(tmp_path / "model.safetensors", "baseline")
    header, tensors = read_tensors(model, "model")
    del header["normaliser"]
    write_tensors(model, "model", header, tensors)
    before = sorted(tmp_path.rglob("*"))
    said = command("export", model, "--format", options[0], "--out", tmp_path / options[1])
    assert said.code == 2 and words in said.err and said.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_not_installed_is_named(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    said = command("export", tmp_path, "--format", "onnx", "--out", tmp_path / "own.onnx")
    assert said.code == 2 and "onnx must be installed" in said.err and "[export]" in said.err
