"""One page per public name, made while the site is built from the list in `reference.md`.

A line `::: recoup.driver.release` there becomes a link with the first sentence of the docstring, and a page of its own
that says how the name is imported. Names that differ only in case share a page: some disks ignore it.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.structure.files import File

INDEX = "reference.md"
_LISTED = re.compile(r"^::: (\S+)$", re.MULTILINE)
# Where users import from; any other name comes from the module that defines it.
_FACADES = ("recoup", "recoup.custom", "recoup.testing")


def groups(text: str) -> dict[str, list[str]]:
    r"""The paths that the index lists, by heading.

    >>> groups("# Reference\n## Plans\n::: recoup.planner.Plan\n")
    {'Plans': ['recoup.planner.Plan']}
    """
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return {heading: _LISTED.findall(part) for heading, part in zip(parts[::2], parts[1::2], strict=True)}


def addresses(paths: list[str]) -> dict[str, str]:
    """The page of each path.

    >>> set(addresses(["recoup.inference.intervals.intervals", "recoup.inference.intervals.Intervals"]).values())
    {'reference/intervals.md'}
    """
    first: dict[str, str] = {}
    return {path: f"reference/{first.setdefault(_name(path).lower(), _name(path))}.md" for path in paths}


def import_line(path: str) -> str:
    """How a name is imported.

    >>> import_line("recoup.driver.release"), import_line("recoup.planner.Plan")
    ('from recoup import release', 'from recoup.planner import Plan')
    """
    name = _name(path)
    homes = (home for home in _FACADES if name in import_module(home).__all__)
    return f"from {next(homes, path.rpartition('.')[0])} import {name}"


def sentence(path: str) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(_found(path)) or "").split("\n\n")[0].split())


def page(paths: list[str]) -> str:
    """The Markdown of a page."""
    imports = "\n".join(import_line(path) for path in paths)
    # Most of what an estimator can do is written once, in the class that all of them share.
    shown = (
        f"::: {path}\n    options: {{inherited_members: {path.startswith('recoup.estimators')}}}" for path in paths
    )
    return "\n".join([f"# {_name(paths[0])}\n```python\n{imports}\n```\n", *shown, ""])


def on_config(config: Any) -> Any:
    """Hook of MkDocs: list the pages below the index in the navigation."""
    text = (Path(config.docs_dir) / INDEX).read_text(encoding="utf-8")
    by_group = groups(text)
    where = addresses([path for paths in by_group.values() for path in paths])
    (reference,) = (item["Reference"] for item in config.nav if "Reference" in item)
    reference[1:1] = [
        {heading: list(dict.fromkeys(where[path] for path in paths))} for heading, paths in by_group.items()
    ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Hook of MkDocs: add the pages."""
    where = addresses(_LISTED.findall(files.get_file_from_path(INDEX).content_string))
    for address in dict.fromkeys(where.values()):
        files.append(File.generated(config, address, content=page([p for p, at in where.items() if at == address])))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Hook of MkDocs: the index links to the pages."""
    if page.file.src_uri != INDEX:
        return markdown
    where = addresses(_LISTED.findall(markdown))
    return _LISTED.sub(lambda found: f"- [`{_name(found[1])}`]({where[found[1]]}): {sentence(found[1])}", markdown)


def _name(path: str) -> str:
    return path.rpartition(".")[2]


def _found(path: str) -> object:
    module, _, name = path.rpartition(".")
    found = getattr(import_module(module), name, None)
    # A function may have the name of the module that it is in.
    return found if found is not None and not isinstance(found, ModuleType) else import_module(path)
