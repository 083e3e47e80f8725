"""Bad loaders, planted to see that the fuzzer's guard catches what it is there for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from recoup.errors import ParameterError, RecoupError
from recoup_lab.audit.fuzz.workers import SECRET, WARM_UP


class Planted:
    """A loader with one fault.

    Args:
        load: what it does with a file.
        caught_as: how the finding begins.
    """

    errors: tuple[type[RecoupError], ...] = (ParameterError,)

    def __init__(self, load: Callable[[Path], object], caught_as: str) -> None:
        self._load, self.caught_as = load, caught_as
        self._n_cases = 0

    def __call__(self) -> Planted:
        """A target, as the class of another would make."""
        return self

    def case(self, rng: Random, folder: Path) -> tuple[Callable[[], object], frozenset[str]]:
        """A case that falls for the fault once the guard is listening."""
        path = folder / "file.txt"
        path.write_text("1 + 1")
        self._n_cases += 1
        if self._n_cases <= WARM_UP:
            return lambda: None, frozenset()
        return lambda: self._load(path), frozenset({str(path)})


def _untyped(path: Path) -> None:
    raise KeyError("epsilon")


def _executes(path: Path) -> object:
    return eval(path.read_text())  # the planted fault


def _imports(path: Path) -> Any:
    import colorsys

    return colorsys


def _writes(path: Path) -> None:
    (path.parent / "more.txt").write_text("")


def _reads_elsewhere(path: Path) -> None:
    (path.parent.parent / "secret.json").read_text()


def _quotes_elsewhere(path: Path) -> None:
    # As if a library of C had read it: that is not reported.
    raise ParameterError(f"unreadable: {SECRET}")


def _asks_the_network(path: Path) -> None:
    import socket

    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()


def _starts_a_process(path: Path) -> None:
    os.system("true")


def _takes_memory(path: Path) -> None:
    bytearray(2 << 30)


def _warns(path: Path) -> None:
    import warnings

    warnings.warn("overflow", RuntimeWarning, stacklevel=1)


def _hangs(path: Path) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        pass


def _crashes(path: Path) -> None:
    os.abort()


PLANTED: Final[dict[str, Planted]] = {
    "untyped error": Planted(_untyped, "untyped KeyError"),
    "executes": Planted(_executes, "forbidden: compile"),
    "imports": Planted(_imports, "forbidden: import"),
    "writes": Planted(_writes, "forbidden: opened"),
    "reads elsewhere": Planted(_reads_elsewhere, "forbidden: opened"),
    "quotes elsewhere": Planted(_quotes_elsewhere, "path escape"),
    "network": Planted(_asks_the_network, "forbidden: socket"),
    "starts a process": Planted(_starts_a_process, "forbidden: os.system"),
    "takes memory": Planted(_takes_memory, "untyped MemoryError"),
    "warns": Planted(_warns, "untyped RuntimeWarning"),
    "hangs": Planted(_hangs, "hang"),
    "crashes": Planted(_crashes, "crash"),
}
