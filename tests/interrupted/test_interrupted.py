"""A moment of two commands; `python -m tests.interrupted --moments 100` has more, of all."""

from __future__ import annotations

from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM

import pytest

from .commands import COMMANDS, contents, write_meshes
from .moments import FINISHED, Moment, difference, interrupt, judge, leave_alone

MOMENTS = {
    "train": [Moment(SIGKILL, False, share=0.2, after="records.jsonl")],
    "ingest": [Moment(SIGINT, True, share=0.3, after="")],
}


@pytest.mark.parametrize("name", MOMENTS)
def test_a_signal_costs_nothing(name: str, tmp_path: Path) -> None:
    if name == "ingest":
        write_meshes(tmp_path / "given")
    attempts = interrupt(COMMANDS[name], tmp_path / "out", tmp_path / "given", MOMENTS[name])
    assert [attempt.problems for attempt in attempts] == [()] * len(attempts), attempts
    assert {attempt.ending for attempt in attempts} != {FINISHED}


def test_the_harness_sees_what_is_wrong(tmp_path: Path) -> None:
    moment = Moment(SIGTERM, True, share=0.5)
    assert judge(143, "slipstream: stopped by SIGTERM", moment) == ("exit 143", ())
    assert judge(1, "", moment)[1] and judge(143, "Traceback (most recent", moment)[1]
    assert judge(-15, "", moment)[1] and not judge(-15, "", moment, prepared=False)[1]
    assert judge(0, "", moment) == ("had finished", ())
    for name, text in (("one", "a"), ("two", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(text)
        (tmp_path / name / f".file.{name}.partial").touch()
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert difference(one, two) == "other content: file" and not difference(one, one)
    with pytest.raises(AssertionError, match="ingest must end with 0, got 2"):
        leave_alone(COMMANDS["ingest"], tmp_path / "out", tmp_path / "nothing")
