"""Meshes read by VTK in a process of its own, with limits on memory and time.

VTK ends its process on many damaged files: by a segmentation fault, by memory that it cannot
allocate, or never. Here that is one ValueError that names the file. The process (reader_process.py)
is started with the first mesh, reads one after the other, and is started anew after a crash.
"""

from __future__ import annotations

import atexit
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import IO, Any, Literal

from numpy.typing import NDArray

from slipstream.core.text import printable
from slipstream.data.meshes.limits import too_long, too_much
from slipstream.data.meshes.messaging import Closed, receive, send

_PROGRAM = (
    "import sys; sys.path[:] = {path!r};"
    " from slipstream.data.meshes.reader_process import serve; serve({link}, {parent})"
)
_NO_MEMORY = ("bad_alloc", "bad_array_new_length", "unable to allocate", "length_error")
"""Words that C++ and VTK print when memory cannot be allocated."""
Doing = Literal["reading", "writing"]
_DID = {"reading": "read", "writing": "wrote"}


class _Reader:
    """The process, and the socket to it."""

    def __init__(self) -> None:
        self.link, theirs = socket.socketpair()
        self.log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self.owner = os.getpid()
        started: queue.Queue[subprocess.Popen[bytes] | OSError] = queue.Queue()
        program = _PROGRAM.format(path=sys.path, link=theirs.fileno(), parent=self.owner)

        def run() -> None:
            # Linux ends the process with the thread that started it, so that thread lives on.
            try:
                process = subprocess.Popen(
                    [sys.executable, "-c", program],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self.log,
                    pass_fds=(theirs.fileno(),),
                    process_group=0,  # Ctrl-C is for this process, which then ends the other
                )
            except OSError as error:
                started.put(error)
                return
            started.put(process)
            process.wait()

        threading.Thread(target=run, daemon=True, name="reader of meshes").start()
        result = started.get()
        theirs.close()
        if isinstance(result, OSError):
            self.link.close()
            self.log.close()
            raise result
        self.process = result

    def usable(self) -> bool:
        if self.owner != os.getpid() or self.process.poll() is not None:
            return False
        said, *_ = select.select([self.link], [], [], 0)
        return not said  # an idle process says nothing: this is its end

    def end(self) -> int:
        """End the process, if it has not ended itself, and return its exit code."""
        self.link.close()
        if self.owner != os.getpid():  # a copy of the process that started it: not ours to end
            return 0
        self.process.kill()
        return self.process.wait()

    def printed(self) -> str:
        """The last of what the process has printed as errors."""
        size = self.log.seek(0, 2)
        self.log.seek(max(0, size - 4096))
        return self.log.read().decode("utf-8", "replace")


class Guard:
    """Sends requests to the process that reads meshes; one at a time, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reader: _Reader | None = None

    def ask(
        self,
        request: dict[str, Any],
        *,
        name: str,
        memory: int,
        seconds: float | int,
        arrays: Sequence[NDArray[Any]] = (),
        doing: Doing = "reading",
    ) -> tuple[Any, list[NDArray[Any]]]:
        """The answer to a request, which may come with arrays, and the answer's arrays.

        ValueError, with one sentence that names the mesh, if VTK crashes or exceeds a limit.
        """
        with self._lock:
            reader = self._started()
            try:
                limits = {"memory": memory, "seconds": seconds}
                reader.link.settimeout(seconds)
                send(reader.link, {"name": name, **request, **limits}, arrays)
                value, answered = receive(reader.link, time.monotonic() + seconds)
            except TimeoutError:
                self.end()
                raise ValueError(too_long(name, seconds, doing)) from None
            except Closed:
                reason = self._reason(reader, name, memory, doing)
                raise ValueError(reason) from None
            except BaseException:  # an interruption: what the process sends now is not awaited
                self.end()
                raise
        if "system" in value:
            raise OSError(*value["system"])
        if value.get("no memory"):
            raise ValueError(too_much(name, memory, doing))
        if "error" in value:
            raise ValueError(value["error"])
        return value["value"], answered

    def end(self) -> None:
        """End the process; the next request starts another one."""
        if self._reader:
            self._reader.end()
            self._reader.log.close()
        self._reader = None

    def _started(self) -> _Reader:
        if self._reader and not self._reader.usable():
            self.end()
        if not self._reader:
            self._reader = _Reader()
        return self._reader

    def _reason(self, reader: _Reader, name: str, memory: int, doing: Doing) -> str:
        """Why the process has ended."""
        try:  # it has closed the link, so it is about to end
            code = reader.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            code = reader.end()
        printed = reader.printed()
        self.end()
        if any(word in printed.lower() for word in _NO_MEMORY):
            return too_much(name, memory, doing)
        if code == -signal.SIGKILL:
            return (
                f"the process that {_DID[doing]} {name} was killed, perhaps because the machine's"
                " memory was full"
            )
        if code < 0:
            return (
                f"VTK crashed with signal {-code} ({signal.Signals(-code).name}) while {doing}"
                f" {name}"
            )
        last = (printed.strip().splitlines() or ["nothing"])[-1]
        return (
            f"the process that {_DID[doing]} {name} ended with code {code} and printed"
            f" {printable(last)}"
        )


GUARD = Guard()
"""The reader of this process."""
atexit.register(GUARD.end)
