"""Public bounds: where records may lie, and how the user's units map to the unit domain and back.

Every record is clamped column by column to its declared bounds, scaled to [-1, 1], projected (Euclidean) onto the
domain and rounded toward zero onto a grid of 2^-30. Rounding toward zero never leaves a domain that is symmetric about
its centre, so the sensitivities that follow from the domain hold for the rounded records exactly. The records of a fit
take these steps in `recoup.kernels.fixed_point`, many at once; the methods here are for points, centres and local use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recoup.errors import BoundsError, MissingBoundsError
from recoup.kernels import ALREADY, GRID, INSIDE

Array = NDArray[np.float64]

MAX_COLUMNS = 4096  # the margin inside a ball covers the rounding of sums over this many columns
MIN_RADIUS = 2.0**-20  # of a ball: far above both the grid and the rounding of a projection in so many columns


@dataclass(frozen=True, slots=True)
class Domain(ABC):
    """Declared bounds of each column, and the shape of the unit domain: use `Box`, `L1Ball` or `L2Ball`.

    Args:
        low: smallest value of each column, public.
        high: largest value of each column, public.
        columns: names of the columns, if they have any.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    columns: tuple[str, ...] | None = None

    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        low, high = _bounds(self.low, self.high, self.columns)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        if self.columns is not None:
            columns = tuple(str(name) for name in self.columns)
            if len(columns) != len(low) or len(set(columns)) != len(columns):
                raise BoundsError(
                    f"{len(columns)} column names ({len(set(columns))} of them different) for {len(low)} bounds: "
                    "name each bounded column exactly once."
                )
            object.__setattr__(self, "columns", columns)

    @property
    def n_columns(self) -> int:
        """The number of columns, d."""
        return len(self.low)

    def to_unit(self, x: ArrayLike) -> Array:
        """Map records in the user's units to the unit domain: clamp to the bounds, scale, project."""
        x = np.asarray(x, dtype=np.float64)
        low, high = np.array(self.low), np.array(self.high)
        return self.clip(2.0 * ((np.clip(x, low, high) - low) / (high - low)) - 1.0)

    def from_unit(self, unit: ArrayLike) -> Array:
        """Map points of the unit domain to the user's units, never outside the bounds."""
        low, high = np.array(self.low), np.array(self.high)
        unit = np.asarray(unit, dtype=np.float64)
        return np.asarray(np.clip(low + (unit + 1.0) * 0.5 * (high - low), low, high))

    def clip(self, unit: ArrayLike) -> Array:
        """Move points to the nearest point of the unit domain (those in the unit box: exactly the nearest)."""
        unit = np.clip(np.asarray(unit, dtype=np.float64), -1.0, 1.0)
        return self._project(unit)

    def contains(self, unit: ArrayLike) -> NDArray[np.bool_]:
        """Say for each point whether it lies in the unit domain."""
        unit = np.asarray(unit, dtype=np.float64)
        in_box: NDArray[np.bool_] = (np.abs(unit) <= 1.0).all(axis=-1)
        return in_box & (self._size(unit) <= self._radius())

    def fixed(self, unit: ArrayLike) -> NDArray[np.int32]:
        """Round points of the unit domain toward zero onto the grid of 2^-30."""
        return np.trunc(np.asarray(unit, dtype=np.float64) * GRID).astype(np.int32)

    @abstractmethod
    def sum_bound(self, norm: int) -> float:
        """How far one record can move a vector sum of records, in the L1 (1) or L2 (2) norm."""

    @property
    def has_grid(self) -> bool:
        """Whether every coordinate is a number from -1 to 1, so that a grid over all of them makes sense."""
        return True

    @property
    def units(self) -> tuple[str | tuple[str, ...] | None, ...]:
        """The unit of each column, for readers: a unit, "share" of a category, its steps in order, or nothing."""
        return (None,) * self.n_columns

    @property
    def n_declared(self) -> int:
        """The number of columns of a table that are read."""
        return self.n_columns

    @property
    def table_columns(self) -> tuple[str, ...] | None:
        """The columns of a table that are read, if they have names."""
        return self.columns

    def records_like(self, unit: Array, rng: np.random.Generator) -> Array:
        """Points that records can have, near these."""
        return unit

    def on_scale(self, points: ArrayLike, column: int) -> Array:
        """Where values of a column lie on its scale, from 0 at its lower bound to 1 at its upper."""
        low, high = self.low[column], self.high[column]
        return np.asarray((np.asarray(points, dtype=np.float64) - low) / (high - low))

    def off_scale(self, positions: ArrayLike, column: int) -> Array:
        """The values of a column at places of its scale."""
        low, high = self.low[column], self.high[column]
        return np.asarray(low + np.asarray(positions, dtype=np.float64) * (high - low))

    def presence(self, points: Array, column: int) -> Array:
        """For points in the user's units, how far each has a value in a column at all, from 0 to 1."""
        return np.ones(len(points))

    def ends_from_unit(self, unit: Array, moved: Array) -> Array:
        """Where each coordinate of points is moved to by itself, in the user's units, while the others stay."""
        return self.from_unit(moved)

    def origin(self) -> Array:
        """The middle of the domain."""
        return np.zeros(self.n_columns)

    def ends(self) -> tuple[Array, Array]:
        """The smallest and the largest value of each coordinate."""
        return np.full(self.n_columns, -1.0), np.ones(self.n_columns)

    def ends_at(self, unit: Array) -> tuple[Array, Array]:
        """The smallest and the largest value that each coordinate of points can have."""
        return np.full(unit.shape, -1.0), np.ones(unit.shape)

    def shape(self) -> tuple[int, float]:
        """The domain as the kernels take it: 0 box, 1 L1 ball, 2 L2 ball; and the radius."""
        return {"box": 0, "l1": 1, "l2": 2}[self.kind], self._radius()

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `recoup.mixed.domain_from_json` reads back."""
        value: dict[str, Any] = {"type": self.kind, "low": list(self.low), "high": list(self.high)}
        if self.columns is not None:
            value["columns"] = list(self.columns)
        return value

    def _radius(self) -> float:
        return float("inf")

    def _size(self, unit: Array) -> Array:
        return np.zeros(unit.shape[:-1])

    def _project(self, unit: Array) -> Array:
        return unit


@dataclass(frozen=True, slots=True)
class Box(Domain):
    """The whole box of the bounds: nothing inside the bounds is moved.

    Guarantees: a record changes a vector sum by at most d in L1 and sqrt(d) in L2.

    >>> Box([0, 0], [10, 4]).to_unit([[5, 4]])
    array([[0., 1.]])
    """

    kind: ClassVar[str] = "box"

    def sum_bound(self, norm: int) -> float:
        """How far one record can move a vector sum of records, in the L1 (1) or L2 (2) norm."""
        return float(self.n_columns) if norm == 1 else float(np.sqrt(self.n_columns))


@dataclass(frozen=True, slots=True)
class _Ball(Domain):
    radius: float = 1.0

    def __post_init__(self) -> None:
        # Not super(): a slotted dataclass is rebuilt, which breaks the zero-argument form.
        Domain.__post_init__(self)
        try:
            radius = float(self.radius)
        except (TypeError, ValueError, OverflowError):
            radius = float("nan")
        if not (np.isfinite(radius) and radius >= MIN_RADIUS):
            raise BoundsError(
                f"radius is {self.radius!r}: give a number of at least {MIN_RADIUS:.1g}, in units of half a column's "
                "range."
            )
        object.__setattr__(self, "radius", radius)

    def _radius(self) -> float:
        return self.radius

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `recoup.mixed.domain_from_json` reads back."""
        return Domain.to_json(self) | {"radius": self.radius}


