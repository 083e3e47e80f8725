"""A count and the sum of clipped gradients of the logistic loss: the query of private gradient descent.

A record is its features and, as its last column, its label: a value of at least 0 is the positive class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from recoup._threads import over_row_ranges
from recoup.domain import Domain
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.kernels import GRID
from recoup.kernels.models import logistic_gradients
from recoup.queries.base import (
    Array,
    Block,
    Integers,
    Records,
    Sensitivity,
    check_columns,
    check_size,
    read_array,
    sum_of_contributions,
    sum_parts,
)

LARGEST_COEFFICIENT = 2.0**20  # a decision of a few thousand such columns is still far from overflow


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogisticGradientQuery:
    """The number of records, and the sum of their gradients at a state of logistic regression.

    A record (x, y) of the unit domain adds a 1 and the gradient of log(1 + exp(-s (w x + b))) in (w, b), where s is the
    sign of y; a gradient longer than `clip` is scaled back to it.

    Args:
        coefficients: (d + 1,), one for each feature, then the intercept.
        clip: the longest gradient, from 2^-30 to 2^30.
        norm: in what it is measured: 1 for Laplace, 2 for Gaussian noise.

    Guarantees: a record changes the count by 1 and the gradient by at most `clip` in the given norm, whatever its
    features are.

    >>> query = LogisticGradientQuery(coefficients=np.zeros(2), clip=1.0)
    >>> query.contribution(np.array([[0.5, 1.0], [0.5, -1.0]]))
    array([[ 1.  , -0.25, -0.5 ],
           [ 1.  ,  0.25,  0.5 ]])
    """

    coefficients: Array
    clip: float
    norm: int = 2

    type_name: ClassVar[str] = "logistic-gradient"

    def __post_init__(self) -> None:
        coefficients = np.ascontiguousarray(self.coefficients, dtype=np.float64).copy()
        if coefficients.ndim != 1 or coefficients.size < 1 or not (np.abs(coefficients) <= LARGEST_COEFFICIENT).all():
            raise ParameterError(
                f"coefficients must be numbers within +-{LARGEST_COEFFICIENT:g}: one for each feature, then the "
                "intercept."
            )
        if isinstance(self.clip, bool) or not isinstance(self.clip, int | float) or not GRID**-1 <= self.clip <= GRID:
            raise ParameterError(f"clip={self.clip!r}: give a number between 2^-30 and 2^30.")
        if isinstance(self.norm, bool) or self.norm not in (1, 2):
            raise ParameterError(f"norm={self.norm!r}: choose 1 (Laplace) or 2 (Gaussian).")
        coefficients.setflags(write=False)
        object.__setattr__(self, "coefficients", coefficients)
        object.__setattr__(self, "clip", float(self.clip))
        check_size(self.size)

    @property
    def n_columns(self) -> int:
        """Columns that a record must have: the features and the label."""
        return int(self.coefficients.size)

    @property
    def size(self) -> int:
        """Values in the answer."""
        return self.n_columns + 1

    def sensitivity(self, domain: Domain) -> Sensitivity:
        """Bounds on one record's contribution: 1 for the count, the clip for the gradient."""
        check_columns(self, domain)
        l2 = np.full(self.n_columns, self.clip)
        l1 = l2 if self.norm == 1 else l2 * np.sqrt(self.n_columns)
        gradient = Block(name="gradient", size=self.n_columns, l1=l1, l2=l2)
        return Sensitivity((Block.of_counts("count", 1), gradient))

    def contribution(self, x: Array) -> Array:
        """What each record of the unit domain, (n, d + 1), adds to the answer: a 1, then its gradient."""
        x = np.ascontiguousarray(x, dtype=np.float64)
        rows = np.empty((len(x), self.size))
        # A copy, so that the kernel is compiled for one kind of array only.
        logistic_gradients(x, self.coefficients.copy(), self.clip, self.norm, rows)
        return rows

    def integer_total(self, records: Records, factors: Array) -> Integers:
        """The sum over records of trunc(contribution * factors), exact."""
        parts = over_row_ranges(lambda a, b: sum_of_contributions(self, records[a:b], factors), len(records))
        return sum_parts(parts)

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        coefficients = self.coefficients.tolist()
        return {"type": self.type_name, "coefficients": coefficients, "clip": self.clip, "norm": self.norm}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a query back from its JSON value."""
        missing = {"clip", "norm"} - set(value)
        if missing:
            raise TranscriptFormatError(f"a logistic-gradient query misses {', '.join(sorted(missing))}.")
        return cls(coefficients=read_array(value, "coefficients", 1), clip=value["clip"], norm=value["norm"])
