"""How much memory there is."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from slipstream.core.memory import array_bytes, free_memory, machine_memory


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say it")
def test_free_memory() -> None:
    """Of the order of the pages that nobody uses, and never more than the machine has."""
    unused = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert min(unused, machine_memory()) / 4 < free_memory() <= machine_memory()


def test_the_size_of_an_array_that_does_not_fit() -> None:
    with pytest.raises(MemoryError) as raised:
        np.empty((1 << 40, 1 << 10), np.float64)
    assert array_bytes(raised.value) == 1 << 53
    assert array_bytes(MemoryError()) is None and array_bytes(ValueError()) is None
