"""A trained model as a page that a person can read, and the same facts as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from slipstream.models.variants import variant_named
from slipstream.runs.recipe import Counts, PointsRecipe, Recipe
from slipstream.runs.recipe_text import array_text, how_made, named, range_text, what_it_is

if TYPE_CHECKING:
    from slipstream.runs.model_file import TrainedModel

WIDTH = 98
_LONGEST = 30
Lines = list[tuple[str, list[str]]]
"""A name, and sentences about it that begin on lines of their own."""


def model_page(trained: TrainedModel) -> str:
    """What the model is, what it takes and gives, how dense its points were, what is lacking."""
    parts: list[tuple[str, Lines]] = [
        (trained.config.name, _identity(trained)),
        ("It takes", input_lines(trained)),
        ("It gives", output_lines(trained)),
    ]
    if trained.recipe is not None:
        parts.append(("Points of the training", _points(trained.recipe)))
    lacking = what_is_lacking(trained)
    if lacking:
        parts.append(("Lacking", [("-", [sentence]) for sentence in lacking]))
    return "\n\n".join("\n".join([title, *_block(lines)]) for title, lines in parts)


def model_facts(trained: TrainedModel) -> dict[str, Any]:
    """The same as JSON."""
    config = trained.config
    return {
        "name": config.name,
        "variant": config.model.variant,
        "size": config.to_json()["model"]["size"],
        "constants": config.to_json()["model"]["constants"],
        "parameters": trained.model.parameter_count(),
        "precision": config.precision,
        "stream_precision": config.stream_precision,
        "steps": config.steps,
        "metric": dict(trained.metric),
        "versions": trained.about.get("versions"),
        "data_hash": trained.about.get("data_hash"),
        "imported": trained.imported and trained.imported.to_json(),
        "fields": trained.schema.to_json(),
        "recipe": trained.recipe and trained.recipe.to_json(),
        "lacking": what_is_lacking(trained),
    }


def what_is_lacking(trained: TrainedModel) -> list[str]:
    """A sentence for all that the model file does not say."""
    recipe = trained.recipe
    if trained.imported is not None and recipe is None:
        return [
            "How inputs are made and normalised, what outputs are in physical units, and how large"
            " its error is: another program trained it."
        ]
    if recipe is None:
        return [
            "How inputs are made, their ranges, extent and spacing of points, where targets were"
            " read from: the file is of an older version. `slipstream model RUN --store STORE`"
            " adds them from the store that the model was trained on."
        ]
    sentences = []
    if recipe.location is None:
        sentences.append(
            "Whether rows are points or cells of a mesh: the training data were not read from"
            " meshes."
        )
    given = [f.name for f in recipe.features if f.made.kind == "given"]
    if given:
        sentences.append(f"How to make {', '.join(given)} from a mesh.")
    unknown = [t.name for t in recipe.targets if t.form == "unknown"]
    if unknown:
        sentences.append(f"Whether {', '.join(unknown)} is divided by the density of the fluid.")
    if any(t.form == "kinematic" for t in recipe.targets) and recipe.density is None:
        sentences.append("The density of the fluid, with which forces would be in newtons.")
    return sentences


def _identity(trained: TrainedModel) -> Lines:
    config, metric, recipe = trained.config, trained.metric, trained.recipe
    size, variant = config.model.size, variant_named(config.model.variant)
    shape = (
        f"{size.layers} layers, width {size.width}, {size.heads} heads, {size.slices} slices;"
        f" {trained.model.parameter_count():,} parameters, {config.precision}"
    )
    if config.stream_precision != "fp32":
        shape += f" with a stream in {config.stream_precision}"
    lines: Lines = [("variant", [f"{variant.name}: {variant.summary}"]), ("size", [shape])]
    differing = config.model.constants.differing()
    if differing:
        lines.append(("constants", [", ".join(f"{name} {v}" for name, v in differing.items())]))
    if trained.imported is not None:
        return [*lines, ("imported from", [str(trained.imported), *trained.imported.dropped])]
    groups = ", ".join(
        f"{name} {error:.4g}" for name, error in metric["by_group"].items() if error is not None
    )
    error = f"{metric['error']:.4g}, relative, in validation" + (f": {groups}" if groups else "")
    if recipe is not None:
        lines.append(("trained on", [_data_text(recipe)]))
    lines.append(("steps", [f"{metric['step']:,} of {config.steps:,}, the best so far"]))
    versions = trained.about.get("versions", {})
    written = ", ".join(f"{name} {version}" for name, version in versions.items())
    return [*lines, ("error", [error]), *([("written by", [written])] if written else [])]


def _data_text(recipe: Recipe) -> str:
    made = {
        "card": "own meshes, read by a card",
        "benchmark": "a published benchmark",
        "program": "made by a program",
    }[recipe.data.made_by]
    count = recipe.data.samples
    data = f"{recipe.data.source} ({made}), hash {recipe.data.data_hash[:12]}"
    return f"{count:,} sample{'' if count == 1 else 's'} of {data}"


def input_lines(trained: TrainedModel) -> Lines:
    """How each field of coords and features is made, in the order of the columns."""
    schema, recipe = trained.schema, trained.recipe
    lines: Lines = []
    for field in schema.coords:
        sentences = ["coordinates of the points"]
        if recipe is not None and field == schema.coords[0]:
            sentences = _coordinates(recipe)
        lines.append((named(field.name, field.unit, field.components), sentences))
    for number, field in enumerate(schema.features):
        sentences = [_described(field.computed)]
        if recipe is not None:
            feature = recipe.features[number]
            seen = f"in training {range_text(feature.low, feature.high)}"
            sentences = [how_made(feature, recipe), seen]
        lines.append((named(field.name, field.unit, field.components), sentences))
    return lines


def _described(computed: str | None) -> str:
    return f"computed from the geometry: {computed}" if computed else "a feature"


def _coordinates(recipe: Recipe) -> list[str]:
    where = {"point": "points", "cell": "centres of cells", None: "points"}[recipe.location]
    on = {"surface": " on a surface", "volume": " in a volume", None: ""}[recipe.domain]
    patches = f", patches {', '.join(recipe.patches)}" if recipe.patches else ""
    coords = recipe.coords
    sentences = [f"coordinates of the {where}{on}{patches}"]
    sentences.append(f"in training {range_text(coords.low, coords.high)}")
    if any(coords.subtract):
        less = " ".join(f"{number:g}" for number in coords.subtract)
        sentences.append(f"those of the files less {less}")
    if coords.box is not None:
        low, high = (
            "(" + ", ".join("open" if x is None else f"{x:g}" for x in corner) + ")"
            for corner in coords.box
        )
        sentences.append(f"only those in the box {low} to {high} of the files")
    return sentences


def output_lines(trained: TrainedModel) -> Lines:
    """What each target is, in the order of the columns."""
    recipe = trained.recipe
    lines: Lines = []
    for number, field in enumerate(trained.schema.targets):
        sentences = []
        if recipe is not None:
            target = recipe.targets[number]
            stored = "in training, as stored" if field.divided else "in training"
            sentences += [what_it_is(target)] if what_it_is(target) else []
            sentences.append(f"{stored} {range_text(target.low, target.high)}")
            sentences += [array_text(target.array, recipe)] if target.array else []
        if field.divided:
            sentences.append(f"learned as [{field.unit}], divided by {field.divided}")
        lines.append((named(field.name, field.undivided_unit, field.components), sentences))
    return lines


def _points(recipe: Recipe) -> Lines:
    points, unit = recipe.points, recipe.coords.units[0]
    size = f"{points.smallest:.4g}"
    if points.largest != points.smallest:
        size += f" to {points.largest:.4g}"
    lines: Lines = [
        ("a sample", [_count_text(points.sample, points.sample_spacing, unit)]),
        ("a draw", [_count_text(points.draw, points.draw_spacing, unit)]),
        ("size", [f"{size}{_unit(unit)}, the diagonal of the box around a sample"]),
    ]
    if not points.exact:
        lines[0][1].append(_not_exact(points))
    if recipe.density is not None:
        lines.append(("density", [_density_text(recipe)]))
    if recipe.reference is not None:
        values = ", ".join(f"{name} {value}" for name, value in recipe.reference.items())
        lines.append(("reference", [values]))
    return lines


def _count_text(counts: Counts, spacing: float | None, unit: str) -> str:
    text = f"{counts.median:,} points"
    if counts.least != counts.most:
        text = f"{counts.least:,} to {counts.most:,} points, in the median {counts.median:,}"
    if spacing is None:
        return text
    return f"{text}; {spacing:.4g}{_unit(unit)} from one to the nearest, in the median"


def _not_exact(points: PointsRecipe) -> str:
    factor = "2.1" if points.dimension == 2 else "1.8"
    return f"(estimated from a part of the points; in a regular mesh up to {factor} times as much)"


def _density_text(recipe: Recipe) -> str:
    density = recipe.density
    assert density is not None
    if density.feature is None:
        return f"{density.value:g}"
    known = "" if density.value is None else f", always {density.value:g}"
    return f"the feature {density.feature}{known}"


def _unit(unit: str) -> str:
    return "" if unit == "1" else f" {unit}"


def _block(lines: Sequence[tuple[str, list[str]]]) -> Iterable[str]:
    """Names in a column, and beside them their sentences, wrapped."""
    longest = max((len(name) for name, _ in lines), default=0)
    column = min(longest, _LONGEST) + 2
    for name, sentences in lines:
        wrapped = [
            line for sentence in sentences for line in textwrap.wrap(sentence, WIDTH - 2 - column)
        ]
        if len(name) > _LONGEST:  # a name that is too long has a line of its own
            yield f"  {name}"
            name = ""
        for line in wrapped or [""]:
            yield f"  {name:<{column}}{line}".rstrip()
            name = ""
