"""Count and sum of the records in each cell of a Voronoi partition: the query of k-means.

A record lies in the cell of its nearest centre (ties to the lowest index) and touches that cell alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from recoup._threads import over_row_ranges
from recoup._validate import choice
from recoup.domain import Domain
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.kernels.cells import (
    ABSOLUTE,
    NO_SUMS,
    RELATIVE,
    relative_values,
    single_precision_error,
    voronoi_totals,
)
from recoup.kernels.nearest import nearest_cells, reach_of
from recoup.queries import base
from recoup.queries.base import (
    Array,
    Asked,
    Block,
    Integers,
    Partition,
    Query,
    Records,
    RowBlock,
    Sensitivity,
    bounded_block,
)

Sums = Literal["none", "absolute", "relative"]
_LARGEST_CENTER = 2.0**20  # far outside the unit domain, and far inside what clipping can be computed with
_SUMS: dict[str, int] = {"none": NO_SUMS, "absolute": ABSOLUTE, "relative": RELATIVE}


def _read_only(points: Array) -> Array:
    """The same points, such that a kernel is compiled once, whether they may be written to or not."""
    view = np.ascontiguousarray(points, dtype=np.float64).view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VoronoiQuery:
    """Counts, and sums if wanted, of the records nearest to each centre.

    The answer is the k counts, then the k x d sums row by row, then the k sums of squares.

    Args:
        centers: (k, d), in the unit domain.
        sums: "none"; "absolute", the plain vector sum as in the paper; or "relative", the sum of x - centre, each
            scaled back to the cell's radius, so that the noise depends on the size of the cell and not of the domain.
        radii: (k,) clipping radii from 2^-30 to 2^30, for relative sums only.
        norm: the norm of the clipping: 1 for Laplace, 2 for Gaussian noise.
        squares: whether to ask also for the sum of the squared distance of each record from its centre, in that norm
            and at most the squared radius; for relative sums only.

    Guarantees: a record changes one count by 1, one cell's sum by at most the domain's bound (absolute) or the cell's
    radius in the given norm (relative), and one cell's sum of squares by at most the square of the radius.

    >>> query = VoronoiQuery(centers=np.array([[-0.5], [0.5]]))
    >>> query.contribution(np.array([[-0.2], [0.9]]))
    array([[ 1. ,  0. , -0.2,  0. ],
           [ 0. ,  1. ,  0. ,  0.9]])
    """

    centers: Array
    sums: Sums = "absolute"
    radii: Array | None = None
    norm: int = 1
    squares: bool = False

    type_name: ClassVar[str] = "voronoi"

    def __post_init__(self) -> None:
        within = f"within +-{_LARGEST_CENTER:g}, with k and d at least 1"
        base.keep_numbers(self, "centers", 2, _LARGEST_CENTER, f"centers must be a (k, d) array of numbers {within}.")
        choice(self.sums, "sums", _SUMS)
        base.check_norm(self.norm)
        if (self.radii is None) == (self.sums == "relative"):
            raise ParameterError("relative sums need radii, and only they do.")
        if not isinstance(self.squares, bool) or (self.squares and self.radii is None):
            raise ParameterError("squares is True or False, and True for relative sums only.")
        if self.radii is not None:
            base.keep_radii(self, "radii", self.n_cells, "for each cell")
        base.check_size(self.size)

    @property
    def n_cells(self) -> int:
        """The number of cells, k."""
        return int(self.centers.shape[0])

    @property
    def n_columns(self) -> int:
        """Columns that a record must have."""
        return int(self.centers.shape[1])

    @property
    def size(self) -> int:
        """Values in the answer."""
        return self.n_cells * (1 if self.sums == "none" else 1 + self.n_columns + self.squares)

    def sensitivity(self, domain: Domain) -> Sensitivity:
        """Bounds on one record's contribution: 1 for counts, the domain's or the cell's radius for sums; its square."""
        base.check_columns(self, domain)
        k, d = self.n_cells, self.n_columns
        blocks = [Block.of_counts("count", k)]
        if self.radii is not None:
            blocks.append(Block.of_clipped("sum", self.radii, d, self.norm))
            if self.squares:
                blocks.append(bounded_block("square", k, l1=self.radii**2))
        elif self.sums != "none":
            blocks.append(bounded_block("sum", k * d, l1=domain.sum_bound(1), l2=domain.sum_bound(2)))
        return Sensitivity(tuple(blocks))

    def asked(self) -> Asked:
        """Counts, and sums if wanted, in so many cells; a single cell without sums is the number of records."""
        k, cells = self.n_cells, f"{self.n_cells:,} {'cell' if self.n_cells == 1 else 'cells'}"
        if self.sums != "none":
            return Asked(
                "sums", k, f"counts, sums and squares in {cells}" if self.squares else f"counts and sums in {cells}"
            )
        return Asked("total", k, "the number of records") if k == 1 else Asked("counts", k, f"counts in {cells}")

    def cells(self, x: Array) -> NDArray[np.int64]:
        """The cell of each point of the unit domain."""
        x, centers = _read_only(x), self.centers.copy()
        cells, error = np.empty(len(x), dtype=np.int64), single_precision_error(centers, reach_of(x))
        over_row_ranges(lambda a, b: nearest_cells(x[a:b], centers, error, cells[a:b]), len(x))
        return cells

    def values(self, x: Array, cells: NDArray[np.int64]) -> Array:
        """What each point, given its cell, adds to that cell's sum: (n, d)."""
        return self.values_and_squares(x, cells)[0]

    def values_and_squares(self, x: Array, cells: NDArray[np.int64]) -> tuple[Array, Array]:
        """What each point, given its cell, adds to that cell's sum, (n, d), and sum of squares, (n,)."""
        if self.radii is None:
            return np.ascontiguousarray(x, dtype=np.float64), np.zeros(len(x))
        x = _read_only(x)
        values, squares = np.empty(x.shape), np.empty(len(x))
        given = (self.centers.copy(), self.radii.copy(), self.norm)

        def part(start: int, stop: int) -> None:
            own = slice(start, stop)
            relative_values(x[own], cells[own], *given, values[own], squares[own])

        over_row_ranges(part, len(x))
        return values, squares

    def sums_of(self, answer: Array) -> Array:
        """The part of an answer, or of its scales, that is the sums: (k, d)."""
        k, d = self.centers.shape
        return answer[k : k * (1 + d)].reshape(k, d)

    def solver_rows(self, points: Array) -> list[RowBlock]:
        """Its rows on support points: each lies in one cell."""
        cells, m = self.cells(points), len(points)
        if self.sums == "none":
            return [Partition(cells=cells, n_cells=self.n_cells)]
        values, squares = self.values_and_squares(points, cells)
        rows: list[RowBlock] = [Partition(cells=cells, n_cells=self.n_cells, values=values)]
        if self.squares:
            rows.append(csr_array((squares, cells, np.arange(m + 1)), shape=(m, self.n_cells)))
        return rows

    def contribution(self, x: Array) -> Array | csr_array:
        """What each record of the unit domain, (n, d), adds to the answer: dense if small, CSR if large."""
        n, k, d = len(x), self.n_cells, self.n_columns
        cells = self.cells(x)
        width = self.size // k
        indices = np.empty((n, width), dtype=np.int64)
        indices[:, 0] = cells
        data = np.ones((n, width))
        if width > 1:
            indices[:, 1 : 1 + d] = k + cells[:, None] * d + np.arange(d)
            data[:, 1 : 1 + d], squares = self.values_and_squares(x, cells)
        if self.squares:
            indices[:, -1], data[:, -1] = k * (1 + d) + cells, squares
        rows = csr_array((data.ravel(), indices.ravel(), np.arange(n + 1) * width), shape=(n, self.size))
        return rows if self.size > 64 else rows.toarray()

    def integer_total(self, records: Records, factors: Array) -> Integers:
        """The sum over records of trunc(contribution * factors), by one fused pass on both cores."""
        k, d, norm = self.n_cells, self.n_columns, self.norm
        # Copies, so that kernels are compiled for one kind of array only.
        centers, radii = self.centers.copy(), np.ones(k) if self.radii is None else self.radii.copy()
        count_factor = int(factors[0])
        sum_factors = np.ones(k) if self.sums == "none" else np.ascontiguousarray(factors[k::d][:k])
        square_factors = np.ascontiguousarray(factors[k * (1 + d) :])
        mode, error = _SUMS[self.sums], single_precision_error(centers)

        def part(start: int, stop: int) -> Integers:
            total = np.zeros(k * (2 + d), dtype=np.int64)
            counts, sums, squares = total[:k], total[k : k * (1 + d)].reshape(k, d), total[k * (1 + d) :]
            given = (centers, error, mode, radii, norm, count_factor, sum_factors, square_factors)
            voronoi_totals(records[start:stop], *given, counts, sums, squares)
            return total[: self.size]

        return base.sum_over_ranges(part, len(records))

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        value: dict[str, Any] = {"type": self.type_name, "centers": self.centers.tolist(), "sums": self.sums}
        if self.radii is not None:
            value |= {"radii": self.radii.tolist(), "norm": self.norm} | ({"squares": True} if self.squares else {})
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a query back from its JSON value."""
        sums = value.get("sums")
        if sums not in _SUMS:
            raise TranscriptFormatError(f"a voronoi query's sums must be one of {', '.join(_SUMS)}.")
        centers = base.read_array(value, "centers", 2)
        if sums != "relative":
            return cls(centers=centers, sums=sums)
        radii, squares = base.read_array(value, "radii", 1), value.get("squares", False)
        return cls(centers=centers, sums=sums, radii=radii, norm=value["norm"], squares=squares)


def as_cells(query: Query | None, *sums: Sums) -> VoronoiQuery | None:
    """The query, if it asks about cells around centres (with such sums, if any are named); else none."""
    return query if isinstance(query, VoronoiQuery) and (not sums or query.sums in sums) else None
