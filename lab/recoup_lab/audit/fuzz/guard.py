"""What may happen while a file is read: a result or a typed error, soon, in little memory, and nothing else.

Python itself reports what a program does (its audit events): while a case runs, nothing may be executed, imported,
sent, started, removed, or opened but the case's own file. What runs in libraries of C is not reported; there it is seen
that a planted file beside the case is not quoted and that no file appears.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

from recoup.errors import RecoupError

MEMORY: Final = 1 << 30  # more than before the first case
LONGEST_MESSAGE: Final = 4_000  # characters

_NEVER: Final = (
    *(
        "exec",
        "compile",
        "import",
        "marshal.",
        "pickle.",
        "code.__new__",
        "function.__new__",
        "ctypes.dlopen",
        "socket.",
    ),
    *(
        "subprocess.",
        "os.system",
        "os.exec",
        "os.fork",
        "os.posix_spawn",
        "os.spawn",
        "os.kill",
        "os.remove",
        "os.rename",
    ),
    *("os.link", "os.symlink", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "os.chown", "os.putenv", "shutil."),
    *("tempfile.", "urllib.", "http.", "webbrowser.", "sqlite3.enable_load_extension", "sqlite3.load_extension"),
)


class Hang(BaseException):
    """A case took too long. Not an `Exception`: the code under test must not catch it."""


@dataclass(slots=True)
class Outcome:
    """What became of one case.

    Attributes:
        kind: "accepted", "refused", or what went wrong.
        text: the message of a refusal, or where it went wrong.
    """

    kind: str
    text: str = ""

    @property
    def wrong(self) -> bool:
        """Whether the case is a finding."""
        return self.kind not in ("accepted", "refused")


@dataclass(slots=True)
class Guard:
    """Watches one process; made once, since an audit hook stays.

    Attributes:
        secret: text of a file that no case may read.
        seconds: for one case.
    """

    secret: str
    seconds: float
    _own: frozenset[str] = frozenset()
    _active: bool = False
    _broken: list[str] = field(default_factory=list)

    def start(self) -> None:
        """Bound the memory, take warnings for errors, and listen from now on."""
        with open("/proc/self/statm", encoding="ascii") as file:
            now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, resource.RLIM_INFINITY))
        warnings.simplefilter("error")
        signal.signal(signal.SIGALRM, _too_long)
        sys.addaudithook(self._hear)

    def run(
        self,
        load: Callable[[], object],
        errors: tuple[type[RecoupError], ...],
        own: frozenset[str],
        *,
        large: bool = False,
    ) -> Outcome:
        """Run one case.

        Args:
            load: reads the file and looks at what was read; an AssertionError says that it should have been refused.
            errors: the typed errors that it may raise.
            own: the names of the case's own files.
            large: such files may need all memory, which they may be refused for.
        """
        self._own, self._active = own, True
        self._broken.clear()
        caught: BaseException | None = None
        signal.setitimer(signal.ITIMER_REAL, self.seconds)
        try:
            load()
        except BaseException as error:  # whatever comes out is what we look for
            caught = error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._active = False
        return Outcome("forbidden", self._broken[0]) if self._broken else self._judged(caught, errors, large)

    def _judged(self, error: BaseException | None, errors: tuple[type[RecoupError], ...], large: bool) -> Outcome:
        if error is None:
            return Outcome("accepted")
        if isinstance(error, Hang):
            return Outcome("hang", _where(error))
        if not isinstance(error, errors):
            return Outcome(f"untyped {type(error).__name__}", _where(error))
        if _ran_out_of_memory(error) and not large:
            return Outcome("out of memory", _where(error))
        message = str(error)
        if len(message) > LONGEST_MESSAGE:
            return Outcome("endless message", f"{type(error).__name__} of {len(message)} characters: {message[:80]!r}")
        if self.secret in message:
            return Outcome("path escape", "a message quotes a file that is none of the case's business")
        return Outcome("refused", f"{type(error).__name__}: {message}")

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._active:
            return
        if event == "open":
            path, mode, flags = arguments
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if str(path) not in self._own or writes:
                self._broken.append(f"opened {path!r:.100} in mode {mode!r}")
        elif event == "sqlite3.connect":
            if not any(name in str(arguments[0]) for name in self._own):
                self._broken.append(f"connected to {arguments[0]!r:.100}")
        elif event.startswith(_NEVER):
            self._broken.append(f"{event} {arguments!r:.100}")


def _too_long(number: int, frame: FrameType | None) -> None:
    raise Hang


def _ran_out_of_memory(error: BaseException | None) -> bool:
    """Whether a typed error hides that all memory was taken."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__context__
    return False


def _where(error: BaseException) -> str:
    """The end of a traceback, and the text."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    names = " > ".join(f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames)
    try:
        text = str(error)[:200]
    except Exception:
        text = "(without a text)"
    return f"{names}: {text}"
