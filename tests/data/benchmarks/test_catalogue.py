from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipstream.data.benchmarks import BENCHMARKS, benchmark_source, manifest_warnings
from slipstream.data.benchmarks.catalogue import unlike_published
from slipstream.data.benchmarks.raw import read_lists, sorted_splits
from slipstream.data.store import Manifest, Statistics
from slipstream.data.store.manifest import Origin

# Features besides the position; unit of the pressure; location; designs; ratio; steps.
FACTS = {
    "taylor-green": (6, "m^2/s^2", None, (9640, 120, 240), 1.0, 250_000),
    "shift-wing-surface": (8, "Pa", "point", (8377, 1000, 1000), 0.1, 250_000),
    "shift-wing-volume": (6, "Pa", "point", (8377, 1000, 1000), 0.046, 140_000),
    "drivaernet-surface": (8, "m^2/s^2", "point", (5825, 1148, 1154), 0.5, 184_000),
    "drivaernet-volume": (6, "m^2/s^2", "point", (5825, 1148, 1154), 0.02, 180_000),
    "shift-suv-surface": (3, "Pa", "cell", (798, 100, 100), 0.092, 50_000),
    "shift-suv-volume": (1, "Pa", "point", (798, 100, 100), 0.0059, 50_000),
    "drivaerml-surface": (8, "m^2/s^2", "cell", (400, 34, 50), 0.03, 50_000),
    "drivaerml-volume": (6, "m^2/s^2", "cell", (400, 34, 50), 0.002, 19_000),
}


@pytest.mark.parametrize("name", FACTS)
def test_the_nine(name: str) -> None:
    features, unit, location, counts, ratio, steps = FACTS[name]
    found = BENCHMARKS[name]
    schema = found.schema
    assert (found.ratio, found.steps, tuple(found.counts.values())) == (ratio, steps, counts)
    assert list(found.counts) == ["train", "val", "test"]
    assert schema.feature_dim == features and found.options.get("location") == location
    pressure = schema.field("later_pressure" if name == "taylor-green" else "pressure")
    assert pressure.unit == unit
    if name != "taylor-green":
        second = "wall_shear_stress" if "surface" in name else "velocity"
        assert [field.name for field in schema.targets] == ["pressure", second]
        assert schema.target_groups == {"pressure": (0,), second: (1, 2, 3)}
        assert schema.features[0].name == ("normal" if "surface" in name else "distance")
        assert schema.features[0].computed == ("normals" if "surface" in name else "distance")
    assert set(found.expected) | set(found.negative) <= set(schema.channels)


