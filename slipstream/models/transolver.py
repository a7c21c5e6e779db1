"""The Transolver and all its ablations: lift, layers, head."""

from __future__ import annotations

from typing import cast, get_args

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from slipstream.core.checks import ANY, check_choice, check_like, check_shape, check_whole
from slipstream.core.shapes import Float
from slipstream.kernels.api import compute_dtype, operation_on
from slipstream.kernels.membership import Membership, TokenSums
from slipstream.kernels.operator import is_exporting, is_transformed
from slipstream.kernels.pending import Pending, finished
from slipstream.kernels.plan import How, Impl, Precision, make_plan
from slipstream.kernels.pointwise import add_norm, has_hooks
from slipstream.models.constants import DEFAULT, Constants
from slipstream.models.coupling import Coupling
from slipstream.models.layers import Mlp, draw_initial_values
from slipstream.models.lean import Memory, check_one_way, lean_forward
from slipstream.models.linear_no import LinearNoCoupling
from slipstream.models.slice_once import SliceOnce
from slipstream.models.steps import (
    CouplingSteps,
    SteppedLayer,
    Stream,
    StreamPrecision,
    Summing,
    steps_of,
)
from slipstream.models.structure import check_structure, expected_parameters
from slipstream.models.variants import PAPER, Size, Variant, variant_named


class Block(nn.Module):
    """One layer: x + coupling(norm(x)), then x + mlp(norm(x)); a pointwise one has no coupling.

    A sum and the norm after it are one kernel (`add_norm`). The update of the MLP is therefore not
    added here but returned, on a GPU without its bias, and the next layer adds both together with
    its first norm.
    """

    def __init__(
        self,
        variant: Variant,
        size: Size,
        layer: int,
        how: How,
        constants: Constants = DEFAULT,
    ) -> None:
        super().__init__()
        self.hands_on, self.impl = variant.slicing == "first-layer", how["impl"]
        self.variant = variant.name
        self.coupling: nn.Module | None = None
        if variant.stream == "coupled":
            self.coupling_norm = nn.LayerNorm(size.width)
            if variant.coupling is not None:
                self.coupling = variant.make_coupling(size, layer, how)
            elif variant.normalised_over == "points":
                self.coupling = LinearNoCoupling(size, how, constants)
            else:
                self.coupling = Coupling(variant, size, layer, how, constants)
        self.mlp_norm = nn.LayerNorm(size.width)
        hidden = size.mlp_ratio * variant.widening * size.width
        self.mlp = Mlp(size.width, hidden, size.width, constants.activation)

    def forward(
        self,
        x: Float[Tensor, "B N C"],
        update: Float[Tensor, "B N C"] | Pending | None,
        previous: Membership | None,
        reuse: bool = False,
    ) -> tuple[Float[Tensor, "B N C"], Float[Tensor, "B N C"] | Pending, Membership | None]:
        """The stream without the MLP's update, that update, and the membership for the next layer.

        Where `reuse` allows it and no gradients are wanted, the stream is written over `x`.
        """
        membership = previous
        if self.coupling is not None:
            x, normed = add_norm(x, update, self.coupling_norm, impl=self.impl, reuse=reuse)
            couple = getattr(self.coupling, "pending", self.coupling)
            update, membership = couple(normed, previous)
        if not self.hands_on:
            membership = None  # it holds a query, as large as the stream itself
        x, normed = add_norm(x, update, self.mlp_norm, impl=self.impl, reuse=reuse)
        return x, self.mlp.update(normed, self.impl), membership

    @property
    def steps(self) -> CouplingSteps:
        assert self.coupling is not None, "a pointwise layer has no coupling"
        return steps_of(self.coupling, self.variant)

    def sums(self, stream: Stream) -> tuple[Stream, TokenSums]:
        """The first half of a layer: up to the sums of these points."""
        x, normed = add_norm(stream.x, stream.update, self.coupling_norm, impl=self.impl)
        membership = self.steps.membership(normed, stream.membership)
        sums = self.steps.sums(normed, membership)
        return Stream(x, None, membership if self.hands_on else None), sums

    def mixed(self, sums: TokenSums) -> Tensor:
        if isinstance(self.coupling, Summing):
            sums = self.coupling.complete_sums(sums)
        return self.steps.mixed(sums)

    def apply_tokens(self, stream: Stream, tokens: Tensor) -> Stream:
        """The whole layer with these mixed tokens, wherever they come from."""
        x, normed = add_norm(stream.x, stream.update, self.coupling_norm, impl=self.impl)
        membership = self.steps.membership(normed, stream.membership)
        update = self.steps.update(normed, membership, tokens)
        x, normed = add_norm(x, update, self.mlp_norm, impl=self.impl)
        update = finished(self.mlp.update(normed, self.impl))
        return Stream(x, update, membership if self.hands_on else None)


