"""The config of a run from a command line: experiment, preset, file and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slipstream.cli.shared import parse_settings
from slipstream.core.checked_yaml import read_yaml
from slipstream.core.checks import check_choice
from slipstream.core.configs import differences, overlay
from slipstream.core.runtime import pick_device
from slipstream.data.store import open_store
from slipstream.experiments import CHOSEN_BY_DEVICE, PRESETS, SMALL_POINTS, experiment, small
from slipstream.runs.config import (
    FREE,
    InitialModel,
    ModelConfig,
    RunConfig,
    with_store,
    with_variant,
)
from slipstream.runs.folder import RunFolder
from slipstream.runs.model_file import model_path
from slipstream.runs.take_over import check_same_model, initial_model

AUTO = "auto"


@dataclass(frozen=True)
class Changes:
    """What a command line changes in an experiment: a file, then --set, then other options."""

    file: Path | None = None
    settings: Sequence[str] | None = None
    store: Path | None = None
    variant: str | None = None
    seed: int | None = None
    start: tuple[InitialModel, ModelConfig] | None = None
    """The model to start from, and its config: variant, size and constants are its own."""

    def apply(self, config: RunConfig) -> RunConfig:
        """The config with the changes. Raises ValueError where a field or value is wrong, or asks
        for another variant, size or constants than those of the model to start from."""
        if self.start is not None:
            initial, own = self.start
            model = replace(
                config.model, variant=own.variant, size=own.size, plugin=own.plugin,
                constants=own.constants,
            )  # fmt: skip
            config = replace(config, model=model, initial=initial)
        config = self._changed(config)
        if self.start is not None:
            check_same_model(config.model, self.start[1], self.start[0].model)
        return config

    def _changed(self, config: RunConfig) -> RunConfig:
        if self.file is not None:
            config = overlay(config, read_yaml(self.file).mapping(), fixed=("experiment",))
        if self.settings:
            config = overlay(config, parse_settings(self.settings), fixed=("experiment",))
        config = with_store(config, self.store)
        if self.variant is not None:
            config = with_variant(config, self.variant)
        return config if self.seed is None else replace(config, seed=self.seed)


def make_config(name: str, changes: Changes, preset: str = "paper") -> RunConfig:
    """An experiment's config in a preset, changed.

    Where a sample of the store has fewer points than the preset `small` draws, it draws as many as
    the smallest sample has.
    """
    check_choice("preset", preset, PRESETS)
    if preset == "paper":
        return changes.apply(experiment(name))
    config = changes.apply(small(experiment(name)))
    if config.data.store is None:
        return config
    store = open_store(config.data.store)
    fewest = min((store.rows(i) for ids in store.splits.values() for i in ids), default=1)
    return changes.apply(small(experiment(name), min(fewest, SMALL_POINTS)))


def start_from(path: Path | None, out: Path | None) -> tuple[InitialModel, ModelConfig] | None:
    """What `Changes` needs of a model to start from.

    Of a run that exists already, it is what that was begun with: a run goes on without the file.
    """
    if path is None:
        return None
    if out is not None and (folder := RunFolder(out)).exists:
        saved = folder.read_config()
        if saved.initial is not None and saved.initial.model == str(model_path(path).resolve()):
            return saved.initial, saved.model
    initial, trained = initial_model(path)
    return initial, trained.config.model


def choose_config(
    name: str, preset: str | None, changes: Changes, *, device: str = AUTO, out: Path | None = None
) -> tuple[RunConfig, list[str]]:
    """The config of `slipstream train`, and sentences on what was chosen and how to choose else.

    None is `auto` for the experiments of CHOSEN_BY_DEVICE, else `paper`. `auto` takes `small` where
    the device is a CPU. Where `out` is a run already, its config decides and not the machine:
    `auto` takes the preset that the run was begun with, on whatever machine that was.
    """
    asked = preset or (AUTO if name in CHOSEN_BY_DEVICE else "paper")
    check_choice("preset", asked, (AUTO, *PRESETS))
    if asked != AUTO:
        return make_config(name, changes, asked), []
    if out is not None and (folder := RunFolder(out)).exists:
        saved = folder.read_config()
        configs = [make_config(name, changes, each) for each in PRESETS]
        return min(configs, key=lambda c: len(differences(saved, c, ignored=FREE))), []
    paper = make_config(name, changes)
    if pick_device(device).type != "cpu":
        return paper, []
    config = make_config(name, changes, "small")
    if config == paper:
        return config, []
    note = (
        f"On a CPU this run takes the preset small: {_summary(config)}. With --preset paper:"
        f" {_summary(paper)}."
    )
    return config, [note]


def _summary(config: RunConfig) -> str:
    size, points = config.model.size, config.data.points
    if points is None:
        drawn = "all points of a sample"
    elif isinstance(points, float):
        drawn = f"{100 * points:g} % of a sample's points"
    else:
        drawn = f"{points:,} points of a sample"
    return (
        f"{size.layers} layer{'s' if size.layers > 1 else ''} of width {size.width}, {drawn},"
        f" batch {config.batch}, {config.precision}, {config.steps:,} steps"
    )
