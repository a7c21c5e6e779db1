"""Audit of the weights in a run's files: their names and shapes, first values and changes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor

from slipstream.audit.artefacts import Artefacts, Saved
from slipstream.audit.bits import number_bytes, same_bits
from slipstream.audit.certificate import Finding, finding_from, listed
from slipstream.audit.taken_over import check_taken_over
from slipstream.core.runtime import package_version
from slipstream.models.structure import unreached_parameters
from slipstream.models.variants import Layers, Shapes, variant_named
from slipstream.runs.config import RunConfig
from slipstream.runs.model_file import build_model, weight_shapes

_ADAM_EPSILON = 1e-8
"""AdamW's default, since the config has no setting for it."""
_PARTS = {
    "slice memberships": r"(?:blocks\.(\d+)\.coupling\.(?:slice_slots|query)|(once)\.slots)\.",
    "deslice slots of their own": r"blocks\.(\d+)\.coupling\.deslice_slots\.()",
    "token attention": (
        r"(?:blocks\.(\d+)\.coupling\.mix|once\.token_blocks\.(\d+)\.attention)\.(?:query|key)\."
    ),
}
"""Patterns of the parameters that show a part, with the number of the layer as a group."""


def check_parameters(run: Artefacts) -> Finding:
    """The first, the last and the best checkpoint have the names and shapes of the variant."""
    assert run.config and run.schema and run.last
    config = run.config
    expected = weight_shapes(config, run.schema)
    places: dict[str, list[str]] = {}
    for saved in _looked_at(run):
        for complaint in _misfits(saved.weights, expected, config):
            places.setdefault(complaint, []).append(saved.name)
    wrong = [f"{complaint} (in {', '.join(names)})" for complaint, names in places.items()]
    numbers = sum(math.prod(shape) for shape in expected.values())
    wrong += [
        f"the start at step {row['step']} counted {row['parameters']:,} numbers instead of"
        f" {numbers:,}"
        for row in run.of_kind("start")
        if row["parameters"] != numbers
    ]
    seen = f"{len(expected)} parameters, {numbers:,} numbers, exactly those of"
    return finding_from("structure", wrong, f"{seen} {config.model.variant}")


def _misfits(weights: Mapping[str, Tensor], expected: Shapes, config: RunConfig) -> Iterator[str]:
    variant, wanted = config.model.variant, config.dtype
    missing = [name for name in expected if name not in weights]
    if missing:
        yield f"{variant} must have {listed(missing)}, got none"
    superfluous = [name for name in weights if name not in expected]
    if superfluous:
        yield f"{variant} must not have {listed(superfluous)}"
    fitting = {name: (expected[name], wanted) for name in expected if name in weights}
    given = {name: (tuple(weights[name].shape), weights[name].dtype) for name in fitting}
    other = [
        f"{name} {given[name][0]} of {given[name][1]} instead of {shape} of {dtype}"
        for name, (shape, dtype) in fitting.items()
        if given[name] != (shape, dtype)
    ]
    if other:
        yield f"{variant} in {config.precision} must have its shapes and types, got {listed(other)}"


def check_memberships(run: Artefacts) -> Finding:
    """Slices, slots of their own for deslicing and token attention are in the variant's layers.

    Only the names of parameters are read, so that this does not depend on how the model is built.
    """
    assert run.config
    variant, layers = run.config.model.variant, run.config.model.size.layers
    parts = variant_named(variant).expected_parts()
    if parts is None:
        return finding_from(
            "memberships", [], f"none claimed: the coupling of {variant} is a plug-in's"
        )
    wanted = dict(zip(_PARTS, (parts.memberships, parts.deslice, parts.attention), strict=True))
    wrong, seen = [], []
    for part, pattern in _PARTS.items():
        expected = _layers(wanted[part], layers)
        seen.append(f"{part} in {_places(expected)}")
        for saved in _looked_at(run):
            present = _layers_with(pattern, saved.weights)
            if present != expected:
                wrong.append(
                    f"{part} of {variant} must be in {_places(expected)}, got {_places(present)} in"
                    f" {saved.name}"
                )
    return finding_from("memberships", wrong, "; ".join(seen))


