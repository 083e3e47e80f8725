"""The domain of a schema: numbers times categories, as points that k-means can measure distances between.

A declared column becomes one coordinate or several. A number is one, from minus its reach to its reach, the root of its
weight; so are two categories, at both ends, and whether a value is missing. Three categories and more are the corners
of a simplex: one coordinate each, one of which is its reach, and the others zero, so that any two are equally far
apart. A record moves each group of coordinates by its reach, however many categories there are. Reaches are whole
multiples of the records' grid, so that the bounds that follow hold for records on that grid exactly.

Answers are read in "the user's units": a number in its own unit whatever its scale, as the mean of those that are not
missing; a category as a share of records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recoup.domain import DOMAINS, Array, Domain
from recoup.errors import BoundsError, TranscriptFormatError
from recoup.kernels import GRID
from recoup.kernels.fixed_point import DROPPED
from recoup.octaves import place_of, value_at
from recoup.schema import OCTAVES, OWN, Category, Number, Schema

SHARE: Final = "share"  # of the records, instead of a unit
_FLAG_WEIGHT: Final = 0.25  # of whether a number is missing, beside its own weight
_SAME: Final = 1e-9  # a point this near to its simplex lies on it


@dataclass(frozen=True, slots=True)
class Part:
    """Where a declared column lies among the coordinates of the domain.

    Attributes:
        name: of the column.
        column: its declaration.
        kind: "number"; "flagged", a number and whether it is missing; "two" categories; "steps" of an order; "corners".
        first: its first coordinate.
        size: how many it has.
        reach: how far a coordinate may be from 0.
    """

    name: str
    column: Number | Category
    kind: Literal["number", "flagged", "two", "steps", "corners"]
    first: int
    size: int
    reach: float

    @property
    def own(self) -> slice:
        """Its coordinates."""
        return slice(self.first, self.first + self.size)

    @property
    def flag_reach(self) -> float:
        """Of the coordinate that says whether a number is missing."""
        return _on_grid(math.sqrt(_FLAG_WEIGHT * float(self.column.weight or 1.0)) / 2.0)

    @property
    def reaches(self) -> tuple[float, ...]:
        """What a record can add, at most, to the sizes of coordinates that it moves: one of a simplex."""
        return (self.reach, self.flag_reach) if self.kind == "flagged" else (self.reach,)

    @property
    def names(self) -> list[str]:
        """A name for each coordinate."""
        if self.kind == "flagged":
            return [self.name, f"{self.name} missing"]
        if isinstance(self.column, Number) or self.kind == "steps":
            return [self.name]
        values = self.column.all_values
        return [f"{self.name}={value}" for value in (values[1:] if self.kind == "two" else values)]

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """The ends of each coordinate in the user's units."""
        if isinstance(self.column, Number):
            return [(self.column.low, self.column.high), (0.0, 1.0)][: self.size]
        return [(0.0, float(len(self.column.values) - 1) if self.kind == "steps" else 1.0)] * self.size

    def to_unit(self, x: Array) -> Array:
        """Its coordinates from values in the user's units, (n, size)."""
        if self.kind == "corners":
            return np.clip(x, 0.0, 1.0) * self.reach
        first = _ends(self.positions(x[:, :1]), self.reach)
        if self.kind == "flagged":
            missing = np.clip(x[:, 1:], 0.0, 1.0)
            return np.hstack([first * (1.0 - missing), _ends(missing, self.flag_reach)])
        return first

    def from_unit(self, unit: Array) -> Array:
        """Values in the user's units from its coordinates, (n, size)."""
        if self.kind == "corners":
            return np.clip(unit / self.reach, 0.0, 1.0)
        first = unit[:, :1] / self.reach
        if self.kind != "flagged":
            return self.values(np.clip((first + 1.0) * 0.5, 0.0, 1.0))
        missing = self._share(unit[:, 1:], self.flag_reach)
        # Missing values are 0, so that the others have this mean.
        first = first / np.maximum(1.0 - missing, _SAME)
        return np.hstack([self.values(np.clip((first + 1.0) * 0.5, 0.0, 1.0)), missing])

    def encode(self, raw: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Its coordinates, (n, size), of cells as they were read, (n,), and which cells are fit for use.

        A number is as it is; a category is its place among the declared values, one more if it is none of these. What
        is missing is not finite.
        """
        given = np.isfinite(raw)
        if isinstance(self.column, Category):
            values, column = self.column.all_values, self.column
            places = np.full(len(column.values) + 2, -1)
            places[: len(column.values)] = np.arange(len(column.values))
            places[-2] = len(column.values) if column.other else -1
            if column.missing is not None:
                places[-1] = len(values) - 1 if column.missing == OWN else column.values.index(column.missing)
            code = np.where(given, np.clip(np.where(given, raw, 0.0), 0, len(places) - 2), len(places) - 1)
            place = places[code.astype(np.int64)]
            return self._at(np.maximum(place, 0)), place >= 0
        missing = self.column.missing
        stand_in = 0.0 if missing is None or missing == OWN else float(missing)
        unit = _ends(self.positions(np.where(given, raw, stand_in)[:, None]), self.reach)
        if missing != OWN:
            return unit, given | (missing is not None)
        flag = np.where(given, -self.flag_reach, self.flag_reach)[:, None]
        return np.hstack([np.where(given[:, None], unit, 0.0), flag]), np.ones(len(raw), dtype=np.bool_)

    def nearest(self, unit: Array) -> Array:
        """The nearest point of its part of the domain, (n, size); shares of categories need not be a whole one."""
        if self.kind == "corners":
            return _onto_simplex(unit, self.reach)
        if self.kind != "flagged":
            return np.clip(unit, -self.reach, self.reach)
        flag = np.clip(unit[:, 1:], -self.flag_reach, self.flag_reach)
        most = self.reach * (1.0 - self._share(flag, self.flag_reach))  # of what is missing, the value is 0
        return np.hstack([np.clip(unit[:, :1], -most, most), flag])

    def records_like(self, unit: Array, rng: np.random.Generator) -> Array:
        """Points that one record can have, (n, size), each category drawn as often as the given point's shares say."""
        if self.kind == "number":
            return unit
        if self.kind == "flagged":
            missing = self._share(unit[:, 1], self.flag_reach)
            up, flag = rng.random(len(unit)) < missing, self.flag_reach
            value = np.clip(unit[:, 0] / np.maximum(1.0 - missing, _SAME), -self.reach, self.reach)
            return np.column_stack([np.where(up, 0.0, value), np.where(up, flag, -flag)])
        if self.kind == "two":
            up = rng.random(len(unit)) < self._share(unit[:, 0], self.reach)
            return np.where(up, self.reach, -self.reach)[:, None]
        if self.kind == "steps":
            last = len(self.bounds) and self.bounds[0][1]
            steps = np.floor((unit[:, 0] / self.reach + 1.0) * 0.5 * last + rng.random(len(unit)))
            return self._at(np.clip(steps, 0, last).astype(np.int64))
        levels = np.cumsum(np.maximum(unit, 0.0), axis=1)
        draws = rng.random((len(unit), 1)) * levels[:, -1:]
        return self._at(np.minimum((levels <= draws).sum(axis=1), self.size - 1))

    def _share(self, unit: Array, reach: float) -> Array:
        return np.asarray(np.clip((unit / reach + 1.0) * 0.5, 0.0, 1.0))

    def _at(self, place: NDArray[np.int64]) -> Array:
        """The coordinates of categories, by their places."""
        if self.kind == "corners":
            return np.where(place[:, None] == np.arange(self.size), self.reach, 0.0)
        last = 1.0 if self.kind == "two" else self.bounds[0][1]
        return _ends(np.asarray(place[:, None] / last), self.reach)

    def positions(self, x: Array) -> Array:
        """From 0 at the lower end of the scale to 1 at the upper."""
        low, high = self.bounds[0]
        x = np.clip(x, low, high)
        scale = self.column.scale if isinstance(self.column, Number) else "linear"
        if isinstance(scale, tuple) and isinstance(self.column, Number):
            knots = self.column.knots
            return np.interp(x, knots, np.linspace(0.0, 1.0, len(knots)))
        turn = _TURNS[str(scale)]
        return np.asarray(np.clip((turn(x) - turn(low)) / (turn(high) - turn(low)), 0.0, 1.0))

    def values(self, positions: Array) -> Array:
        """Values from their places on the scale."""
        low, high = self.bounds[0]
        scale = self.column.scale if isinstance(self.column, Number) else "linear"
        if isinstance(scale, tuple) and isinstance(self.column, Number):
            knots = self.column.knots
            return np.interp(positions, np.linspace(0.0, 1.0, len(knots)), knots)
        turn, back = _TURNS[str(scale)], _TURNS_BACK[str(scale)]
        turned = turn(low) + positions * (turn(high) - turn(low))
        return np.asarray(np.clip(back(turned), low, high))


_TURNS: Final[dict[str, Any]] = {"linear": lambda x: x, "log": np.log, "sqrt": np.sqrt, OCTAVES: place_of}
_TURNS_BACK: Final[dict[str, Any]] = {"linear": lambda x: x, "log": np.exp, "sqrt": np.square, OCTAVES: value_at}


@dataclass(frozen=True, slots=True)
class Mixed(Domain):
    """The domain of a schema.

    Args:
        schema: the declared columns.

    Guarantees: a record changes a vector sum by at most `sum_bound`, in which a category counts once.

    >>> from recoup.schema import Category, Number, Schema
    >>> domain = Mixed(schema=Schema({"age": Number(0, 100), "ward": Category(["a", "b", "c"])}))
    >>> domain.columns, domain.n_columns
    (('age', 'ward=a', 'ward=b', 'ward=c'), 4)
    """

    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    columns: tuple[str, ...] | None = None
    schema: Schema = field(default_factory=lambda: Schema({}), kw_only=True)
    parts: tuple[Part, ...] = field(init=False, repr=False, compare=False)

    kind: ClassVar[str] = "mixed"

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Schema):
            raise BoundsError("schema must be a recoup.Schema.")
        parts = self._parts()
        object.__setattr__(self, "parts", parts)
        ends = [pair for part in parts for pair in part.bounds]
        object.__setattr__(self, "low", tuple(low for low, _ in ends))
        object.__setattr__(self, "high", tuple(high for _, high in ends))
        object.__setattr__(self, "columns", tuple(name for part in parts for name in part.names))
        Domain.__post_init__(self)

    def _parts(self) -> tuple[Part, ...]:
        parts: list[Part] = []
        for name, column in self.schema.items():
            parts.append(_part(name, column, sum(part.size for part in parts)))
        return tuple(parts)

    @property
    def has_grid(self) -> bool:
        """Whether every coordinate is a number from -1 to 1, so that a grid over all of them makes sense."""
        return all(part.kind == "number" and part.reach == 1.0 for part in self.parts)

    @property
    def units(self) -> tuple[str | tuple[str, ...] | None, ...]:
        """The unit of each column, for readers: a unit, "share" of a category, its steps in order, or nothing."""
        found: list[str | tuple[str, ...] | None] = []
        for part in self.parts:
            steps = part.column.values if isinstance(part.column, Category) and part.kind == "steps" else SHARE
            found += [part.column.unit if isinstance(part.column, Number) else steps] + [SHARE] * (part.size - 1)
        return tuple(found)

    @property
    def n_declared(self) -> int:
        """The number of columns of a table that are read."""
        return len(self.schema)

    @property
    def table_columns(self) -> tuple[str, ...] | None:
        """The columns of a table that are read."""
        return tuple(self.schema)

    def to_unit(self, x: ArrayLike) -> Array:
        """Map points in the user's units to the unit domain; shares of categories as they are."""
        x = np.asarray(x, dtype=np.float64)
        flat = x.reshape(-1, self.n_columns)
        unit = np.hstack([part.to_unit(flat[:, part.own]) for part in self.parts])
        return self.clip(unit).reshape(x.shape)

    def from_unit(self, unit: ArrayLike) -> Array:
        """Map points of the unit domain to the user's units, never outside the bounds."""
        unit = np.asarray(unit, dtype=np.float64)
        flat = unit.reshape(-1, self.n_columns)
        return np.hstack([part.from_unit(flat[:, part.own]) for part in self.parts]).reshape(unit.shape)

    def on_scale(self, points: ArrayLike, column: int) -> Array:
        """Where values of a column lie on its scale, from 0 at its lower bound to 1 at its upper."""
        part = next((part for part in self.parts if part.first == column and part.kind != "corners"), None)
        points = np.asarray(points, dtype=np.float64)
        return points if part is None or part.kind == "two" else part.positions(points)

    def off_scale(self, positions: ArrayLike, column: int) -> Array:
        """The values of a column at places of its scale."""
        part = next((part for part in self.parts if part.first == column and part.kind != "corners"), None)
        positions = np.asarray(positions, dtype=np.float64)
        return positions if part is None or part.kind == "two" else part.values(np.clip(positions, 0.0, 1.0))

    def presence(self, points: Array, column: int) -> Array:
        """For points in the user's units, how far each has a value in a column at all, from 0 to 1."""
        flagged = any(part.kind == "flagged" and part.first == column for part in self.parts)
        return np.asarray(1.0 - points[:, column + 1]) if flagged else np.ones(len(points))

    def ends_from_unit(self, unit: Array, moved: Array) -> Array:
        """Where each coordinate of points is moved to by itself, in the user's units, while the others stay."""
        return np.column_stack(
            [self.from_unit(np.where(at, moved, unit))[:, at].ravel() for at in np.eye(self.n_columns, dtype=bool)]
        )

    def encode(self, columns: Sequence[ArrayLike]) -> Array:
        """The unit points of records as they were read, one array a declared column; NaN where one is not fit for use.

        Categories are places among their declared values; see `Part.encode`.
        """
        parts = [p.encode(np.asarray(raw, dtype=np.float64)) for p, raw in zip(self.parts, columns, strict=True)]
        usable = np.logical_and.reduce([fit for _, fit in parts])
        return np.where(usable[:, None], np.hstack([unit for unit, _ in parts]), np.nan)

    def fixed_records(self, columns: Sequence[ArrayLike]) -> NDArray[np.int32]:
        """Such records on the grid of 2^-30, rounded toward zero; one that is not fit for use is marked as dropped."""
        unit, (lowest, highest) = self.encode(columns), self.ends()
        # Whatever a scale makes of a number: no record reaches farther than the bound of sums says.
        dropped = np.logical_not(np.isfinite(unit).all(axis=1))
        unit = np.clip(np.where(dropped[:, None], 0.0, unit), lowest, highest)
        records = np.trunc(unit * GRID).astype(np.int32)
        records[dropped, 0] = DROPPED
        return records

    def records_like(self, unit: Array, rng: np.random.Generator) -> Array:
        """Points that records can have, near these: categories are drawn by the shares that a point has of them."""
        return np.hstack([part.records_like(unit[:, part.own], rng) for part in self.parts])

    def origin(self) -> Array:
        """The middle of the domain, no number missing."""
        point = np.zeros(self.n_columns)
        for part in self.parts:
            if part.kind == "flagged":
                point[part.first + 1] = -part.flag_reach
        return point

    def ends(self) -> tuple[Array, Array]:
        """The smallest and the largest value of each coordinate."""
        highest = np.concatenate([np.full(p.size, p.reach) if p.kind == "corners" else p.reaches for p in self.parts])
        corner = np.repeat([part.kind == "corners" for part in self.parts], [part.size for part in self.parts])
        return np.where(corner, 0.0, -highest), highest

    def ends_at(self, unit: Array) -> tuple[Array, Array]:
        """The least and the largest value that each coordinate of points can have, given which numbers are missing."""
        lowest, highest = (np.tile(end, (len(unit), 1)) for end in self.ends())
        for part in self.parts:
            if part.kind == "flagged":
                most = part.nearest(np.column_stack([np.ones(len(unit)), unit[:, part.first + 1]]))[:, 0]
                lowest[:, part.first], highest[:, part.first] = -most, most
        return lowest, highest

    @property
    def reaches(self) -> tuple[float, ...]:
        """The sizes of the coordinates of a record that is as large as can be: one for each number or category."""
        return tuple(reach for part in self.parts for reach in part.reaches)

    def sum_bound(self, norm: int) -> float:
        """How far one record can move a vector sum of records, in the L1 (1) or L2 (2) norm."""
        if norm == 1:
            return math.fsum(self.reaches)  # exact: whole multiples of the grid
        return math.nextafter(math.sqrt(math.fsum(reach * reach for reach in self.reaches)), math.inf)

    def contains(self, unit: ArrayLike) -> NDArray[np.bool_]:
        """Say for each point whether it lies in the unit domain."""
        unit = np.asarray(unit, dtype=np.float64)
        flat = unit.reshape(-1, self.n_columns)
        return np.asarray((np.abs(self.clip(flat) - flat) <= _SAME).all(axis=1).reshape(unit.shape[:-1]))

    def shape(self) -> tuple[int, float]:
        """As the kernels take it: a box."""
        return 0, math.inf

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `domain_from_json` reads back."""
        return {"type": self.kind, "schema": self.schema.to_json()}

    def _project(self, unit: Array) -> Array:
        flat = unit.reshape(-1, self.n_columns)
        return np.hstack([part.nearest(flat[:, part.own]) for part in self.parts]).reshape(unit.shape)


@dataclass(frozen=True, slots=True)
class Completeness(Mixed):
    """Whether records of a schema are fit for use, and nothing else about them: -1 if so, else 0.

    Rounded toward zero, the mean of a person's records is 0 only if none of them is fit for use.

    >>> from recoup.schema import Number, Schema
    >>> domain = Completeness(schema=Schema({"age": Number(0, 100), "height": Number(0, 3)}))
    >>> domain.encode([[30, 200, math.nan], [1.8, 1.6, 1.7]]).ravel().tolist()
    [-1.0, -1.0, 0.0]
    """

    kind: ClassVar[str] = "completeness"

    def _parts(self) -> tuple[Part, ...]:
        return (_part("left out", Number(-1, 1), 0),)

    def encode(self, columns: Sequence[ArrayLike]) -> Array:
        """The unit points of records as they were read, one array per declared column."""
        unit = Mixed(schema=self.schema).encode(columns)
        return np.where(np.isfinite(unit).all(axis=1, keepdims=True), -1.0, 0.0)


MIXED_DOMAINS: Final = {kind.kind: kind for kind in (Mixed, Completeness)}


def _part(name: str, column: Number | Category, first: int) -> Part:
    weight = float(column.weight or 0.0)
    if isinstance(column, Number):
        kind: Any = "flagged" if column.missing == OWN else "number"
        return Part(name, column, kind, first, 2 if kind == "flagged" else 1, _on_grid(math.sqrt(weight)))
    if column.ordered:
        return Part(name, column, "steps", first, 1, _on_grid(math.sqrt(weight)))
    n = len(column.all_values)
    if n == 2:
        return Part(name, column, "two", first, 1, _on_grid(math.sqrt(weight) / 2.0))
    return Part(name, column, "corners", first, n, _on_grid(math.sqrt(weight / 2.0)))


def _on_grid(reach: float) -> float:
    return math.floor(reach * GRID) / GRID


def _ends(positions: Array, reach: float) -> Array:
    return np.asarray((2.0 * positions - 1.0) * reach)


def _onto_simplex(points: Array, size: float) -> Array:
    """The nearest points whose coordinates are not negative and add up to a size."""
    off = (points < 0.0).any(axis=1) | (np.abs(points.sum(axis=1) - size) > _SAME)
    if not off.any():
        return points
    far = points[off]
    descending = -np.sort(-far, axis=1)
    excess = np.cumsum(descending, axis=1) - size
    n_kept = (descending * np.arange(1, far.shape[1] + 1) > excess).sum(axis=1)
    shift = excess[np.arange(len(far)), n_kept - 1] / n_kept
    out = points.copy()
    out[off] = np.maximum(far - shift[:, None], 0.0)
    return out


def domain_from_json(value: object) -> Domain:
    """Read a domain back from its JSON value, by a closed registry of kinds."""
    if isinstance(value, Mapping) and set(value) == {"type", "schema"} and str(value["type"]) in MIXED_DOMAINS:
        try:
            return MIXED_DOMAINS[str(value["type"])](schema=Schema.from_json(value["schema"]))
        except BoundsError as error:
            raise TranscriptFormatError(f"the domain cannot be used: {error}") from None
    if not isinstance(value, Mapping) or value.get("type") not in DOMAINS:
        raise TranscriptFormatError(f"unknown domain; known are {', '.join((*DOMAINS, *MIXED_DOMAINS))}.")
    known = {"type", "low", "high", "columns"} | ({"radius"} if value["type"] != "box" else set())
    if not known >= set(value):
        raise TranscriptFormatError(f"a domain holds unknown fields: {sorted(set(value) - known)}.")
    columns = value.get("columns")
    if columns is not None and not (isinstance(columns, list) and all(isinstance(c, str) for c in columns)):
        raise TranscriptFormatError("a domain's columns must be a list of names.")
    arguments = {name: value[name] for name in ("low", "high", "radius") if name in value}
    if not {"low", "high"} <= set(arguments) or not all(map(_numbers, arguments.values())):
        raise TranscriptFormatError("a domain's low, high and radius must be numbers.")
    try:
        return DOMAINS[value["type"]](**arguments, columns=None if columns is None else tuple(columns))
    except BoundsError as error:
        raise TranscriptFormatError(f"the domain cannot be used: {error}") from None


def _numbers(value: object) -> bool:
    items = value if isinstance(value, list) else [value]
    return all(isinstance(item, int | float) and not isinstance(item, bool) for item in items)