def _whole(
    block: nn.Module, x: Float[Tensor, "B N C"], previous: Membership | None
) -> tuple[Float[Tensor, "B N C"], Membership | None]:
    """A layer that adds its last update itself, so that a checkpoint keeps one tensor per layer."""
    x, update, membership = block(x, None, previous)
    return x + finished(update), membership


class Transolver(nn.Module):
    """A neural operator on point clouds: it maps coords and features at N points to outputs there.

    `coord_dim` (d), `feature_dim` (f, 0 for none) and `out_dim` (k) are the columns of `forward`'s
    arguments and result. `variant` is a name that `slipstream variants` lists, `size` the paper's
    unless given, `seed` fixes the initial values, `impl` and `precision` choose how slice and
    deslice are computed (see `kernels`), `constants` are the paper's unless given. Raises
    ValueError for an unknown variant, impossible sizes or an unknown choice.
    """

    def __init__(
        self,
        coord_dim: int,
        feature_dim: int,
        out_dim: int,
        variant: str = "baseline",
        *,
        size: Size = PAPER,
        seed: int = 0,
        impl: Impl = "auto",
        precision: Precision | str | None = None,
        constants: Constants = DEFAULT,
    ) -> None:
        super().__init__()
        check_whole("coord_dim", coord_dim, 1)
        check_whole("feature_dim", feature_dim, 0)
        check_whole("out_dim", out_dim, 1)
        self.coord_dim, self.feature_dim, self.out_dim = coord_dim, feature_dim, out_dim
        self.variant, self.size = variant_named(variant), size
        self.constants = constants
        constants.check_fit(self.variant)
        check_choice("impl", impl, get_args(Impl))
        if precision is not None:
            check_choice("precision", precision, [p.value for p in Precision])
        self.how: How = {"impl": impl, "precision": precision}
        self.recompute = False
        """Whether the backward pass computes each layer's activations again, to save memory."""
        self.may_be_empty = False
        """Whether clouds may have no points, as where all of a sample's are elsewhere."""
        self.memory = "normal"
        self.stream_precision = "fp32"

        self.lift = Mlp(coord_dim + feature_dim, 2 * size.width, size.width)
        self.placeholder = nn.Parameter(torch.empty(size.width))
        once = self.variant.stream == "token-only"
        self.once = SliceOnce(size, self.how, constants) if once else None
        self.blocks = nn.ModuleList(
            Block(self.variant, size, layer, self.how, constants)
            for layer in range(0 if once else size.layers)
        )
        self.head_norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, out_dim)
        draw_initial_values(self, seed)
        self.check_structure()

    def forward(
        self,
        coords: Float[Tensor, "B N d"],
        features: Float[Tensor, "B N f"] | None = None,
    ) -> Float[Tensor, "B N k"]:
        """Outputs (B, N, k) at B clouds of N points, from their coordinates (B, N, d) and features
        (B, N, f), all in the units of the training: `load_model` gives a model in physical ones.
        """
        if self._is_lean():
            if torch.compiler.is_compiling():
                from slipstream.models.lean_compiled import lean_forward_compiled

                return lean_forward_compiled(self, coords, features)
            return lean_forward(self, coords, features)
        x = self.begin(coords, features).x
        if self.once is not None:
            x = self.once(x)
        update: Tensor | Pending | None = None
        membership: Membership | None = None
        reuse = not torch.compiler.is_compiling() and not any(map(has_hooks, self.blocks))
        for block in self.blocks:
            if self.recompute and torch.is_grad_enabled():
                x, membership = checkpoint(  # blocks use no random numbers: no state to preserve
                    _whole, block, x, membership, use_reentrant=False, preserve_rng_state=False
                )
            else:
                x, update, membership = block(x, update, membership, reuse)
        return self._headed(x, update)

    def begin(
        self, coords: Float[Tensor, "B N d"], features: Float[Tensor, "B N f"] | None
    ) -> Stream:
        """The lifted points; with `stepped_layers` and `finish` the model in steps (`Steps`)."""
        lifted = self.lift.update(self._inputs(coords, features), self.how["impl"])
        if isinstance(lifted, Pending):
            x = lifted.product + (lifted.bias + self.placeholder)
        else:
            x = lifted + self.placeholder
        if self.stream_precision == "bf16" and compute_dtype(x) == torch.bfloat16:
            x = x.to(torch.bfloat16)
        return Stream(x)

    def stepped_layers(self) -> list[SteppedLayer]:
        """The layers that couple points; ValueError for a coupling that has no steps."""
        if self.once is not None:
            return [self.once]
        layers = [cast(Block, block) for block in self.blocks]
        return [block for block in layers if block.coupling is not None and block.steps]

    def finish(self, stream: Stream) -> Float[Tensor, "B N k"]:
        """The outputs, after all layers that couple points and through those that do not."""
        x = stream.x
        update: Tensor | Pending | None = stream.update
        for block in self.blocks if self.variant.stream == "pointwise" else ():
            x, update, _ = block(x, update, None)
        return self._headed(x, update)

    def _headed(self, x: Tensor, update: Tensor | Pending | None) -> Tensor:
        return self.head(add_norm(x, update, self.head_norm, impl=self.how["impl"])[1])

    @property
    def memory(self) -> Memory:
        """`lean` takes points through the layers in chunks where gradients are wanted, and keeps
        one tensor a layer for them (`lean.py`); `normal` keeps what the layers need."""
        return self._memory

    @memory.setter
    def memory(self, memory: Memory) -> None:
        check_choice("memory", memory, get_args(Memory))
        self._memory = memory

    @property
    def stream_precision(self) -> StreamPrecision:
        """`bf16` rounds the stream of points to bf16 after every sum, under autocast to bf16: its
        traffic and its memory are halved. Elsewhere, and with `fp32`, it has the parameters' dtype.
        """
        return self._stream_precision

    @stream_precision.setter
    def stream_precision(self, precision: StreamPrecision) -> None:
        check_choice("stream_precision", precision, get_args(StreamPrecision))
        self._stream_precision = precision

    def _is_lean(self) -> bool:
        """Whether this pass has to be lean; ValueError where it has to be recomputed besides."""
        if self.memory != "lean" or not torch.is_grad_enabled():
            return False
        check_one_way(self.memory, self.recompute)
        return not (is_exporting() or is_transformed())

    @property
    def kernels(self) -> str:
        """Which implementation of slice and deslice runs on the model's device, and why."""
        if self.variant.stream == "pointwise":
            return "none: this variant has no coupling"
        if self.variant.coupling is not None and not self.variant.has_memberships:
            return "none: the coupling of this variant is a plug-in's own"
        once = self.variant.stream == "token-only"
        width = self.size.width if once else self.size.head_width
        over_points = self.variant.normalised_over == "points"
        operation = operation_on(
            self.placeholder.device,
            compute_dtype(self.placeholder),
            slices=self.size.key_ratio * width if over_points else self.size.slices,
            head_width=width,
            value_width=width,
            over="points" if over_points else "slots",
        )
        return str(make_plan(operation, **self.how))

    def parameter_count(self) -> int:
        """How many numbers are trained."""
        return sum(parameter.numel() for parameter in self.parameters())

    def check_structure(self) -> None:
        """Raise ValueError unless the parameters are exactly those of the variant."""
        expected = expected_parameters(
            self.variant,
            self.size,
            coord_dim=self.coord_dim,
            feature_dim=self.feature_dim,
            out_dim=self.out_dim,
        )
        built = {name: tuple(parameter.shape) for name, parameter in self.named_parameters()}
        check_structure(built, expected, f"the model built for {self.variant.name!r}")

    def _inputs(self, coords: Tensor, features: Tensor | None) -> Tensor:
        some = ANY if self.may_be_empty else None
        check_shape("coords", coords, "B N coord_dim", (None, some, self.coord_dim))
        check_like("coords", coords, "the model's parameters", self.placeholder)
        if self.feature_dim == 0:
            if features is not None:
                raise ValueError("features must be None for a model of feature_dim 0")
            return coords
        batch, points, _ = coords.shape
        letters = "B N feature_dim"
        check_shape("features", features, letters, (batch, points, self.feature_dim))  # type: ignore[arg-type]
        check_like("features", features, "the model's parameters", self.placeholder)  # type: ignore[arg-type]
        return torch.cat((coords, features), -1)  # type: ignore[arg-type]
