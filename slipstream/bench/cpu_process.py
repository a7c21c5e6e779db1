"""A subject in a separate process on given cores, which measures its memory and times its steps.

Memory is that of the whole process, so each subject needs its own. If a subject dies, as one that
needs more memory than there is, the others go on.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from slipstream.bench.cases import Case
from slipstream.bench.cpu_subjects import SUBJECTS, Subject, build_subject
from slipstream.bench.subjects import OUTPUTS, draw_inputs
from slipstream.bench.workers import describe_error
from slipstream.core.runtime import generator

Step = Callable[[], None]
WARMUP_POINTS = 64
"""Points of the first step of a process. It loads the libraries that a step needs, which must not
count as the subject's memory."""


@dataclass(frozen=True)
class Seconds:
    """The time of one step."""

    cpu: float
    """CPU time of all threads of the process together."""
    wall: float


class SubjectFailed(Exception):
    """A subject that cannot be built, raised in a step, or whose process died."""


class SubjectProcess:
    """The parent's end of a subject's process; between its steps the process sleeps."""

    def __init__(self, subject: Subject, case: Case, cores: tuple[int, ...]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, subject.name, case, cores)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()  # the other end is then open in the process only, and closes when it dies
        self.peak_bytes: int | None = self._answer()

    def step(self) -> Seconds:
        try:
            self._pipe.send("step")
        except OSError:
            pass  # the process is dead, which `_answer` will report
        return self._answer()

    def stop(self) -> None:
        self._pipe.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _answer(self) -> Any:
        try:
            answer = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(10)
            code = self._process.exitcode
            raise SubjectFailed(f"its process died with exit code {code}") from None
        if isinstance(answer, str):
            self.stop()
            raise SubjectFailed(answer)
        return answer


def _serve(pipe: Connection, name: str, case: Case, cores: tuple[int, ...]) -> None:
    """What the process does: it sends its peak memory, then times a step whenever it is asked."""
    keep_to(cores)
    try:
        step = prepare(SUBJECTS[name], case)
        pipe.send(peak_bytes(step))
        while pipe.recv():
            pipe.send(time_step(step))
    except (EOFError, BrokenPipeError):
        return  # the parent has closed the pipe
    except Exception as raised:
        pipe.send(describe_error(raised))


def keep_to(cores: tuple[int, ...]) -> None:
    """Compute on these cores with a thread each, and print to stderr whatever packages print."""
    os.dup2(2, 1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    torch.set_num_threads(len(cores))


def prepare(subject: Subject, case: Case) -> Step:
    """A step of the subject, all its tensors allocated and its libraries loaded."""
    module = build_subject(subject, case).train(case.training)
    if not case.compiled:
        make_step(subject, replace(case, points=WARMUP_POINTS), module)()
        return make_step(subject, case, module)
    step = make_step(subject, case, torch.compile(module))
    step()  # compiles, for this number of points only
    return step


def make_step(subject: Subject, case: Case, module: Any) -> Step:
    """Forward, and in training backward to every parameter and to a layer's input.

    The backward pass of a layer begins with a given gradient, that of a model with the mean square
    error to given targets. Both exist before memory is measured, so no subject is charged for them.
    """
    inputs = subject.inputs(draw_inputs(case))
    if not case.training:

        @torch.no_grad()
        def infer() -> None:
            module(*inputs)

        return infer
    is_layer = case.what == "layer"
    width = inputs[0].shape[-1] if is_layer else OUTPUTS
    given = torch.randn(1, case.points, width, generator=generator(0, "given"))
    for tensor in inputs:
        tensor.requires_grad_(is_layer)

    def train() -> None:
        output = _output(module(*inputs))
        if is_layer:
            output.backward(given)
        else:
            F.mse_loss(output, given).backward()
        for tensor in (*module.parameters(), *inputs):
            tensor.grad = None

    return train


def time_step(step: Step) -> Seconds:
    cpu, wall = time.process_time(), time.perf_counter()
    step()
    return Seconds(time.process_time() - cpu, time.perf_counter() - wall)


def peak_bytes(step: Step) -> int | None:
    """The most memory of this process during the step, less what it had before.

    Linux counts the pages in use. Tensors above 32 MB have pages of their own, which are returned
    when the tensor is freed; what the allocator keeps of smaller ones is returned first, by
    `malloc_trim`. None on other systems, which do not count so.
    """
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to what is in use now
        before = _status_bytes("VmRSS")
    except (AttributeError, OSError):
        step()
        return None
    step()
    return _status_bytes("VmHWM") - before


def _status_bytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


def _output(result: Any) -> Tensor:
    """The output of a module; some layers return it together with their weights."""
    return result[0] if isinstance(result, tuple) else result
