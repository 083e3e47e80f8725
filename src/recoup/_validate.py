"""Checks of parameters that several places share."""

from __future__ import annotations

import numpy as np

from recoup.errors import ParameterError

_LARGEST_WHOLE = 2**31


def positive_whole(value: object, name: str) -> int:
    """Check that a parameter is a whole number of at least 1, and of ordinary size."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value < _LARGEST_WHOLE:
        # An integer of thousands of digits cannot even be printed.
        absurd = isinstance(value, int) and abs(value) >= _LARGEST_WHOLE
        shown = "too large" if absurd else f"{value!r:.60}"
        raise ParameterError(f"{name}={shown}: give a whole number of at least 1.")
    return int(value)
