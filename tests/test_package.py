"""What the package promises as a whole."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import slipstream
from slipstream.core.extras import need

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "slipstream"
SOURCES = sorted(PACKAGE.rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
COMMUNITY = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "docs" / "install.md",
    ROOT / ".github" / "pull_request_template.md",
]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def read_yaml(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return content


def test_public_names() -> None:
    assert sorted(slipstream.__all__) == [
        "Membership",
        "Size",
        "TokenSums",
        "Transolver",
        "VARIANTS",
        "__version__",
        "accelerate",
        "couple",
        "deslice_tokens",
        "load_model",
        "predict",
        "register_variant",
        "slice_points",
    ]
    assert len({*slipstream.__all__} - {"__version__"}) <= 12
    assert {*slipstream.__all__} <= {*dir(slipstream)}
    assert all(getattr(slipstream, name) is not None for name in slipstream.__all__)
    with pytest.raises(AttributeError, match="module 'slipstream' has no attribute 'Transformer'"):
        slipstream.Transformer  # noqa: B018


def test_what_needs_no_kernels_does_not_import_them() -> None:
    """Triton alone takes a fifth of a second, torch more than one."""
    light = "import slipstream.cli, sys; print(sorted({'torch', 'triton'} & sys.modules.keys()))"
    data = light.replace("slipstream.cli", "slipstream.cli.data")
    make = light.replace("slipstream.cli", "slipstream.cli.make")
    use = "import slipstream.cli.predict, slipstream.cli.train, sys;" + light.partition(";")[2]
    drawing = use.replace("'torch', 'triton'", "'matplotlib', 'jinja2'")
    said = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
        for code in (light, data, make, drawing)
    ]
    assert [done.stdout for done in said] == ["[]\n", "[]\n", "['torch']\n", "[]\n"]


def test_environment_variables_are_read_in_one_place() -> None:
    """And set in one: by the command line, for its own process."""
    found = {
        p.name: re.findall(r"os\.(environ\.setdefault|environ|getenv)", p.read_text())
        for p in SOURCES
    }
    assert {name for name, uses in found.items() if {*uses} - {"environ.setdefault"}} == {
        "runtime.py"
    }
    assert {name for name, uses in found.items() if "environ.setdefault" in uses} == {
        "app.py",
        "runtime.py",
    }


def test_nothing_prints_outside_the_command_line() -> None:
    printing = {p for p in SOURCES if re.search(r"^\s*print\(", p.read_text(), re.M)}
    assert {path.parent.name for path in printing} == {"cli"}


def test_without_triton_everything_else_runs() -> None:
    """As with a PyTorch for CPUs, which brings none: everything imports and trains."""
    code = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "triton" else find(name, *rest)
import torch, slipstream
model = slipstream.Transolver(3, 0, 1, size=slipstream.Size(layers=1, width=8, heads=2))
model(torch.rand(1, 4, 3)).sum().backward()
assert model.kernels.startswith("chunked: no CUDA device"), model.kernels
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_core_imports_and_trains_without_development_packages() -> None:
    """Blocks everything that is not a core dependency, then builds and trains a model."""
    code = """
