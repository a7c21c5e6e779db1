"""The token attention taken out of a trained model: `slipstream slim`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from slipstream.core.checks import check_at_least, check_whole
from slipstream.core.files import json_text, write_bytes, write_text
from slipstream.core.runtime import commit, device_name
from slipstream.data.batches import Batch, Loader, PointDataset, Share
from slipstream.data.store import (
    Schema,
    Store,
    data_hash,
    open_store,
    split_hash,
    with_training_samples,
)
from slipstream.evaluation.evaluate import sample_errors
from slipstream.interop.fewer_slices import LayerReduction, Limits, fewer_slices
from slipstream.interop.slim_folder import (
    CERTIFICATE,
    CLOSED_FORM,
    MODEL,
    TUNING,
    begin_folder,
    check_folder,
)
from slipstream.interop.token_maps import LayerFit, fit_token_maps, without_attention
from slipstream.metrics import Errors
from slipstream.models.plugins import plugin_of
from slipstream.runs.checkpoint import weights_hash
from slipstream.runs.model_file import (
    TrainedModel,
    build_model,
    load_model,
    model_path,
    write_model,
)
from slipstream.runs.take_over import initial_model
from slipstream.training.data import first_epoch
from slipstream.training.losses import loss_of
from slipstream.training.session import train_whole

_TIMED = 7
"""Steps of each model whose median time the certificate has."""


@dataclass(frozen=True, kw_only=True)
class SlimRequest:
    steps: int = 0
    """Of fine-tuning; 0 for none."""
    samples: int = 64
    """Training samples, at most, whose tokens are fitted."""
    learning_rate: float = 3e-4
    """Of the fine-tuning, whose warm-up and decay are those of the model's training."""
    limits: Limits = Limits()
    """Which slices go, besides the attention."""
    device: str = "auto"

    def __post_init__(self) -> None:
        check_whole("steps", self.steps, 0)
        check_whole("samples", self.samples, 1)
        check_at_least("learning_rate", self.learning_rate, 0)


def slim(path: Path, store: Path, out: Path, request: SlimRequest) -> dict[str, Any]:
    """Write the model without token attention, and its certificate, which is returned.

    The same call after an interruption goes on. Raises ValueError, having written nothing, where
    the model has no token attention to take out, the store has other fields, or OUT holds something
    else, as what other settings have made.
    """
    source = load_model(path, device=request.device)
    variant = without_attention(source.model.variant).name
    opened = with_training_samples(open_store(store), source.config.data.train)
    request.limits.check_slices(source.model.size.slices)
    _check(source, opened, path, out)
    settings = _settings(source, opened, request)
    check_folder(out, settings)
    made = closed_form(source, opened, variant, request)
    closed = made.trained
    models, errors = {"before": source, "closed form": closed}, {}
    begin_folder(out, settings)
    for name, model in models.items():
        errors[name] = validation_error(model, source, opened)
    final = replace(closed, metric=_metric(source, errors["closed form"]))
    better = False
    if request.steps:
        write_model(out / CLOSED_FORM, final)
        tuned = _tuned(closed, out, store, request)
        errors["fine-tuned"] = validation_error(tuned, source, opened)
        better = errors["fine-tuned"].mean() <= errors["closed form"].mean()
    if better:
        write_bytes(out / MODEL, (out / TUNING / MODEL).read_bytes())
    else:
        write_model(out / MODEL, final)
    certificate = {
        "model": str(model_path(path)),
        "weights": settings["weights"],
        "variant": [source.config.model.variant, variant],
        "store": str(store),
        "validation": {name: _as_json(own) for name, own in errors.items()},
        **_facts(source, made, opened, request),
        "device": device_name(source.device),
        "commit": commit(),
    }
    write_text(out / CERTIFICATE, json_text(certificate))
    return certificate


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """The model without attention, and what was done to it."""

    trained: TrainedModel
    fits: list[LayerFit]
    reductions: list[LayerReduction]
    """Of the slices, layer by layer; none where all were to stay."""


def closed_form(
    source: TrainedModel, store: Store, variant: str, request: SlimRequest
) -> ClosedForm:
    """Its slices and its maps are by the points of training samples."""

    def clouds() -> Iterator[Batch]:
        return islice(_batches(source, store, "train"), request.samples)

    reduced, reductions, size = None, list[LayerReduction](), source.model.size
    if request.limits != Limits():
        reduced, reductions = fewer_slices(source.model, clouds, request.limits)
        size = reduced.model.size
    weights, fits = fit_token_maps(source.model, clouds, reduced)
    own = replace(source.config.model, variant=variant, size=size, plugin=plugin_of(variant))
    config = replace(
        source.config, model=own, initial=None, optim=replace(source.config.optim, freeze=())
    )
    model = build_model(config, source.schema)
    model.load_state_dict(weights)
    about = {"data_hash": data_hash(store), "split_hash": split_hash(store)}
    about |= {"slim_of": weights_hash(dict(source.model.named_parameters()))}
    model = model.to(source.device).eval()
    closed = replace(source, model=model, config=config, about=about)
    return ClosedForm(closed, fits, reductions)


