"""A checkpoint is compared with the records before a run continues from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.runs.checkpoint import Checkpoint, read_checkpoint, weights_hash
from slipstream.runs.folder import RunFolder

Row = Mapping[str, Any]


def read_newest_checkpoint(folder: RunFolder, step: int) -> Checkpoint:
    """The checkpoint of `step`, the newest; where it is damaged, ValueError says how to go on.

    A run that was killed between a checkpoint and its record has no record of it: only the hash in
    the file itself is compared then. Older versions recorded a hash of the weights alone.
    """
    rows = folder.history("checkpoint")
    try:
        return _read_recorded(folder, step, rows)
    except ValueError as error:
        raise ValueError(f"{error}; {_how_to_go_on(folder, step, rows)}") from None


def _read_recorded(folder: RunFolder, step: int, rows: Sequence[Row]) -> Checkpoint:
    path = folder.checkpoint_file(step)
    checkpoint = read_checkpoint(path)
    weights = weights_hash(checkpoint.part("model"))
    hashes = {"weights": weights, "content": checkpoint.state.get("content")}
    recorded = next((row for row in reversed(rows) if row["step"] == step), {})
    for name, actual in hashes.items():
        if name in recorded and recorded[name] != actual:
            raise ValueError(
                f"{path} must have the {name} of its record, {str(recorded[name])[:12]}, got"
                f" {str(actual)[:12]}: it is damaged or of another run"
            )
    return checkpoint


def _how_to_go_on(folder: RunFolder, step: int, rows: Sequence[Row]) -> str:
    """Which files to remove, so that the run continues from an older checkpoint that is whole."""
    damaged = [folder.checkpoint_file(step).name]
    for older in reversed([one for one in folder.checkpoint_steps() if one < step]):
        try:
            _read_recorded(folder, older, rows)
        except ValueError:
            damaged.append(folder.checkpoint_file(older).name)
        else:
            whole = folder.checkpoint_file(older).name
            return f"remove {' and '.join(damaged)} to continue from step {older}: {whole} is whole"
    return f"remove {' and '.join(damaged)} to begin again: no other checkpoint is whole"