def _layers_with(pattern: str, names: Iterable[str]) -> set[str]:
    """Numbers of the layers with a matching parameter; "once" for a part before the layers."""
    matches = (re.match(pattern, name) for name in names)
    return {next(group for group in match.groups() if group) for match in matches if match}


def _layers(where: Layers, layers: int) -> set[str]:
    numbers = {"every": range(layers), "first": range(1), "before": (), "none": ()}[where]
    return {"once"} if where == "before" else {str(number) for number in numbers}


def _places(layers: set[str]) -> str:
    if layers == {"once"}:
        return "one place before the layers"
    numbers = ", ".join(sorted(layers, key=lambda name: (len(name), name)))
    return f"layer{'s' * (len(layers) > 1)} {numbers}" if layers else "no layer"


def check_initial(run: Artefacts) -> Finding:
    """The first checkpoint is what the seed gives, or the model that the run starts from."""
    assert run.config and run.schema and run.first
    if run.config.initial is not None:
        return check_taken_over(run, run.config.initial)
    drawn = dict(build_model(run.config, run.schema, "reference").named_parameters())
    saved = run.first.weights
    other = [n for n in drawn if n in saved and not same_bits(saved[n], drawn[n].detach())]
    wrong = []
    if other:
        wrong.append(
            f"{len(other)} of {len(drawn)} parameters did not start at the values of seed"
            f" {run.config.seed}: {listed(other)}"
        )
    notes = []
    by, now = run.first.state["versions"].get("torch"), package_version("torch")
    if by != now:
        notes.append(f"drawn by torch {by}, compared with values of torch {now}")
    seen = f"all {len(drawn)} parameters started at the values of seed {run.config.seed}, bitwise"
    return finding_from("initial values", wrong, seen, notes)


def check_changed(run: Artefacts) -> Finding:
    """Every parameter moved between the first and the last checkpoint.

    Two kinds of unmoved parameters are noted and do not fail the check. The gradients of one were
    so small that no step of the optimiser could change its last bit: the model does not use it, as
    the deslice slots of a layer that weighs all slices equally. The other can have no gradient,
    because of what the variant computes at this size. Weight decay or the rounding of a kernel may
    move it nevertheless, which says nothing about the model.
    """
    assert run.config and run.first and run.last
    first, last = run.first.weights, run.last.weights
    counts = {n: _changed(first[n], last[n]) for n in last if n in first}
    frozen = run.config.optim.frozen(last)
    unmoved = [name for name, count in counts.items() if not count and name not in frozen]
    model = run.config.model
    unreached = unreached_parameters(variant_named(model.variant), model.size)
    unreached = {name: unreached[name] for name in unmoved if name in unreached}
    idle = [n for n in unmoved if n not in unreached and _too_small_to_move(run.last, n)]
    still = [name for name in unmoved if name not in unreached and name not in idle]
    wrong = [
        f"{name} must keep its initial values, as optim.freeze says, got others at step {run.step}"
        for name in sorted(frozen)
        if counts.get(name)
    ]
    if still:
        wrong.append(
            f"{len(still)} of {len(counts)} parameters have the same bits at step {run.step} as at"
            f" step 0: {listed([f'{name} ({_gradient(run.last, name)})' for name in still])}"
        )
    numbers = sum(tensor.numel() for tensor in last.values())
    moved = len(counts) - len(unmoved) - len(frozen)
    count = f"{moved} of {len(counts)}" if unmoved or frozen else f"all {len(counts)}"
    seen = f"{count} parameters changed from step 0 to step {run.step}"
    notes = [f"frozen: {', '.join(run.config.optim.freeze)}"] if frozen else []
    notes += [f"{name} did not move: {_gradient(run.last, name)}, too small" for name in idle]
    for reason in dict.fromkeys(unreached.values()):
        names = [name for name, why in unreached.items() if why == reason]
        notes.append(f"{reason}, so no gradient reached {listed(names)}, which did not move")
    seen += f", {sum(counts.values()):,} of {numbers:,} numbers"
    return finding_from("changed", wrong, seen, notes)


