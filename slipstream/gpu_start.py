"""Starts a GPU while torch is still being imported: neither needs the other."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from threading import Thread


def start_gpu(arguments: Sequence[str]) -> Thread | None:
    """For a command line that asks for `--device cuda` or `cuda:N`; else nothing is done.

    What is wrong with the device is left for torch to find, and to say.
    """
    device = re.search(r"(?:^|\0)--device[=\0]cuda(?::(\d{1,3}))?(?:\0|$)", "\0".join(arguments))
    if device is None:
        return None
    thread = Thread(target=_make_context, args=(int(device[1] or 0),))
    thread.start()
    return thread


def _make_context(index: int) -> None:
    """The one context that all of this process shares, torch's as well; it stays to the end."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), index) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
