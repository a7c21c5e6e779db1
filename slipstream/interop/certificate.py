"""The parity certificate: an imported model and its source on the same seeded inputs, in fp64."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import Tensor, nn

from slipstream.core.runtime import generator
from slipstream.interop.import_weights import Import
from slipstream.interop.names import Tensors, gathered
from slipstream.interop.physicsnemo import NEWEST
from slipstream.models.transolver import Transolver

SEED, CLOUDS, POINTS = 0, 2, 129


@dataclass(frozen=True, kw_only=True)
class Parity:
    """The largest relative differences, each in the norm of a tensor; None where not compared."""

    compared: bool
    reason: str
    """Why it was not compared; empty if it was."""
    package: str = ""
    """Name and version of the package that was compared with."""
    seed: int = SEED
    points: int = POINTS
    outputs: float | None = None
    inputs: float | None = None
    """Of the gradients of coordinates and features."""
    parameters: float | None = None
    """Of the gradients of parameters."""
    worst: str = ""
    """The parameter whose gradients differ most."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        if not self.compared:
            return f"not compared: {self.reason}"
        return (
            f"with {self.package} in fp64 on {CLOUDS} clouds of {self.points} points: outputs"
            f" {self.outputs:.1e}, gradients of inputs {self.inputs:.1e}, of parameters"
            f" {self.parameters:.1e} ({self.worst})"
        )


def certify(imported: Import) -> Parity:
    """Compare an import with its source, where the source can be imported here."""
    peer = _PEERS.get(imported.naming.source)
    if peer is None:
        return _not_compared(f"{imported.naming.source} is no installed package")
    if peer.package == "nvidia-physicsnemo" and imported.naming is not NEWEST:
        return _not_compared(f"only {NEWEST.generation} without Transformer Engine is run here")
    module, _, name = peer.home.partition(":")
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        return _not_compared(f"{peer.package} is not installed")
    try:
        build = getattr(importlib.import_module(module), name)
        theirs = build(**peer.arguments(imported)).double()
        state = {key: tensor.double() for key, tensor in imported.foreign.tensors.items()}
        theirs.load_state_dict(state)
    except Exception as error:  # another program's import may fail in any way
        return _not_compared(f"{peer.package} could not build it ({type(error).__name__})")
    return _compared(imported, theirs.eval(), peer)


@dataclass(frozen=True)
class _Peer:
    package: str
    home: str
    arguments: Callable[[Import], dict[str, Any]]
    features_first: bool = False


def _flashslice_arguments(imported: Import) -> dict[str, Any]:
    flags = {
        "untied": "untie_slice_weights",
        "frozen-slice": "share_slice_across_layers",
        "slice-once": "slice_once",
        "no-token-attention": "no_token_attention",
        "mlp-only": "mlp_only",
        "mlp-only-wide": "mlp_only",
    }
    counts = {
        "space_dim": imported.coord_dim,
        "fun_dim": imported.feature_dim,
        "n_heads": imported.size.heads,
    }
    flag = flags.get(imported.variant)
    return {**_shared(imported), **counts, **({flag: True} if flag else {})}


def _physicsnemo_arguments(imported: Import) -> dict[str, Any]:
    return _shared(imported) | {
        "embedding_dim": imported.coord_dim,
        "functional_dim": imported.feature_dim,
        "n_head": imported.size.heads,
        "use_te": False,
    }


def _shared(imported: Import) -> dict[str, Any]:
    size = imported.size
    ratio = size.mlp_ratio * (2 if imported.variant == "mlp-only-wide" else 1)
    return {
        "out_dim": imported.out_dim,
        "n_hidden": size.width,
        "n_layers": size.layers,
        "slice_num": size.slices,
        "mlp_ratio": ratio,
    }


_PEERS = {
    "flashslice": _Peer("flashslice", "flashslice:Transolver", _flashslice_arguments),
    "physicsnemo": _Peer(
        "nvidia-physicsnemo",
        "physicsnemo.models.transolver:Transolver",
        _physicsnemo_arguments,
        features_first=True,
    ),
}


def _compared(imported: Import, theirs: nn.Module, peer: _Peer) -> Parity:
    ours = Transolver(
        imported.coord_dim, imported.feature_dim, imported.out_dim, imported.variant,
        size=imported.size, impl="reference", constants=imported.constants,
    ).double()  # fmt: skip
    ours.load_state_dict(imported.weights)
    draw = generator(SEED, "parity")
    coords, features, cotangent = (
        torch.randn(CLOUDS, POINTS, width, generator=draw, dtype=torch.float64)
        for width in (imported.coord_dim, imported.feature_dim, imported.out_dim)
    )
    given = [features, coords] if peer.features_first else [coords, features]
    try:
        got = _run(theirs, given, cotangent)
    except Exception as error:
        return _not_compared(f"{peer.package} could not run it ({type(error).__name__})")
    taken = [coords, features] if imported.feature_dim else [coords]
    own = _run(ours, taken, cotangent)
    expected = gathered(imported.naming, got[2], _reached(imported, own[2]), imported.size.layers)
    differences = {name: _relative(own[2][name], grad) for name, grad in expected.items()}
    worst = max(differences, key=lambda name: differences[name])
    theirs_inputs = got[1][::-1] if peer.features_first else got[1]
    return Parity(
        compared=True,
        reason="",
        package=f"{peer.package} {_version(peer.package)}".strip(),
        outputs=_relative(own[0], got[0]),
        inputs=max(map(_relative, own[1], theirs_inputs)),
        parameters=differences[worst],
        worst=worst,
    )


def _run(
    model: nn.Module, inputs: list[Tensor], cotangent: Tensor
) -> tuple[Tensor, list[Tensor], Tensors]:
    """Outputs, and the gradients of inputs and parameters."""
    leaves = [each.clone().requires_grad_() for each in inputs]
    output = model(*leaves)
    (output * cotangent).sum().backward()
    grads = {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        for name, parameter in model.named_parameters()
    }
    return output.detach(), [_gradient(leaf) for leaf in leaves], grads


def _gradient(leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad


def _reached(imported: Import, grads: Tensors) -> dict[str, tuple[int, ...]]:
    """Our parameters that the source has, too."""
    names = grads.keys() if imported.naming.has_placeholder else grads.keys() - {"placeholder"}
    return {name: tuple(grads[name].shape) for name in names}


def _relative(got: Tensor, expected: Tensor) -> float:
    scale = expected.norm()
    difference = (got - expected).norm()
    return float(difference / scale) if scale else float(difference)


def _not_compared(reason: str) -> Parity:
    return Parity(compared=False, reason=reason)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