@dataclass(frozen=True, slots=True)
class L1Ball(_Ball):
    """Records are projected onto the L1 ball of a radius around the centre of the bounds (the paper's domain).

    Guarantees: a record changes a vector sum by at most the radius in L1 and in L2. Distorts records outside the ball.

    >>> L1Ball([-1, -1], [1, 1]).to_unit([[1, 1]]).round(6)
    array([[0.5, 0.5]])
    """

    kind: ClassVar[str] = "l1"

    def sum_bound(self, norm: int) -> float:
        """How far one record can move a vector sum of records, in the L1 (1) or L2 (2) norm."""
        widest = float(self.n_columns) if norm == 1 else float(np.sqrt(self.n_columns))
        return min(self.radius, widest)

    def _size(self, unit: Array) -> Array:
        return np.asarray(np.abs(unit).sum(axis=-1))

    def _project(self, unit: Array) -> Array:
        shape, rows = unit.shape, unit.reshape(-1, unit.shape[-1])
        far = np.flatnonzero(np.abs(rows).sum(axis=1) > self.radius * ALREADY)
        if far.size == 0:
            return unit
        size = np.abs(rows[far])
        descending = -np.sort(-size, axis=1)
        excess = np.cumsum(descending, axis=1) - self.radius * INSIDE
        n_kept = (descending * np.arange(1, size.shape[1] + 1) > excess).sum(axis=1)
        shift = excess[np.arange(far.size), n_kept - 1] / n_kept
        size = np.maximum(size - shift[:, None], 0.0)
        # The shift is rounded relative to sums that may be far larger than the radius.
        size *= np.minimum(1.0, self.radius * INSIDE / size.sum(axis=1, keepdims=True))
        out = rows.copy()
        out[far] = np.sign(rows[far]) * size
        return out.reshape(shape)


