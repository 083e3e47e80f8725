"""A fixed public list of bins for numbers of any size: what `find_bounds` counts in when nobody knows the bounds.

Bins are octaves, from one power of two to the next, each divided evenly, for both signs; one more is around zero. So a
bin is narrow beside the numbers in it, whatever their unit. The last bin at either end holds what is larger than all of
this, and the upper one also what is missing: nothing is concluded from these two.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

LEAST, MOST = -32, 64  # powers of two: smaller numbers count as zero, larger ones are not looked at
PER_OCTAVE: Final = 16
N_OCTAVES: Final = MOST - LEAST
N_PLACES: Final = N_OCTAVES * PER_OCTAVE  # of each sign
N_BINS: Final = 2 * N_PLACES + 3  # and zero, and the two ends
END: Final = 2.0**MOST


def place_of(x: ArrayLike) -> Any:
    """The place of numbers among the bins, counted from zero, negative for negative ones.

    >>> place_of([0.0, 2.0**-32, -(2.0**-32), 2.0**64, 1e300]).tolist()
    [0.0, 1.0, -1.0, 1537.0, 1537.0]
    """
    x = np.clip(np.asarray(x, dtype=np.float64), -END, END)
    fraction, exponent = np.frexp(np.abs(x))  # a fraction of at least a half, exactly
    within = np.floor((2.0 * fraction - 1.0) * PER_OCTAVE)
    place = (exponent - 1.0 - LEAST) * PER_OCTAVE + within + 1.0
    return np.sign(x) * np.maximum(place, 0.0)


def value_at(place: ArrayLike) -> Any:
    """A number of the bin at a place; half-way between two places, the number between the two bins, exactly.

    >>> value_at(place_of(1000.0)), value_at(place_of(1000.0) + 0.5)
    (np.float64(1008.0), np.float64(1024.0))
    """
    place = np.clip(np.round(np.asarray(place, dtype=np.float64) * 2.0) / 2.0, -N_PLACES - 0.5, N_PLACES + 0.5)
    octave, within = np.divmod(np.abs(place) - 0.5, PER_OCTAVE)
    size = np.ldexp(1.0 + within / PER_OCTAVE, (octave + LEAST).astype(np.int64))
    return np.sign(place) * np.where(np.abs(place) < 0.5, 0.0, size)


def edges_of(first: int, last: int) -> tuple[float, float]:
    """The ends of a range of bins, by their places; of the bin around zero, zero itself."""
    low = 0.0 if first == 0 else float(value_at(first - 0.5))
    high = 0.0 if last == 0 else float(value_at(last + 0.5))
    return low, high
