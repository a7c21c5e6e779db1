"""The script that measures the host needs Triton's insides: does it still run?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_what_a_layer_costs_on_the_host() -> None:
    pytest.importorskip("triton")
    done = subprocess.run(
        [sys.executable, "benchmarks/host.py", "4"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4 and all(" fused " in line and " µs" in line for line in lines)
