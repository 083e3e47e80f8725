"""Where results are kept and shown: a JSON file, two pages between markers, and a picture.

A part that is measured anew takes the place of the same part before; the other parts and all prose stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from recoup._files import write_whole
from recoup.errors import ParameterError
from recoup_lab.bench.picture import picture
from recoup_lab.bench.results import PARTS, Part, PartName
from recoup_lab.bench.tables import cluster_tables, machine_sentence, markdown, tables_of

BEGIN: Final = "<!-- measured: written by recoup bench -->"
END: Final = "<!-- end of measured -->"
_TITLES: Final[dict[PartName, str]] = {
    "release": "Release",
    "inference": "Inference",
    "streaming": "Files larger than memory",
    "spark": "Spark",
}


def write_pages(folder: Path, parts: Iterable[Part]) -> tuple[dict[PartName, Part], list[Path]]:
    """Add parts to what a folder holds, and write its pages and picture again.

    Args:
        folder: with `performance.md` and `cluster.md`, whose text between markers is replaced, or without them; parts
            that an older version measured, and that cannot be shown any more, are dropped.
        parts: newly measured.

    Returns:
        All parts that the folder now holds, and the paths written.

    Raises:
        ParameterError: a page in the folder has no markers; nothing was written.
    """
    kept_file = folder / "data" / "performance.json"
    earlier = {name: part for name, part in read_parts(kept_file).items() if _can_be_shown(part)}
    kept = earlier | {part.name: part for part in parts}
    held: dict[PartName, Part] = {name: kept[name] for name in PARTS if name in kept}
    pages = {folder / "performance.md": _replaced(folder / "performance.md", "Performance", performance_text(held))}
    if "spark" in held:
        text = markdown(cluster_tables(held["spark"]))
        pages[folder / "cluster.md"] = _replaced(folder / "cluster.md", "Toward a cluster", text)
    image = folder / "images" / "performance.png"
    for path in (kept_file, image):
        path.parent.mkdir(exist_ok=True)
    write_whole(kept_file, json.dumps([part.to_json() for part in held.values()], indent=1) + "\n")
    write_whole(image, picture(held))
    for path, page in pages.items():
        write_whole(path, page)
    return held, [kept_file, image, *pages]


def read_parts(path: Path) -> dict[PartName, Part]:
    """The parts of a results file; none if there is no such file."""
    if not path.exists():
        return {}
    try:
        parts = [Part.from_json(value) for value in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, KeyError, TypeError):
        raise ParameterError(
            f"{path} is not a file that recoup bench wrote. Move it away, or name another folder."
        ) from None
    return {part.name: part for part in parts}


def _can_be_shown(part: Part) -> bool:
    # What an older Recoup measured may lack what the tables of this one show: it is dropped, and measured again.
    try:
        machine_sentence(part)
        tables_of(part)
    except (KeyError, TypeError, IndexError):
        return False
    return True


def performance_text(parts: dict[PartName, Part]) -> str:
    """What was measured, as Markdown."""
    text = ["![Time of release, of inference, and of one round over files](images/performance.png)", ""]
    for name, part in parts.items():
        text += [f"## {_TITLES[name]}", machine_sentence(part), ""]
        text += [markdown(tables_of(part)), *part.notes]
    return "\n".join(text).rstrip() + "\n"


def _replaced(path: Path, title: str, text: str) -> str:
    page = path.read_text(encoding="utf-8") if path.exists() else f"# {title}\n{BEGIN}\n{END}\n"
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ParameterError(f"{path} has no place for results: it needs one line {BEGIN} and later one line {END}.")
    start, stop = page.index(BEGIN) + len(BEGIN), page.index(END)
    return f"{page[:start]}\n{text}{page[stop:]}"