@dataclass(frozen=True, slots=True)
class L2Ball(_Ball):
    """Records are scaled back onto the L2 ball of a radius around the centre of the bounds.

    Guarantees: a record changes a vector sum by at most the radius in L2 and radius times sqrt(d) in L1.

    >>> L2Ball([-1, -1], [1, 1]).to_unit([[0.6, 0.8], [0.3, 0.4]]).round(6)
    array([[0.6, 0.8], [0.3, 0.4]])
    """

    kind: ClassVar[str] = "l2"

    def sum_bound(self, norm: int) -> float:
        """How far one record can move a vector sum of records, in the L1 (1) or L2 (2) norm."""
        root = float(np.sqrt(self.n_columns))
        return min(self.radius * root, root * root) if norm == 1 else min(self.radius, root)

    def _size(self, unit: Array) -> Array:
        return np.asarray(np.sqrt((unit * unit).sum(axis=-1)))

    def _project(self, unit: Array) -> Array:
        size = self._size(unit)
        scale = np.where(size > self.radius * ALREADY, self.radius * INSIDE / np.maximum(size, 1e-300), 1.0)
        return np.asarray(unit * scale[..., None])


def _bounds(low: object, high: object, columns: Sequence[str] | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if low is None or high is None:
        raise MissingBoundsError(_NO_BOUNDS)
    try:
        lows = np.atleast_1d(np.asarray(low, dtype=np.float64))
        highs = np.atleast_1d(np.asarray(high, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        raise BoundsError("bounds must be numbers: one low and one high for each column.") from None
    if lows.ndim != 1 or highs.ndim != 1 or lows.size != highs.size:
        raise BoundsError(f"{lows.size} lower bounds and {highs.size} upper bounds: give one pair for each column.")
    if lows.size == 0 or lows.size > MAX_COLUMNS:
        raise BoundsError(f"bounds for {lows.size} columns: give between 1 and {MAX_COLUMNS}.")
    for j, (a, b) in enumerate(zip(lows, highs, strict=True)):
        name = f"column {j}" if columns is None or j >= len(columns) else f"column {columns[j]!r}"
        if not (np.isfinite(a) and np.isfinite(b)):
            raise BoundsError(f"{name} has bounds ({a:g}, {b:g}): both must be finite.")
        if not a < b:
            raise BoundsError(f"{name} has bounds ({a:g}, {b:g}): the lower one must be smaller than the upper.")
        with np.errstate(over="ignore"):
            if not np.isfinite(b - a):
                raise BoundsError(f"{name} has bounds ({a:g}, {b:g}): their distance is too large to compute with.")
            if (b - a) < 1e-290 or not np.nextafter(a, b) < b:
                raise BoundsError(f"{name} has bounds ({a!r}, {b!r}): they are too close together to tell apart.")
    return tuple(map(float, lows)), tuple(map(float, highs))


_NO_BOUNDS = (
    "no bounds were declared. Give the smallest and largest possible value of each column from public knowledge, as "
    "bounds=(low, high) or bounds={column: (low, high)}; do not compute them from the data, that would leak it."
)

DOMAINS: dict[str, type[Box] | type[L1Ball] | type[L2Ball]] = {"box": Box, "l1": L1Ball, "l2": L2Ball}


def declared_bounds(
    bounds: object, n_columns: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[str, ...] | None]:
    """Read what users pass as `bounds`: `(low, high)`, a list of pairs as SciPy has it, or `{column: (low, high)}`.

    Returns low, high and the column names (none for arrays); single numbers are repeated over the columns.

    >>> declared_bounds([(0, 1), (0, 5), (2, 3)])[:2]
    (array([0., 0., 2.]), array([1., 5., 3.]))
    """
    if bounds is None:
        raise MissingBoundsError(_NO_BOUNDS)
    if isinstance(bounds, Mapping):
        pairs = {str(name): _pair(pair, f"column {name!r}") for name, pair in bounds.items()}
        if not pairs:
            raise MissingBoundsError(_NO_BOUNDS)
        low, high = (np.array([float(p[i]) for p in pairs.values()]) for i in (0, 1))
        return low, high, tuple(pairs)
    first, second = _low_and_high(bounds)
    try:
        low, high = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BoundsError("bounds must be numbers: (low, high), each one number or one number a column.") from None
    if n_columns is not None:
        low = np.full(n_columns, low) if low.ndim == 0 else low
        high = np.full(n_columns, high) if high.ndim == 0 else high
        if low.ndim == 1 and high.ndim == 1 and (low.size != n_columns or high.size != n_columns):
            raise BoundsError(
                f"{low.size} lower and {high.size} upper bounds for {n_columns} columns: give one pair for each column."
            )
    return np.atleast_1d(low), np.atleast_1d(high), None


def declared_width(bounds: Any) -> int | None:
    """For how many columns bounds without names are declared; none for two single numbers, which fit any."""
    sizes = [np.size(side) for side in _low_and_high(bounds) if np.ndim(side) > 0]
    return max(sizes) if sizes else None


def _low_and_high(bounds: Any) -> tuple[Any, Any]:
    """The two ends; a list of tuples has one pair per column, and a list of lists could mean either."""
    several = isinstance(bounds, Sequence) and any(_is_several(item) for item in bounds)
    if several and isinstance(bounds, list) and all(isinstance(item, tuple) and len(item) == 2 for item in bounds):
        low, high = zip(*(_pair(item, f"column {j}") for j, item in enumerate(bounds)), strict=True)
        return low, high
    if several and not (isinstance(bounds, tuple) and len(bounds) == 2):
        raise BoundsError(
            "bounds: sequences in a list could be all lower and all upper bounds, or a pair for each column. Write "
            "([low, low, ...], [high, high, ...]), a tuple of two lists, or [(low, high), (low, high), ...], a list of "
            "tuples."
        )
    return _pair(bounds, "bounds")


def _is_several(item: object) -> bool:
    return isinstance(item, Sequence | np.ndarray) and not isinstance(item, str | bytes)


def _pair(value: Any, what: str) -> tuple[Any, Any]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray) or len(value) != 2:
        raise BoundsError(f"{what}: give a pair (low, high).")
    if isinstance(value[0], str) or isinstance(value[1], str):
        raise BoundsError(f"{what}: low and high must be numbers.")
    return value[0], value[1]


__all__ = ["DOMAINS", "Box", "Domain", "L1Ball", "L2Ball", "declared_bounds", "declared_width"]


def uniform_points(domain: Domain, n: int, rng: np.random.Generator) -> Array:
    """Draw points uniformly from the unit domain (from the whole ball, then clipped, if it is wider than the box)."""
    return domain.clip(unclipped_points(domain, n, rng))


def unclipped_points(domain: Domain, n: int, rng: np.random.Generator) -> Array:
    """Uniform points that rounding may leave outside of a ball by an ulp."""
    d = domain.n_columns
    kind, radius = domain.shape()
    if kind == 0:
        return domain.records_like(rng.uniform(*domain.ends(), size=(n, d)), rng)
    if domain.kind == "l1":
        sides = rng.standard_exponential((n, d + 1))
        signs = 2.0 * rng.integers(0, 2, size=(n, d)) - 1.0
        points = radius * signs * sides[:, :d] / sides.sum(axis=1, keepdims=True)
    else:
        directions = rng.standard_normal((n, d))
        sizes = radius * rng.random((n, 1)) ** (1.0 / d)
        points = directions / np.linalg.norm(directions, axis=1, keepdims=True) * sizes
    # Only a ball that is wider than the box reaches out of it.
    return points if radius <= 1.0 else domain.clip(points)
