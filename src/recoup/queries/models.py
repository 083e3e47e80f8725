"""What one step of training a model asks of the records: gradients of a logistic loss, or the statistics of a mixture.

A gradient is clipped to one length. Of a spherical Gaussian mixture, a record is shared among the components by its
responsibilities, which add up to 1. So it moves all components together no further than it would move one: each
component's sums are measured from its own mean and clipped to its own radius, and noise grows with the component and
not with the domain.
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
from recoup.kernels.models import log_scales, logistic_gradients, mixture_rows, mixture_totals
from recoup.queries import base
from recoup.queries.base import Array, Block, Integers, Records, Sensitivity, SimpleQuery, bounded_block

LARGEST_COEFFICIENT = 2.0**20  # a decision of a few thousand such columns is still far from overflow
_LARGEST_MEAN = 2.0**20  # far outside the unit domain, and far inside what clipping can be computed with
_FIELDS = ("weights", "variances", "radii", "reaches")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogisticGradientQuery(SimpleQuery):
    """The number of records, and the sum of their gradients at a state of logistic regression.

    A record of the unit domain is its features x and, as its last column, its label y. It adds a 1 and the gradient of
    log(1 + exp(-s (w x + b))) in (w, b), where s is the sign of y, positive from 0 on; a gradient longer than `clip` is
    scaled back to it.

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
        within = f"within +-{LARGEST_COEFFICIENT:g}: one for each feature, then the intercept"
        base.keep_numbers(self, "coefficients", 1, LARGEST_COEFFICIENT, f"coefficients must be numbers {within}.")
        if isinstance(self.clip, bool) or not isinstance(self.clip, int | float) or not GRID**-1 <= self.clip <= GRID:
            raise ParameterError(f"clip={self.clip!r}: give a number between 2^-30 and 2^30.")
        base.check_norm(self.norm)
        object.__setattr__(self, "clip", float(self.clip))
        base.check_size(self.size)

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
        base.check_columns(self, domain)
        gradient = Block.of_clipped("gradient", np.array([self.clip]), self.n_columns, self.norm)
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
        return base.sum_over_ranges(lambda a, b: base.sum_of_contributions(self, records[a:b], factors), len(records))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a query back from its JSON value."""
        missing = {"clip", "norm"} - set(value)
        if missing:
            raise TranscriptFormatError(f"a logistic-gradient query misses {', '.join(sorted(missing))}.")
        return cls(coefficients=base.read_array(value, "coefficients", 1), clip=value["clip"], norm=value["norm"])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixtureQuery(SimpleQuery):
    """Responsibilities, and the sums and squared lengths that they weight, for each component of a mixture.

    With r the responsibility of a component of mean m, the answer is the k values of r, then k x d sums of
    r clip(x - m), row by row, then k sums of r (min(|x - m|^2, reach^2) - reach^2 / 2).

    Args:
        means: (k, d), in the unit domain.
        weights: (k,) positive; only their ratios matter.
        variances: (k,) of any one column.
        radii: (k,) to which x - m is scaled back, in the given norm.
        reaches: (k,) at which the length |x - m| is cut off.
        norm: the norm of the clipping: 1 for Laplace, 2 for Gaussian noise.

    Guarantees: responsibilities are at least 0 and add up to 1, so one record changes them together by at most 1 in
    both norms, the sums by the weighted mean of the radii, and the squared lengths by that of reach^2 / 2, for every
    record.

    >>> two = np.ones(2)
    >>> query = MixtureQuery(weights=two, means=np.array([[-1.0], [1.0]]), variances=two, radii=two, reaches=two)
    >>> query.contribution(np.array([[0.0]])).round(6)
    array([[ 0.5 ,  0.5 ,  0.5 , -0.5 ,  0.25,  0.25]])
    """

    means: Array
    weights: Array
    variances: Array
    radii: Array
    reaches: Array
    norm: int = 2

    type_name: ClassVar[str] = "mixture"

    def __post_init__(self) -> None:
        within = f"within +-{_LARGEST_MEAN:g}, with k and d at least 1"
        base.keep_numbers(self, "means", 2, _LARGEST_MEAN, f"means must be a (k, d) array of numbers {within}.")
        base.check_norm(self.norm)
        for name in _FIELDS:
            base.keep_radii(self, name, self.n_components, "for each component")
        base.check_size(self.size)

    @property
    def n_components(self) -> int:
        """The number of components, k."""
        return int(self.means.shape[0])

    @property
    def n_columns(self) -> int:
        """Columns that a record must have."""
        return int(self.means.shape[1])

    @property
    def size(self) -> int:
        """Values in the answer."""
        return self.n_components * (self.n_columns + 2)

    def sensitivity(self, domain: Domain) -> Sensitivity:
        """Bounds on one record's contribution: 1, the radii, and half the squared reaches."""
        base.check_columns(self, domain)
        k = self.n_components
        return Sensitivity(
            (
                bounded_block("count", k, l1=1.0, total=1.0),
                Block.of_clipped("sum", self.radii, self.n_columns, self.norm),
                bounded_block("square", k, l1=0.5 * self.reaches**2),
            )
        )

    def contribution(self, x: Array) -> Array:
        """What each record of the unit domain, (n, d), adds to the answer: (n, size)."""
        x = np.ascontiguousarray(x, dtype=np.float64)
        rows, state = np.empty((len(x), self.size)), self._state()
        over_row_ranges(lambda a, b: mixture_rows(x[a:b], *state, rows[a:b]), len(x))
        return rows

    def integer_total(self, records: Records, factors: Array) -> Integers:
        """The sum over records of trunc(contribution * factors), by one fused pass on both cores."""
        state, factors = self._state(), np.ascontiguousarray(factors, dtype=np.float64)

        def part(start: int, stop: int) -> Integers:
            totals = np.zeros(self.size, dtype=np.int64)
            mixture_totals(records[start:stop], *state, factors, totals)
            return totals

        return base.sum_over_ranges(part, len(records))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a query back from its JSON value."""
        fields = {name: base.read_array(value, name, 1) for name in _FIELDS}
        return cls(means=base.read_array(value, "means", 2), **fields, norm=value.get("norm", 0))

    def _state(self) -> tuple[Array, Array, Array, Array, Array, int]:
        # Copies, so that the kernels are compiled for one kind of array only.
        means, variances, radii, reaches = (a.copy() for a in (self.means, self.variances, self.radii, self.reaches))
        return log_scales(self.weights.copy(), variances, self.n_columns), means, variances, radii, reaches, self.norm
