"""A few moments of each command; `python -m tests.interrupted --moments 100` has more."""

from __future__ import annotations

from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM

import pytest

from ..conftest import Command
from .commands import COMMANDS, TINY, contents, write_meshes
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


def test_an_evaluation_too(tmp_path: Path, command: Command) -> None:
    given = tmp_path / "given"
    options = (*TINY, "--set", "steps=2", "--set", "evaluate_every=2")
    assert command("train", "poisson", "--out", given / "run", *options).code == 0
    moments = [Moment(SIGTERM, True, share=0.8)]
    attempts = interrupt(COMMANDS["evaluate"], tmp_path / "out", given, moments)
    assert [attempt.problems for attempt in attempts] == [()]
    assert attempts[0].ending in ("exit 143", FINISHED), "the process was prepared for it"


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
