"""All that somebody beside the curator could see of a piece of work: its result, files, streams, logs, errors."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from recoup.privacy.ledger import Ledger
from recoup_lab.audit.attacks.sampler import listening

Observation = dict[str, Any]
_DRAWN = "drawn: "  # what differs between any two runs, and must
_CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}")  # of a text that holds such a name
_HEX_NAME = re.compile(r"\b[0-9a-f]{32}\b")  # the name of a run or of a ledger, drawn anew for each


def observe(work: Callable[[Path], Observation], folder: Path, *, held: int) -> Observation:
    """Do some work in an empty folder with the samplers' answers held, and note by name all that can be seen.

    What the work returns is visible, too. What differs between two tables came past the noise.
    """
    out, err = io.StringIO(), io.StringIO()
    seen: Observation = {}
    with (
        listening(held=held) as heard,
        _logs() as records,
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        warnings.simplefilter("always")
        try:
            seen |= work(folder)
        except Exception as error:  # whatever is raised is visible, and is compared
            seen["error"] = f"{type(error).__name__}: {error}"
    here = str(folder)
    return {
        **{name: _without_names(value, here) for name, value in seen.items()},
        **{f"{_DRAWN}names in {name}": _names(value) for name, value in seen.items()},
        "draws": heard.public,
        "warnings": [f"{w.category.__name__}: {w.message}" for w in caught],
        "log": [text.replace(here, "FOLDER") for text in records],
        "standard output": out.getvalue().replace(here, "FOLDER"),
        "standard error": err.getvalue().replace(here, "FOLDER"),
        **_files(folder),
    }


def differences(one: Observation, other: Observation) -> list[str]:
    """The names of what differs.

    >>> differences({"log": [], "size": 3}, {"log": ["4 rows skipped"], "size": 3})
    ['log']
    """
    names = sorted(name for name in {*one, *other} if not name.startswith(_DRAWN))
    return [name for name in names if one.get(name) != other.get(name)]


def names_that_repeat(one: Observation, again: Observation) -> list[str]:
    """Which names that should be drawn anew come again when the same work is done twice: they are computed.

    >>> names_that_repeat({"drawn: run": ["a"]}, {"drawn: run": ["a"]})
    ['drawn: run']
    """
    return [name for name in sorted(one) if name.startswith(_DRAWN) and {*one[name]} & {*again.get(name, ())}]


def _without_names(value: Any, folder: str) -> Any:
    """What was seen, without the folder and without names that differ between any two runs."""
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    if not isinstance(text, str):
        return value
    text, n_names = _HEX_NAME.subn("RUN", text.replace(folder, "FOLDER"))
    return _CHECKSUM.sub("CHECKSUM", text) if n_names else text


def _names(value: Any) -> list[str]:
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return _HEX_NAME.findall(text) if isinstance(text, str) else []


@contextlib.contextmanager
def _logs() -> Iterator[list[str]]:
    found: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            # Compilers and file readers log their own work at the lowest level.
            if not record.name.startswith(("numba", "asyncio", "matplotlib")):
                found.append(f"{record.name} {record.levelname} {record.getMessage()}")

    root, keep = logging.getLogger(), Keep(level=1)
    level = root.level
    root.addHandler(keep)
    root.setLevel(1)
    try:
        yield found
    finally:
        root.removeHandler(keep)
        root.setLevel(level)


def _files(folder: Path) -> Observation:
    """Names, sizes and contents of what was written; of a ledger its entries, without time and name of the run."""
    seen: Observation = {"names of files": sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = f"file {path.relative_to(folder)}"
        if path.suffix == ".db":
            entries = Ledger(path).entries()
            seen[name] = [(e.purpose, e.measure, e.amount, e.spent_after) for e in entries]
            seen[f"{_DRAWN}runs in {name}"] = sorted({e.run for e in entries})
            seen[f"size of {name}"] = path.stat().st_size
        elif not path.name.startswith("table"):
            text = path.read_bytes().decode("utf-8", "replace").replace(str(folder), "FOLDER")
            seen[name] = _without_names(text, str(folder))
            seen[f"{_DRAWN}names in {name}"] = _names(text)
            seen[f"size of {name}"] = len(text)
    return seen
