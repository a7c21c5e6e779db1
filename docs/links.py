"""A hook of mkdocs.yml: links from a page to files outside of docs/.

On a code forge `../benchmarks/RESULTS.md` is a link to a file of the repository. The site has no
such page: where pyproject.toml has a URL of the repository, the link leads there, else it becomes
its text.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


@cache
def repository() -> str | None:
    """The URL under which pyproject.toml says that the files are."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8")
    project = tomllib.loads(text)["project"]
    urls = {name.lower(): str(url) for name, url in project.get("urls", {}).items()}
    return urls.get("repository") or urls.get("source")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    # `repo_url` stays unset: with it, every page would ask the forge for its stars.
    return turned(markdown, page.file.src_uri, repository())


def turned(markdown: str, page: str, url: str | None) -> str:
    """The text of a page, by its path below docs/, with links that leave docs/ turned."""

    def turn(found: re.Match[str]) -> str:
        label, link = found.groups()
        if ":" in link or link.startswith("#"):
            return found.group()
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
        if path.startswith("docs/"):
            return found.group()
        if url is not None:
            return f"[{label}]({url.rstrip('/')}/blob/main/{path})"
        file = path.partition("#")[0]
        name = label.strip("`")
        return label if name in file else f"{label} (`{file}`)"

    return _LINK.sub(turn, markdown)
