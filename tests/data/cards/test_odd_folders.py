"""`data inspect` of folders as they are on disks: links, what cannot be read, names with odd
letters. The card that it writes finds the same samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import pyvista as pv

from slipstream.data.cards import FolderLook, MeshSource, draft_card, look_at, read_card
from slipstream.data.cards.patterns import sample_id

from ..mesh_folders import ball, block, save, with_fields


def write_runs(folder: Path, *names: str) -> None:
    for name in names:
        save(with_fields(ball()), folder / name)


def source_of(look: FolderLook, card: Path) -> MeshSource:
    card.write_text(draft_card(look), "utf-8")
    return MeshSource(look.folder, read_card(card))


def test_runs_that_are_links(tmp_path: Path) -> None:
    write_runs(tmp_path / "disk", "run_0/s.vtp", "run_1/s.vtp", "run_2/s.vtp")
    raw = tmp_path / "raw"
    raw.mkdir()
    for k in range(3):
        (tmp_path / f"disk/run_{k}/in.json").write_text(f'{{"yaw": {k}}}')
        (raw / f"run_{k}").symlink_to(tmp_path / f"disk/run_{k}")
    (tmp_path / "disk/run_0/back").symlink_to(raw)
    look = look_at(raw)
    assert look.ids == ("run_0", "run_1", "run_2")
    assert [table.file for table in look.parameters] == ["{id}/in.json"]
    source = source_of(look, tmp_path / "card.yaml")
    assert list(source.ids()) == ["run_0", "run_1", "run_2"] and source.read("run_1").rows == 162


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (("r1/s.vtp", "r2/s.vtp", "s.vtp"), ("r1", "r2")),
        (("car1/yaw0/s.vtp", "car1/yaw5/s.vtp", "car2/yaw0/s.vtp"), ("yaw0", "yaw5")),
    ],
)
def test_a_file_of_all_samples_named_like_theirs(
    names: tuple[str, ...], ids: tuple[str, ...], tmp_path: Path
) -> None:
    write_runs(tmp_path / "raw", *names)
    look = look_at(tmp_path / "raw")
    assert look.ids == ids
    assert list(look.layout.files) == list(look.paths) == list(look.looks) == ["s", "shared_s"]
    assert any("has no id in its name" in note for note in look.notes)
    assert tuple(source_of(look, tmp_path / "card.yaml").ids()) == ids


@pytest.mark.parametrize("names", [("a.vtp",), ("a.vtp", "c.vtp"), ("a/s.vtp", "c/s.vtp")])
def test_a_link_to_nothing(names: tuple[str, ...], tmp_path: Path) -> None:
    write_runs(tmp_path, *names)
    (tmp_path / "b.vtp").symlink_to(tmp_path / "gone.vtp")
    look = look_at(tmp_path)
    assert "left out: b.vtp is a link to a file that is not there" in look.notes
    assert "b" not in look.ids and len(look.ids) == len(names)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "x.vtu").symlink_to(tmp_path / "gone.vtu")
    with pytest.raises(ValueError, match="none must hold meshes .*: x.vtu is a link to a file"):
        look_at(tmp_path / "none")


@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_a_folder_that_cannot_be_listed(mode: int, folder_of_a_user: Path) -> None:
    raw = folder_of_a_user
    write_runs(raw, "r1/s.vtp", "r2/s.vtp", "lost+found/s.vtp")
    (raw / "lost+found").chmod(mode)
    try:
        look = look_at(raw)
        assert look.ids == ("r1", "r2")
        assert "left out: lost+found cannot be read (Permission denied)" in look.notes
        assert look.layout.files == {"s": "{id}/s.vtp"}
        (raw / "r1").chmod(mode)
        (raw / "r2").chmod(mode)
        with pytest.raises(ValueError, match=r"got none that can be read: lost\+found cannot"):
            look_at(raw)
    finally:
        for name in ("lost+found", "r1", "r2"):
            (raw / name).chmod(0o700)


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (("r1*.vtp",), ("r1_",)),
        (("r1*.vtp", "r2.vtp", "r12.vtp"), ("r12", "r1_", "r2")),
        (("r1*.vtp", "r2*.vtp"), ("r1_", "r2_")),
        (("case{1}.vtp",), ("case_1_",)),
        (("case{1}.vtp", "case{2}.vtp"), ("case_1_", "case_2_")),
        (("a*b/r1.vtp", "a*b/r2.vtp"), ("r1", "r2")),
        (("{id}/s?.vtp", "b/s?.vtp"), ("_id_", "b")),
        (("車/車車.vtp", "自/自自.vtp"), (sample_id("車車"), sample_id("自自"))),
        (("r1\n/s\\.vtp", "r2/s\\.vtp"), ("r1", "r2")),
    ],
)
def test_names_with_the_letters_of_patterns(
    names: tuple[str, ...], ids: tuple[str, ...], tmp_path: Path
) -> None:
    write_runs(tmp_path / "raw", *names)
    look = look_at(tmp_path / "raw")
    assert look.ids == tuple(sorted(ids))
    assert tuple(source_of(look, tmp_path / "card.yaml").ids()) == look.ids


def test_times_with_a_star_in_their_names(tmp_path: Path) -> None:
    write_runs(tmp_path, *(f"c{k}/s*_{t}.vtp" for k in range(3) for t in (1, 2, 10)))
    look = look_at(tmp_path)
    assert list(look.layout.files.values()) == ["{id}/s?_10.vtp"]
    assert not any("no id" in note or "no pattern" in note for note in look.notes), look.notes


def test_a_shared_file_with_a_star_in_its_name(tmp_path: Path) -> None:
    flow = np.asarray(block(2.0).points)
    for k in range(3):
        save(with_fields(block(2.0), U=flow), tmp_path / "raw" / f"c{k}/v.vtu")
    save(ball(), tmp_path / "raw" / "body*{1}.stl")
    source = source_of(look_at(tmp_path / "raw"), tmp_path / "card.yaml")
    assert source.card.files == {"v": "{id}/v.vtu", "body": "body??1?.stl"}
    assert "body*{1}.stl" in source.files("c1") and source.read("c1").rows == 60


def test_names_that_differ_in_letters_that_ids_lack(tmp_path: Path) -> None:
    write_runs(tmp_path / "raw", "自動車.vtp", "自転車.vtp", "Kübel.vtp")
    look = look_at(tmp_path / "raw")
    assert len(look.ids) == 3 and look.ids == tuple(
        sorted(map(sample_id, ("自動車", "自転車", "Kübel")))
    )
    assert list(source_of(look, tmp_path / "card.yaml").ids()) == list(look.ids)


@pytest.mark.parametrize(
    ("names", "sample", "file"),
    [
        (("boundary_3.vtp", "volume_3.vtu", "body_3.stl"), "3", "boundary_{id}.vtp"),
        (("surface.vtp", "volume.vtu"), "surface", "{id}.vtp"),
        (("VTK/surface.vtp", "VTK/volume.vtu", "body.stl"), "surface", "VTK/{id}.vtp"),
        (("body.stl", "images/logo.stl", "surface.vtp"), "surface", "{id}.vtp"),
        (("surface.vtp", "body.stl", "wheel.stl"), "surface", "{id}.vtp"),
    ],
)
def test_the_folder_of_a_single_run(
    names: tuple[str, ...], sample: str, file: str, tmp_path: Path
) -> None:
    for name in names:
        mesh = block() if name.endswith(".vtu") else ball()
        save(mesh if name.endswith(".stl") else with_fields(mesh), tmp_path / "run_3" / name)
    (tmp_path / "run_3" / "inflow_3.txt").write_text("U = 30\n")
    look = look_at(tmp_path / "run_3")
    source = source_of(look, tmp_path / "card.yaml")
    assert list(source.ids()) == [sample] and source.read(sample).rows == 162
    assert file in source.card.files.values()
    assert any("inspect the folder that" in note for note in look.notes), look.notes
    assert [p.file for p in look.parameters] == (["inflow_{id}.txt"] if sample == "3" else [])
    if look.parameters:
        against = look.parameters[0].columns[0].against
        assert against == "of one sample it is not known whether it varies"
    assert "of the 3 samples that training, validation and test need" in draft_card(look)


@pytest.mark.parametrize("having", [(1,), (1, 2), (1, 2, 4, 5)])
def test_a_file_that_few_samples_have(having: tuple[int, ...], tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    write_runs(raw, *(f"run_{k}/boundary_{k}.vtp" for k in range(1, 11)))
    for k in having:
        save(with_fields(block()), raw / f"run_{k}" / f"volume_{k}.vtu")
    look = look_at(raw)
    assert look.layout.files == {"boundary": "run_{id}/boundary_{id}.vtp"}
    pattern = "run_{id}/volume_{id}.vtu"
    assert look.to_json()["optional"] == {"volume": pattern}
    assert look.notes == (
        f"volume: {len(having)} of 10 samples have a file like {pattern}, fewer than half: it is"
        " optional and not used",
    )
    source = source_of(look, tmp_path / "card.yaml")
    assert len(source.ids()) == 10 and list(source.card.files) == ["boundary"]
    line = f'  # optional, in {len(having)} of 10 samples: volume: "{pattern}"'
    assert line in (tmp_path / "card.yaml").read_text("utf-8").splitlines()


def test_blocks_of_openfoam_cases(tmp_path: Path) -> None:
    """As foamToVTK writes them; by the card's `patches` rows are from the boundary."""
    body, raw = with_fields(ball()), tmp_path / "raw"
    for k in range(3):
        blocks = {"internal": with_fields(block(k)), "boundary": pv.MultiBlock({"body": body})}
        save(pv.MultiBlock(blocks), raw / f"run_{k}.vtm")
    look = look_at(raw)
    source = source_of(look, tmp_path / "card.yaml")
    assert look.looks["mesh"]["run_1"].shape.kind == "volume"
    assert list(source.ids()) == ["run_0", "run_1", "run_2"] and source.read("run_1").rows == 60
    text = (tmp_path / "card.yaml").read_text("utf-8")
    (tmp_path / "card.yaml").write_text(text.replace("# patches: [body]", "patches: ['bo*']"))
    source = MeshSource(raw, read_card(tmp_path / "card.yaml"))
    assert source.read("run_1").rows == 162
