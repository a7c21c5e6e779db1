"""Sweeps: fields of a config that the runs of a study vary besides variant and seed.

    varied(config, [Sweep("model.size.key_ratio", (1, 2, 4))], variant="untied-ln")

gives a config for every value, and several sweeps give one for every combination. A variant whose
runs do not depend on a field (`key_ratio`: `untied-ln` alone has it) has one config instead, with
the field as it was: runs for every value would be equal to the bit, cost their time again and count
one seed several times. A report compares that run with the others at every value.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import reduce
from typing import Any

from slipstream.core.configs import overlay
from slipstream.core.text import file_name
from slipstream.models.variants import VARIANTS
from slipstream.runs.config import FREE, RunConfig, with_variant

Swept = Mapping[str, Any]
"""Values by field, as JSON has them: {"model.size.key_ratio": 4}."""
_SIZE = "model.size."
_INSTEAD = {
    "model.variant": "--variants names several",
    "seed": "--seeds names several",
    "experiment": "a study takes several experiments",
    "data.builtin": "the runs of an experiment share its data, so other data are another study",
}


@dataclass(frozen=True)
class Sweep:
    """A field, with dots as in `model.size.layers`, and its values in the order of the tables."""

    field: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(f"the sweep of {self.field} must have at least one value, got none")


def check_sweeps(sweeps: Sequence[Sweep], config: RunConfig, variants: Sequence[str]) -> None:
    """Raise ValueError where a sweep cannot be made with any of the variants."""
    names = [sweep.field for sweep in sweeps]
    for sweep in sweeps:
        if names.count(sweep.field) > 1:
            raise ValueError(f"a field must be swept once, got {sweep.field} several times")
        for field, instead in _INSTEAD.items():
            if f"{sweep.field}.".startswith(f"{field}."):
                raise ValueError(f"a sweep must not be of {sweep.field}: {instead}")
        if any(f"{sweep.field}.".startswith(f"{field}.") for field in FREE):
            raise ValueError(
                f"a sweep must be of a field that a result depends on, got {sweep.field}"
            )
        for value in sweep.values:
            _changed(config, {sweep.field: value}, [sweep.field])
        if not any(depends_on(variant, sweep.field) for variant in variants):
            raise ValueError(
                f"the sweep of {sweep.field} must be with a variant that depends on it, got"
                f" {', '.join(variants)}"
            )


def varied(
    config: RunConfig, sweeps: Sequence[Sweep], variant: str
) -> list[tuple[RunConfig, dict[str, Any]]]:
    """The configs of a variant, each with the swept values that make it; no config comes twice."""
    base = with_variant(config, variant)
    own = [sweep for sweep in sweeps if depends_on(variant, sweep.field)]
    names = sorted(sweep.field for sweep in own)
    configs: dict[str, tuple[RunConfig, dict[str, Any]]] = {}
    for values in itertools.product(*(sweep.values for sweep in own)):
        given = {sweep.field: value for sweep, value in zip(own, values, strict=True)}
        changed = _changed(base, given, names)
        swept = values_of(changed, names)
        configs.setdefault(json.dumps(swept), (changed, swept))
    return list(configs.values())


def _changed(config: RunConfig, given: Swept, names: Iterable[str]) -> RunConfig:
    """The config with some fields changed; errors name them as swept."""
    try:
        changed = overlay(config, given)
    except ValueError as error:
        raise ValueError(f"the sweep of {', '.join(given)} cannot be made: {error}") from None
    for name in names:
        value = value_of(changed, name)
        if is_dataclass(value):
            inner = ", ".join(f"{name}.{field.name}" for field in fields(value))
            raise ValueError(f"a sweep must be of one field, as {inner}, got {name}")
    return changed


def unaffected(sweeps: Sequence[Sweep], variants: Sequence[str]) -> list[str]:
    """A sentence for each sweep on which runs of some of the variants do not depend."""
    sentences = []
    for sweep in sweeps:
        others = [variant for variant in variants if not depends_on(variant, sweep.field)]
        if others:
            each = (
                "is trained once and stands" if len(others) == 1 else "are trained once and stand"
            )
            sentences.append(
                f"{', '.join(others)} {each} for all values of {sweep.field}, on which"
                f" {'it does' if len(others) == 1 else 'they do'} not depend."
            )
    return sentences


def depends_on(variant: str, field: str) -> bool:
    """Whether runs of a variant depend on a field of the config; True where it is not known."""
    known = VARIANTS.get(variant)
    if known is None or not field.startswith(_SIZE):
        return True
    return known.uses(field.removeprefix(_SIZE))


def value_of(config: RunConfig, field: str) -> Any:
    """The value of a field with dots. Raises ValueError where there is no such field."""
    try:
        return reduce(getattr, field.split("."), config)
    except AttributeError:
        raise ValueError(f"a swept field must be one of a config's, got {field!r}") from None


def values_of(config: RunConfig, names: Collection[str]) -> dict[str, Any]:
    """The values of some fields as JSON has them, which is without tuples."""
    values: dict[str, Any] = json.loads(json.dumps({n: value_of(config, n) for n in names}))
    return values


def short_name(field: str) -> str:
    """The name in tables and sentences: "key_ratio" for "model.size.key_ratio"."""
    return field.removeprefix(_SIZE)


def value_text(value: Any) -> str:
    """As "4", "0.001", "window" or "null"."""
    return value if isinstance(value, str) else json.dumps(value)


def cell_name(experiment: str, variant: str, seed: int, swept: Swept) -> str:
    """As "poisson untied-ln key_ratio=4 seed 0"."""
    values = [f"{short_name(field)}={value_text(value)}" for field, value in swept.items()]
    return " ".join([experiment, variant, *values, f"seed {seed}"])


def folder_name(swept: Swept) -> str:
    """The name of a folder for these values, as "model.size.key_ratio=4,model.size.layers=2".

    Fields are in the order of the alphabet, so that the order of options makes no other folder.
    """
    parts = [f"{file_name(f)}={file_name(value_text(v))}" for f, v in sorted(swept.items())]
    return ",".join(parts)
