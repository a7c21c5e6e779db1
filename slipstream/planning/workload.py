"""What a step computes: the numbers on which its memory and its time depend."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from slipstream.core.checks import check_choice, check_whole
from slipstream.kernels.plan import ALLOWED, Family, make_plan
from slipstream.kernels.plan import Operation as KernelOperation
from slipstream.models.steps import StreamPrecision
from slipstream.models.variants import PAPER, VARIANTS, Size, Variant
from slipstream.runs.config import RunConfig

Memory = Literal["normal", "recompute", "lean"]
MEMORY: tuple[Memory, ...] = ("normal", "recompute", "lean")
"""What a layer keeps for the backward pass: all it needs, its input, or its stream in chunks."""
Kind = Literal["cuda", "cpu"]
DTYPES = {"bf16": "bfloat16", "fp32": "float32"}
STREAM_BYTES = 4
"""The point stream is fp32, under autocast too."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One step of one model on one device. The defaults are those of a config."""

    points: int
    """Of one sample, on one device."""
    batch: int = 1
    size: Size = PAPER
    variant: str = "baseline"
    inputs: int = 8
    """Coordinates and features of a point."""
    outputs: int = 4
    precision: Literal["fp32", "bf16"] = "bf16"
    dots: str | None = None
    """Precision of the products inside slice and deslice; None to follow `precision`."""
    memory: Memory = "normal"
    compiled: bool = False
    training: bool = True
    recorded: bool = False
    """Whether the step may be recorded as a CUDA graph, see `replayed`."""
    stream: StreamPrecision = "fp32"
    """In what the stream of points is kept; it is counted as fp32, and notes say so."""
    trainer: bool = True
    """Whether optimiser, targets and validation are there, which a bare model has not."""
    layer_only: bool = False
    """Whether it is a single coupling, as `slipstream bench kernels` measures it."""

    def __post_init__(self) -> None:
        check_whole("points", self.points, 1)
        check_whole("batch", self.batch, 1)
        check_choice("memory", self.memory, MEMORY)
        check_choice("precision", self.precision, DTYPES)
        if self.dots is not None:
            check_choice("dots", self.dots, [str(dots) for dots in ALLOWED[self.dtype]])

    @property
    def dtype(self) -> str:
        """In which the layers multiply."""
        return DTYPES[self.precision]

    @property
    def products(self) -> str:
        """How slice and deslice multiply."""
        return self.dots or ("bf16" if self.precision == "bf16" else "ieee")

    @property
    def element(self) -> int:
        """Bytes of a number in the dtype in which the layers multiply."""
        return 2 if self.precision == "bf16" else 4

    @property
    def replayed(self) -> bool:
        """Whether it is replayed from a CUDA graph; lean steps are launched one by one."""
        return self.recorded and self.memory != "lean"

    @property
    def rows(self) -> int:
        """Points of all samples of a step."""
        return self.points * self.batch

    @property
    def description(self) -> Variant:
        return VARIANTS[self.variant]

    @property
    def hidden(self) -> int:
        """Width of an MLP's inside."""
        return self.size.mlp_ratio * self.description.widening * self.size.width

    @property
    def slots(self) -> int:
        """Slots of a head."""
        size = self.size
        if self.description.normalised_over == "points":
            return size.key_ratio * size.head_width
        return size.slices

    @property
    def couplings(self) -> int:
        """Layers that slice and deslice the points."""
        if self.layer_only:
            return 1
        return {"coupled": self.size.layers, "token-only": 1}.get(self.description.stream, 0)

    @property
    def stream_layers(self) -> int:
        """Layers that change the point stream."""
        return 0 if self.layer_only or self.description.stream == "token-only" else self.size.layers

    @property
    def blocked(self) -> bool:
        """Whether the blocked kernels run on a GPU, which keep statistics of every point."""
        return self.couplings > 0 and self.family == "blocked"

    @property
    def family(self) -> Family:
        """The kernels that run on a GPU; `reference` where none are for this size."""
        once = self.description.stream == "token-only"
        width = self.size.width if once else self.size.head_width
        over = "points" if self.description.normalised_over == "points" else "slots"
        operation = KernelOperation(
            "cuda",
            self.dtype,
            self.slots,
            width,
            width,
            over=over,  # type: ignore[arg-type]
        )
        return make_plan(operation, precision=self.products).family

    @property
    def folded(self) -> bool:
        """Whether the products of `models/folding.py` run, on a CPU."""
        ours = self.description.coupling is None and self.description.stream == "coupled"
        plain = ours and self.description.normalised_over == "slots"
        frozen = self.description.slicing == "first-layer" and self.description.deslice == "own"
        fits = self.size.slices <= self.size.head_width and self.precision == "fp32"
        return plain and fits and not frozen


@dataclass(frozen=True)
class Spread:
    """Over how many devices: the points of a sample, and the samples of a step."""

    points: int = 1
    data: int = 1

    def __post_init__(self) -> None:
        check_whole("--devices", self.points, 1)
        check_whole("--data-devices", self.data, 1)

    @property
    def devices(self) -> int:
        return self.points * self.data

    def share(self, work: Workload) -> Workload:
        """What the device with the most points does of a step, each sample on all of them."""
        if self.points > work.points:
            raise ValueError(
                f"--devices must be at most the {work.points} points of a sample, got {self.points}"
            )
        points = -(-work.points // self.points)
        return replace(work, points=points, recorded=work.recorded and self.devices == 1)

    def message_bytes(self, work: Workload) -> int:
        """Of the sums of one coupling, all-reduced over the devices that share a sample: B H G
        (V + 1) numbers in fp32."""
        if self.points == 1 or not work.couplings:
            return 0
        once = work.description.stream == "token-only"
        heads, width = (1, work.size.width) if once else (work.size.heads, work.size.head_width)
        return 4 * work.batch * heads * work.slots * (width + 1)


def workload_of(config: RunConfig, points: int, *, inputs: int, outputs: int) -> Workload:
    """A step of a run on one device that has this many points of a sample.

    Raises ValueError for what is not planned: fp64, and the reference in place of the kernels.
    """
    if config.precision == "fp64":
        raise ValueError("precision must be fp32 or bf16 to be planned, got 'fp64'")
    if config.model.impl == "reference":
        raise ValueError(
            "model.impl must be one with kernels to be planned, got 'reference', which keeps the"
            " slice weights of all points"
        )
    config.model.check_loaded("the config")
    return Workload(
        points=points,
        batch=config.batch,
        size=config.model.size,
        variant=config.model.variant,
        inputs=inputs,
        outputs=outputs,
        precision=config.precision,
        dots=config.model.dots,
        memory="recompute" if config.recompute else config.memory,
        compiled=config.compile,
        recorded=config.cuda_graph,
        stream=config.stream_precision,
    )
