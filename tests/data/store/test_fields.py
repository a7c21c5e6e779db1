from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slipstream.data.store import Cloud, Field, RowBlocks, Schema
from slipstream.data.store.cloud import checked_blocks, rechunked

from ..samples import SCHEMA, blocks_of, make_cloud, make_rows


def test_columns_follow_from_the_fields() -> None:
    assert (SCHEMA.coord_dim, SCHEMA.feature_dim, SCHEMA.target_dim, SCHEMA.width) == (3, 4, 4, 11)
    assert SCHEMA.columns("features") == slice(3, 7)
    assert SCHEMA.columns("targets") == slice(7, 11)
    assert SCHEMA.columns("inflow") == slice(6, 7)
    assert SCHEMA.columns("shear") == slice(8, 11)
    assert SCHEMA.channels[5:8] == ("normal[2]", "inflow", "pressure")
    assert SCHEMA.target_groups == {"pressure": (0,), "shear": (1, 2, 3)}
    assert Schema.from_json(SCHEMA.to_json()) == SCHEMA


def test_groups_join_fields_and_none_leaves_one_out() -> None:
    x = Field("x", components=3)
    targets = (Field("u", group="velocity"), Field("p", group=None), Field("v", group="velocity"))
    schema = Schema((x,), (), targets)
    assert schema.target_groups == {"velocity": (0, 2)}
    assert Schema.from_json(schema.to_json()) == schema


OLD = {
    "coords": [{"name": "x", "unit": "m", "group": "x", "components": 3}],
    "features": [{"name": "normals", "unit": "1", "group": "normals", "components": 3}],
    "targets": [{"name": "p", "unit": "Pa", "group": None, "components": 1}],
}


def test_the_schema_says_what_was_computed_whatever_it_is_called() -> None:
    features = (Field("normal"), Field("n", components=3, computed="normals"))
    schema = Schema((Field("x", components=3),), features, (Field("p"),))
    found = schema.computed("normals")
    assert found is not None and found.name == "n" and schema.computed("distance") is None
    again = Schema.from_json(json.loads(json.dumps(schema.to_json())))
    assert again == schema and again.computed("normals") == found
    assert schema.to_json()["features"][1]["computed"] == "normals"


