"""Checkpoints: one safetensors file that is complete or absent, read without executing code.

Schema 1. Tensors: `model.<parameter>`, `optimizer.<parameter>.<moment>`, `rng.<device>`. The header
holds one JSON object under "slipstream": schema, what ("checkpoint"), versions, and the rest of the
state: step, config, place in the data, best validation so far, skipped steps, hashes of the data.
`content` in it is a hash of all the rest, tensors and header; files of older versions have none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from slipstream.core.files import check_regular, naming_file, write_bytes
from slipstream.core.runtime import versions
from slipstream.core.schemas import Count, Positive, parsed
from slipstream.core.text import printable
from slipstream.runs.config import RunConfig

SCHEMA = 1
_HEADER = "slipstream"


@dataclass(frozen=True)
class Header:
    """What every header has."""

    schema: Positive
    what: str
    versions: dict[str, str]


@dataclass(frozen=True)
class BestValidation:
    step: Count
    error: float
    by_group: dict[str, float | None]


@dataclass(frozen=True)
class PlaceInData:
    """Where the loader stands, and the order it follows."""

    epoch: Count
    position: Count
    seed: int
    samples: Count
    batch_size: Positive
    shuffle: bool
    even: bool
    rank: Count
    world_size: Positive


@dataclass(frozen=True)
class CheckpointHeader(Header):
    step: Count
    best: BestValidation | None
    skipped: Count
    loader: PlaceInData
    config: RunConfig
    data_hash: str
    split_hash: str
    processes: Positive


@dataclass(frozen=True, eq=False)
class Checkpoint:
    state: dict[str, Any]
    """Plain JSON with the fields of `CheckpointHeader`."""
    tensors: dict[str, Tensor]

    @property
    def step(self) -> int:
        return int(self.state["step"])

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors of "model", "optimizer" or "rng", by the rest of their names."""
        prefix = f"{name}."
        return {k.removeprefix(prefix): v for k, v in self.tensors.items() if k.startswith(prefix)}


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> str:
    """Write a checkpoint, with its folder, and return the hash of its content."""
    path.parent.mkdir(exist_ok=True)
    return write_tensors(path, "checkpoint", checkpoint.state, checkpoint.tensors)


def read_checkpoint(path: Path) -> Checkpoint:
    """Raises ValueError where the file is not a whole checkpoint."""
    state, tensors = read_tensors(path, "checkpoint")
    with naming_file(path):
        parsed(CheckpointHeader, state, open=True)
    return Checkpoint(state, tensors)


def write_tensors(
    path: Path, what: str, state: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> str:
    """Write a file of this package, and return the hash of its content.

    An older file stays until the new one is safe on disk.
    """
    header = {"schema": SCHEMA, "what": what, "versions": versions(), **state}
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header["content"] = content_hash(header, plain)
    write_bytes(path, save(plain, {_HEADER: json.dumps(header, allow_nan=False)}))
    return str(header["content"])


def read_tensors(path: Path, what: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a file of this package; ValueError where it is something else."""
    check_regular(path)
    if not path.is_file():
        raise ValueError(f"{path} must be a {what}, got no such file")
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(_HEADER, "null"))
            if isinstance(header, dict) and header.get("what") == what:
                _check_header(header, path)
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                _check_content(header, tensors, path)
                return header, tensors
    except (SafetensorError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path} must be a {what}, got {printable(str(error))}") from None
    got = str(header.get("what")) if isinstance(header, dict) else "a file of another program"
    raise ValueError(f"{path} must be a {what}, got {printable(got[:80])}")


def _check_header(header: dict[str, Any], path: Path) -> None:
    with naming_file(path):
        version = parsed(Header, header, open=True).schema
    if version > SCHEMA:
        raise ValueError(
            f"{path}: schema must be at most {SCHEMA}, got {version}: a newer slipstream wrote it"
        )


def _check_content(header: Mapping[str, Any], tensors: Mapping[str, Tensor], path: Path) -> None:
    written = header.get("content")  # files of older versions have none
    if written is not None and written != (actual := content_hash(header, tensors)):
        raise ValueError(
            f"{path} must hold what was written into it, SHA-256 {str(written)[:12]}, got"
            f" {actual[:12]}: it is damaged"
        )


def content_hash(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """A hash of all that a file holds but this hash itself."""
    text = json.dumps({key: value for key, value in header.items() if key != "content"})
    return hashlib.sha256(f"{text}\n{weights_hash(tensors)}".encode()).hexdigest()


def weights_hash(weights: Mapping[str, Tensor]) -> str:
    """A hash of parameters or other tensors: their names, dtypes, shapes and bits."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.view(torch.uint8).numpy().data if tensor.ndim else _scalar(tensor))
    return digest.hexdigest()


def _scalar(tensor: Tensor) -> bytes:
    return tensor.reshape(1).view(torch.uint8).numpy().tobytes()
