"""Copy what a report needs of a study: records, evaluations, certificate, one prediction a variant.

    python pack.py STUDY FOLDER

Weights, checkpoints and data stay behind; so do the slice weights of all but the headline pair, and
the predictions of further seeds. The folder of the study is called `work` in all that is copied:
where it lay on one machine is of no use on another.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from slipstream.runs.prediction_file import read_prediction, write_prediction

LEFT = (
    "checkpoints", "data", "model.safetensors", "calibration.json", "likeness.safetensors", "lock",
    "log.txt",
)  # fmt: skip
PAIR = ("baseline", "no-token-attention")


def pack(study: Path, folder: Path) -> None:
    shutil.copytree(study, folder, ignore=shutil.ignore_patterns(*LEFT))
    forget_place(folder, study.resolve().parent)
    for file in folder.glob("runs/**/predictions/*.safetensors"):
        prediction = read_prediction(file)
        if prediction.seed != 0:
            file.unlink()
        elif prediction.variant not in PAIR:
            write_prediction(file, replace(prediction, weights=None))


def forget_place(folder: Path, place: Path) -> None:
    for file in folder.rglob("*"):
        if file.suffix in (".json", ".jsonl", ".txt"):
            text = file.read_text(encoding="utf-8")
            file.write_text(text.replace(f"{place}/", "work/"), encoding="utf-8")


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
