from __future__ import annotations

import platform

import pytest
import torch

from slipstream.core import runtime


def test_seeds_depend_on_every_name_and_on_nothing_else() -> None:
    # The value is pinned: initial weights and data of every past run follow from it.
    assert runtime.derive_seed(0, "a") == 7606779636460171844
    seeds = {runtime.derive_seed(*parts) for parts in ((0, "a"), (1, "a"), (0, "b"), (0, "a", 1))}
    assert len(seeds) == 4
    first, second = (torch.rand(3, generator=runtime.generator(3, "x")) for _ in range(2))
    assert torch.equal(first, second)


def test_device_names() -> None:
    assert runtime.pick_device("cpu") == torch.device("cpu")
    assert runtime.pick_device("auto").type in ("cpu", "cuda")
    assert platform.machine() in runtime.device_name(torch.device("cpu"))
    with pytest.raises(ValueError, match="device must be auto, cpu, cuda or cuda:N, got 'gpu'"):
        runtime.pick_device("gpu")
    with pytest.raises(ValueError, match="device 'cuda:99' is not on this machine"):
        runtime.pick_device("cuda:99")


def test_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"python", "slipstream", "torch", "numpy"} <= runtime.versions().keys()
    assert runtime.package_version("no-such-package") is None
    monkeypatch.setenv("SLIPSTREAM_X", "1")
    assert runtime.environment("SLIPSTREAM_X") == "1"


def test_the_commit_where_there_is_no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime.shutil, "which", lambda name: None)
    monkeypatch.delenv("SLIPSTREAM_COMMIT", raising=False)
    assert runtime.commit() is None
    monkeypatch.setenv("SLIPSTREAM_COMMIT", "abc1234")
    assert runtime.commit() == "abc1234"
