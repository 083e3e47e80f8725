"""Files that are whole or not there, and JSON as it is meant.

A file is written under a temporary name, flushed to disk, then renamed. JSON has no name twice in an object, and no
numbers that JSON does not have.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recoup.errors import FileInUseError

_PART = ".part"


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write to; when the block ends well it becomes the file, durably.

    Guarantees: after an interruption at any point the path holds the old file or the new one, never a part; the file
    has the permissions that an ordinary new file would have.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        raise IsADirectoryError(errno.EISDIR, "not an ordinary file", str(target))
    # Of a link, the file that it points to: the link stays.
    with _beside(Path(os.path.realpath(target)) if target.is_symlink() else target, os.replace) as temporary:
        yield temporary


@contextmanager
def appearing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write to; when the block ends well it becomes the file, which must not exist before.

    Guarantees: never writes over a file, also where two processes ask for one path. After an interruption at any point
    the file is whole or not there.
    """
    target = Path(path)
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    with _beside(target, _link) as temporary:
        yield temporary


def _link(temporary: Path, target: Path) -> None:
    try:
        os.link(temporary, target)  # unlike a rename, it never replaces
    except FileExistsError:
        raise
    except OSError:
        # A file system without links: the name is taken first, and filled at once.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        os.replace(temporary, target)


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def exclusive(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other processes that ask for the same path out, until the block ends or the process does.

    What a killed process has left of the file under temporary names is removed.

    Raises:
        FileInUseError: another process is at it.
    """
    lock = Path(path).with_name(f".{Path(path).name}.lock")
    descriptor = _locked(lock)
    if descriptor is None:
        raise FileInUseError(f"another process is writing {path}: wait for it, or choose another path.")
    try:
        # What follows the name holds no dot, or it would be another file's.
        part = re.compile(rf"\.{re.escape(Path(path).name)}\.[^.]*{re.escape(_PART)}")
        for left in lock.parent.iterdir():
            if part.fullmatch(left.name):
                left.unlink(missing_ok=True)
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(lock: Path) -> int | None:
    import fcntl

    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its last holder may have removed the file between our opening and locking it.
            if os.path.samestat(os.stat(lock), os.fstat(descriptor)):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass  # removed
        os.close(descriptor)


@contextmanager
def _beside(target: Path, put: Callable[[Path, Path], None]) -> Iterator[Path]:
    """An empty file beside the target, put in its place when the block ends well; its own name is gone in any case."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=_PART)
    temporary = Path(name)
    try:
        os.close(descriptor)
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # as an ordinary new file
        _flush(temporary)
        put(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    _flush(target.parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class TwiceError(ValueError):
    """A JSON object holds a name twice; its text is the name."""


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object from its pairs, for `object_pairs_hook`; a name that stands twice is refused."""
    value: dict[str, Any] = {}
    for name, item in pairs:
        if name in value:
            raise TwiceError(name)
        value[name] = item
    return value


def strict_json(path: str | os.PathLike[str], what: str) -> tuple[Any, str]:
    """The value in a JSON file, and what is wrong with the file, in words: nothing if that is empty.

    Nothing is raised: an error that replaces another keeps it, and with it the whole file.
    """
    try:
        return strict_value(Path(path).read_text(encoding="utf-8")), ""
    except UnicodeError:
        return None, f"is not a text file, so not a {what}"
    except OSError as error:
        return None, f"cannot be read: {error.strerror}"
    except (ValueError, RecursionError):
        return None, "is not complete JSON: it was truncated, or is another file"


def strict_value(text: str) -> Any:
    """The value of a JSON text; a ValueError (UnicodeError for halves of characters), or RecursionError, if none."""
    value = json.loads(text, object_pairs_hook=unique_names, parse_constant=no_constants)
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # halves of characters could not be written again
    return value


def checksum_of(body: Mapping[str, Any]) -> str:
    """SHA-256 of canonical JSON: guards against accidents, not against forgery."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def no_constants(name: str) -> float:
    """Refuse NaN and infinities, for `parse_constant`."""
    raise ValueError(f"{name} is not JSON")