def validation_error(model: TrainedModel, source: TrainedModel, store: Store) -> Errors:
    """The errors on the validation split, in the units that `source` was trained in."""
    module = model.model
    if model.normaliser != source.normaliser:
        module = _InUnitsOf(model, source)  # type: ignore[assignment]
    return sample_errors(module, _batches(source, store, "val"), store.schema.target_groups)


class _InUnitsOf(torch.nn.Module):
    """A model as a module that takes and gives what another one's normaliser makes."""

    def __init__(self, model: TrainedModel, source: TrainedModel) -> None:
        super().__init__()
        self.own, self.units = model, source.normaliser

    def forward(self, coords: torch.Tensor, features: torch.Tensor | None) -> torch.Tensor:
        given = None if features is None else self.units.features.inverse(features)
        values = self.own.as_stored(self.units.coords.inverse(coords), given)
        return self.units.targets.forward(values)


def step_times(models: Sequence[TrainedModel], store: Store) -> list[float]:
    """Median milliseconds of a forward and a backward pass of each, taken in turn; of the CPU where
    it computes, since other programs may run beside."""
    clock = time.process_time if models[0].device.type == "cpu" else time.perf_counter
    batch = next(_batches(models[0], store, "train"))
    times: list[list[float]] = [[] for _ in models]
    for _ in range(_TIMED + 1):
        for own, model in zip(times, models, strict=True):
            began = clock()
            outputs = model.model(*batch.inputs)
            loss_of("relative-l1", outputs, batch.targets, store.schema.target_groups).backward()
            if model.device.type == "cuda":
                torch.cuda.synchronize(model.device)
            own.append(1000 * (clock() - began))
            model.model.zero_grad()
    return [round(statistics.median(own[1:]), 3) for own in times]


def _facts(
    source: TrainedModel, made: ClosedForm, store: Store, request: SlimRequest
) -> dict[str, Any]:
    """Sizes and times before and after, and what was done to the model."""
    models = [source, made.trained]
    return {
        "parameters": [own.model.parameter_count() for own in models],
        "step_ms": step_times(models, store),
        "slices": {
            "number": [own.model.size.slices for own in models],
            **asdict(request.limits),
            "layers": [asdict(own) for own in made.reductions],
        },
        "fit": {
            "samples": min(request.samples, len(store.splits["train"])),
            "layers": [asdict(fit) for fit in made.fits],
        },
        "steps": request.steps,
        "learning_rate": request.learning_rate if request.steps else None,
    }


def _tuned(closed: TrainedModel, out: Path, store: Path, request: SlimRequest) -> TrainedModel:
    initial, _ = initial_model(out / CLOSED_FORM)
    config = closed.config
    every = max(1, request.steps // 5)
    if closed.imported is None:  # an imported model has no training of its own
        every = min(config.evaluate_every, every)
    tuning = replace(
        config,
        data=replace(config.data, store=str(store.resolve())),
        optim=replace(config.optim, learning_rate=request.learning_rate),
        initial=initial,
        steps=request.steps,
        schedule=None,
        evaluate_every=every,
    )
    train_whole(tuning, out / TUNING, device=request.device)
    return load_model(out / TUNING, device=request.device)


def _batches(source: TrainedModel, store: Store, split: str) -> Iterator[Batch]:
    """Samples one by one, as the model's training drew and normalised them."""
    data = source.config.data
    dataset = PointDataset(
        store, split, points=data.points, sampling=data.sampling, seed=data.evaluation_seed
    )
    loader = Loader(dataset, Share(batch_size=1, shuffle=False, even=False))
    for batch in first_epoch(loader):
        yield batch.to(source.device, source.config.dtype).normalise(source.normaliser)


def _check(source: TrainedModel, store: Store, path: Path, out: Path) -> None:
    if store.schema.identity() != source.schema.identity():
        wanted, got = (_fields(schema) for schema in (source.schema, store.schema))
        hint = "; `slipstream import --store STORE` gives a model those of a store"
        raise ValueError(
            f"{store.path} must have the fields of {path} ({wanted}), got others ({got})"
            f"{hint if source.imported else ''}"
        )
    for split in ("train", "val"):
        if not store.splits.get(split):
            raise ValueError(f"{store.path} must have samples in its split {split!r}, got none")
    if model_path(path).resolve().parent == out.resolve():
        raise ValueError(f"{out} must be another folder than that of the model, got the same")


def _settings(source: TrainedModel, store: Store, request: SlimRequest) -> dict[str, Any]:
    """All that the slimmed model depends on."""
    return {
        "weights": weights_hash(dict(source.model.named_parameters())),
        "data_hash": data_hash(store),
        "samples": request.samples,
        **asdict(request.limits),
        "steps": request.steps,
        "learning_rate": request.learning_rate if request.steps else None,
    }


def _fields(schema: Schema) -> str:
    return ", ".join(f"{f.name} [{f.unit}] x {f.components}" for f in schema.fields)


def _metric(source: TrainedModel, errors: Errors) -> dict[str, Any]:
    return {"step": source.metric["step"], **_as_json(errors)}


def _as_json(errors: Errors) -> dict[str, Any]:
    return {"error": errors.mean(), "by_group": errors.by_group()}
