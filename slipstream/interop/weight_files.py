"""Weights in files of other programs, read without executing anything that is in them.

A pickle is only read by `torch.load(weights_only=True)`, which builds tensors and plain values and
stops at everything else.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import tarfile
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from torch import Tensor

from slipstream.core.files import check_regular
from slipstream.core.text import printable

WRAPPERS = ("state_dict", "model_state_dict", "model")
"""Under which training scripts keep the weights beside the state of the optimiser."""
PREFIXES = ("module.", "_orig_mod.")
"""What DDP and torch.compile put before every key."""
_EXTRA = "_extra_state"
"""What keys of Transformer Engine end in that hold no weights."""
_MEMBERS = ("model.pt", "args.json", "metadata.json")
_OURS = "lift.expand.weight"
"""Which every model of ours has, and no other program's."""
_MOST_JSON = 1 << 20
_KNOWN = ".pt or .pth of torch.save, .mdlus of PhysicsNeMo, or .safetensors"
_ZIP, _PICKLE = b"PK\x03\x04", b"\x80"
"""How the two forms of torch.save begin, of today and from before 1.6."""


@dataclass(frozen=True, eq=False)
class Foreign:
    """What a file of another program holds."""

    tensors: dict[str, Tensor]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of the constructor, where the file says them."""
    version: str | None = None
    """Of the package that wrote it, where the file says it."""
    extra: tuple[str, ...] = ()
    """Keys that were left out since they hold no weights."""


def read_foreign(path: Path) -> Foreign:
    """Raises ValueError where the file is none of weights, or not one without code."""
    check_regular(path)
    if not path.is_file():
        raise ValueError(f"{path} must be a file of weights, got no such file")
    if path.suffix == ".safetensors":
        try:
            loaded = load_safetensors(path.read_bytes())
        except SafetensorError as error:
            raise ValueError(f"{path} must be a file of weights, got {error}") from None
        if _OURS in loaded:
            raise ValueError(
                f"{path} must be of another program, got a model of Slipstream, which every command"
                " takes as it is"
            )
        return _foreign(loaded, path)
    members = _members(path)
    if members is None:
        return _foreign(_load(path.read_bytes(), path), path)
    missing = [name for name in _MEMBERS if name not in members]
    if missing:
        raise ValueError(f"{path} must hold {', '.join(_MEMBERS)}, got no {missing[0]}")
    arguments = _json(members["args.json"], path, "args.json").get("__args__", {})
    version = _json(members["metadata.json"], path, "metadata.json").get("physicsnemo_version")
    if not isinstance(arguments, dict):
        raise ValueError(f"{path}: __args__ in args.json must be a mapping, got {arguments!r}")
    version = None if version is None else str(version)
    return _foreign(_load(members["model.pt"], path), path, arguments, version)


def _members(path: Path) -> dict[str, bytes] | None:
    """The three files in an archive of PhysicsNeMo's; None for a file that is not one."""
    try:
        # The tar first: it holds a file of torch.save as it is, which makes it a zip, too.
        if tarfile.is_tarfile(path):
            with tarfile.open(path, "r:") as archive:
                files = {member.name: member for member in archive if member.isreg()}
                read = {
                    name: archive.extractfile(files[name]) for name in _MEMBERS if name in files
                }
                return {name: file.read() for name, file in read.items() if file is not None}
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                inside = {info.filename: info for info in archive.infolist()}
                if not inside.keys() & set(_MEMBERS):
                    return None
                sizes = sum(inside[name].file_size for name in _MEMBERS if name in inside)
                if sizes > 4 * path.stat().st_size + 4 * _MOST_JSON:
                    raise ValueError(f"{path} must not be compressed so far, got {sizes} bytes")
                return {name: archive.read(name) for name in _MEMBERS if name in inside}
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, NotImplementedError) as error:
        raise ValueError(f"{path} must be a whole archive, got {printable(str(error))}") from None
    return None


def _load(content: bytes, path: Path) -> Any:
    if content[:4] != _ZIP and content[:1] != _PICKLE:
        begins = f"one that begins with {content[:8]!r}" if content else "an empty one"
        raise ValueError(f"{path} must be a file of weights ({_KNOWN}), got {begins}")
    try:
        with warnings.catch_warnings(action="ignore"):  # of the protocol: it is said below
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        called = re.search(r"GLOBAL ([\w.]+)", str(error))
        if called is None:  # it is damaged, or of another protocol than that of torch.save
            raise ValueError(f"{path} must be a whole file of torch.save, got another") from None
        raise ValueError(
            f"{path} must hold tensors by name, as torch.save(model.state_dict(), FILE) does,"
            f" got a pickle that calls code when it is read ({called.group(1)[:80]}): it was not"
            " read"
        ) from None
    except RuntimeError as error:
        if "TorchScript" not in str(error):
            raise ValueError(
                f"{path} must be a whole file of torch.save, got a damaged one or another archive"
            ) from None
        raise ValueError(
            f"{path} must hold tensors by name, as torch.save(model.state_dict(), FILE) does, got"
            " TorchScript, which is code: it was not read"
        ) from None
    except (EOFError, KeyError, IndexError, ValueError, TypeError, AttributeError):
        raise ValueError(f"{path} must be a whole file of torch.save, got a damaged one") from None


def _foreign(
    loaded: Any,
    path: Path,
    arguments: Mapping[str, Any] | None = None,
    version: str | None = None,
) -> Foreign:
    if isinstance(loaded, Mapping) and not _is_state(loaded):
        inside = [loaded[name] for name in WRAPPERS if _is_state(loaded.get(name))]
        loaded = inside[0] if len(inside) == 1 else loaded
    if not _is_state(loaded):
        raise ValueError(f"{path} must hold tensors by name, got {_kind(loaded)}")
    extra = tuple(sorted(key for key in loaded if key.endswith(_EXTRA)))
    tensors = {stripped(key): value for key, value in loaded.items() if key not in extra}
    for key, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise ValueError(f"{path}: {printable(key)} must be of floats, got {tensor.dtype}")
    return Foreign(tensors, arguments or {}, version, extra)


def stripped(key: str) -> str:
    """The key without what DDP and torch.compile put before it."""
    while True:
        prefix = next((prefix for prefix in PREFIXES if key.startswith(prefix)), None)
        if prefix is None:
            return key
        key = key.removeprefix(prefix)


def _is_state(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(
            isinstance(key, str) and (isinstance(one, Tensor) or key.endswith(_EXTRA))
            for key, one in value.items()
        )
    )


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            f"a mapping of {', '.join(printable(str(key)) for key in list(value)[:4]) or 'nothing'}"
        )
    return f"a {type(value).__name__}"


def _json(content: bytes, path: Path, name: str) -> dict[str, Any]:
    if len(content) > _MOST_JSON:
        raise ValueError(f"{path}: {name} must be at most {_MOST_JSON} bytes, got {len(content)}")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: {name} must be a JSON mapping, got something else")
    return value
