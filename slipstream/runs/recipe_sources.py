"""Where the values of a store came from, by its manifest: a card, a published benchmark, a program.

Other data than these, as a user's own source, are described as those of a program: by the fields
and their numbers alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from slipstream.data.benchmarks import BENCHMARKS
from slipstream.data.cards import ArrayValue, Card, ComputedValue, has_card
from slipstream.data.meshes import Location
from slipstream.data.store import PAIRS_OPTION, Computed, Field, Pairs, Store
from slipstream.runs.recipe import (
    ArraySource,
    ComputedSource,
    Corner,
    Domain,
    FeatureSource,
    GivenSource,
    MadeBy,
    Numbers,
    ParameterSource,
)

_FREESTREAM = "freestream_"


@dataclass(frozen=True)
class Sources:
    made_by: MadeBy
    features: Mapping[str, FeatureSource]
    targets: Mapping[str, ArraySource] = field(default_factory=dict)
    """Of the targets that were read from a mesh."""
    location: Location | None = None
    domain: Domain | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    patches: tuple[str, ...] = ()
    subtract: Numbers = ()
    box: tuple[Corner, Corner] | None = None


def find_sources(store: Store) -> Sources:
    """By the card in the manifest, the benchmark that it names, or its numbers."""
    if has_card(store):
        return _of_card(Card.from_json(store.manifest.origin.options))
    origin = store.manifest.origin
    benchmark = BENCHMARKS.get(origin.source)
    if benchmark is None or not benchmark.options.keys() <= origin.options.keys():
        return _of_program(store, "program")
    if "targets" not in benchmark.files:
        return _of_program(store, "benchmark")
    return _of_flow(store, benchmark.files, origin.options)


def _of_card(card: Card) -> Sources:
    features: dict[str, FeatureSource] = {}
    for entry in card.features:
        value = entry.value
        if isinstance(value, ArrayValue):
            features[entry.field.name] = _array(value)
        elif isinstance(value, ComputedValue):
            features[entry.field.name] = ComputedSource("computed", value.what, value.to)
        else:
            file = card.parameters[value.source].file
            features[entry.field.name] = ParameterSource("parameter", value.key, file)
    targets = {
        e.field.name: _array(e.value) for e in card.targets if isinstance(e.value, ArrayValue)
    }
    return Sources(
        "card",
        features,
        targets,
        card.location,
        "surface" if card.patches else _domain(features),
        dict(card.files),
        card.patches,
        card.subtract,
        card.box,
    )


def _array(value: ArrayValue) -> ArraySource:
    return ArraySource("array", **vars(value))


def _domain(features: Mapping[str, FeatureSource]) -> Domain | None:
    """Rows with normals are on a surface, and rows with a distance from one off it."""
    computed = {made.what for made in features.values() if isinstance(made, ComputedSource)}
    return "surface" if "normals" in computed else "volume" if "distance" in computed else None


def _of_flow(store: Store, files: Mapping[str, Any], options: Mapping[str, Any]) -> Sources:
    """A benchmark of flows; its readers know their files themselves."""
    location, offset = options["location"], float(options["pressure_offset"])
    targets = {}
    for number, target in enumerate(files["targets"]):
        name = target.array + ("*" if target.prefix else "")
        subtract = (offset if number == 0 else 0.0,)  # the pressure is the first
        parts = ((name,), target.field.components, location, subtract, 1.0)
        targets[target.field.name] = ArraySource("array", None, *parts)
    features: dict[str, FeatureSource] = {}
    for one in store.schema.features:
        what = _computed(store, one)
        key = one.name.removeprefix(_FREESTREAM)
        features[one.name] = (
            ComputedSource("computed", what, None)
            if what
            else ParameterSource("parameter", key, None)
        )
    box = options["box"]
    corners = None if box is None else (tuple(box[0]), tuple(box[1]))
    return Sources("benchmark", features, targets, location, files["part"], box=corners)


def _of_program(store: Store, made_by: MadeBy) -> Sources:
    """Features that are the same at all points of each training sample are parameters."""
    features: dict[str, FeatureSource] = {}
    for one in store.schema.features:
        what = _computed(store, one)
        if what:
            features[one.name] = ComputedSource("computed", what, None)
        elif _is_parameter(store, one):
            features[one.name] = ParameterSource("parameter", one.name, None)
        else:
            features[one.name] = GivenSource("given")
    return Sources(made_by, features, domain=_domain(features))


def _computed(store: Store, one: Field) -> Computed | None:
    for what in get_args(Computed):
        if one.computed == what or store.schema.computed(what) == one:
            return what
    return None


def _is_parameter(store: Store, one: Field) -> bool:
    manifest = store.manifest
    pairs = manifest.origin.options.get(PAIRS_OPTION)
    if pairs is not None:  # on disk are trajectories, with other columns
        return one not in Pairs.from_json(pairs).state
    columns = store.schema.columns(one.name)
    samples = [manifest.samples[name].statistics for name in manifest.splits["train"]]
    return all(sample.low[columns] == sample.high[columns] for sample in samples)
