from __future__ import annotations

from pathlib import Path

import numpy as np

from slipstream.data.store import (
    Field,
    Manifest,
    Pairs,
    Schema,
    Statistics,
    constant_targets,
    ingest,
    read_manifest,
)
from slipstream.data.store.manifest import Origin, SampleEntry
from slipstream.data.store.statistics import merge_statistics, statistics_of

from ..samples import Made


def made_of(schema: Schema, *rows: list[list[float]], **options: object) -> Manifest:
    """All samples are of the split train but the last."""
    statistics: list[Statistics] = [statistics_of([np.array(one, np.float32)]) for one in rows]
    entries = {f"s{i}": SampleEntry(1, 1, 0, one) for i, one in enumerate(statistics)}
    splits = {"train": tuple(entries)[:-1], "test": tuple(entries)[-1:]}
    merged = merge_statistics(statistics[:-1])
    return Manifest(Origin(schema, "made", options, 0), splits, entries, {}, merged)


SCHEMA = Schema((Field("x", "m"),), (), (Field("p", "Pa"), Field("w", "Pa", components=2)))


def test_targets_without_variation_in_training() -> None:
    zero = made_of(SCHEMA, [[0, 1, 0, 0], [1, 2, 0, 0]], [[0, 3, 0, 0]], [[0, 3, 1, 2]])
    (sentence,) = constant_targets(zero)
    assert sentence.startswith("target 'w' is zero at every point of every sample of the split")
    assert "neither learned nor measured" in sentence and "Remove it from the targets" in sentence
    constant = made_of(SCHEMA, [[0, 5, 1, 0], [1, 5, 0, 0]], [[0, 5, 0, 0.5]], [[0, 3, 1, 2]])
    (sentence,) = constant_targets(constant)
    assert sentence.startswith("target 'p' is the same, 5, at every point of every sample of the")


def test_a_constant_target_among_others_of_its_group_is_learned() -> None:
    grouped = Schema(SCHEMA.coords, (), (Field("p", "Pa", "all"), Field("w", "Pa", "all", 2)))
    assert constant_targets(made_of(grouped, [[0, 1, 2, 2]], [[0, 3, 2, 2]], [[0, 3, 2, 2]])) == []


def test_samples_whose_target_is_zero() -> None:
    some = made_of(SCHEMA, [[0, 1, 0, 0], [1, 2, 0, 0]], [[0, 3, 0, 7]], [[0, 3, 0, 0]])
    (sentence,) = constant_targets(some)
    assert sentence == (
        "target 'w' is zero at every point of 2 of 3 samples, s0, s2: they have no relative error"
        " of it in physical units"
    )


def test_targets_that_do_not_count_and_good_ones(tmp_path: Path) -> None:
    uncounted = Schema(SCHEMA.coords, (), (Field("p", "Pa"), Field("w", "Pa", None, 2)))
    assert (
        constant_targets(made_of(uncounted, [[0, 1, 0, 0]], [[0, 3, 0, 0]], [[0, 3, 1, 2]])) == []
    )
    ingest(Made(4, given={"train": ["s00", "s01", "s02", "s03"]}), tmp_path / "s")
    assert constant_targets(read_manifest(tmp_path / "s/manifest.json")) == []


def test_a_state_at_rest_is_part_of_its_trajectory() -> None:
    """A trajectory may begin at rest; it is zero if all of its states are."""
    pairs = Pairs((Field("u", "m/s"),), 2, (1,), 0.1, "s")
    schema = pairs.stored((Field("x", "m"),))
    options = {"pairs": pairs.to_json()}
    assert constant_targets(made_of(schema, [[0, 0, 1]], [[0, 0, 2]], [[0, 0, 3]], **options)) == []
    (sentence,) = constant_targets(
        made_of(schema, [[0, 0, 1]], [[0, 0, 2]], [[0, 0, 0]], **options)
    )
    assert sentence.startswith("target 'u' is zero at every point of 1 of 3 samples, s2")
