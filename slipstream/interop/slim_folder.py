"""The folder of a slimmed model: one model and one choice of settings, which go on where they were.

OUT/settings.json            what was asked for, written first
OUT/model.safetensors        the model without attention: fine-tuned, where that was better
OUT/slim.json                the certificate: errors, parameters and times, before and after
OUT/closed-form.safetensors  the model before fine-tuning, and
OUT/fine-tuning/             the run that tuned it, both with fine-tuning only
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipstream.core.files import json_text, read_json, write_text

SETTINGS, MODEL, CERTIFICATE = "settings.json", "model.safetensors", "slim.json"
CLOSED_FORM, TUNING = "closed-form.safetensors", "fine-tuning"


def check_folder(out: Path, settings: Mapping[str, Any]) -> None:
    """Raise ValueError where OUT holds anything but what the same settings have left there."""
    if not out.exists():
        return
    names = {file.name for file in out.iterdir()} if out.is_dir() else set()
    if not out.is_dir() or (names and SETTINGS not in names):
        got = f"{min(names)} in it" if names else "a file"
        raise ValueError(f"{out} must be an empty folder, or one of slim, got {got}")
    if not names:
        return
    saved = read_json(out / SETTINGS)
    others = [
        f"{name}: {saved.get(name)}, {settings.get(name)}"
        for name in (*settings, *(saved.keys() - settings.keys()))
        if saved.get(name) != settings.get(name)
    ]
    if others:
        raise ValueError(
            f"{out} must be an empty folder, or one of slim with the same settings, got others"
            f" (saved, given): {'; '.join(others)}"
        )


def begin_folder(out: Path, settings: Mapping[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / SETTINGS, json_text(settings))
