from __future__ import annotations

import multiprocessing
import threading
from multiprocessing.synchronize import Event
from pathlib import Path

from slipstream.core.locks import is_at, is_locked, take_lock

_CONTEXT = multiprocessing.get_context("forkserver")


def test_one_holds_it_until_the_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_locked(path)
    with path.open("a") as one, path.open("a") as other:
        assert not is_locked(path)
        assert take_lock(one) and is_locked(path)
        assert not take_lock(other) and is_locked(path)
    assert not is_locked(path)
    with path.open("a") as other:
        assert take_lock(other)


def _ask(path: Path, ready: Event, done: Event) -> None:
    ready.set()
    while not done.is_set():
        is_locked(path)


def test_a_question_never_keeps_anybody_from_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    ready, done = _CONTEXT.Event(), _CONTEXT.Event()
    asking = _CONTEXT.Process(target=_ask, args=(path, ready, done))
    asking.start()
    try:
        assert ready.wait(60)
        for _ in range(2000):
            with path.open("a") as file:
                assert take_lock(file)
    finally:
        done.set()
        asking.join()


def test_a_file_that_was_removed_is_no_longer_at_its_name(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("a") as file:
        assert is_at(file, path)
        path.unlink()
        assert not is_at(file, path)
        path.touch()
        assert not is_at(file, path)


def test_waiting_ends_when_the_holder_does(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    one, other = path.open("a"), path.open("a")
    take_lock(one)
    held: list[bool] = []
    waiting = threading.Thread(target=lambda: held.append(take_lock(other, wait=True)))
    waiting.start()
    assert held == []
    one.close()
    waiting.join()
    assert held == [True]
    other.close()
