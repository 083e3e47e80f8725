"""How many records a result rests on, from the released counts alone.

Every round whose counts add up to the number of records tells it once more. All of them together, each weighted by its
precision, tell it without bias. It costs nothing, since it reads only what was released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any

from recoup.maxent.fine_grid import reachable_cells
from recoup.queries.counts import as_grid
from recoup.transcript.context import Context
from recoup.transcript.round import Round

_HALF_WIDTH = 1.645  # standard deviations on each side of an estimate: nine times in ten the truth lies between
_NONE = 3.0  # standard deviations: an estimate below this many might be of an empty table


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """An unbiased estimate of the number of records; it may be negative where there are few.

    Attributes:
        estimate: the number.
        deviation: its standard deviation, which follows from the noise alone.

    >>> Records(estimate=42_913.0, deviation=180.0).sentence
    'rests on about 42,900 records (42,600 to 43,200)'
    >>> Records(estimate=31.0, deviation=40.0).sentence
    'rests on a number of records that cannot be told from none (0 to 97)'
    """

    estimate: float
    deviation: float

    @property
    def low(self) -> float:
        """The lower end of the 90% interval, at least 0."""
        return max(self.estimate - _HALF_WIDTH * self.deviation, 0.0)

    @property
    def high(self) -> float:
        """The upper end of the 90% interval, at least 0."""
        return max(self.estimate + _HALF_WIDTH * self.deviation, 0.0)

    @property
    def could_be_none(self) -> bool:
        """Whether the counts of an empty table might look like this."""
        return self.estimate < _NONE * self.deviation

    @property
    def sentence(self) -> str:
        """The estimate with its interval, in words, without digits that mean nothing."""
        if self.could_be_none:
            return f"rests on a number of records that cannot be told from none (0 to {self.high:,.0f})"
        step = 10.0 ** max(floor(log10(max(self.deviation, 1.0))), 0)
        about, low, high = (round(value / step) * step for value in (self.estimate, self.low, self.high))
        return f"rests on about {about:,.0f} records ({low:,.0f} to {high:,.0f})"

    def to_json(self) -> dict[str, Any]:
        """A JSON value."""
        return {
            "estimate": self.estimate,
            "deviation": self.deviation,
            "low": self.low,
            "high": self.high,
            "could_be_none": self.could_be_none,
            "sentence": self.sentence,
        }


def records_of(context: Context, rounds: Sequence[Round]) -> Records | None:
    """Estimate the number of records from all counts that add up to it, each total weighted by its precision.

    Args:
        context: the terms of the release.
        rounds: queries with their noisy answers.

    Returns:
        The estimate; none where no round counts all records, so that their number cannot be told.

    Guarantees: reads nothing but its arguments, so it costs no privacy; without bias, as noise has none.

    >>> from recoup import Box, KMeans, release
    >>> terms = {"domain": Box([0], [1]), "noise": "simulated", "random_state": 0}
    >>> transcript = release(KMeans(n_clusters=2), [[0.3]] * 4000, epsilon=1, **terms)
    >>> records_of(transcript.context, transcript.rounds).sentence
    'rests on about 3,982 records (3,967 to 3,997)'
    """
    weighted = precision = 0.0
    for answered in rounds:
        for block, part in answered.query.sensitivity(context.domain).parts():
            if block.total is None:
                continue
            values, scales = answered.noisy[part], answered.scales[part]
            if grid := as_grid(answered.query):
                reachable = reachable_cells(grid, context.domain)
                values, scales = values[reachable], scales[reachable]
            estimate = values.sum() / block.total
            variance = answered.noise.deviation(1.0) ** 2 * float((scales**2).sum()) / block.total**2
            weighted += estimate / variance
            precision += 1.0 / variance
    if precision == 0.0:
        return None
    return Records(estimate=float(weighted / precision), deviation=float(precision**-0.5))
