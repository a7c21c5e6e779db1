"""Cards and parameters: what a good one says, and the sentence for each mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from slipstream.data.cards import read_card
from slipstream.data.cards.card import Card
from slipstream.data.cards.parameters import (
    find_row,
    parameter_numbers,
    read_one,
    read_parameter_table,
)
from slipstream.data.cards.patterns import as_pattern, find_files, pattern_problem, sample_id
from slipstream.data.cards.types import ArrayValue, ComputedValue, ParameterFile, ParameterValue
from slipstream.data.meshes import Wanted
from slipstream.data.store import Field, Reference
from slipstream.data.store.manifest import check_sample_id

SMALL: dict[str, Any] = {
    "schema": 1,
    "files": {"mesh": "{id}.vtp"},
    "targets": [{"name": "p", "unit": "Pa", "from": {"array": "p"}}],
}
WHOLE = """
schema: 1
name: wing
files:
  surface: "run_{id}/surface.vtp"
  shear: "run_{id}/shear_{id}.vtp"
  body: "body.stl"
match: order
location: cell
coords: {name: place, unit: mm}
features:
  - {name: normal, computed: normals}
  - {name: gap, computed: distance, to: body, group: null}
targets:
  - {name: p, unit: Pa, from: {file: surface, array: p*, location: point}, subtract: 1e5, scale: 2}
  - {name: tau, unit: Pa, group: p, from: {file: shear, array: [tx, ty]}, subtract: [1, 2]}
parameters:
  - {file: all.csv, id: case, features: [{name: speed, unit: m/s, from: U}]}
  - {file: "run_{id}/p.json", features: [{name: dir, unit: "1", components: 3}]}
