"""The complete config of a run: everything its result depends on, frozen, as JSON on disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from slipstream.core.checks import check_at_least, check_choice, check_whole
from slipstream.core.configs import differences
from slipstream.core.schemas import YOUNGER, check_plain
from slipstream.data.batches import CoordScale, Sampling
from slipstream.kernels.plan import Impl, Precision
from slipstream.models.constants import DEFAULT, Constants
from slipstream.models.lean import Memory, check_one_way
from slipstream.models.plugins import Plugin, plugin_of
from slipstream.models.steps import StreamPrecision
from slipstream.models.variants import BUILT_IN, PAPER, VARIANTS, Size, variant_named

Loss = Literal["relative-l1", "relative-l2", "l1", "mse"]

FREE = (
    "data.store",
    "data.workers",
    "model.plugin",
    "initial.model",
    "cuda_graph",
    "log_every",
    "checkpoint_every",
    "keep",
)
"""Fields that a resumed run may change: its result does not depend on them. It does depend on the
code of a plug-in, which every start records and the audit compares."""
OWN = ("model.variant", "seed")
"""The fields in which the runs of a study differ."""


@dataclass(frozen=True, kw_only=True)
class BuiltinData:
    """How the data of a built-in problem are made where no store is given."""

    samples: dict[str, int]
    """Number of samples in each split."""
    points: int
    seed: int = 0
    """Seed of the data; the runs of a study share it, whatever their own seeds."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the problem, as in `slipstream data make --set`."""

    def __post_init__(self) -> None:
        for split, count in self.samples.items():
            check_whole(f"samples.{split}", count, 1)
        check_whole("points", self.points, 1)


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    problem: str | None
    """The benchmark or built-in problem whose fields the store must have; null for any."""
    store: str | None = None
    """Folder of the point store; null for built-in data, which are made beside the run."""
    builtin: BuiltinData | None = None
    points: int | float | None = None
    """Points of a draw: a number, a share of the sample's points (0.03), or null for all."""
    sampling: Sampling = "window"
    coord_scale: CoordScale = "common"
    evaluation_seed: int = 0
    """Seed of the points drawn in validation: the same in every validation of every run."""
    workers: int = 0
    """Processes that read samples ahead of the training."""
    train: tuple[str, ...] | None = field(default=None, metadata=YOUNGER)
    """Samples of the training split to train on, and to normalise by; null for all of them."""

    def __post_init__(self) -> None:
        check_whole("data.workers", self.workers, 0)
        if self.store is None and self.builtin is not None and self.problem is None:
            raise ValueError("data.problem must name the built-in problem to make, got null")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    variant: str = "baseline"
    size: Size = PAPER
    impl: Impl = "auto"
    dots: str | None = None
    """Precision of the products inside slice and deslice, one of `plan.Precision`; null to follow
    `precision`."""
    plugin: Plugin | None = field(default=None, metadata=YOUNGER)
    """The file that defines the variant, filled in by itself; null for a built-in variant. A config
    that names it can be read where the plug-in is not loaded."""
    constants: Constants = field(default=DEFAULT, metadata=YOUNGER)
    """What the model computes with besides its parameters."""

    def __post_init__(self) -> None:
        if self.variant in BUILT_IN:
            object.__setattr__(self, "plugin", None)
        elif self.plugin is None:
            variant_named(self.variant)
            object.__setattr__(self, "plugin", plugin_of(self.variant))
        if self.dots is not None:
            check_choice("model.dots", self.dots, [p.value for p in Precision])

    def check_loaded(self, where: str) -> None:
        """Raise ValueError where the variant is a plug-in's that is not loaded."""
        if self.variant in VARIANTS:
            return
        file = self.plugin.file if self.plugin else None
        need = (
            f"it needs the plug-in {file}; add --plugin FILE (in Python: slipstream.models."
            "load_plugin)"
            if file
            else "the program that registered it must register it again"
        )
        raise ValueError(f"the variant {self.variant!r} of {where} is not built in: {need}")


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """AdamW with linear warm-up and cosine decay to zero. The defaults are the paper's."""

    learning_rate: float = 1e-3
    warmup: float = 0.01
    """Share of the schedule over which the learning rate rises linearly."""
    weight_decay: float = 5e-5
    """On matrices only: not on biases, norms, temperatures and the placeholder."""
    clip: float = 5.0
    """Largest norm of the gradient."""
    loss: Loss = "relative-l1"
    """On normalised targets; the relative ones by sample and group, as the metric."""
    freeze: tuple[str, ...] = field(default=(), metadata=YOUNGER)
    """Patterns of the names of parameters that keep their initial values, as `lift.*`."""

    def __post_init__(self) -> None:
        check_at_least("optim.learning_rate", self.learning_rate, 0)
        check_at_least("optim.warmup", self.warmup, 0)
        check_at_least("optim.weight_decay", self.weight_decay, 0)
        if not self.clip > 0:
            raise ValueError(f"optim.clip must be positive, got {self.clip}")

    def frozen(self, names: Iterable[str]) -> frozenset[str]:
        """The names of parameters that are frozen."""
        return frozenset(n for n in names if any(fnmatchcase(n, p) for p in self.freeze))

    def check_freeze(self, names: Iterable[str]) -> None:
        """Raise ValueError where a pattern is of no parameter, or all are frozen."""
        every = tuple(names)
        for pattern in self.freeze:
            if not any(fnmatchcase(name, pattern) for name in every):
                raise ValueError(
                    f"optim.freeze must match parameters of the model, as {every[0]}, got"
                    f" {pattern!r}"
                )
        if len(self.frozen(every)) == len(every):
            raise ValueError("optim.freeze must leave a parameter to train, got all frozen")