def test_older_files_are_known_by_their_names_and_stay_as_they_are() -> None:
    old = Schema.from_json(OLD)
    found = old.computed("normals")
    assert found is not None and found.name == "normals" and old.computed("distance") is None
    assert json.dumps(old.to_json()) == json.dumps(OLD) == json.dumps(old.identity())
    value = {**OLD, "features": [{**OLD["features"][0], "computed": "normal"}]}
    with pytest.raises(ValueError, match=r"features\[0\].computed must be one of .* got 'normal'"):
        Schema.from_json(value)
    for name, what in (("normal", "normals"), ("distance", "distance")):
        named = replace(SCHEMA, features=(Field(name, components=2),))
        assert named.computed(what) is None, "of another width"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Field("n", components=2, computed="normals"),
            "components of field 'n' must be 3 for computed normals, got 2",
        ),
        (lambda: Field(" "), "the name of a field must be printable text, got ' '"),
        (lambda: Field("p", ""), "the unit of a field must be printable text, got ''"),
        (lambda: Field("p", components=0), "components of field 'p' must be a whole number of at"),
        (lambda: Schema((), (), ()), "must have at least one field of coords, got none"),
        (
            lambda: Schema((Field("x"),), (Field("x"),), ()),
            "field names must be unique, got x more than once",
        ),
        (
            lambda: Schema((Field("x"),), (), (Field("coords"),)),
            "field names must be other than coords, features, targets, which are .* got 'coords'",
        ),
        (lambda: SCHEMA.columns("presure"), "field must be one of .* did you mean 'pressure'?"),
    ],
)
def test_bad_fields(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_cloud_gives_its_rows() -> None:
    cloud = make_cloud("a", 1000)
    assert cloud.rows == 1000
    assert np.array_equal(np.concatenate(list(cloud.blocks())), make_rows("a", 1000))


def test_a_parameter_becomes_a_feature() -> None:
    arrays = {**make_cloud("a", 5).arrays}
    del arrays["inflow"]
    cloud = Cloud(SCHEMA, arrays, {"inflow": 30, "force": (1, 2)})
    assert np.all(next(cloud.blocks())[:, 6] == 30)
    assert cloud.parameters == {"inflow": 30.0, "force": [1.0, 2.0]}
    with pytest.raises(ValueError, match="parameter 'inflow' must have 1 components, got 2"):
        Cloud(SCHEMA, arrays, {"inflow": (1.0, 2.0)})
    with pytest.raises(ValueError, match="parameter 'inflow' must be finite numbers, got nan"):
        Cloud(SCHEMA, arrays, {"inflow": float("nan")})


def _with(**changed: Any) -> dict[str, Any]:
    arrays = {name: np.array(value) for name, value in make_cloud("a", 10).arrays.items()}
    arrays.update(changed)
    return {name: value for name, value in arrays.items() if value is not None}


def _spoilt() -> NDArray[Any]:
    shear = np.ones((10, 3))
    shear[2, 1], shear[4, 0], shear[9] = np.nan, np.inf, 1e39  # the last fits float64 only
    return shear


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (_with(pressure=None), "field 'pressure' must be among the arrays or parameters, got in"),
        (_with(position=None), "field 'position' must be among the arrays, got inflow"),
        (_with(position=np.empty((0, 3))), "at least one point, got an empty 'position'"),
        (_with(pressure=np.ones(9)), "'pressure' must have 10 rows like 'position', got 9"),
        (_with(shear=np.ones((10, 2))), r"'shear' must have 3 components.*got shape \(10, 2\)"),
        (_with(shear=np.ones((10, 3, 1))), r"got shape \(10, 3, 1\)"),
        (_with(pressure=np.array(["a"] * 10)), "'pressure' must hold real numbers, got <U1"),
        (_with(pressure=np.ones(10, complex)), "must hold real numbers, got complex128"),
        (_with(drag=np.ones(10)), "arrays must be fields of the schema .* got 'drag' besides"),
        (
            _with(shear=_spoilt()),
            "'shear' must be finite in float32, got 1 NaN and 4 infinite values at rows 2, 4, 9$",
        ),
    ],
)
def test_what_is_wrong_with_a_cloud(arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Cloud(SCHEMA, arrays)


def test_blocks_are_checked_as_they_come() -> None:
    values = make_rows("a", 100)
    same = np.concatenate(list(checked_blocks(SCHEMA, 100, blocks_of(values.astype("f8"), 7))))
    assert np.array_equal(same, values)
    for count, message in ((99, "99 rows in all, got at least one more"), (101, "101 .* got 100")):
        with pytest.raises(ValueError, match=message):
            list(checked_blocks(SCHEMA, count, blocks_of(values, 7)))
    with pytest.raises(ValueError, match=r"real numbers of shape \(n, 11\), got float32 of shape"):
        list(checked_blocks(SCHEMA, 100, [values[:, :10]]))
    values[50:60, 9] = np.nan
    with pytest.raises(ValueError, match="'shear' .* got 6 NaN and .* rows 50, 51, 52, 53, 54, .."):
        list(checked_blocks(SCHEMA, 100, blocks_of(values, 28)))
    with pytest.raises(ValueError, match="rows of a sample must be a whole number"):
        RowBlocks(0, [])


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 30))
def test_rechunking_keeps_the_rows(sizes: list[int], size: int) -> None:
    values = np.arange(2 * sum(sizes), dtype=np.float32).reshape(-1, 2)
    cuts = np.cumsum([0, *sizes])
    blocks = [values[a:b] for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    chunks = [chunk.copy() for chunk in rechunked(blocks, size)]
    assert all(len(chunk) == size for chunk in chunks[:-1])
    assert np.array_equal(np.concatenate([np.empty((0, 2), np.float32), *chunks]), values)
