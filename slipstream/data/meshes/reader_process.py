"""The process in which VTK reads meshes for guard.py. It loads numpy and VTK, but not torch."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from slipstream.core.text import printable
from slipstream.data.meshes.arrays import Wanted
from slipstream.data.meshes.messaging import Closed, receive, send
from slipstream.data.meshes.openfoam import CASE, load_case
from slipstream.data.meshes.vtk_data import as_loaded, info_of, joined_data, volumes_of
from slipstream.data.meshes.vtk_files import keep_wanted, load_file
from slipstream.data.meshes.vtk_writing import load_blocks, write_blocks

_PR_SET_PDEATHSIG = 1
_Answer = tuple[Any, list[NDArray[Any]]]


def serve(handle: int, parent: int) -> None:
    """Answer requests until the parent closes the socket or ends."""
    _protect(parent)
    link = socket.socket(fileno=handle)
    with suppress(Closed):
        while True:
            request, given = receive(link)
            sys.stderr.flush()
            os.ftruncate(2, 0)  # the parent reads it after a crash: only what this mesh caused
            os.lseek(2, 0, os.SEEK_SET)
            _limit_memory(request["memory"])
            # If the parent cannot do so any more, the system ends an endless reading.
            signal.alarm(int(request["seconds"]) + 60)
            value, arrays = _answer(request, given)
            signal.alarm(0)
            send(link, value, arrays)
            del value, arrays, given


def _protect(parent: int) -> None:
    """Die with the parent, ignore signals to its group, leave no core files."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with suppress(OSError):  # where memory is full, the system is to end this process first
            Path("/proc/self/oom_score_adj").write_text("1000")
    if os.getppid() != parent:  # it ended before the call above
        os._exit(1)


def _limit_memory(limit: int) -> None:
    """Let this process allocate `limit` bytes more than it holds now; on Linux only.

    The limit is on memory for data: one on addresses would count what threads only reserve.
    """
    if sys.platform != "linux":
        return
    status = Path("/proc/self/status").read_text()
    held = next(line for line in status.splitlines() if line.startswith("VmData:"))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = int(held.split()[1]) * 1024 + limit
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _answer(request: dict[str, Any], given: list[NDArray[Any]]) -> _Answer:
    try:
        value, arrays = _done(request, given)
        return {"value": value}, arrays
    except MemoryError:
        return {"no memory": True}, []
    except OSError as error:
        if error.errno is None:
            return {"error": f"{request['name']} cannot be read: {error}"}, []
        filename = error.filename and os.fsdecode(error.filename)
        return {"system": [error.errno, error.strerror, filename]}, []
    except ValueError as error:
        return {"error": str(error)}, []
    except Exception as error:  # of VTK's wrappers or of numpy: the file is not what it seems
        return {"error": _unexpected(error, request["name"])}, []


def _unexpected(error: Exception, name: str) -> str:
    text = printable(" ".join(f"{type(error).__name__}: {error}".split()))
    return f"{name} must be a mesh that VTK can read, got {text}"


def _done(request: dict[str, Any], given: list[NDArray[Any]]) -> _Answer:
    if request["what"] in ("write", "check"):
        files = [Path(file) for file in request["files"]]
        blocks = load_blocks(request["kind"], files, request["regions"])
        return (write_blocks(blocks, request, given) if request["what"] == "write" else None), []
    data = _load(request)
    if request["what"] == "info":
        return asdict(info_of(data)), []
    if request["what"] == "volumes":
        return None, [volumes_of(data)]
    return as_loaded(data).to_message()


def _load(request: dict[str, Any]) -> Any:
    name, files = request["name"], [Path(file) for file in request["files"]]
    given = request["wanted"]
    wanted = None if given is None else [Wanted(**one) for one in given]
    if request["kind"] == CASE:
        return load_case(files[0], wanted, request["regions"])
    blocks = [load_file(file, wanted) for file in files]
    if request["kind"] != ".vtm":
        return blocks[0]
    return keep_wanted(joined_data(blocks, name), wanted, name)
