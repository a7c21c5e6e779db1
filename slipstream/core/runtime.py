"""Seeds, devices, versions, and the only reader of environment variables."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

import torch

from slipstream.core.version import VERSION

_PACKAGES = ("torch", "triton", "numpy", "safetensors")


def derive_seed(seed: int, *names: object) -> int:
    """A 63-bit seed that is a pure function of `seed` and `names`."""
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: object) -> torch.Generator:
    """A CPU random generator whose stream depends on (seed, names) alone."""
    return torch.Generator().manual_seed(derive_seed(seed, *names))


def pick_device(name: str = "auto") -> torch.device:
    """`auto` is the first CUDA device where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device must be auto, cpu, cuda or cuda:N, got {name!r}") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"device {name!r} is not on this machine: it has {torch.cuda.device_count()} CUDA"
            " devices"
        )
    return device


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{platform.machine()} CPU, {threads} thread{'s' if threads != 1 else ''}"


def available_cores() -> int:
    """How many cores this process may run on, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def multiprocessors(device: torch.device) -> int:
    """The number of multiprocessors of a CUDA device; 1 for any other."""
    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count


@cache
def shared_memory(device: torch.device) -> int:
    """Bytes of shared memory that one block may use; without limit on devices other than CUDA."""
    if device.type != "cuda":
        return sys.maxsize
    properties = torch.cuda.get_device_properties(device)
    return properties.shared_memory_per_block_optin  # type: ignore[attr-defined]


def compute_alike() -> None:
    """In a process that computes for others: digits do not depend on the cores of its machine.

    One thread; and MKL's mode of equal digits, which it reads once, before its first use.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO")
    torch.set_num_threads(1)


def package_version(package: str) -> str | None:
    """The installed version of a package, or None where it is absent."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """The commit of the source tree the package runs from, with + where files differ from it.

    The variable SLIPSTREAM_COMMIT takes precedence: the tree may be a copy, with no history or an
    older one.
    """
    given = environment("SLIPSTREAM_COMMIT")
    root = Path(__file__).parents[2]
    if given or not (root / ".git").exists() or shutil.which("git") is None:
        return given
    git = ["git", "-C", str(root)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    if head.returncode:
        return None
    changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True)
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def versions() -> dict[str, str]:
    """Versions that go into every record: Python, ours, and the numerical packages."""
    return dict(_versions())


@cache  # looking them up takes milliseconds, and a training step may take less
def _versions() -> dict[str, str]:
    packages = {name: package_version(name) for name in _PACKAGES}
    return {
        "python": platform.python_version(),
        "slipstream": VERSION,
        **{name: version for name, version in packages.items() if version},
    }


def environment(name: str) -> str | None:
    """One environment variable, or None; no other function of the package reads them."""
    return os.environ.get(name)


def child_environment(**changes: str) -> dict[str, str]:
    """This process's environment with some variables changed, for a process that it starts."""
    return {**os.environ, **changes}


def take_environment(**variables: str) -> None:
    """Set variables of this process, which was started for that and has read none of them yet."""
    os.environ.update(variables)


# Constants, not functions: torch.compile breaks its graph where the environment is read.
HAS_TRITON = importlib.util.find_spec("triton") is not None
TRITON_INTERPRETED = environment("TRITON_INTERPRET") in ("1", "true", "on")
"""Whether Triton runs kernels on the CPU. Triton too reads the variable once, when imported."""
