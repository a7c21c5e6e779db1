from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from slipstream.core.locks import take_lock
from slipstream.core.records import append_record, read_records


def test_rows_come_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "records.jsonl"
    written = [append_record(path, "demo", {"error": 0.1}), append_record(path, "other", {})]
    assert read_records(path) == written
    assert read_records(path, "other") == written[1:]
    assert written[0]["versions"]["slipstream"]


def test_an_unfinished_line_is_no_record_and_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    first = append_record(path, "demo", {"n": 1})
    with path.open("a") as file:
        file.write('{"schema": 1, "kind": "de')
    assert read_records(path) == [first]
    second = append_record(path, "demo", {"n": 2})
    assert read_records(path) == [first, second]


def test_a_killed_writer_leaves_a_readable_file(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    code = (
        "import sys; from pathlib import Path\n"
        "from slipstream.core.records import append_record\n"
        "for i in range(10**6):\n"
        "    append_record(Path(sys.argv[1]), 'demo', {'i': i, 'pad': 'x' * 5000})\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)])
    while not path.exists() or path.stat().st_size < 10**6:
        assert writer.poll() is None
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    append_record(path, "demo", {"i": -1})
    numbers = [row["i"] for row in read_records(path)]
    assert numbers == [*range(len(numbers) - 1), -1]


def test_a_row_that_another_process_is_writing_is_not_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    line = json.dumps(append_record(tmp_path / "other", "demo", {"n": 1})).encode() + b"\n"
    other = threading.Thread(target=append_record, args=(path, "demo", {"n": 2}))
    with path.open("ab", buffering=0) as file:
        take_lock(file)
        file.write(line[:50])
        other.start()
        other.join(0.5)  # it waits for the rest of the line
        file.write(line[50:])
    other.join()
    assert [row["n"] for row in read_records(path)] == [1, 2]


@pytest.mark.parametrize("letter", ["\u2028", "\u2029", "\x85"])
def test_only_a_line_feed_ends_a_row(tmp_path: Path, letter: str) -> None:
    path = tmp_path / "records.jsonl"
    for text in ("a b", "c"):
        append_record(path, "demo", {"text": text})
    path.write_text(path.read_text().replace("a b", f"a{letter}b"), "utf-8")
    assert [row["text"] for row in read_records(path)] == [f"a{letter}b", "c"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1 must be a JSON object"),
        ("[]", "line 1 must be a JSON object, got list"),
        ('{"schema": 1}', "field 'kind' must be str, got None"),
        (
            json.dumps({"schema": 99, "kind": "a", "time": "", "versions": {}}),
            "schema must be at most 1, got 99: a newer slipstream wrote it",
        ),
    ],
)
def test_a_bad_row_names_its_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(ValueError, match=message):
        read_records(path)


def test_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    with pytest.raises(ValueError, match="fields must not contain kind"):
        append_record(path, "demo", {"kind": "x"})
    with pytest.raises(ValueError, match="not JSON compliant"):
        append_record(path, "demo", {"error": float("nan")})
    assert not path.exists()


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(ValueError, match=r"r.jsonl must be records, a JSON object a line, got"):
        read_records(tmp_path / "r.jsonl")