def test_all_of_them() -> None:
    assert list(BENCHMARKS) == list(FACTS)
    assert BENCHMARKS["shift-suv-surface"].options["pressure_offset"] == 101325
    assert BENCHMARKS["shift-wing-surface"].options["pressure_offset"] == 0
    assert BENCHMARKS["drivaernet-volume"].options["mirror"] is False


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("drivaerml", {}, "benchmark must be one of taylor-green.*did you mean 'drivaerml-"),
        ("drivaerml-volume", {"mirror": True}, "an option of drivaerml-volume must be one of loc"),
        ("drivaerml-volume", {"location": "edge"}, "location must be one of point, cell"),
        ("drivaerml-volume", {"box": [0, 1]}, "a corner of box must be 3 finite numbers, got 0"),
        ("drivaerml-volume", {"box": 3}, r"box must be \[\[x, y, z\], \[x, y, z\]\], got 3"),
        ("drivaerml-volume", {"box": [[0, 0, 1], [1, 1, 0]]}, "lowest corner first"),
        ("drivaerml-volume", {"freestream": [1, 2]}, "freestream must be 5 finite numbers"),
        ("drivaerml-volume", {"freestream": [1, 2, 3, 4, "x"]}, "a number of freestream must be a"),
        ("drivaerml-volume", {"freestream": "air"}, "freestream must be 5 finite numbers"),
        ("drivaerml-volume", {"pressure_offset": "x"}, "offset must be a finite number, got 'x'"),
        ("drivaerml-volume", {"cell_to_point": 1}, "cell_to_point must be true or false, got 1"),
        ("drivaernet-volume", {"mirror": "y"}, "mirror must be true or false, got 'y'"),
        ("drivaernet-surface", {"location": "cell"}, "must be point, got 'cell'"),
        ("shift-suv-volume", {"corrupted": 845}, "corrupted must be a list of runs, got 845"),
        ("shift-wing-volume", {"freestream": [1.0]}, "must be a list of names, as air_density"),
        ("taylor-green", {"states": 1}, "states must be a whole number of at least 2, got 1"),
        ("taylor-green", {"lags": 3}, "lags must be a list of whole numbers, got 3"),
    ],
)
def test_bad_options(name: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        benchmark_source(name, Path("raw"), options=options)


def test_sorted_splits() -> None:
    counts = {"train": 798, "val": 100, "test": 100}
    designs = [f"d{k:04d}" for k in range(998)]
    splits = sorted_splits(designs, counts)
    assert {split: len(ids) for split, ids in splits.items()} == counts
    assert splits["val"][0] == "d0798" and splits["test"][-1] == "d0997"
    some = sorted_splits(designs[:50], counts)
    assert [len(ids) for ids in some.values()] == [40, 5, 5]
    assert sum(some.values(), ()) == tuple(designs[:50])
    assert sorted_splits(designs[:1], counts)["train"] == ("d0000",)


def test_lists(tmp_path: Path) -> None:
    (tmp_path / "lists.yaml").write_text("train: [3, a]\nval: []\n")
    assert read_lists(tmp_path / "lists.yaml", str.upper) == {"train": ("3", "A"), "val": ()}
    (tmp_path / "odd.json").write_text('{"test": ["a"]}')
    with pytest.raises(ValueError, match="must map train, val and test to lists of designs, got"):
        read_lists(tmp_path / "odd.json", str)
    (tmp_path / "broken.json").write_text('{"train": [')
    with pytest.raises(ValueError, match="broken.json must be JSON or YAML"):
        read_lists(tmp_path / "broken.json", str)
    with pytest.raises(ValueError, match="split must be published, sorted, a folder.*'random'"):
        read_lists(Path("random"), str)
    with pytest.raises(ValueError, match=r"must hold one train\*.txt, got none"):
        read_lists(tmp_path, str)


def test_designs_of_lists_are_read_as_written(tmp_path: Path) -> None:
    """Not as YAML's numbers, of which 00010 is 8, nor with the mark of an editor."""
    (tmp_path / "lists.yaml").write_text("train: [00010, 1_0, 12]\ntest: [1e3]\n")
    expected = {"train": ("00010", "1_0", "12"), "test": ("1e3",)}
    assert read_lists(tmp_path / "lists.yaml", str) == expected
    for split in ("train", "val", "test"):
        (tmp_path / f"{split}.txt").write_text(f"{split}1\n{split}2\n", encoding="utf-8-sig")
    assert read_lists(tmp_path, str)["val"] == ("val1", "val2")
    (tmp_path / "val.txt").write_text("val1", encoding="utf-16")
    with pytest.raises(ValueError, match=r"val.txt must be UTF-8 text, got"):
        read_lists(tmp_path, str)


def test_statistics_unlike_the_published_ones() -> None:
    cars = BENCHMARKS["drivaerml-surface"]
    means = {channel: mean for channel, (mean, _) in cars.expected.items()}
    spreads = {channel: spread for channel, (_, spread) in cars.expected.items()}
    assert unlike_published(cars, means, spreads) == []
    for change in (-229.77 + 2.9 * 269.35, -229.77 - 2.9 * 269.35):
        assert unlike_published(cars, {**means, "pressure": change}, spreads) == []
        far = {**means, "pressure": -229.77 + (change + 229.77) * 3.1 / 2.9}
        assert len(unlike_published(cars, far, spreads)) == 1
    (absolute,) = unlike_published(cars, {**means, "pressure": 101000.0}, spreads)
    assert absolute.startswith("pressure has mean 101000") and "-229.77" in absolute
    for factor in (1 / 11, 11):
        found = unlike_published(cars, means, {**spreads, "pressure": 269.35 * factor})
        assert len(found) == 1, factor
    (sign,) = unlike_published(cars, {**means, "wall_shear_stress[0]": 1.2}, spreads)
    assert "is its sign the opposite?" in sign

    def manifest(source: str, mean: float) -> Manifest:
        size = cars.schema.width
        numbers = [means.get(c, 0.0) for c in cars.schema.channels]
        numbers[cars.schema.columns("pressure").start] = mean
        squares = tuple(spreads.get(c, 0.0) ** 2 * 4 for c in cars.schema.channels)
        statistics = Statistics(4, tuple(numbers), squares, (0.0,) * size, (0.0,) * size)
        return Manifest(Origin(cars.schema, source, {}, 0), {}, {}, {}, statistics)

    assert manifest_warnings(manifest(cars.name, -229.77)) == []
    assert len(manifest_warnings(manifest(cars.name, 101000.0))) == 1
    assert manifest_warnings(manifest("mine", 101000.0)) == []
    assert manifest_warnings(replace(manifest(cars.name, 101000.0), statistics=None)) == []
