"""Count, mean and second moments of records: the queries of principal components.

`MomentsQuery` asks for all second moments at once, `PowerQuery` for their product with a few directions, which is what
one step of a power iteration needs. Noise grows with the largest contribution of any record of the domain, so the
bounds below are the suprema over the domain and not the products of simpler ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from recoup._validate import whole_number
from recoup.domain import MAX_COLUMNS, Domain
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.kernels import GRID
from recoup.kernels.fixed_point import DROPPED
from recoup.mixed import Mixed
from recoup.queries import base
from recoup.queries.base import Array, Block, Integers, Records, Sensitivity, SimpleQuery, bounded_block

# Above the rounding of a sum over 4096 columns in as many directions, and of a singular value.
_ROOM = 1.0 + 2.0**-28
_SHORTEST_DIRECTION = 2.0**-20
_BLOCK_ROWS = 4096


class _Reach(NamedTuple):
    """The largest norms of any record of a domain; a record at an extreme point reaches all that are used together."""

    largest: float  # of |x_i|
    l1: float  # of sum |x_i|
    squares: float  # of sum x_i^2
    fourth: float  # of sum x_i^4


def _reach(domain: Domain) -> _Reach:
    d = domain.n_columns
    kind, radius = domain.shape()
    if isinstance(domain, Mixed):
        reaches = np.array(domain.reaches)
        return _Reach(float(reaches.max()), *(float((reaches**power).sum()) for power in (1, 2, 4)))
    if kind == 0:
        return _Reach(1.0, float(d), float(d), float(d))
    # Convex functions are largest at extreme points: whole ones, then what is left of the radius in one more column.
    size = min(radius if kind == 1 else radius * radius, float(d))
    whole, rest = floor(size), size - floor(size)
    if kind == 1:
        return _Reach(min(1.0, radius), size, whole + rest**2, whole + rest**4)
    return _Reach(min(1.0, radius), sqrt(d * size), size, whole + rest**2)


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentsQuery(SimpleQuery):
    """How many records there are, their sum, and the sum of x_i x_j for all pairs i <= j.

    The answer is the count, d sums, then the upper triangle of the sum of x x' row by row.

    Args:
        dimension: d, the number of columns.

    Guarantees: a record changes the count by 1, the sums by at most the domain's norm. Of the triangle, values off the
    diagonal count double in a matrix; the block's bounds, one on the diagonal and a smaller one off it, are met with
    equality by some record of the domain, and among such pairs they give the matrix the least noise.

    >>> MomentsQuery(dimension=2).contribution(np.array([[0.5, -1.0]]))
    array([[ 1.  ,  0.5 , -1.  ,  0.25, -0.5 ,  1.  ]])
    """

    dimension: int

    type_name: ClassVar[str] = "moments"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", whole_number(self.dimension, "dimension", high=MAX_COLUMNS))
        base.check_size(self.size)

    @property
    def n_columns(self) -> int:
        """Columns that a record must have."""
        return self.dimension

    @property
    def size(self) -> int:
        """Values in the answer."""
        return 1 + self.dimension + self.dimension * (self.dimension + 1) // 2

    def sensitivity(self, domain: Domain) -> Sensitivity:
        """Bounds on one record's contribution: 1 for the count, the domain's norms for sums and second moments."""
        base.check_columns(self, domain)
        d, reach = self.dimension, _reach(domain)
        rows, columns = np.triu_indices(d)
        l1 = np.where(rows == columns, *_least_noise(reach.squares, reach.l1**2, d, norm=1))
        l2 = np.where(rows == columns, *_least_noise(reach.fourth, reach.squares**2, d, norm=2))
        return Sensitivity(
            (
                Block.of_counts("count", 1),
                _sum_block(d, reach),
                bounded_block("product", len(rows), l1=l1 * _ROOM, l2=l2 * _ROOM),
            )
        )

    def contribution(self, x: Array) -> Array:
        """What each record of the unit domain, (n, d), adds to the answer: (n, size)."""
        x = np.ascontiguousarray(x, dtype=np.float64)
        rows, columns = np.triu_indices(self.dimension)
        return np.concatenate([np.ones((len(x), 1)), x, x[:, rows] * x[:, columns]], axis=1)

    def integer_total(self, records: Records, factors: Array) -> Integers:
        """The sum over records of trunc(contribution * factors), a row of the triangle at a time: no large table."""
        d = self.dimension
        total = np.zeros(self.size, dtype=np.int64)
        for start in range(0, len(records), _BLOCK_ROWS):
            block = records[start : start + _BLOCK_ROWS]
            x = np.ascontiguousarray(block[block[:, 0] != DROPPED]) / GRID
            total[0] += len(x) * int(factors[0])
            total[1 : 1 + d] += np.trunc(x * factors[1 : 1 + d]).astype(np.int64).sum(axis=0)
            first = 1 + d
            for i in range(d):
                last = first + d - i
                products = x[:, i, None] * x[:, i:]
                total[first:last] += np.trunc(products * factors[first:last]).astype(np.int64).sum(axis=0)
                first = last
        return total

    def matrix(self, triangle: Array) -> Array:
        """The symmetric matrix whose upper triangle was answered."""
        matrix = np.zeros((self.dimension, self.dimension))
        rows, columns = np.triu_indices(self.dimension)
        matrix[rows, columns] = matrix[columns, rows] = triangle
        return matrix

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a query back from its JSON value."""
        dimension = value.get("dimension")
        if isinstance(dimension, bool) or not isinstance(dimension, int):
            raise TranscriptFormatError("a moments query's dimension must be a whole number.")
        return cls(dimension=dimension)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PowerQuery(SimpleQuery):
    """How many records there are, their sum, the sum of |x|^2, and the sum of x (x'v) for each direction v.

    The answer is the count, d sums, one sum of squares, then the d x p products row by row. x'v is added up in column
    order, without BLAS, so that every machine and every chunking gives the same value.

    Args:
        directions: (d, p), usually orthonormal columns; entries within [-1, 1], no column shorter than 2^-20.

    Guarantees: a record changes the products by at most |x| |V'x| in each norm, each factor at its largest in the
    domain; with orthonormal directions that is R^2 in L2 in a ball of radius R, and at most d in the box.

    >>> PowerQuery(directions=np.array([[0.6], [0.8]])).contribution(np.array([[0.5, -1.0]]))
    array([[ 1.  ,  0.5 , -1.  ,  1.25, -0.25,  0.5 ]])
    """

    directions: Array

    type_name: ClassVar[str] = "power"

    def __post_init__(self) -> None:
        otherwise = "directions must be a (d, p) array of numbers within [-1, 1], d and p at least 1."
        directions = base.keep_numbers(self, "directions", 2, 1.0, otherwise)
        if directions.shape[1] > whole_number(directions.shape[0], "dimension", high=MAX_COLUMNS):
            raise ParameterError(f"{directions.shape[1]} directions in {directions.shape[0]} columns: at most as many.")
        if (np.linalg.norm(directions, axis=0) < _SHORTEST_DIRECTION).any():
            raise ParameterError("a direction is (nearly) zero: give unit vectors.")
        base.check_size(self.size)

    @property
    def n_columns(self) -> int:
        """Columns that a record must have."""
        return int(self.directions.shape[0])

    @property
    def n_directions(self) -> int:
        """The number of directions, p."""
        return int(self.directions.shape[1])

    @property
    def size(self) -> int:
        """Values in the answer."""
        return 2 + self.n_columns * (1 + self.n_directions)

    def sensitivity(self, domain: Domain) -> Sensitivity:
        """Bounds on one record's contribution: 1 for the count, the domain's norms for sums, squares and products."""
        base.check_columns(self, domain)
        d, reach = self.n_columns, _reach(domain)
        projected_l1, projected_l2 = _largest_projections(self.directions, reach)
        l1, l2 = reach.l1 * projected_l1 * _ROOM, sqrt(reach.squares) * projected_l2 * _ROOM
        return Sensitivity(
            (
                Block.of_counts("count", 1),
                _sum_block(d, reach),
                bounded_block("square", 1, l1=reach.squares * _ROOM),
                bounded_block("product", d * self.n_directions, l1=l1, l2=l2),
            )
        )

    def contribution(self, x: Array) -> Array:
        """What each record of the unit domain, (n, d), adds to the answer: (n, size)."""
        x = np.ascontiguousarray(x, dtype=np.float64)
        squares, projected = np.zeros(len(x)), np.zeros((len(x), self.n_directions))
        for j, along in enumerate(self.directions):
            squares += x[:, j] * x[:, j]
            projected += x[:, j, None] * along
        products = (x[:, :, None] * projected[:, None, :]).reshape(len(x), self.n_columns * self.n_directions)
        return np.concatenate([np.ones((len(x), 1)), x, squares[:, None], products], axis=1)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a query back from its JSON value."""
        return cls(directions=base.read_array(value, "directions", 2))


def _largest_projections(directions: Array, reach: _Reach) -> tuple[float, float]:
    """The largest |V'x| of any record, in L1 and in L2: the least of what each norm of x allows."""
    size, euclid = np.abs(directions), sqrt(reach.squares)
    one = np.minimum(euclid * np.linalg.norm(directions, axis=0), reach.largest * size.sum(axis=0))
    one = np.minimum(one, reach.l1 * size.max(axis=0))  # of |v'x|, one direction at a time
    l2 = min(
        euclid * float(np.linalg.norm(directions, 2)),
        float(np.linalg.norm(one)),
        reach.l1 * float(np.linalg.norm(directions, axis=1).max()),
    )
    l1 = min(float(one.sum()), sqrt(directions.shape[1]) * l2, reach.l1 * float(size.sum(axis=1).max()))
    return l1, l2


def _least_noise(diagonal: float, whole: float, d: int, *, norm: int) -> tuple[float, float]:
    """Bounds (on, off) the diagonal for one record's triangle of x x', that give the matrix the least noise.

    With powers q = 1 or 2, a record's weighted norm is D / on^q + (W - D) / (2 off^q), where D = sum |x_i|^2q and
    W = (sum |x_i|^q)^2. For off^q >= on^q / 2 both are taken at their largest, which one record reaches together. The
    noise of the matrix is d on^2 + d (d - 1) off^2; its minimum under the norm being 1 is in closed form.
    """
    if d == 1:
        return diagonal ** (1.0 / norm), diagonal ** (1.0 / norm)
    power = (max(whole - diagonal, 0.0) / (2.0 * (d - 1) * diagonal)) ** (1.0 / 3.0 if norm == 1 else 0.5)
    ratio = max(power, 0.5)  # off^q / on^q
    on = diagonal + (whole - diagonal) / (2.0 * ratio)
    return on ** (1.0 / norm), (on * ratio) ** (1.0 / norm)


def _sum_block(d: int, reach: _Reach) -> Block:
    return bounded_block("sum", d, l1=reach.l1 * _ROOM, l2=sqrt(reach.squares) * _ROOM)