box: {low: [0, null, -1], high: [1, null, null]}
drop: non-finite
splits: {lists: {train: [001, 7, "a b"], test: test.txt}}
"""


def write(path: Path, card: Any) -> Path:
    path.write_text(card if isinstance(card, str) else yaml.safe_dump(card), "utf-8")
    return path


def test_a_card_says_where_everything_is(tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_text("b\nc")
    card = read_card(write(tmp_path / "card.yaml", WHOLE))
    assert card.schema.coords == (Field("place", "mm", components=3),)
    assert card.schema.features == (
        Field("normal", components=3, computed="normals"),
        Field("gap", "mm", group=None, computed="distance"),
        Field("speed", "m/s"),
        Field("dir", components=3),
    )
    assert card.schema.targets == (Field("p", "Pa"), Field("tau", "Pa", "p", 2))
    assert [entry.value for entry in card.features] == [
        ComputedValue("normals", None),
        ComputedValue("distance", "body"),
        ParameterValue(0, "U"),
        ParameterValue(1, "dir"),
    ]
    pressure, shear = (entry.value for entry in card.targets)
    assert pressure == ArrayValue("surface", ("p*",), 1, "point", (100000.0,), 2.0)
    assert shear == ArrayValue("shear", ("tx", "ty"), 1, "cell", (1.0, 2.0), 1.0)
    assert card.wanted("surface") == (Wanted("p", "point", 1, prefix=True),)
    assert card.array_files == ("surface", "shear")
    assert card.parameters[1] == ParameterFile("run_{id}/p.json", None)
    assert card.box == ((0, None, -1), (1, None, None)) and card.drop and card.match == "order"
    assert card.splits is not None
    assert card.splits.lists == {"train": ("001", "7", "a_b"), "test": ("b", "c")}
    assert json.loads(json.dumps(card.to_json()))["targets"][1]["field"]["components"] == 2
    field = card.to_json()["features"][0]["field"]
    assert set(field) == {"name", "unit", "group", "components"}, "as in the options of old stores"


def test_the_card_of_the_documentation_is_good(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "meshes.md").read_text("utf-8")
    card = read_card(write(tmp_path / "card.yaml", page.split("```yaml")[1].split("```")[0]))
    assert card.array_files == ("pressure", "shear") and len(card.features) == 6
    assert card.schema.targets[-1].divided == Reference({"rho": 1.0, "speed": 2.0}, 0.5, "Pa")


REFERENCE = {"density": "rho", "speed": 30, "drag": [0, 0, 1], "lift": [0, 1, 0], "mirror": "x"}


def test_reference_values_are_kept_where_they_are_given(tmp_path: Path) -> None:
    parameters = [{"file": "a.csv", "id": "i", "features": [{"name": "rho", "unit": "kg/m^3"}]}]
    whole = {**SMALL, "parameters": parameters, "reference": {**REFERENCE, "pressure": "1e5"}}
    card = read_card(write(tmp_path / "card.yaml", whole))
    assert card.reference == {
        "density": "rho", "speed": 30.0, "drag": (0.0, 0.0, 1.0), "lift": (0.0, 1.0, 0.0),
        "mirror": "x", "pressure": 1e5,
    }  # fmt: skip
    written = json.loads(json.dumps(card.to_json()))
    assert Card.from_json(written).reference == card.reference
    without = read_card(write(tmp_path / "card.yaml", SMALL))
    assert without.reference is None and "reference" not in without.to_json()
    assert Card.from_json(json.loads(json.dumps(without.to_json()))).reference is None


def test_what_a_short_card_means(tmp_path: Path) -> None:
    card = read_card(write(tmp_path / "card.yaml", SMALL))
    assert isinstance(card, Card) and card.splits is None and card.box is None and not card.drop
    assert (card.name, card.match, card.location) == ("mesh", "coordinates", "point")
    assert card.coords == Field("position", "m", components=3)


def changed(**changes: Any) -> dict[str, Any]:
    return {**SMALL, **changes}


def target(**changes: Any) -> dict[str, Any]:
    entry = {**SMALL["targets"][0], **changes}
    return changed(targets=[{key: value for key, value in entry.items() if value is not ...}])


DIVIDE = {"by": {"U": 2}, "unit": "Pa"}
PARAMETERS = [
    {
        "file": "{id}.json",
        "features": [
            {"name": "U", "unit": "m/s"},
            {"name": "dir", "unit": "1", "components": 3},
        ],
    }
]


def divided(by: Any) -> dict[str, Any]:
    return {**target(divide=by), "parameters": PARAMETERS}


@pytest.mark.parametrize(
    ("card", "sentence"),
    [
        (target(unit=3), "card.yaml: targets[0].unit must be text, got 3"),
        (target(unit=True), "targets[0].unit must be text in quotes, got True"),
        (target(unit=...), "targets[0] must have the key 'unit', which is \"1\" where there is"),
        (target(name=""), "targets[0].name must be printable text, got ''"),
        (target(form={"array": "p"}), "targets[0] must have no other keys than name, unit, group"),
        (target(form={"array": "p"}), "got 'form'; did you mean 'from'?"),
        (target(computed="normals"), "targets[0] must have either `from` or `computed`"),
        (target(**{"from": ...}, computed="normals"), "targets[0] must be read with `from`"),
        (target(to="mesh"), "targets[0].to must stand beside `computed` only"),
        (target(**{"from": {"array": "p", "file": "vol"}}), "must be one of mesh, got 'vol'"),
        (target(**{"from": {"array": []}}), "from.array must name at least one array"),
        (target(**{"from": {"array": "p", "components": 0}}), "from.components must be a whole"),
        (target(**{"from": {"array": "p", "location": "face"}}), "one of point, cell, got 'face'"),
        (target(**{"from": {"array": ["a", "b"], "components": 2}}), "components must be 1 where"),
        (target(scale="big"), "targets[0].scale must be a number, got 'big'"),
        (target(scale=10**400), "targets[0].scale must be a number, got 1000000"),
        (
            changed(reference={}),
            "reference must have at least one of the keys density, speed, area",
        ),
        (changed(reference={"aera": 1}), "got 'aera'; did you mean 'area'?"),
        (changed(reference={"area": 0}), "reference.area must be a positive number, got 0"),
        (changed(reference={"area": "A"}), "reference.area must be a number, got 'A'"),
        (changed(reference={"drag": [1, 0]}), "reference.drag must be three numbers, got a list"),
        (changed(reference={"drag": [0, 0, 0]}), "reference.drag must be a direction, got 0, 0, 0"),
        (changed(reference={"drag": [0, 0, 1]}), "reference must have a lift perpendicular to the"),
        (changed(reference={"mirror": "w"}), "reference.mirror must be one of x, y, z, got 'w'"),
        (changed(reference={"speed": "U"}), "or the name of a parameter of one number (none), got"),
        (
            changed(reference={"density": "T"}, parameters=PARAMETERS),
            "reference.density must be a number, or the name of a parameter",
        ),
        (
            changed(reference={"density": "U"}, parameters=PARAMETERS),
            "reference.density must name a parameter in kg/m^3, got U in m/s",
        ),
        (f"schema: {'1' * 5000}", "card.yaml must be YAML, got Exceeds the limit"),
        (target(subtract=[1, 2]), "subtract must be one number, or 1: one for each component"),
        (
            target(divide={"by": {"speed": 2}, "unit": "Pa"}),
            "targets[0].divide.by.speed must be named after a parameter of one number (none), got",
        ),
        (divided({"by": {"U": 0}, "unit": "Pa"}), "divide.by.U must be a number other than 0"),
        (divided({"by": {"U": 2}, "factor": 0, "unit": "Pa"}), "divide.factor must be a number"),
        (divided({"by": {"U": 2}}), "targets[0].divide must have the key 'unit', got by"),
        (divided({"by": {}, "unit": "Pa"}), "divide.by must be a mapping from names to powers of"),
        (divided({"by": {"dir": 1}, "unit": "Pa"}), "a parameter of one number (U), got 'dir'"),
        (divided("0.5 * U**2"), "divide must be a mapping with the keys by, unit, factor, got '0."),
        (
            changed(
                features=[{**SMALL["targets"][0], "name": "q", "divide": DIVIDE}],
                parameters=PARAMETERS,
            ),
            "features[0] must have no `divide`, which targets may have",
        ),
        (changed(targets=[]), "targets must have at least one entry"),
        (changed(targets={}), "targets must be a list, got a mapping with the keys none"),
        (changed(schema=2), "schema must be at most 1, got 2: a newer slipstream wrote the card"),
        (changed(schema="1"), "schema must be a whole number of at least 1, got '1'"),
        ({"schema": 1, "files": {"a": "{id}"}}, "the file must have the key 'targets', got files"),
        (changed(targts=1), "got 'targts'; did you mean 'targets'?"),
        (changed(files={}), "files must be a mapping from names to patterns of paths"),
        (changed(files={"m": "/data/{id}.vtp"}), "files.m must be a path below the raw folder"),
        (changed(files={"m": "../{id}.vtp"}), "files.m must be a path below the raw folder"),
        (changed(files={"m": "{name}.vtp"}), "files.m must have no other braces than {id}"),
        (changed(files={"m": "{id}{id}.vtp"}), "files.m must have ** as a whole part of the path"),
        (changed(files={"m": "sub**/{id}.vtp"}), "part of the path only, and text between {id} an"),
        (changed(files={"m": "sub**/{id}.vtp"}), "got 'sub**/{id}.vtp'"),
        (changed(files={"m": "a.vtp"}), "files must have {id} in the pattern of one that arrays"),
        (changed(files={"m": "{id}.vtp", "n": "x"}), "targets[0].from must have the key 'file'"),
        (changed(match="nearest"), "match must be one of coordinates, order, got 'nearest'"),
        (changed(location="faces"), "location must be one of point, cell, got 'faces'"),
        (changed(drop="nan"), "drop must be one of non-finite, got 'nan'"),
        (changed(box={"low": [0, 0, 0], "high": [1, 0, 1]}), "low below high on axis 1, got 0.0"),
        (changed(box={"low": [0, 0], "high": [1, 1]}), "box.low must be three numbers"),
        (changed(coords={"name": "p"}), "card.yaml: field names must be unique, got p more than"),
        (changed(features=[{"name": "d", "computed": "distance"}]), "have the key 'to', the file"),
        (changed(features=[{"name": "d", "computed": "area"}]), "must be one of normals, distance"),
        (
            changed(parameters=[{"file": "a.csv", "features": []}]),
            "parameters[0] must have either {id} in `file` or `id`, the column",
        ),
        (changed(splits={"random": {"train": 0.8}}), "splits.random must be fractions that sum"),
        (changed(splits={}), "splits must have either `random` or `lists`"),
        (changed(splits={"lists": {"train": "no.txt"}}), "splits.lists.train must be a list of"),
        ("targets: [1", "card.yaml must be YAML, got an error in line 1: expected ',' or ']'"),
        ("schema: 1\nfiles: {a: b}\nfiles: {}", "in line 3: the key 'files' for the second time"),
        ("just text", "the file must be a mapping with the keys schema, files, targets"),
    ],
)
def test_every_mistake_is_one_sentence_with_its_place(
    card: Any, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError) as raised:
        read_card(write(tmp_path / "card.yaml", card))
    message = str(raised.value)
    assert sentence in message and "card.yaml" in message and "\n" not in message, message


def test_a_card_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be a YAML file, got no such file"):
        read_card(tmp_path / "card.yaml")
    with pytest.raises(ValueError, match="must be a YAML file, got a folder"):
        read_card(tmp_path)
    (tmp_path / "bad.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="must be YAML in UTF-8, got other bytes"):
        read_card(tmp_path / "bad.yaml")


def test_patterns_find_the_files_of_every_sample(tmp_path: Path) -> None:
    names = ["run_1/b_1.vtp", "run_2/b_2.vtp", "run_3/b_4.vtp", "run_1/._b_1.vtp", "x/[1].vtp"]
    names += ["a/case -5.vtk", "b/case +5.vtk", "c/d/deep.vtk"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = {p: list(find_files(tmp_path, p)) for p in ("run_{id}/b_{id}.vtp", "*/case {id}.vtk")}
    assert found == {"run_{id}/b_{id}.vtp": ["1", "2"], "*/case {id}.vtk": ["_+5", "_-5"]}
    assert list(find_files(tmp_path, "x/[{id}].vtp")) == ["1"]
    assert list(find_files(tmp_path, "**/{id}.vtk")) == ["case_+5", "case_-5", "deep"]
    assert list(find_files(tmp_path, "run_{id}/")) == ["1", "2", "3"]
    assert list(find_files(tmp_path, "run_1/{id}.vtp")) == ["b_1"]  # not what macOS leaves behind
    assert find_files(tmp_path, "c/d/deep.vtk") == {"": tmp_path / "c/d/deep.vtk"}
    with pytest.raises(
        ValueError, match="one file for the id 'b', got run_1/b_1.vtp and run_2/b_2"
    ):
        find_files(tmp_path, "run_*/{id}_*.vtp")
    assert (sample_id(" e 1"), sample_id("-5.0"), sample_id("a/b")) == ("e_1", "_-5.0", "a_b")


def test_letters_that_ids_lack_are_told_apart_by_a_hash() -> None:
    names = ("自動車", "自転車", " é 1", "è 1", "", "°")
    ids = [sample_id(name) for name in names]
    assert ids[0] == "___-1ab53e7581" and ids[2].startswith("__1-") and ids[4] == "_"
    assert len(set(ids)) == len(ids)
    for name in ids:
        check_sample_id(name)
        assert sample_id(name) == name  # as a list of splits may have it
    assert sample_id("e\u0301 1") == sample_id("é 1")  # as macOS writes it


def test_patterns_follow_links(tmp_path: Path) -> None:
    """As a run that lies on another disk, with a link back to where it is used."""
    raw = tmp_path / "raw"
    own = ("raw/a/1.vtp", "raw/a/deep/2.vtp", "raw/a/deep/deep/5.vtp")
    for name in (*own, "disk/3.vtp", "disk/deep/4.vtp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (raw / "b").symlink_to(tmp_path / "disk")
    (tmp_path / "disk/back").symlink_to(raw)
    assert list(find_files(raw, "**/{id}.vtp")) == ["1", "2", "3", "4", "5"]
    assert find_files(raw, "b/**/{id}.vtp")["4"] == raw / "b/deep/4.vtp"
    assert list(find_files(raw, "**/deep/**/{id}.vtp")) == ["2", "4", "5"]
    assert list(find_files(raw, "**/**/{id}.vtp")) == ["1", "2", "3", "4", "5"]
    assert list(find_files(raw, "*/{id}.vtp")) == ["1", "3"]


def test_names_as_patterns(tmp_path: Path) -> None:
    for name in ("a*{1}?\\[2]\n.vtp", "a.vtp"):
        (tmp_path / name).touch()
        pattern = as_pattern(name)
        assert pattern_problem(pattern) is None and pattern.isprintable()
        assert find_files(tmp_path, pattern) == {"": tmp_path / name}


CSV = "case;U [m/s];text\n001;30;x\n2;31.5;y\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", CSV),
        ("t.csv", "\ufeff" + CSV.replace(";", ",")),
        ("t.csv", "# made by hand\n" + CSV.replace(";", "\t") + "\n\n"),
        ("t.json", '[{"case": "001", "U [m/s]": 30}, {"case": 2, "U [m/s]": 31.5}]'),
        ("t.json", '{"001": {"U [m/s]": 30}, "2": {"U [m/s]": 31.5}}'),
        ("t.yaml", '001: {"U [m/s]": 30}\n2: {"U [m/s]": 31.5}\n'),
    ],
)
def test_a_table_has_a_row_for_each_sample(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    table = read_parameter_table(path, "case")
    for sample, speed in (("001", 30), ("1", 30), ("002", 31.5)):
        assert parameter_numbers(find_row(table, sample, path), "U [m/s]", 1, path) == speed
    with pytest.raises(ValueError, match=f"{name} must have parameters for '3', got 2 others, as"):
        find_row(table, "3", path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.yaml", "1.1: {U: 1}\n1.10: {U: 2}\n10: {U: 3}\n1_0: {U: 4}\n"),
        (
            "t.yaml",
            "- {case: 1.1, U: 1}\n- {case: 1.10, U: 2}\n- {case: 10, U: 3}\n- {case: 1_0, U: 4}",
        ),
        (
            "t.json",
            '[{"case": 1.1, "U": 1}, {"case": 1.10, "U": 2}, {"case": 10, "U": 3},'
            ' {"case": "1_0", "U": 4}]',
        ),
    ],
)
def test_ids_that_are_the_same_number(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    table = read_parameter_table(path, "case")
    found = [
        parameter_numbers(table[sample], "U", 1, path) for sample in ("1.1", "1.10", "10", "1_0")
    ]
    assert found == [1, 2, 3, 4]


def test_a_list_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_bytes(b"b\n\xb9c\n")
    says = "card.yaml: splits.lists.test must be a file in UTF-8, got other bytes in .*test.txt$"
    with pytest.raises(ValueError, match=says):
        read_card(write(tmp_path / "card.yaml", WHOLE))


def test_lists_of_a_card_are_read_as_written(tmp_path: Path) -> None:
    text = write(tmp_path / "card.yaml", SMALL).read_text()
    (tmp_path / "card.yaml").write_text(
        f"{text}\nsplits: {{lists: {{train: [1.1, 10], test: [1.10, 1_0, 0010]}}}}\n"
    )
    splits = read_card(tmp_path / "card.yaml").splits
    assert splits is not None
    assert splits.lists == {"train": ("1.1", "10"), "test": ("1.10", "1_0", "0010")}


def test_only_a_line_feed_ends_a_line_of_a_list_or_a_table(tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_text("b\u2028c\nd\n", "utf-8")
    card = read_card(write(tmp_path / "card.yaml", WHOLE))
    assert card.splits is not None and card.splits.lists is not None
    assert card.splits.lists["test"] == (sample_id("b\u2028c"), "d")
    table = tmp_path / "t.csv"
    table.write_text("case,note,U\na,odd\u2028text,1\nb,plain,2\n", "utf-8")
    assert [row["U"] for row in read_parameter_table(table, "case").values()] == ["1", "2"]


def test_parameters_of_one_sample(tmp_path: Path) -> None:
    for name, text in (
        ("p.json", f'{{"flow": {{"U": 3, "dir": [1, 0, 0]}}, "name": "x", "big": {10**400}}}'),
        ("p.yml", f"flow: {{U: 3, dir: [1, 0, 0]}}\nname: x\nbig: {10**400}\n"),
    ):
        path = tmp_path / name
        path.write_text(text)
        row = read_one(path)
        assert parameter_numbers(row, "flow.U", 1, path) == 3
        assert parameter_numbers(row, "flow.dir", 3, path) == [1, 0, 0]
        for key, count, sentence in (
            ("flow.dir", 1, rf"{name}: 'flow.dir' must be a number, got \[1, 0, 0\]"),
            ("name", 1, "'name' must be a number, got 'x'"),
            ("big", 1, "'big' must be a number, got 10000000000"),
            ("V", 1, "must have the parameter 'V', got flow.U, flow.dir, name, big"),
        ):
            with pytest.raises(ValueError, match=sentence):
                parameter_numbers(row, key, count, path)
    (tmp_path / "p.csv").write_text("a, b\n1, \n")
    row = read_one(tmp_path / "p.csv")
    assert parameter_numbers(row, "a", 1, tmp_path) == 1
    with pytest.raises(ValueError, match=r"'b' must be a number, got '' \(nothing\)"):
        parameter_numbers(row, "b", 1, tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("t.csv", "case,U\n1,2,3\n", "must have 2 values in every row, got 3 in row 2"),
        ("t.csv", "case,U\n", "must have a header and rows, got 1 lines"),
        ("t.csv", "case,U\n1,2\n1,3\n", "must have one row for '1', got two"),
        ("t.csv", "case,case\n1,2\n", "different names in its header, got 'case' twice"),
        ("t.csv", "name,U\n1,2\n", "the id of every row in 'case', got one with only name, U"),
        ("t.csv", 'case,U\n1,"' + 140_000 * "2", "must be CSV, got field larger than field limit"),
        ("t.json", '{"a": {"U": 1}, "a": {"U": 2}}', "got the key 'a' for the second time"),
        ("t.json", '{"a": {"U": 1, "U": 2}}', "must be JSON, got the key 'U' for the second time"),
        ("t.json", '{"a": {"U": 1}, " a": {"U": 2}}', "must have one row for 'a', got two"),
        ("t.json", f'{{"a": {"1" * 5000}}}', "must be JSON, got Exceeds the limit"),
        ("t.json", "{", "must be JSON, got Expecting property name"),
        ("t.json", "3", "must be a mapping or a list of them, got int"),
        ("t.json", '{"1": 2}', "must map every id to its parameters, got a mapping of numbers"),
        (
            "t.json",
            '{"a": {"flow.u": 9, "flow": {"u": 5}}}',
            "must have the parameter 'flow.u' once, got it with a dot and as a mapping",
        ),
        ("t.yaml", "- {case: 1, a: {b.c: 1, b: {c: 2}}}", "must have the parameter 'a.b.c' once"),
        ("t.dat", "", "must end with one of .csv, .tsv, .txt, .json, .yaml, .yml, got '.dat'"),
    ],
)
def test_bad_tables(name: str, text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError) as raised:
        read_parameter_table(tmp_path / name, "case")
    assert sentence in str(raised.value) and name in str(raised.value)
