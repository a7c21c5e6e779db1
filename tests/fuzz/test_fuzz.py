"""A short run of the fuzzer, and what it must be able to notice."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from .mutate import FORMATS, format_of, make_mutant
from .samples import mesh_samples

ROOT = Path(__file__).parents[2]
MUTANTS = 170


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: workers are forked from it, before it has threads."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_no_damaged_file_crashes_hangs_or_is_read_otherwise_than_by_vtk() -> None:
    """`python -m tests.fuzz --only I` repeats one of the mutants that the message names."""
    done = run("-m", "tests.fuzz", "--mutants", str(MUTANTS), "--seed", "0", "--jobs", "2")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_a_mutant_is_a_function_of_seed_and_number(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    samples, again = mesh_samples(tmp_path / "a"), mesh_samples(tmp_path / "b")
    assert samples == again
    for index in (i for i in range(60) if format_of(i) in {s.format for s in samples}):
        one = make_mutant(samples, seed=3, index=index)
        assert one == make_mutant(again, seed=3, index=index)
        assert one != make_mutant(samples, seed=4, index=index)
    assert {format_of(i) for i in range(34)} == {*FORMATS}


GUARD = """
import os, subprocess, sys, time
from pathlib import Path
from tests.fuzz import pool
def work(request):
    if request == "crash": os.abort()
    if request == "hang": time.sleep(60)
    if request == "child":
        children = [subprocess.Popen([sys.executable, "-c", CHILD]) for _ in range(2)]
        for child in children: child.wait()
    return request
CHILD = "import time; x = bytearray(300 << 20); time.sleep(60)"
pool.SECONDS, pool.BYTES = 2.0, 500 << 20
guarded = pool.Guarded(work, Path(sys.argv[1]))
requests = "first", "crash", "second", "hang", "third", "child", "last"
print(*(guarded.ask(request).kind for request in requests))
guarded.close()
"""


def test_a_crash_a_hang_or_a_child_that_takes_all_memory_costs_one_piece_of_work() -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = run("-c", GUARD, f"{folder}/log")
    assert done.stdout.split() == ["done", "crash", "done", "hang", "done", "memory", "done"]


CLASSES = """
import os, sys
from pathlib import Path
from tests.fuzz import readers
from tests.fuzz.examine import Examiner
from tests.fuzz.samples import Sample, mesh_samples
place = Path(sys.argv[1])
sample = next(s for s in mesh_samples(place) if s.name == "vti mode=Appended packed=None")
(raw,) = sample.files.values()
read = readers.READERS["vti"]
def changed(path):
    contents = read(path)
    contents["point U"] = contents["point U"] + 1
    return contents
def raising(error):
    def reader(path): raise error
    return reader
def judge(reader=read, content=raw):
    examiner = Examiner([sample], place / str(len(list(place.iterdir()))))
    examiner._originals[sample.name] = original
    readers.READERS["vti"] = reader
    damaged = Sample(sample.format, sample.name, {"mesh.vti": content}, sample.path)
    outcome = examiner.examine_original(damaged)
    examiner.close()
    return outcome.kind
readers.READERS = dict(readers.READERS)
first = Examiner([sample], place / "first")
first.examine_original(sample)
original = first._originals[sample.name]
first.close()
print(
    judge(), judge(changed), judge(lambda path: os.abort()), judge(raising(KeyError("step"))),
    judge(raising(MemoryError())), judge(raising(ValueError("mesh.vti\\nis bad"))),
    judge(raising(ValueError("it is bad"))), judge(raising(ValueError("mesh.vti is bad"))),
    judge(read, raw.replace(b'Origin="5 ', b'Origin="6 ')),
)
"""


def test_each_class_of_outcome_is_noticed(tmp_path: Path) -> None:
    done = run("-c", CLASSES, str(tmp_path))
    expected = "same differs crash traceback memory message message refused other"
    assert done.stdout.split() == expected.split(), done.stderr
