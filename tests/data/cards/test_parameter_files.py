"""Files of parameters as people have them: what `data inspect` finds in them, `data ingest` reads
by the card as it was drafted; and of every file that is not used a sentence says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstream.data.cards import FolderLook, MeshSource, draft_card, look_at, read_card
from slipstream.data.cards.parameters import read_one, read_parameter_rows
from slipstream.data.store import ingest, open_store

from ..mesh_folders import ball, save, with_fields


def write_runs(raw: Path, count: int = 4) -> None:
    """Files whose only common id is the number: run_3/boundary_3.vtp has the id 3."""
    for k in range(1, count + 1):
        save(with_fields(ball(1 + 0.1 * k)), raw / f"run_{k}" / f"boundary_{k}.vtp")


def features(look: FolderLook, folder: Path) -> dict[str, dict[str, float]]:
    """The parameters of each sample in a store made by the drafted card."""
    (folder / "card.yaml").write_text(draft_card(look), "utf-8")
    report = ingest(MeshSource(look.folder, read_card(folder / "card.yaml")), folder / "store")
    assert not report.quarantined
    store = open_store(folder / "store")
    return {s: dict(store.manifest.samples[s].parameters) for s in store.manifest.samples}


def note_on(look: FolderLook, file: str) -> str:
    notes = [note for note in look.notes if file in note]
    assert len(notes) == 1, look.notes
    assert f"# Noticed: {notes[0]}" in draft_card(look)
    return notes[0]


@pytest.mark.parametrize(
    ("written", "separator", "comma"),
    [
        ("run_{k}", ",", "."),
        ("boundary_{k}.vtp", ";", "."),
        ("run_{k}", ";", ","),
        ("0{k}", "\t", "."),
        ("run_{k}/boundary_{k}.vtp", "\t", ","),
    ],
)
def test_tables_with_any_separator_and_ids_like_names(
    written: str, separator: str, comma: str, tmp_path: Path
) -> None:
    raw = tmp_path / "raw"
    write_runs(raw)
    lines = [["case", "U_inf", "yaw_deg", "Cd_mean100", "nCells"]]
    for k in range(1, 5):
        numbers = [f"{30.5 + k}", f"{-k / 4}", f"{0.3 + k / 100:.2f}", f"{1000 * k}"]
        lines.append([written.format(k=k), *(n.replace(".", comma) for n in numbers)])
    (raw / "table.csv").write_text("\n".join(separator.join(line) for line in lines))
    found = features(look_at(raw), tmp_path)
    assert found == {str(k): {"U_inf": 30.5 + k, "yaw_deg": -k / 4} for k in range(1, 5)}
    units = {f.name: f.unit for f in read_card(tmp_path / "card.yaml").schema.features}
    assert units == {"normals": "1", "U_inf": "m/s", "yaw_deg": "deg"}
    card = (tmp_path / "card.yaml").read_text("utf-8")
    assert '# - {name: Cd_mean100, unit: "1"}  # looks like a result: drag coefficient' in card
    assert '# - {name: nCells, unit: "1"}  # a count of the mesh' in card


def test_a_table_without_ids_is_mentioned(tmp_path: Path) -> None:
    write_runs(tmp_path)
    (tmp_path / "t.csv").write_text(
        "U,yaw\n" + "\n".join(f"{30 + 7 * k},{k / 9}" for k in range(4))
    )
    look = look_at(tmp_path)
    assert not look.parameters
    assert note_on(look, "t.csv") == (
        "t.csv is not used: none of its columns (U, yaw) has the ids of the samples, as 1, 2, 3;"
        " it has a row for each, but their order is not known: add a column with ids"
    )
    (tmp_path / "t.csv").write_text("U,yaw\n1,2\n3,4\n5,6\n7,8\n")
    assert "none of its columns (U, yaw) has the ids" in note_on(look_at(tmp_path), "t.csv")
    (tmp_path / "t.csv").write_text("id,U\n1,30\n8,31\n9,32\n")
    assert note_on(look_at(tmp_path), "t.csv") == (
        "t.csv is not used: 'id' has only 1 of the 4 samples, as 1, 2, 3"
    )
    (tmp_path / "t.csv").write_bytes("id,Größe\n1,2\n".encode("latin-1"))
    assert "t.csv is not used: t.csv must be CSV in UTF-8" in note_on(look_at(tmp_path), "t.csv")
    (tmp_path / "t.csv").write_text("id,U\n1,30\n2\n")
    assert "must have 2 values in every row, got 1" in note_on(look_at(tmp_path), "t.csv")
    (tmp_path / "t.csv").unlink()
    for k in range(3):
        (tmp_path / f"other_{10 + k}.csv").write_text("a,b\n7.5,8.5\n")
    assert note_on(look_at(tmp_path), "other").startswith(
        "other_10.csv (and 2 named alike) is not used: none of its columns (a, b)"
    )
    (tmp_path / "solver.json").write_text('{"model": "kOmegaSST", "U": 30}')
    assert "it has one set of parameters (model, U)" in note_on(look_at(tmp_path), "solver.json")


@pytest.mark.parametrize(
    "text",
    [
        "U = {u}\nyaw_deg = {yaw}\n",
        "# inflow\nU: {u}\nyaw_deg: {yaw}  # to the left\nmodel: SST\n",
        "U {u};\nyaw_deg\t{yaw};\n",
        "U yaw_deg\n{u}   {yaw}\n",
        "U;yaw_deg\n{u};{yaw}\n",
    ],
)
def test_files_beside_a_sample(text: str, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    write_runs(raw)
    for k in range(1, 5):
        folder = raw / f"run_{k}"
        (folder / f"inflow_{k}.txt").write_text(text.format(u=30 + k, yaw=k / 4))
        (folder / f"force_coeffs_{k}.csv").write_text(f"Cd,Cl\n{0.3 + k},{0.1 + k}\n")
        (folder / f"series_{k}.csv").write_text("time,Cd\n1,0.3\n2,0.4\n")
        (folder / f"view_{k}.png").write_bytes(b"\x89PNG")
    look = look_at(raw)
    assert note_on(look, "series").startswith("run_{id}/series_{id}.csv is not used: series_1.csv")
    assert note_on(look, "view") == "beside the samples, and not used: run_{id}/view_{id}.png"
    found = features(look, tmp_path)
    assert found == {str(k): {"U": 30 + k, "yaw_deg": k / 4} for k in range(1, 5)}
    card = (tmp_path / "card.yaml").read_text("utf-8")
    assert '# - file: "run_{id}/force_coeffs_{id}.csv"' in card


def test_numbers_that_are_none(tmp_path: Path) -> None:
    """A run that diverged has written nan, inf or 1e300; a comma may stand for a thousand."""
    write_runs(tmp_path, 3)
    rows = ["1;nan;30;1e300;1,234;2", "2;-inf;31;1;2,345;2", "3;5;32;2;3,456;2"]
    (tmp_path / "t.csv").write_text("\n".join(["id;yaw;U;pitch;span;alpha", *rows]))
    look = look_at(tmp_path)
    against = {column.name: column.against for column in look.parameters[0].columns}
    assert against == {
        "yaw": "not finite in 2 of 3 samples that were looked at",
        "U": "",
        "pitch": "too large for float32, which features are in",
        "span": "no number: '1,234'",
        "alpha": "the same in every sample that was looked at",
    }
    features(look, tmp_path)
    card = (tmp_path / "card.yaml").read_text("utf-8").replace("# - {name: span", "- {name: span")
    (tmp_path / "card.yaml").write_text(card, "utf-8")
    source = MeshSource(tmp_path, read_card(tmp_path / "card.yaml"))
    with pytest.raises(ValueError, match="'span' must be a number, got '1,234' .a comma may stand"):
        source.read("1")


def test_texts_and_tables(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("flowVelocity (20 0 0);\npressure 0; // gauge\n")
    assert read_one(path) == {"flowVelocity": ["20", "0", "0"], "pressure": "0"}
    path.write_text("U = 1\nU = 2\n")
    with pytest.raises(ValueError, match="must have the parameter 'U' once, got it twice"):
        read_one(path)
    path.write_text("Dear reader,\n")
    with pytest.raises(ValueError, match="must have lines `name = value`, or a header and rows"):
        read_one(path)
    table = tmp_path / "t.csv"
    table.write_text("sep=;\nid;U\n1;2,5\n")
    rows = read_parameter_rows(table)
    assert isinstance(rows, list) and rows[0]["U"] == 2.5 and str(rows[0]["U"]) == "2,5"
    table.write_text('id;"speed, mean";yaw\n1;2;3\n')
    assert read_parameter_rows(table) == [{"id": "1", "speed, mean": "2", "yaw": "3"}]
    table.write_text("id;a;b\n1;2,5;2.5\n")
    assert read_parameter_rows(table) == [{"id": "1", "a": "2,5", "b": "2.5"}]


def test_the_card_says_how_a_table_writes_ids(tmp_path: Path) -> None:
    write_runs(tmp_path, 3)
    (tmp_path / "t.csv").write_text("case,U\nrun_1,30\nrun_2,31\nrun_3,32\nmean,31\n")
    text = draft_card(look_at(tmp_path))
    assert '    id_pattern: "run_{id}"  # how the table writes it' in text
    for old, new, sentence in (
        ('"run_{id}"', "run_", "id_pattern must have {id} where the table has the sample's id"),
        ('"run_{id}"', '"run_{id}{x}"', "id_pattern must have no other braces than {id}"),
        ("id: case", "", "must have either {id} in `file` or `id`"),
    ):
        (tmp_path / "card.yaml").write_text(text.replace(old, new), "utf-8")
        with pytest.raises(ValueError) as raised:
            read_card(tmp_path / "card.yaml")
        assert sentence in str(raised.value)
    plain = text.replace('    id_pattern: "run_{id}"  # how the table writes it\n', "")
    (tmp_path / "card.yaml").write_text(plain, "utf-8")
    card = read_card(tmp_path / "card.yaml")
    assert card.to_json()["parameters"] == ({"file": "t.csv", "id": "case"},)
    assert MeshSource(tmp_path, card).ids() == ["1", "2", "3"]
