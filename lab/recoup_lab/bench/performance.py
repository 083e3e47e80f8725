"""Where results are kept and shown: a JSON file, two pages between markers, and a picture.

A part that is measured anew takes the place of the same part before; the other parts and all prose stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from recoup._files import write_whole
from recoup_lab.bench.picture import picture
from recoup_lab.bench.results import PARTS, Part, PartName
from recoup_lab.bench.tables import cluster_tables, machine_sentence, markdown_of, tables_of
from recoup_lab.pages import page_with_part, read_json, write_json

PLACE: Final = "measured"
_TITLES: Final[dict[PartName, str]] = {
    "whole": "Whole fits",
    "release": "Release",
    "inference": "Inference",
    "streaming": "Files larger than memory",
    "persons": "Persons",
    "databases": "Databases",
    "spark": "Spark",
}


def write_pages(folder: Path, parts: Iterable[Part]) -> tuple[dict[PartName, Part], list[Path]]:
    """Add newly measured parts to what a folder holds, and write its pages and picture again.

    Parts that an older version measured, and that cannot be shown any more, are dropped.

    Returns:
        All parts that the folder now holds, and the paths written.

    Raises:
        ParameterError: a page in the folder has no markers; nothing was written.
    """
    kept_file = folder / "data" / "performance.json"
    earlier = {name: part for name, part in read_parts(kept_file).items() if _can_be_shown(part)}
    kept = earlier | {part.name: part for part in parts}
    held: dict[PartName, Part] = {name: kept[name] for name in PARTS if name in kept}
    texts = {"performance.md": ("Performance", performance_text(held))}
    if "spark" in held:
        texts["cluster.md"] = "Toward a cluster", markdown_of(cluster_tables(held["spark"]))
    # All are read before any is written.
    pages = {folder / name: page_with_part(folder / name, title, PLACE, text) for name, (title, text) in texts.items()}
    image = folder / "images" / "performance.png"
    image.parent.mkdir(exist_ok=True)
    write_json(kept_file, [part.to_json() for part in held.values()])
    write_whole(image, picture(held))
    for path, page in pages.items():
        write_whole(path, page)
    return held, [kept_file, image, *pages]


def read_parts(path: Path) -> dict[PartName, Part]:
    """The parts of a results file; none if there is no such file."""
    parts = read_json(path, "recoup bench", lambda values: [Part.from_json(value) for value in values])
    return {part.name: part for part in parts or ()}


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
        text += [markdown_of(tables_of(part)), *part.notes]
    return "\n".join(text).rstrip() + "\n"
