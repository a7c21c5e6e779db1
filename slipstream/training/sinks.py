"""Where the records of a run may go besides its file: TensorBoard and Weights & Biases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from slipstream.core.checks import check_choice
from slipstream.core.extras import need

Listener = Callable[[str, Mapping[str, Any]], None]
"""Called with the kind and the fields of every record."""
SINKS = ("tensorboard", "wandb")


@contextmanager
def open_sinks(
    names: Sequence[str], run: Path, config: Mapping[str, Any]
) -> Iterator[list[Listener]]:
    """Listeners that pass the numbers of a run on. ValueError where a package is not installed."""
    with ExitStack() as stack:
        listeners: list[Listener] = []
        for name in names:
            check_choice("track", name, SINKS)
            sink = _tensorboard(run) if name == "tensorboard" else _wandb(run, config)
            listeners.append(stack.enter_context(sink))
        yield listeners


@contextmanager
def _tensorboard(run: Path) -> Iterator[Listener]:
    need("tensorboard", "tracking")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(run / "tensorboard")) as writer:

        def listen(kind: str, row: Mapping[str, Any]) -> None:
            for name, value in scalars(kind, row).items():
                writer.add_scalar(name, value, row["step"])

        yield listen


@contextmanager
def _wandb(run: Path, config: Mapping[str, Any]) -> Iterator[Listener]:
    wandb = need("wandb", "tracking")
    # Named by the folder, so that a run that is resumed continues its own curves.
    name = "-".join(run.resolve().parts[-3:]).strip("/")
    session = wandb.init(
        project="slipstream", name=name, id=name, dir=str(run), config=dict(config), resume="allow"
    )
    try:
        yield lambda kind, row: session.log(scalars(kind, row), step=row["step"])
    finally:
        session.finish()


def scalars(kind: str, row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a record to plot: "train/loss", "validation/by_group/pressure", ..."""
    values: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            values |= {f"{kind}/{k}": v for k, v in scalars(name, value).items()}
        elif isinstance(value, int | float) and not isinstance(value, bool) and name != "step":
            values[f"{kind}/{name}"] = value
    return values if kind not in ("start", "checkpoint", "stop") else {}
