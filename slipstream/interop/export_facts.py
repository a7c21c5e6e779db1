"""What an exported file says of itself, as JSON: all that a user of it needs who has no model file.

schema     1
name, variant, parameters, precision
weights    hash of the parameters, as the records and the audit of a run have it
data_hash  of the training data
versions   of the packages that exported; trained_with: of those that trained
inputs     for each tensor in their order: name, shape, and its columns, a field each with
           unit, place and how its values are made
outputs    for each tensor in their order: name, unit, shape, what it is
notes      sentences
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slipstream.core.runtime import package_version, versions
from slipstream.data.store import Field
from slipstream.runs.checkpoint import weights_hash
from slipstream.runs.model_file import TrainedModel
from slipstream.runs.model_page import Lines, input_lines, output_lines

SCHEMA = 1
_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_ANY_NUMBER = (
    "N, the number of points, may differ from call to call; the order of the points does not"
    " matter."
)
_COUPLED = (
    "One pass takes all points at once: it keeps N x heads x slices weights of a layer in memory.",
    "Every point adds to the result at all others: predict on all points of a design together.",
)
_POINTWISE = ("Every point is computed by itself.",)


def export_facts(trained: TrainedModel, form: str) -> dict[str, Any]:
    """The facts of a file in this format, ready for JSON."""
    schema, config = trained.schema, trained.config
    lines = input_lines(trained)
    pointwise = trained.model.variant.stream == "pointwise"
    inputs = [_tensor("coords", schema.coords, lines[: len(schema.coords)])]
    if schema.features:
        inputs.append(_tensor("features", schema.features, lines[len(schema.coords) :]))
    installed = {name: package_version(name) for name in _PACKAGES} if form == "onnx" else {}
    return {
        "schema": SCHEMA,
        "format": form,
        "name": config.name,
        "variant": config.model.variant,
        "parameters": trained.model.parameter_count(),
        "precision": "float32",
        "weights": weights_hash(dict(trained.model.named_parameters())),
        "data_hash": trained.about.get("data_hash"),
        "versions": versions() | {name: version for name, version in installed.items() if version},
        "trained_with": trained.about.get("versions"),
        "inputs": inputs,
        "outputs": [
            {
                "name": field.name,
                "unit": field.undivided_unit,
                "shape": ["N", field.components],
                "what": sentences,
            }
            for field, (_, sentences) in zip(schema.targets, output_lines(trained), strict=True)
        ],
        "notes": [_ANY_NUMBER, *(_POINTWISE if pointwise else _COUPLED)],
    }


def _tensor(name: str, fields: Sequence[Field], lines: Lines) -> dict[str, Any]:
    columns, first = [], 0
    for field, (_, sentences) in zip(fields, lines, strict=True):
        last = first + field.components - 1
        columns.append(
            {"name": field.name, "unit": field.unit, "columns": [first, last], "how": sentences}
        )
        first = last + 1
    return {"name": name, "shape": ["N", first], "fields": columns}


def facts_text(facts: dict[str, Any]) -> list[str]:
    """The same as lines that a person can read."""
    lines = [
        f"{facts['name']}: {facts['parameters']:,} parameters, float32, weights"
        f" {facts['weights'][:12]}",
        "It takes",
    ]
    for tensor in facts["inputs"]:
        lines.append(f"  {tensor['name']} (N, {tensor['shape'][1]})")
        for field in tensor["fields"]:
            first, last = field["columns"]
            place = f"column {first}" if first == last else f"columns {first} to {last}"
            how = "; ".join(field["how"])
            lines.append(f"    {place}: {field['name']} [{field['unit']}]: {how}")
    lines.append("It gives")
    for output in facts["outputs"]:
        what = "; ".join(output["what"])
        text = f"  {output['name']} (N, {output['shape'][1]}) [{output['unit']}]"
        lines.append(f"{text}: {what}" if what else text)
    return [*lines, *facts["notes"]]