@dataclass(frozen=True, kw_only=True)
class InitialModel:
    """The trained model that a run starts from."""

    model: str
    """Its file, which only the first start of a run reads."""
    weights: str
    """The hash of its parameters."""


@dataclass(frozen=True, kw_only=True)
class MeshConfig:
    """How the processes of a run are arranged: data x points."""

    points: int = 1
    """Processes that share out the points of each sample; all processes are a multiple of it."""

    def __post_init__(self) -> None:
        check_whole("mesh.points", self.points, 1)

    def check_divides(self, processes: int) -> None:
        """Raise ValueError where so many processes are no multiple of those of a sample."""
        if processes % self.points:
            raise ValueError(
                f"mesh.points must divide the number of processes, got {self.points} and"
                f" {processes} process{'es' if processes > 1 else ''} (torchrun --nproc-per-node"
                f" {self.points} -m slipstream train ... starts {self.points})"
            )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    experiment: str
    data: DataConfig
    model: ModelConfig = ModelConfig()
    optim: OptimConfig = OptimConfig()
    initial: InitialModel | None = field(default=None, metadata=YOUNGER)
    """The model whose weights are the initial values; null for those of the seed."""
    steps: int
    schedule: int | None = None
    """Steps of the cosine decay; null for `steps`. More where training is to end before it."""
    batch: int = 1
    """Samples of a step in each process, or in each group of processes that share their points."""
    mesh: MeshConfig = field(default=MeshConfig(), metadata=YOUNGER)
    precision: Literal["fp32", "bf16", "fp64"] = "fp32"
    """bf16 is autocast, with validation in fp32. fp64 is for checks: slow, and without kernels."""
    stream_precision: StreamPrecision = field(default="fp32", metadata=YOUNGER)
    """In what a run in bf16 keeps the stream of points between the layers. bf16 takes less time and
    memory on a GPU, and rounds the stream after every sum: see docs/training.md for what it costs.
    """
    compile: bool = False
    """Whether the model is compiled by torch.compile."""
    cuda_graph: bool = field(default=True, metadata=YOUNGER)
    """Record the step once and replay it, on one GPU where all samples give equally many points.
    The result is the same to the bit; it is faster where the host is slower than the GPU."""
    recompute: bool = False
    """Compute the activations of each layer again in the backward pass instead of keeping them."""
    memory: Memory = field(default="normal", metadata=YOUNGER)
    """What a step keeps for its backward pass: `lean` keeps one tensor a layer, takes the points in
    chunks, and computes all that is cheap again. Not together with `recompute`."""
    evaluate_every: int
    """Steps between validations; the last step has one too."""
    checkpoint_every: int | None = None
    """Steps between checkpoints; null for those of the validations."""
    keep: int = 2
    """Newest checkpoints kept, besides the first."""
    log_every: int = 10
    skip_limit: int = 10
    """Steps skipped for a loss or gradient that is not finite, before the run is given up."""
    seed: int = 0
    """Seed of initial values, order of samples and points drawn."""

    @property
    def name(self) -> str:
        """The name of the run in its study, as "poisson baseline seed 0"."""
        return f"{self.experiment} {self.model.variant} seed {self.seed}"

    def __post_init__(self) -> None:
        check_plain(asdict(self))
        for name in ("steps", "batch", "evaluate_every", "keep", "log_every"):
            check_whole(name, getattr(self, name), 1)
        check_whole("skip_limit", self.skip_limit, 0)
        check_choice("memory", self.memory, get_args(Memory))
        check_choice("stream_precision", self.stream_precision, get_args(StreamPrecision))
        if self.stream_precision == "bf16" != self.precision:
            raise ValueError(
                "stream_precision must be fp32 where precision is not bf16, got bf16 and"
                f" {self.precision}"
            )
        check_one_way(self.memory, self.recompute)
        if self.checkpoint_every is not None:
            check_whole("checkpoint_every", self.checkpoint_every, 1)
        if self.schedule is not None and self.schedule < self.steps:
            raise ValueError(
                f"schedule must be at least the {self.steps} steps, got {self.schedule}"
            )

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of parameters and batches; fp32 in a run in bf16, see `autocast`."""
        return torch.float64 if self.precision == "fp64" else torch.float32

    def autocast(self, device: torch.device) -> torch.autocast:
        """In which the steps of the training compute, and nothing else does."""
        return torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bf16")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def with_store(config: RunConfig, store: Path | str | None) -> RunConfig:
    """The config with another store, if one is given."""
    if store is None:
        return config
    return replace(config, data=replace(config.data, store=str(store)))


def with_variant(config: RunConfig, variant: str) -> RunConfig:
    """The config with another variant, and the plug-in that it comes from."""
    return replace(config, model=replace(config.model, variant=variant, plugin=None))


def check_same(
    saved: RunConfig, now: RunConfig, where: str, *, free: tuple[str, ...] = FREE
) -> None:
    """Raise ValueError naming the fields in which the config differs from the saved one."""
    differing = differences(saved, now, ignored=free)
    if differing:
        raise ValueError(
            f"the config must be the one {where} was begun with, got other values (saved, given) of"
            f" {'; '.join(differing)}"
        )


def is_due(step: int, every: int, last: int) -> bool:
    """Whether something that happens every `every` steps and at the last one happens now."""
    return step % every == 0 or step == last