import sys
blocked = ("jaxtyping", "beartype", "hypothesis", "pytest", "pyvista", "h5py")
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ImportError(name)
sys.meta_path.insert(0, Block())
import torch, slipstream, slipstream.cli
model = slipstream.Transolver(3, 0, 1, size=slipstream.Size(layers=1, width=8, heads=2))
model(torch.rand(1, 4, 3)).sum().backward()
assert not any(name.partition(".")[0] in blocked for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_package_is_installed_from_its_source() -> None:
    """Nothing is on the package index: pip must get the folder of the source, or a wheel."""
    texts = [*SOURCES, *ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*")]
    by_name = re.compile(r"pip install (?!--no-index).*[ '\"]slipstream\b")
    assert [path.name for path in texts if by_name.search(path.read_text("utf-8"))] == []
    with pytest.raises(
        ValueError, match=r"no_such must be .*: pip install 'slipstream-cfd\[mesh\]'"
    ):
        need("no_such", "mesh")


def test_the_version_is_stated_once() -> None:
    """And the newest part of the list of changes is about it."""
    assert "version" not in PROJECT["project"] and "version" in PROJECT["project"]["dynamic"]
    here = re.compile(rf"(?<![\d.]){re.escape(slipstream.__version__)}(?![\d.])")
    others = (*ROOT.glob("*.toml"), *ROOT.glob("*.cff"), ROOT / "README.md", COMMUNITY[-2])
    stating = [path.name for path in (*SOURCES, *others) if here.search(path.read_text("utf-8"))]
    # An example in a message, and the version of PhysicsNeMo's files.
    assert {*stating} - {"manifest_checks.py", "export_weights.py"} == {"version.py"}
    changes = re.findall(r"^## (\S+?),", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert changes[0] == slipstream.__version__ and len(changes) == len({*changes})


def test_only_a_message_has_the_name_of_the_distribution() -> None:
    """A checkout that was installed under the old name, or not at all, works as any other."""
    name = PROJECT["project"]["name"]
    assert name != "slipstream"
    asking = re.compile(rf"""(version|distribution|requires)\(\s*["'](slipstream|{name})["']""")
    texts = {source.name: source.read_text() for source in SOURCES}
    assert [name for name, text in texts.items() if asking.search(text)] == []
    assert [source for source, text in texts.items() if name in text] == ["extras.py"]


def test_every_file_that_is_no_python_is_part_of_the_package() -> None:
    told = PROJECT["tool"]["setuptools"]["package-data"]
    folders = {name: ROOT / name.replace(".", "/") for name in told}
    packed = {
        path for name, folder in folders.items() for p in told[name] for path in folder.glob(p)
    }
    files = {
        path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }
    assert files - {*SOURCES} == packed and PACKAGE / "py.typed" in packed


def test_extras_that_code_asks_for_exist_and_dependencies_are_pinned() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    asked = re.findall(r"need\(\s*\"[\w.]+\",\s*\"(\w+)\"", "".join(p.read_text() for p in SOURCES))
    assert {*asked} <= extras.keys() and len({*asked}) > 3
    wanted = [
        *PROJECT["project"]["dependencies"],
        *(one for group in extras.values() for one in group),
    ]
    names = {re.split(r"[\[<>=;]", one)[0].strip().lower() for one in wanted}
    pins = (ROOT / "constraints.txt").read_text("utf-8").lower()
    pinned = set(re.findall(r"^([\w.-]+)==", pins, re.M))
    assert names - {PROJECT["project"]["name"]} <= pinned


@pytest.mark.parametrize("page", COMMUNITY, ids=lambda path: path.name)
def test_links_and_files_of_the_community_pages_are_there(page: Path) -> None:
    text = page.read_text("utf-8")
    links = re.findall(r"\]\(((?!https?:)[^)#]+)", text)
    files = re.findall(r"`((?:tests|slipstream|benchmarks|docs|examples|\.ci)/[\w./-]*)`", text)
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing + [file for file in files if not (ROOT / file).exists()] == []


def test_the_citation_names_the_software_and_the_paper() -> None:
    """What version 1.2 of the format requires, and who wrote what."""
    citation = read_yaml(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["cff-version"] == "1.2.0" and citation["type"] == "software"
    assert citation["license"] == PROJECT["project"]["license"]
    (paper,) = citation["references"]
    assert paper["title"] == "Does Transolver really need a Transformer?" and paper["year"] == 2026
    assert paper["type"] == "article"
    assert [one["family-names"] for one in paper["authors"]] == ["Wen", "Mishra"]


def fields(form: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for field in form["body"]:
        kinds = ("markdown", "input", "textarea", "dropdown", "checkboxes")
        assert field["type"] in kinds, field
        if field["type"] == "markdown":
            assert field["attributes"]["value"]
        else:
            assert field["attributes"]["label"] and re.fullmatch(r"[\w-]+", field["id"])
            yield field


def test_forms_of_issues_are_whole() -> None:
    forms = {path.stem: read_yaml(path) for path in FORMS if path.stem != "config"}
    assert forms.keys() == {"bug", "feature", "physics"}
    for form in forms.values():
        assert {"name", "description", "body"} <= form.keys() <= {*form, "labels", "title"}
        names = [field["id"] for field in fields(form)]
        assert names and len(names) == len({*names})
        for field in fields(form):
            options = field["attributes"].get("options")
            assert bool(options) == (field["type"] in ("dropdown", "checkboxes")), field
    assert any("slipstream doctor" in str(field) for field in fields(forms["bug"]))


def test_the_review_list_has_ten_questions_here_and_there() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Ten questions")[2]
    template = (ROOT / ".github" / "pull_request_template.md").read_text("utf-8")
    numbers = [str(number) for number in range(1, 11)]
    assert re.findall(r"^(\d+)\. ", guide, re.M) == numbers
    assert re.findall(r"^- \[ \] (\d+)\. ", template, re.M) == numbers


def test_all_that_is_imported_comes_with_an_installation() -> None:
    """Packages that are imported are dependencies; one that is asked for with an extra is in it."""
    project = PROJECT["project"]
    plain = {distribution_of(line) for line in project["dependencies"]}
    extras = {
        extra: plain | {distribution_of(line) for line in lines}
        for extra, lines in project["optional-dependencies"].items()
    }
    asked = re.compile(r'\bneed\(\s*"(\w+)[\w.]*", "(\w+)"')
    checked = 0
    for source in SOURCES:
        text = source.read_text("utf-8")
        for module, extra in asked.findall(text):
            assert NAMES.get(module, module) in extras[extra], f"{source.name}: {module}"
            checked += 1
        for module in imported(ast.parse(text)) - sys.stdlib_module_names - OPTIONAL:
            assert NAMES.get(module, module) in plain, f"{source.name}: {module}"
            checked += 1
    assert checked > 300


NAMES = {
    "yaml": "pyyaml",
    "pydantic_core": "pydantic",
    "markupsafe": "jinja2",
    "vtkmodules": "pyvista",
}
"""Modules whose distribution has another name, or comes with another."""
OPTIONAL = {"slipstream", "triton", "jaxtyping"} | {
    "pyvista", "vtkmodules", "h5py", "flashslice", "physicsnemo",
}  # fmt: skip
"""Ours; Triton, which a torch for GPUs brings; what is imported where it is known to be there."""


def distribution_of(requirement: str) -> str:
    match = re.match(r"[\w-]+", requirement)
    assert match is not None
    return match[0].lower()


def imported(tree: ast.Module) -> set[str]:
    """The top-level modules of all imports, those in functions too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found
