"""`slipstream` in small chunks, with a rank 1 that is two seconds late to look for checkpoints."""

from __future__ import annotations

import os
import time

from slipstream.cli.app import main
from slipstream.models import lean
from slipstream.runs.folder import RunFolder

look = RunFolder.checkpoint_steps


def look_late(folder: RunFolder) -> list[int]:
    time.sleep(2)
    return look(folder)


if __name__ == "__main__":
    if os.environ["RANK"] == "1":
        RunFolder.checkpoint_steps = look_late  # type: ignore[method-assign]
    lean.CHUNK["cpu"] = 5
    main()
