"""Where a column's numbers lie, from noisy counts in a fixed list of bins: one round, then decisions from it alone.

Bins are those of `recoup.octaves`. A stretch of them within an octave, of 1, 2, 4, 8 or 16, has records if its noisy
sum is larger than noise makes any of all stretches but once in 100,000 releases: a bin that is empty and taken for full
may be astronomically far away. The range of a column covers the octaves of all such stretches. It grows by neighbouring
octaves whose sum noise alone exceeds once in a thousand times, or in a hundred toward zero, where less is at stake: a
tail is thinner than the middle. Where a tail goes on below what can be seen, by the ratio of its last two octaves, one
octave is added; elsewhere the bins at an end that hold nothing beyond noise are left out. So noise makes a range too
wide rather than too narrow: clipped records cost more than a wide range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import log, log2
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import comb, factorial, ndtri

from recoup.algorithms.base import Algorithm, Rng, Rounds, column_names, last_of
from recoup.errors import ParameterError
from recoup.octaves import N_BINS, N_PLACES, PER_OCTAVE, edges_of, place_of
from recoup.queries.base import MAX_SIZE, Array
from recoup.queries.counts import HistogramQuery
from recoup.transcript.context import Context, Law, Request

FALSE_ALARM = 1e-5  # the chance that noise alone makes a record anywhere, in all columns together
_WIDTHS = tuple(2**i for i in range(PER_OCTAVE.bit_length()))
_NEXT, _NEXT_TO_ZERO = (
    0.001,
    0.01,
)  # the chance that noise alone makes a range grow by an octave: twice as wide, or less
_TRIMMED = 1.5  # deviations of noise that bins at an end may hold and still be left out
_FEW = 0.002  # of all records: so many are left out, too, if they are at most two such limits
_TAIL = 0.005  # of all records: so many unseen ones make one more octave of a tail
_TO_ZERO = 4.0  # a range that ends this many times nearer to zero than its other end goes to zero
# Where a log scale is suggested: what the ends differ by, and how many records lie in the lowest sixteenth.
_LOG_RANGE, _LOG_PART, _LOG_SHARE, _LOG_ZEROS = 64.0, 1 / 16, 0.5, 0.02


class Range(NamedTuple):
    """Where the numbers of a column were found.

    Attributes:
        first: the place of its lowest bin.
        last: that of its highest.
        log_low: the lower end of a logarithmic scale, where the counts ask for one; else none.
    """

    first: int
    last: int
    log_low: float | None

    @property
    def ends(self) -> tuple[float, float]:
        """Bounds: the outer edges of its bins, and zero where that is near by."""
        low, high = edges_of(self.first, self.last)
        if 0.0 < low * _TO_ZERO <= high:
            return 0.0, high
        if low <= high * _TO_ZERO < 0.0:
            return low, 0.0
        return (low, high) if low < high else edges_of(-1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindBounds(Algorithm):
    """Noisy counts of every column in a fixed list of bins; its answer is the range of each column.

    Guarantees: one round, which takes the whole budget; a record moves one count of each column.

    >>> FindBounds().to_json()
    {'type': 'bounds'}
    """

    type_name: ClassVar[str] = "bounds"

    def next_request(self, context: Context, rounds: Rounds, rng: Rng) -> Request | None:
        """All counts at once; none after them."""
        if rounds:
            return None
        d = context.domain.n_columns
        if d * N_BINS > MAX_SIZE:
            raise ParameterError(f"bounds of {d} columns: at most {MAX_SIZE // N_BINS} can be found at once.")
        query = HistogramQuery.one_way(dimension=d, bins=N_BINS)
        return Request(query=query, share=Fraction(1), split={"count": Fraction(1)})

    def estimate(self, context: Context, rounds: Rounds) -> Array:
        """The lower and the upper end of each column, (d, 2), in the unit domain; all of it where nothing was found."""
        places = [(-N_PLACES - 1, N_PLACES + 1) if r is None else r[:2] for r in ranges_of(context, rounds)]
        ends = np.add(places, [-0.5, 0.5])
        return np.clip(ends / (N_PLACES + 1), -1.0, 1.0)

    def refit(self, context: Context, rounds: Rounds, points: Array, weights: Array, rng: Rng) -> Array:
        """The same ranges: ends are decided from counts, and no data set that explains these knows better."""
        return self.estimate(context, rounds)

    def in_user_units(self, context: Context, answer: Array) -> Array:
        """The ends of each column in its own units."""
        return context.domain.from_unit(answer.T).T

    def answer_labels(self, context: Context) -> tuple[list[str], list[str]] | None:
        """Columns, and their two ends."""
        return column_names(context.domain), ["low", "high"]

    def planned_rounds(self, context: Context) -> tuple[int | None, bool]:
        """One."""
        return 1, False


def ranges_of(context: Context, rounds: Rounds) -> list[Range | None]:
    """The range of each column, from its noisy counts; none where these cannot be told from noise.

    Guarantees: where no record lies in any bin, some column has a range with a chance of at most `FALSE_ALARM`.
    """
    answered, d = last_of(rounds), context.domain.n_columns
    noise = _Noise(context.mechanism, float(answered.scales[0]))
    columns = answered.noisy.reshape(d, N_BINS)[:, 1:-1]
    return [_range(counts, noise, FALSE_ALARM / (d * len(_WIDTHS))) for counts in columns]


class _Noise(NamedTuple):
    law: Law
    scale: float

    def deviation(self, n: Any) -> Any:
        """Of the sum of so many values."""
        return self.scale * np.sqrt(n * (2.0 if self.law == "laplace" else 1.0))

    def exceeded(self, n: int, chance: float) -> float:
        """What the sum of so many values exceeds with at most this chance."""
        if self.law == "gaussian":
            return float(-self.deviation(n) * ndtri(chance))
        return self.scale * _laplace_exceeds(n, chance)


@lru_cache
def _laplace_exceeds(n: int, chance: float) -> float:
    from scipy.optimize import brentq

    places = np.arange(n)
    weights = comb(n - 1 + places, places) * 0.5 ** (n + places)

    def tail(x: float) -> float:
        """The chance of more than x: the sum is the difference of two gammas, so this is a polynomial times exp(-x)."""
        return float(np.exp(-x) * weights @ np.cumsum(x**places / factorial(places))[::-1])

    return float(brentq(lambda x: log(tail(x) / chance), 0.0, 100.0 + 10.0 * n))


def _range(counts: Array, noise: _Noise, chance: float) -> Range | None:
    octaves = _octaves(counts)
    full = [i for i, octave in enumerate(octaves) if _has_records(octave, noise, chance)]
    if not full:
        return None
    total = max(float(sum(octave.sum() for octave in octaves[full[0] : full[-1] + 1])), 1.0)
    mirrored = [octave[::-1] for octave in octaves[::-1]]
    first = -_outer_end(mirrored, len(octaves) - 1 - full[0], noise, total)
    last = _outer_end(octaves, full[-1], noise, total)
    return Range(first, last, _log_low(counts, first, last))


def _octaves(counts: Array) -> list[Array]:
    """The bins of each octave from the lowest numbers to the highest, the one around zero between them."""
    middle = slice(N_PLACES, N_PLACES + 1)
    return [*counts[:N_PLACES].reshape(-1, PER_OCTAVE), counts[middle], *counts[N_PLACES + 1 :].reshape(-1, PER_OCTAVE)]


def _has_records(octave: Array, noise: _Noise, chance: float) -> bool:
    return any(
        octave.reshape(-1, width).sum(axis=1).max() > noise.exceeded(width, chance * width / (2 * N_PLACES + 1))
        for width in _WIDTHS
        if width <= len(octave)
    )


def _outer_end(octaves: Sequence[Array], last: int, noise: _Noise, total: float) -> int:
    """The place of the last bin of a range whose last octave with records is this one; the last are the highest."""
    last = _grown(octaves, last, noise)
    goes_on = last + 1 < len(octaves) and _has_tail(octaves[last - 1], octaves[last], noise, total)
    stop = sum(map(len, octaves[: last + 1 + goes_on])) - N_PLACES
    return stop - 1 - (0 if goes_on else _n_trimmed(octaves[last][::-1], noise, total))


def _grown(octaves: Sequence[Array], last: int, noise: _Noise) -> int:
    """The last octave of a range after it grew by one at a time."""
    for following in range(last + 1, len(octaves)):
        chance = _NEXT if following > len(octaves) // 2 else _NEXT_TO_ZERO
        if octaves[following].sum() <= noise.exceeded(len(octaves[following]), chance):
            return following - 1
    return len(octaves) - 1


def _has_tail(before: Array, last: Array, noise: _Noise, total: float) -> bool:
    """Whether the last two octaves lead on, away from zero, to one with records that are too few to be seen there."""
    held = float(last.sum())
    if not len(before) == len(last) == PER_OCTAVE or not 0.0 < held < before.sum():
        return False
    ratio = held / float(before.sum())
    # A range that ends within its last octave has next to nothing in the upper half of it; a tail has this part there.
    upper = (ratio ** log2(1.5) - ratio) / (1.0 - ratio)
    ends_here = last[PER_OCTAVE // 2 :].sum() < 0.5 * upper * held
    unseen = min(held * ratio, noise.exceeded(PER_OCTAVE, _NEXT))
    return not ends_here and unseen > _TAIL * total


def _n_trimmed(octave: Array, noise: _Noise, total: float) -> int:
    """How many of the first bins hold nothing that can be told from noise, together, or next to nothing; never all."""
    n = np.arange(1, len(octave))
    limit = _TRIMMED * noise.deviation(n)
    left_out = np.cumsum(octave[:-1]) <= np.clip(_FEW * total, limit, 2.0 * limit)
    return int(n[left_out].max(initial=0))


def _log_low(counts: Array, first: int, last: int) -> float | None:
    """The lower end of a logarithmic scale where most records lie in a small part of a range of positive numbers."""
    first = max(first, 1) if first >= 0 else first
    low, high = edges_of(first, last)
    if not 0.0 < low * _LOG_RANGE <= high:
        return None
    split = int(place_of(high * _LOG_PART))
    lower, whole = (counts[N_PLACES + first : N_PLACES + end + 1].sum() for end in (split, last))
    few_zeros = counts[N_PLACES] <= _LOG_ZEROS * whole
    return low if few_zeros and lower >= _LOG_SHARE * whole else None
