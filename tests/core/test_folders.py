from __future__ import annotations

from pathlib import Path

from slipstream.core.folders import files_below, walk


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def names(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in files_below(folder)]


def test_links_are_followed_and_every_folder_is_seen_once(tmp_path: Path) -> None:
    raw, disk = tmp_path / "raw", tmp_path / "disk"
    write(raw, "b/2", "b/1", "a/x", "z")
    write(disk, "k/deep/1", "k/2")
    (raw / "c").symlink_to(disk / "k")
    (raw / "d").symlink_to(disk)  # all of it is in c already
    (raw / "latest").symlink_to("b")
    (raw / "file").symlink_to(disk / "k/2")
    (raw / "nothing").symlink_to(tmp_path / "gone")
    assert names(raw) == ["a/x", "b/1", "b/2", "c/2", "c/deep/1", "file", "nothing", "z"]
    (tmp_path / "alias").symlink_to(raw)
    assert names(tmp_path / "alias") == names(raw)
    assert names(raw / "latest") == ["1", "2"]


def test_folders_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    write(tmp_path, *(f"{k * 7 % 30:02d}/x" for k in range(30)))
    found = [here.name for here, _, _ in walk(tmp_path)][1:]
    assert len(found) == 30 and found == sorted(found)


def test_circles_end(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    write(raw, "a/1", "b/2")
    write(tmp_path / "disk", "3")
    (raw / "a/up").symlink_to(raw)
    (raw / "a/top").symlink_to(tmp_path)
    (raw / "b/self").symlink_to(raw / "b/self")
    (raw / "b/there").symlink_to(tmp_path / "disk")
    (tmp_path / "disk/back").symlink_to(raw)
    (tmp_path / "disk/here").symlink_to(tmp_path / "disk")
    assert names(raw) == ["a/1", "b/2", "b/self", "b/there/3"]


def test_folders_may_be_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a/1", "b/2")
    seen = []
    for here, folders, files in walk(tmp_path):
        folders[:] = [name for name in folders if name != "b"]
        seen.append((here.name, files))
    assert seen == [(tmp_path.name, []), ("a", ["1"])]


def test_what_cannot_be_listed_is_told(tmp_path: Path) -> None:
    errors: list[OSError] = []
    assert list(walk(tmp_path / "none", errors.append)) == []
    assert errors[0].filename == str(tmp_path / "none")
