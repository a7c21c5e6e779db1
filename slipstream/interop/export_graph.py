"""A trained model as one graph in physical units, for torch.export and ONNX.

Both formats hold the computation of `kernels/reference.py` in single precision, for one cloud of
any number of points: coords (N, d) and features (N, f) go in, and a tensor (N, components) for each
target comes out, by its name.
"""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import torch
from torch import Tensor, nn

from slipstream.core.extras import need
from slipstream.runs.model_file import TrainedModel, build_model

FACTS = "slipstream"
"""The key of the facts in the metadata of an ONNX file."""
FACTS_FILE = "slipstream.json"
"""The extra file with the facts in a file of torch.export."""

_LARGEST_ONNX = 2**31 - 2**24
"""Bytes of parameters: a file of protobuf holds 2 GiB, graph and facts included."""


class Scaling(nn.Module):
    """One part of a normaliser, whose numbers are buffers: so they become constants of a graph."""

    shift: Tensor
    scale: Tensor

    def __init__(self, shift: Sequence[float], scale: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("shift", torch.tensor(shift))
        self.register_buffer("scale", torch.tensor(scale))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.shift) / self.scale

    def inverse(self, y: Tensor) -> Tensor:
        return y * self.scale + self.shift


class PhysicalModel(nn.Module):
    """A copy of a trained model, in single precision on the CPU, from physical units to physical
    units: targets that the card divided by a reference come out undivided."""

    def __init__(self, trained: TrainedModel) -> None:
        super().__init__()
        self.schema, normaliser = trained.schema, trained.normaliser
        model = build_model(trained.config, trained.schema, "reference")
        model.load_state_dict(trained.model.state_dict())
        model.recompute, model.memory = False, "normal"
        self.model = model.float().eval().requires_grad_(False)
        self.coords = Scaling(normaliser.coords.shift, normaliser.coords.scale)
        self.features = Scaling(normaliser.features.shift, normaliser.features.scale)
        self.targets = Scaling(normaliser.targets.shift, normaliser.targets.scale)

    def forward(self, coords: Tensor, features: Tensor | None = None) -> dict[str, Tensor]:
        """The targets by name, each (N, components), in the order of the model's."""
        scaled = None if features is None else self.features(features)[None]
        values = self.targets.inverse(self.model(self.coords(coords)[None], scaled)[0])
        start = self.schema.columns("targets").start
        outputs = {}
        for field in self.schema.targets:
            columns = self.schema.columns(field.name)
            output = values[:, columns.start - start : columns.stop - start]
            if field.divided is not None:
                assert features is not None, "a reference is made of features"
                output = output * field.divided.value(self._named(features, field.divided.by))
            outputs[field.name] = output
        return outputs

    def _named(self, features: Tensor, names: Mapping[str, float]) -> dict[str, Tensor]:
        first = self.schema.columns("features").start
        at = {name: self.schema.columns(name).start - first for name in names}
        return {name: features[:, column : column + 1] for name, column in at.items()}

    def example(self) -> dict[str, Tensor]:
        """Inputs of seven points, for whoever follows the computation."""
        inputs = {"coords": torch.zeros(7, self.schema.coord_dim)}
        if self.schema.features:
            inputs["features"] = torch.ones(7, self.schema.feature_dim)
        return inputs


def torch_bytes(trained: TrainedModel, facts: Mapping[str, Any]) -> bytes:
    """The content of a .pt2 file; ValueError where the variant cannot be exported."""
    content = io.BytesIO()
    with _exporting(trained, "torch"):
        exported = _exported(PhysicalModel(trained))
        torch.export.save(exported, content, extra_files={FACTS_FILE: json.dumps(facts)})
    return content.getvalue()


def onnx_bytes(trained: TrainedModel, facts: Mapping[str, Any]) -> bytes:
    """The content of an .onnx file; ValueError where the variant cannot be exported."""
    for package in ("onnx", "onnxscript"):
        need(package, "export")
    model = PhysicalModel(trained)
    size = sum(tensor.nbytes for tensor in model.state_dict().values())
    if size > _LARGEST_ONNX:
        raise ValueError(
            f"a model for onnx must have at most {_LARGEST_ONNX:,} bytes of parameters, got"
            f" {size:,}: take --format torch"
        )
    with _exporting(trained, "onnx"):
        names = list(model.example())
        program = torch.onnx.export(
            _exported(model),
            dynamo=True,
            input_names=names,
            dynamic_shapes={name: {0: "N"} for name in names},
            external_data=False,
            verbose=False,
        )
        assert program is not None
        _name_outputs(program.model.graph, [field.name for field in trained.schema.targets])
        program.model.metadata_props[FACTS] = json.dumps(facts)
        content: bytes = program.model_proto.SerializeToString()
    return content


def _exported(model: PhysicalModel) -> torch.export.ExportedProgram:
    example, points = model.example(), torch.export.Dim("N", min=1)
    shapes = {name: {0: points} for name in example}
    with torch.no_grad():
        exported = torch.export.export(model, tuple(example.values()), dynamic_shapes=shapes)
    for node in exported.graph.nodes:
        node.meta.pop("stack_trace", None)  # it names this machine's files
    return exported


def _name_outputs(graph: Any, names: list[str]) -> None:
    """Name the outputs of an ONNX graph, and rename the values inside that have such a name: one
    called `linear` would else be defined twice. Remarks of the exporter are removed."""
    outputs = list(graph.outputs)
    for node in graph.all_nodes():
        node.metadata_props.clear()  # where in this machine's files it was computed
        for value in node.outputs:
            if value.name in names and not any(value is output for output in outputs):
                value.name = f"{value.name}.inside"
    for value, name in zip(outputs, names, strict=True):
        value.name = name


@contextmanager
def _exporting(trained: TrainedModel, form: str) -> Iterator[None]:
    """Without the remarks of the exporters, whose errors become one sentence: torch prints the
    whole graph before some of them."""
    said = io.StringIO()
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(said), redirect_stderr(said):
            warnings.simplefilter("ignore")
            yield
    except Exception as error:  # of many types, and of a plug-in's own code
        first = next(iter(str(error).strip().splitlines()), "no message")
        raise ValueError(
            f"variant {trained.config.model.variant!r} must be exportable to {form}, got"
            f" {type(error).__name__}: {first}"
        ) from error
    finally:
        log.setLevel(before)