def _too_small_to_move(saved: Saved, name: str) -> bool:
    """Whether there were gradients, but AdamW's steps are below half the last bit of each number.

    The last bit of an fp32 number near 1 is 1.2e-7, half of it 6e-8: with a learning rate of 1e-3
    and gradients of 1e-13, a step of 1e-3 * 1e-13 / (1e-13 + 1e-8) = 1e-8 leaves it as it is.
    """
    moment = saved.optimizer.get(f"{name}.exp_avg_sq")
    if moment is None or not moment.any():
        return False
    value, gradient = saved.weights[name].abs(), moment.double().sqrt()
    last_bit = torch.nextafter(value, torch.full_like(value, math.inf)).double() - value.double()
    step = saved.config.optim.learning_rate * gradient / (gradient + _ADAM_EPSILON)
    return bool((step < last_bit / 2).all())


def _gradient(saved: Saved, name: str) -> str:
    """How large the gradients of a parameter were, by the second moment of the optimiser."""
    moment = saved.optimizer.get(f"{name}.exp_avg_sq")
    if moment is None or not moment.any():
        return "no gradient came to it"
    return f"its gradients were about {moment.max().sqrt().item():.0e}"


def check_hashes(run: Artefacts) -> Finding:
    """The hashes of the files are those in the records, and the model file is the best one."""
    wrong, notes = [], []
    rows, starts = run.of_kind("checkpoint", "validation"), run.of_kind("start")
    for step, saved in run.checkpoints.items():
        here = [row for row in rows if row["step"] == step]
        hashes = {"weights": saved.weights_hash, "content": saved.state.get("content")}
        wrong += [
            f"{saved.name} must have the {name} {str(row[name])[:12]} of its {row['kind']} record,"
            f" got {str(actual)[:12]}"
            for row in here
            for name, actual in hashes.items()
            if name in row and row[name] != actual
        ]
        if not here and any(row["step"] == step and row.get("resumed") for row in starts):
            notes.append(f"{saved.name} has no record: the run was killed there, and resumed")
        elif not here:
            wrong.append(f"{saved.name} must have a record of its weights, got none")
    wrong += _wrong_marks(run) + _wrong_model(run)
    assert run.model
    best = run.model.state["metric"]
    seen = f"{len(run.checkpoints)} checkpoints and the model file are those recorded, the model"
    return finding_from("weights", wrong, f"{seen} the best, of step {best.get('step')}", notes)


def _wrong_marks(run: Artefacts) -> list[str]:
    """Validations marked best that were not, and the other way round."""
    wrong, smallest = [], math.inf
    for row in run.of_kind("validation"):
        error = math.inf if row["error"] is None else row["error"]
        if row["best"] != (error < smallest):
            wrong.append(
                f"the validation of step {row['step']}, error {row['error']} after {smallest} at"
                f" best, must be marked best: {error < smallest}, got {row['best']}"
            )
        smallest = min(smallest, error)
    return wrong


def _wrong_model(run: Artefacts) -> list[str]:
    assert run.model
    metric = run.model.state["metric"]
    rows = [row for row in run.of_kind("validation") if row["error"] is not None]
    if not rows:
        return ["the model file must be that of a validation, got no record of one"]
    best = min(rows, key=lambda row: row["error"])
    if metric.get("step") != best["step"]:
        return [
            f"the model file must be that of step {best['step']}, whose validation error"
            f" {best['error']} is the smallest, got that of step {metric.get('step')}"
        ]
    wrong = []
    if run.model.weights_hash != best["weights"]:
        wrong.append(
            f"the model file must have the weights {best['weights'][:12]} of the validation of step"
            f" {best['step']}, got {run.model.weights_hash[:12]}"
        )
    if any(metric.get(name) != best.get(name) for name in ("error", "by_group")):
        wrong.append(
            f"the model file must say the error {best['error']} of its step's validation"
            f" and its groups, got {metric.get('error')}"
        )
    return wrong


def _looked_at(run: Artefacts) -> list[Saved]:
    return [saved for saved in (run.first, run.last, run.model) if saved is not None]


def _changed(one: Tensor, other: Tensor) -> int:
    """How many numbers differ in their bits; all of them where dtype or shape differ."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return other.numel()
    return int((number_bytes(one) != number_bytes(other)).any(-1).sum())
