"""docs/architecture.md says what is true: rooms, files, names, layers and lines."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "slipstream"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ROOM = re.compile(r"^\| `([a-z/]+)/` \|.*\| ([\d,]+) \| ([\d,]+) \|$", re.M)
TOLERANCE = 0.2


def rooms() -> dict[str, Path]:
    """Every package of slipstream/, as "data/store"."""
    folders = [file.parent for file in PACKAGE.rglob("__init__.py") if file.parent != PACKAGE]
    return {folder.relative_to(PACKAGE).as_posix(): folder for folder in folders}


def resolve(path: str) -> list[Path]:
    """The files that a path or pattern of the page stands for."""
    return [file for base in (ROOT, PACKAGE) for file in base.glob(path)]


def defined_names(file: Path) -> set[str]:
    """Functions, classes and constants at the top of a module."""
    names: set[str] = set()
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def test_the_table_has_every_room_with_its_size() -> None:
    told = {room: int(lines.replace(",", "")) for room, _, lines in ROOM.findall(PAGE)}
    assert told.keys() == rooms().keys()
    outdated = []
    for room, folder in rooms().items():
        files = list(folder.rglob("*.py"))
        lines = sum(len(file.read_text("utf-8").splitlines()) for file in files)
        if abs(lines - told[room]) > TOLERANCE * lines:
            outdated.append(f"{room}/ has {len(files)} files and {lines:,} lines")
    assert not outdated, "docs/architecture.md must be brought up to date: " + "; ".join(outdated)


def test_every_name_in_a_file_is_there() -> None:
    named = re.findall(r"`([\w/]+\.py):(\w+)`", PAGE)
    assert len(named) > 20
    absent = [f"{path}:{name}" for path, name in named if name not in _names_at(path)]
    assert not absent


def _names_at(path: str) -> set[str]:
    files = resolve(path)
    return defined_names(files[0]) if files else set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_of_the_project_that_a_page_names_exists(document: Path) -> None:
    """The other pages may name files of other projects: only paths into our own folders count."""
    paths = set(re.findall(r"[\w*/.-]+\.(?:py|toml)\b", document.read_text("utf-8")))
    if document.name != "architecture.md":
        paths = {path for path in paths if _is_in_our_folders(path)}
    assert [path for path in sorted(paths) if not resolve(path)] == []


def _is_in_our_folders(path: str) -> bool:
    folder, slash, _ = path.partition("/")
    return bool(slash) and any((base / folder).is_dir() for base in (ROOT, PACKAGE))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_inside_the_project_leads_to_a_file(document: Path) -> None:
    links = re.findall(r"\]\(((?!https?:)[^)#]+)", document.read_text("utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_layers_are_those_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = contracts["contracts"][0]["layers"]
    assert "```\n" + "\n".join(layers) + "\n```" in PAGE
