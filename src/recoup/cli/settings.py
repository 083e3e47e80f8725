"""Files that people write by hand, bounds and configurations: TOML or JSON, each name once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recoup._strict_json import TwiceError, unique_names
from recoup.errors import ParameterError

SUFFIXES = (".toml", ".json")
_LARGEST_FILE = 4 << 20  # bytes: thousands of columns
_MOST_DOTS = 10_000  # in a line


class Written(str):
    """A decimal as it was written: 0.1 is one tenth, not the float next to it."""

    __slots__ = ()


def read_settings(path: Path, *, what: str, exact: bool = False, error: type[ParameterError] = ParameterError) -> Any:
    """Read a TOML file, or a JSON file, by the ending of its name.

    Args:
        path: the file.
        what: it is, for errors.
        exact: keep decimals as the text that was written.
        error: to raise.

    Returns:
        The value; of a JSON file it may be of any kind.

    Raises:
        ParameterError: the file is not there, cannot be read, is malformed, or uses a name twice.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "run.toml"
    ...     _ = path.write_text("epsilon = 0.1")
    ...     read_settings(path, what="config file", exact=True)
    {'epsilon': '0.1'}
    """
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise error(f"the {what} {str(path)!r} is larger than {_LARGEST_FILE >> 20} MB: it is another file.")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise error(f"the {what} {str(path)!r} is not there.") from None
    except OSError as found:
        raise error(f"the {what} {str(path)!r} cannot be read: {found.strerror}.") from None
    except UnicodeDecodeError:
        raise error(f"the {what} {str(path)!r} is not a text file.") from None
    return settings_from_text(text, path.suffix.lower(), what=f"{what} {str(path)!r}", exact=exact, error=error)


def settings_from_text(
    text: str, suffix: str, *, what: str, exact: bool = False, error: type[ParameterError] = ParameterError
) -> Any:
    """Read what a TOML (".toml") or JSON (".json") file holds.

    >>> settings_from_text('{"epsilon": 0.5}', ".json", what="options")
    {'epsilon': 0.5}
    """
    number: Any = Written if exact else float
    try:
        if suffix == ".json":
            return json.loads(text, object_pairs_hook=unique_names, parse_float=number)
        import tomllib

        # The parser takes time by the square of the parts of a dotted name.
        if max(line.count(".") for line in text.split("\n")) > _MOST_DOTS:
            raise ValueError("a line holds too many dots")
        return tomllib.loads(text, parse_float=number)
    except TwiceError as twice:
        raise error(f"the {what} names {str(twice)!r} twice: declare it once.") from None
    except (ValueError, RecursionError) as found:
        kind = "JSON" if suffix == ".json" else "TOML"
        raise error(f"the {what} is not {kind}: {found}.") from None
