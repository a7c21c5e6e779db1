"""The subjects timed on a CPU: our model, our reference, and other Transolvers on the path.

A peer is a row of data: where its classes are, its names for our parameters, and the constants
that it computes with. All subjects have the same weights, so that the gate can compare a peer's
outputs and gradients with ours, parameter by parameter.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.machinery import PathFinder
from typing import Any

import torch
from torch import Tensor, nn

from slipstream.bench.cases import Case
from slipstream.bench.subjects import COORDS, FEATURES, OUTPUTS, build, spread_slots
from slipstream.interop.accelerate import accelerate
from slipstream.kernels.plan import Impl
from slipstream.models.coupling import Coupling
from slipstream.models.variants import EPSILON, Size

Tensors = dict[str, Tensor]
Names = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """An implementation that is timed. Without classes of its own it is ours, with this `impl`."""

    name: str
    impl: Impl = "auto"
    package: str | None = None
    """The name of the package in pip, by which its version is found."""
    layer: str | None = None
    """Module and class of one coupling, as in "package.module:Class"."""
    model: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of both classes besides the sizes."""
    sizes: Mapping[str, str] = field(default_factory=dict)
    """The names of its model's arguments for the counts of coords, features and heads."""
    names: Names = ()
    """Parts of our parameters' names and the peer's names for them, tried in order. If several of
    ours get the same name, the peer has them concatenated in one parameter."""
    epsilon: float = EPSILON
    """Added to the mass of a slot before dividing."""
    temperatures: tuple[float, float] | None = None
    """The range to which it clamps them. All start at 0.5, which is within every peer's range."""
    has_placeholder: bool = True
    features_first: bool = False
    """Whether its model is called with (features, coordinates)."""
    accelerated: bool = False
    """Whether `slipstream.accelerate` has replaced the forward of its attentions."""

    @property
    def is_ours(self) -> bool:
        return self.layer is None

    def home(self, case: Case) -> str:
        """Module and class of the layer or model that a case needs."""
        home = self.layer if case.what == "layer" else self.model
        assert home is not None, f"{self.name} has no classes of its own"
        return home

    def inputs(self, inputs: list[Tensor]) -> list[Tensor]:
        """The inputs of a case in the order in which this subject takes them."""
        return inputs[::-1] if self.features_first else inputs

    def constants(self) -> dict[str, Any]:
        """The constants that differ from ours."""
        differing: dict[str, Any] = {}
        if self.epsilon != EPSILON:
            differing["epsilon"] = self.epsilon
        if self.temperatures is not None:
            differing["temperatures"] = list(self.temperatures)
        return differing


_ATTENTION: Names = (
    ("coupling.query.", "Attn.in_project_x."),
    ("coupling.values.", "Attn.in_project_fx."),
    ("coupling.slice_slots.temperature", "Attn.temperature"),
    ("coupling.slice_slots.", "Attn.in_project_slice."),
)
_THUML: Names = (
    ("lift.expand.", "preprocess.linear_pre.0."),
    ("lift.contract.", "preprocess.linear_post."),
    ("coupling_norm.", "ln_1."),
    *_ATTENTION,
    ("coupling.mix.query.", "Attn.to_q."),
    ("coupling.mix.key.", "Attn.to_k."),
    ("coupling.mix.value.", "Attn.to_v."),
    ("coupling.output.", "Attn.to_out.0."),
    ("mlp_norm.", "ln_2."),
    ("mlp.expand.", "mlp.linear_pre.0."),
    ("mlp.contract.", "mlp.linear_post."),
    ("head_norm.", "blocks.{last}.ln_3."),
    ("head.", "blocks.{last}.mlp2."),
)
_PHYSICSNEMO: Names = (
    ("lift.expand.", "preprocess.layers.0."),
    ("lift.contract.", "preprocess.layers.2."),
    ("coupling_norm.", "ln_1."),
    *_ATTENTION,
    ("coupling.mix.query.", "Attn.qkv_project."),
    ("coupling.mix.key.", "Attn.qkv_project."),
    ("coupling.mix.value.", "Attn.qkv_project."),
    ("coupling.output.", "Attn.out_linear."),
    ("mlp_norm.", "ln_mlp1.0."),
    ("mlp.expand.", "ln_mlp1.1.layers.0."),
    ("mlp.contract.", "ln_mlp1.1.layers.2."),
    ("head_norm.", "blocks.{last}.ln_mlp2.0."),
    ("head.", "blocks.{last}.ln_mlp2.1."),
)

