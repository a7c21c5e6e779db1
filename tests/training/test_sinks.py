from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from slipstream.training.session import train
from slipstream.training.sinks import open_sinks, scalars

from .small import small

needs_tensorboard = pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is None, reason="tensorboard is not installed"
)


def test_what_can_be_drawn() -> None:
    row = {"step": 3, "error": 0.5, "best": True, "by_group": {"p": 0.1, "u": None}, "weights": "x"}
    assert scalars("validation", row) == {"validation/error": 0.5, "validation/by_group/p": 0.1}
    assert scalars("start", row) == {}


@needs_tensorboard
def test_tensorboard_gets_the_numbers_of_a_run(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(small(), tmp_path / "r", device="cpu", track=["tensorboard"])
    events = EventAccumulator(str(tmp_path / "r" / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [2, 4, 6, 8, 10, 12]
    assert [event.step for event in events.Scalars("validation/by_group/potential")] == [4, 8, 12]


def test_a_package_that_is_not_there_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with (
        pytest.raises(ValueError, match=r"wandb must be installed.*pip install .*\[tracking\]"),
        open_sinks(["wandb"], tmp_path, {}),
    ):
        pass
