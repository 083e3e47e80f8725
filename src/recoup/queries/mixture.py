"""The sufficient statistics of a spherical Gaussian mixture at one state: the query of a private EM step.

A record is shared among the components by its responsibilities, which add up to 1. So it moves all components together
no further than it would move one: each component's sums are measured from its own mean and clipped to its own radius,
and noise grows with the component and not with the domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from recoup._threads import over_row_ranges
from recoup.domain import Domain
from recoup.errors import ParameterError
from recoup.kernels import GRID
from recoup.kernels.models import log_scales, mixture_rows, mixture_totals
from recoup.queries.base import (
    Array,
    Block,
    Integers,
    Records,
    Sensitivity,
    check_columns,
    check_size,
    read_array,
    sum_parts,
)

_LARGEST_MEAN = 2.0**20  # far outside the unit domain, and far inside what clipping can be computed with
_FIELDS = ("weights", "variances", "radii", "reaches")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixtureQuery:
    """Responsibilities, and the sums and squared lengths that they weight, for each component of a mixture.

    With r the responsibility of a component of mean m, the answer is the k values of r, then k x d sums of
    r clip(x - m), row by row, then k sums of r (min(|x - m|^2, reach^2) - reach^2 / 2).

    Args:
        weights: (k,) positive; only their ratios matter.
        means: (k, d), in the unit domain.
        variances: (k,) of any one column.
        radii: (k,) to which x - m is scaled back, in the given norm.
        reaches: (k,) up to which the length |x - m| is seen.
        norm: the norm of the clipping: 1 for Laplace, 2 for Gaussian noise.

    Guarantees: responsibilities are at least 0 and add up to 1, so one record changes them together by at most 1 in
    both norms, the sums by the weighted mean of the radii, and the squared lengths by that of reach^2 / 2; for every
    record whatsoever.

    >>> two = np.ones(2)
    >>> query = MixtureQuery(weights=two, means=np.array([[-1.0], [1.0]]), variances=two, radii=two, reaches=two)
    >>> query.contribution(np.array([[0.0]])).round(6)
    array([[ 0.5 ,  0.5 ,  0.5 , -0.5 ,  0.25,  0.25]])
    """

    weights: Array
    means: Array
    variances: Array
    radii: Array
    reaches: Array
    norm: int = 2

    type_name: ClassVar[str] = "mixture"

    def __post_init__(self) -> None:
        means = np.ascontiguousarray(self.means, dtype=np.float64).copy()
        if means.ndim != 2 or 0 in means.shape or not (np.abs(means) <= _LARGEST_MEAN).all():
            raise ParameterError(
                f"means must be a (k, d) array of numbers within +-{_LARGEST_MEAN:g}, with k and d at least 1."
            )
        if self.norm not in (1, 2):
            raise ParameterError(f"norm={self.norm!r}: choose 1 (Laplace) or 2 (Gaussian).")
        means.setflags(write=False)
        object.__setattr__(self, "means", means)
        for name in _FIELDS:
            values = np.ascontiguousarray(getattr(self, name), dtype=np.float64).copy()
            if values.shape != means.shape[:1] or not ((values >= GRID**-1) & (values <= GRID)).all():
                raise ParameterError(
                    f"{name} must be {len(means)} numbers between 2^-30 and 2^30, one for each component."
                )
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        check_size(self.size)

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
        check_columns(self, domain)
        k, d = self.n_components, self.n_columns
        radii, squares, ones = np.repeat(self.radii, d), 0.5 * self.reaches**2, np.ones(k)
        return Sensitivity(
            (
                Block(name="count", size=k, l1=ones, l2=ones, total=1.0),
                Block(name="sum", size=k * d, l1=radii if self.norm == 1 else radii * np.sqrt(d), l2=radii),
                Block(name="square", size=k, l1=squares, l2=squares),
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

        return sum_parts(over_row_ranges(part, len(records)))

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        arrays = {name: getattr(self, name).tolist() for name in ("means", *_FIELDS)}
        return {"type": self.type_name, **arrays, "norm": self.norm}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a query back from its JSON value."""
        fields = {name: read_array(value, name, 1) for name in _FIELDS}
        return cls(means=read_array(value, "means", 2), **fields, norm=value.get("norm", 0))

    def _state(self) -> tuple[Array, Array, Array, Array, Array, int]:
        # Copies, so that the kernels are compiled for one kind of array only.
        means, variances, radii, reaches = (a.copy() for a in (self.means, self.variances, self.radii, self.reaches))
        return log_scales(self.weights.copy(), variances, self.n_columns), means, variances, radii, reaches, self.norm
