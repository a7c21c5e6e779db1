"""Where the records of a run go besides its file: TensorBoard and Weights & Biases, if wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from slipstream.core.checks import check_choice
from slipstream.core.extras import need

Listener = Callable[[str, Mapping[str, Any]], None]
"""Told the kind and the fields of every record."""
SINKS = ("tensorboard", "wandb")


@contextmanager
def open_sinks(
    names: Sequence[str], run: Path, config: Mapping[str, Any]
) -> Iterator[list[Listener]]:
    """Listeners that hand the numbers of a run on. ValueError where the package is not there."""
    with ExitStack() as stack:
        found: list[Listener] = []
        for name in names:
            check_choice("track", name, SINKS)
            opened = _tensorboard(run) if name == "tensorboard" else _wandb(run, config)
            found.append(stack.enter_context(opened))
        yield found


@contextmanager
def _tensorboard(run: Path) -> Iterator[Listener]:
    need("tensorboard", "tracking")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(run / "tensorboard")) as writer:

        def listen(kind: str, row: Mapping[str, Any]) -> None:
            for name, value in numbers(kind, row).items():
                writer.add_scalar(name, value, row["step"])

        yield listen


@contextmanager
def _wandb(run: Path, config: Mapping[str, Any]) -> Iterator[Listener]:
    wandb = need("wandb", "tracking")
    # The same folder is the same run there, before and after a restart.
    name = "-".join(run.resolve().parts[-3:]).strip("/")
    session = wandb.init(
        project="slipstream", name=name, id=name, dir=str(run), config=dict(config), resume="allow"
    )
    try:
        yield lambda kind, row: session.log(numbers(kind, row), step=row["step"])
    finally:
        session.finish()


def numbers(kind: str, row: Mapping[str, Any]) -> dict[str, float]:
    """What of a record can be drawn: "train/loss", "validation/by_group/pressure", ..."""
    found: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{kind}/{k}": v for k, v in numbers(name, value).items()}
        elif isinstance(value, int | float) and not isinstance(value, bool) and name != "step":
            found[f"{kind}/{name}"] = value
    return found if kind not in ("start", "checkpoint", "stop") else {}
