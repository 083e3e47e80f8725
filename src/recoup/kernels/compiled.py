"""Compiled functions whose cache notices a change of any kernel.

numba compares a cached function with its own file alone. A constant or a function of another file is compiled into it
and stays as it was after an update in place; so a record that no longer counts would have been counted. Here the digest
of all kernels is part of the name under which each function is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from importlib.resources import files
from typing import Any

from numba import njit

_SOURCES = sorted((file.name, file.read_bytes()) for file in files(__package__).iterdir() if file.name.endswith(".py"))
_DIGEST = sha256(repr(_SOURCES).encode()).hexdigest()[:16]


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Numba's `njit`, kept on disk for as long as no kernel changes; without sources to compare, not kept."""

    def decorate(function: Callable[..., Any]) -> Any:
        function.__qualname__ += f"_{_DIGEST}"  # names the files of numba's cache
        # Said even where it is off: numba hands it down from whichever caller happens to be compiled first.
        return njit(cache=bool(_SOURCES), **{"fastmath": False} | options)(function)

    return decorate
