"""Counts on a regular grid over all columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from scipy.sparse import csr_array

from recoup.domain import Domain
from recoup.errors import TranscriptFormatError
from recoup.queries.base import Array, Integers, Records, Sensitivity
from recoup.queries.histogram import HistogramQuery, Marginal


@dataclass(frozen=True, slots=True, kw_only=True)
class GridQuery:
    """The number of records in each cell of a regular grid over the unit box.

    Args:
        sides: the number of bins along each column.

    Guarantees: a record changes one count by 1.

    >>> import numpy as np
    >>> GridQuery(sides=(2, 2)).contribution(np.array([[-0.5, 0.5]]))
    array([[0., 1., 0., 0.]])
    """

    sides: tuple[int, ...]

    type_name: ClassVar[str] = "grid"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sides", self.marginal.sides)

    @property
    def marginal(self) -> Marginal:
        """The grid as a marginal over all columns."""
        return Marginal(columns=tuple(range(len(self.sides))), sides=tuple(self.sides))

    @property
    def n_columns(self) -> int:
        """Columns that a record must have."""
        return len(self.sides)

    @property
    def size(self) -> int:
        """Values in the answer."""
        return self.marginal.size

    def sensitivity(self, domain: Domain) -> Sensitivity:
        """Bounds on one record's contribution: a single one."""
        return self._histogram().sensitivity(domain)

    def contribution(self, x: Array) -> Array | csr_array:
        """What each record of the unit domain, (n, d), adds to the answer: dense if small, CSR if large."""
        return self._histogram().contribution(x)

    def integer_total(self, records: Records, factors: Array) -> Integers:
        """The sum over records of trunc(contribution * factors), by one fused pass."""
        return self.marginal.integer_total(records, int(factors[0]))

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        return {"type": self.type_name, "sides": list(self.sides)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a query back from its JSON value."""
        sides = value.get("sides")
        if not isinstance(sides, list):
            raise TranscriptFormatError("a grid's sides must be a list of whole numbers.")
        return cls(sides=tuple(sides))

    def _histogram(self) -> HistogramQuery:
        return HistogramQuery(dimension=self.n_columns, marginals=(self.marginal,))