OURS = Subject(name="ours")
REFERENCE = Subject(name="reference", impl="reference")
PEERS = (
    Subject(
        name="flashslice",
        package="flashslice",
        layer="flashslice:Physics_Attention_Irregular_Mesh",
        model="flashslice:Transolver",
        sizes={"coords": "space_dim", "features": "fun_dim", "heads": "n_heads"},
        names=_THUML,
    ),
    Subject(
        name="physicsnemo",
        package="nvidia-physicsnemo",
        layer="physicsnemo.nn.module.physics_attention:PhysicsAttentionIrregularMesh",
        model="physicsnemo.models.transolver:Transolver",
        arguments={"use_te": False},
        sizes={"coords": "embedding_dim", "features": "functional_dim", "heads": "n_head"},
        names=_PHYSICSNEMO,
        epsilon=1e-2,
        temperatures=(0.5, 5.0),
        has_placeholder=False,
        features_first=True,
    ),
    Subject(
        name="thuml",
        layer="Physics_Attention:Physics_Attention_Irregular_Mesh",
        model="model.Transolver_Irregular_Mesh:Model",
        sizes={"coords": "space_dim", "features": "fun_dim", "heads": "n_head"},
        names=_THUML,
    ),
)
ACCELERATED = tuple(
    replace(peer, name=f"{peer.name} accelerated", accelerated=True) for peer in PEERS
)
SUBJECTS = {subject.name: subject for subject in (OURS, REFERENCE, *PEERS, *ACCELERATED)}


def is_on_path(subject: Subject, case: Case) -> bool:
    """Whether the module that a case needs can be found; it is not imported, which might fail."""
    if subject.is_ours:
        return True
    top, *parts = subject.home(case).partition(":")[0].split(".")
    spec = importlib.util.find_spec(top)
    for part in parts:
        if spec is None or spec.submodule_search_locations is None:
            return False
        spec = PathFinder.find_spec(part, list(spec.submodule_search_locations))
    return spec is not None


def build_subject(subject: Subject, case: Case) -> nn.Module:
    """The layer or model of a case in fp32, with the weights that all subjects have.

    Raises ValueError if the parameters of a peer are not those that its row names, or if it
    cannot be accelerated where it should be.
    """
    if subject.is_ours:
        return spread_slots(build(case, subject.impl))
    module = _build_peer(subject, case)
    own = dict(build_yardstick(subject, case).named_parameters())
    weights, theirs = rename(own, subject, case), dict(module.named_parameters())
    if unknown := sorted(weights.keys() ^ theirs.keys()):
        raise ValueError(
            f"the parameters of {subject.home(case)} must be those that its row names, got"
            f" a difference in {', '.join(unknown[:4])}"
        )
    with torch.no_grad():
        for name, parameter in theirs.items():
            parameter.copy_(weights[name].reshape(parameter.shape))
    if subject.accelerated and not (report := accelerate(module)).replaced:
        raise ValueError(f"{subject.home(case)} must be accelerated to be timed so: {report}")
    return module


def build_yardstick(subject: Subject, case: Case) -> nn.Module:
    """Our reference with the constants of a subject: the function that it has to compute."""
    module = spread_slots(build(case, "reference"))
    if subject.epsilon != EPSILON:
        for part in module.modules():
            if isinstance(part, Coupling):
                part.epsilon = subject.epsilon
    if not subject.has_placeholder and case.what == "model":
        nn.init.zeros_(module.get_parameter("placeholder"))
    return module


def rename(tensors: Mapping[str, Tensor], subject: Subject, case: Case) -> Tensors:
    """Our parameters, or their gradients, under the names that a subject has for them.

    "blocks.0.coupling.mix.query.weight" becomes "blocks.0.Attn.to_q.weight" for thuml, and the
    first third of "blocks.0.Attn.qkv_project.weight" for PhysicsNeMo. Other tensors keep their
    names.
    """
    parts: dict[str, list[Tensor]] = {}
    for name, tensor in tensors.items():
        if name != "placeholder" or subject.has_placeholder:
            parts.setdefault(_rename_one(name, subject, case), []).append(tensor)
    return {name: torch.cat(own) if len(own) > 1 else own[0] for name, own in parts.items()}


def _rename_one(name: str, subject: Subject, case: Case) -> str:
    # A single coupling has the names that it has inside a model, without those of its place there.
    whole = f"coupling.{name}" if case.what == "layer" else name
    for ours, theirs in subject.names:
        if ours in whole:
            renamed = whole.replace(ours, theirs.format(last=case.layers - 1))
            return renamed.removeprefix("Attn.") if case.what == "layer" else renamed
    return name


def _build_peer(subject: Subject, case: Case) -> nn.Module:
    module, _, name = subject.home(case).partition(":")
    build_it = getattr(importlib.import_module(module), name)
    width, given = Size().width, dict(subject.arguments)
    if case.what == "layer":
        head = width // case.heads
        return build_it(width, heads=case.heads, dim_head=head, slice_num=case.slices, **given)
    counts = {"coords": COORDS, "features": FEATURES, "heads": case.heads}
    given |= {subject.sizes[what]: count for what, count in counts.items()}
    return build_it(
        out_dim=OUTPUTS, n_hidden=width, n_layers=case.layers, slice_num=case.slices,
        mlp_ratio=Size().mlp_ratio, **given,
    )  # fmt: skip
