"""The contract of a query, tried in one domain on records that are most likely to break it.

These are corners, vertices, poles, faces and the centre of the domain, and random ones, all on the curator's grid. From
the best of them a search climbs, along single columns, up the slope that these show, and in random directions, to the
record whose contribution comes nearest to its bound: it can find that a bound is too small, and prove nothing.
"""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import json
import warnings
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from recoup.domain import Box, Domain, L1Ball, L2Ball, uniform_points
from recoup.errors import ParameterError
from recoup.kernels import GRID
from recoup.kernels.fixed_point import DROPPED
from recoup.privacy.mechanism import MECHANISMS, SENSITIVITY
from recoup.queries import QUERIES, query_from_json
from recoup.queries.base import MAX_SIZE, Array, Query, Sensitivity, sum_of_contributions
from recoup.testing.report import Recorder, Report, check_frozen, check_json, check_protocol, require

Split: TypeAlias = Mapping[str, Fraction] | None  # how a request divides its share over blocks; none: equally
QUERY_NAMES = ("type_name", "size", "n_columns", "sensitivity", "contribution", "integer_total", "to_json", "from_json")
# The curator's factors leave 2^-40 of room for rounding; half of that is for the contribution, half for the product.
_ROOM = 2.0**-41
_TOTAL_TOLERANCE = 1e-9
_N_RANDOM, _N_SINGLE = 64, 24
# Rows that the curator hands over at a time, one more, and a table of several such blocks; for answers of up to so many
# values, since larger ones would take long.
_BLOCKS, _LONG_TABLE, _MANY_ROWS_SIZE = (4096, 4097), 10_000, 1024
_MOST_PATTERNS = 81  # all of {-1, 0, 1}^4; in more columns, as many drawn ones
_MOST_AXES = 32
# The search: climbers in all, shared by the blocks and norms, and their steps, the first from one side to the other.
_CLIMBERS, _STEPS, _FIRST_STEP, _SMALLEST_STEP = 48, 40, 2.0, 2.0**-20
_MOST_COLUMNS_TRIED, _RANDOM_DIRECTIONS = 8, 4


def check_query(
    query: Query,
    *,
    domain: Domain | Sequence[Domain] | None = None,
    random_state: int = 0,
    raise_on_failure: bool = True,
) -> Report:
    """Check the contract of your own query, and explain what breaks it.

    Args:
        query: the query.
        domain: where to try it, one domain or several; none: a box and L1 and L2 balls of two sizes.
        random_state: of the records that are drawn.
        raise_on_failure: raise `recoup.errors.ContractViolation` if a check fails; else only report it.

    Returns:
        Every check with whether it passed, and why not.

    Guarantees: no real record is needed. A bound that the search breaks is too small; one that it does not break is
    not proven.

    >>> from recoup.queries.counts import GridQuery
    >>> check_query(GridQuery(sides=(2, 3))).passed
    True
    """
    recorder = Recorder(type(query).__name__)
    if recorder.run("protocol", "", check_protocol, query, QUERY_NAMES, "query"):
        for name, place in named_domains(domain, query.n_columns).items():
            try_query(recorder, query, place, f"In the {name}", random_state=random_state)
    return recorder.report(raise_on_failure)


def named_domains(domain: Domain | Sequence[Domain] | None, n_columns: int) -> dict[str, Domain]:
    """The domains to go through, by a name for messages."""
    if domain is None:
        # Every kind, with bounds that are not symmetric, and balls that are wider than the unit one.
        low, high = (tuple(np.linspace(*ends, n_columns)) for ends in ((-3.0, 1.0), (1.5, 7.0)))
        wider = (L1Ball(low, high, radius=1.5), L2Ball(low, high, radius=1.25))
        domains: dict[str, Domain] = {kind.__name__: kind(low, high) for kind in (Box, L1Ball, L2Ball)}
        return domains | {f"{type(ball).__name__} of radius {ball.radius:g}": ball for ball in wider}
    given = [domain] if isinstance(domain, Domain) else list(domain)
    if not given or not all(isinstance(item, Domain) for item in given):
        raise ParameterError("domain must be a Box, L1Ball or L2Ball, a list of those, or none.")
    names = [type(item).__name__ + (f" of radius {item.shape()[1]:g}" if item.kind != "box" else "") for item in given]
    pairs = zip(names, given, strict=True)
    return {f"{name} (domain {i + 1})" if len(given) > 1 else name: d for i, (name, d) in enumerate(pairs)}


def try_query(
    recorder: Recorder, query: Query, domain: Domain, where: str, *, random_state: int, split: Split = None
) -> None:
    """Try every rule of a query; later ones only where the earlier ones let them be tried."""
    trial = _Trial(query, domain, split, np.random.default_rng(random_state))
    recorder.run("frozen", where, check_frozen, query)
    if not recorder.run("sizes", where, trial.sizes):
        return
    for name in ("json", "silence", "purity", "one by one"):
        recorder.run(name, where, getattr(trial, name.replace(" ", "_")))
    # Where numbers are not finite there is nothing to compare.
    if recorder.run("finite", where, trial.finite):
        for name in ("claims", "sensitivity", "integer total"):
            recorder.run(name, where, getattr(trial, name.replace(" ", "_")))


class _Trial:
    """The rules of a query, each a method of its name, on the same records x."""

    def __init__(self, query: Query, domain: Domain, split: Split, rng: np.random.Generator) -> None:
        self.query, self.domain, self.split, self.rng = query, domain, split, rng
        self.x = np.concatenate([_extreme_records(domain, rng), _random_records(domain, _N_RANDOM, rng)])

    @cached_property
    def rows(self) -> Array | csr_array:
        return self.query.contribution(self.x.copy())

    def sizes(self) -> None:
        query, d = self.query, self.domain.n_columns
        hint = f"n_columns is {query.n_columns} in a domain of {d} columns. Ask for the domain's columns."
        require(query.n_columns == d, hint)
        hint = f"size is {query.size!r}. Let it be an int between 1 and {MAX_SIZE}."
        require(isinstance(query.size, int) and 1 <= query.size <= MAX_SIZE, hint)
        blocks = query.sensitivity(self.domain).blocks
        sizes, names = [block.size for block in blocks], [block.name for block in blocks]
        require(sum(sizes) == query.size, f"size is {query.size}, but the blocks of sensitivity have {sizes} values.")
        hint = f"two blocks have the same name: {names}. The split needs different ones."
        require(len(set(names)) == len(blocks), hint)
        for block, name in itertools.product(blocks, ("l1", "l2")):
            bound, what = np.asarray(getattr(block, name)), f"block {block.name!r} of {block.size} values has an {name}"
            hint = "is not as many positive numbers. recoup.custom.bounded_block makes them from one number."
            ok = bound.shape == (block.size,) and (np.isfinite(bound) & (bound > 0)).all()
            require(ok, f"{what} that {hint}")
        for n in (len(self.x), 1, 0):
            rows = query.contribution(self.x[:n].copy())
            hint = f"contribution gives a {type(rows).__name__}: give a NumPy array, or a csr_array."
            require(isinstance(rows, np.ndarray) or (issparse(rows) and rows.format == "csr"), hint)
            hint = f"it must be ({n}, {query.size}), also for no record at all."
            require(rows.shape == (n, query.size), f"contribution of {n} records has the shape {rows.shape}: {hint}")

    def json(self) -> None:
        again = check_json(self.query, QUERIES, query_from_json).contribution(self.x.copy())
        what = "read back from JSON, it contributes something else. Everything that contribution needs must be a field"
        hint = "and be written in full: numbers with .tolist(), not rounded, not as text of a few digits."
        require(_same(self.rows, again), f"{what} {hint}")

    def silence(self) -> None:
        calls: dict[str, list[Any]] = {"contribution": [self.x.copy()]}
        calls["integer_total"] = [self.domain.fixed(self.x), np.ones(self.query.size)]
        for name, given in calls.items():
            printed = io.StringIO()
            hearing = contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed)
            with warnings.catch_warnings(record=True) as caught, np.errstate(all="warn"), hearing[0], hearing[1]:
                warnings.simplefilter("always")
                getattr(self.query, name)(*given)
            said = [f"{item.category.__name__}: {item.message}" for item in caught]
            said += [f"printed: {text[:80]!r}" for text in [printed.getvalue().strip()] if text]
            hint = "Handle the case before it warns (np.where, np.maximum), and take out the prints."
            require(not said, f"{name} says something on some records ({''.join(said[:1])}). {hint}")

    def purity(self) -> None:
        query, before, given = self.query, self.x.copy(), self.x.copy()
        first = query.contribution(given)
        hint = "contribution changes the array it is given. Work on a copy: x = x.copy(), or x = x * 2."
        require(np.array_equal(given, before), hint)
        query.contribution(before[::-1].copy())
        query.contribution(before[:3].copy())
        hint = "Keep no cache, counter or generator: everything it needs is a field of the query."
        # More than once: what changes in turns may be back at its start.
        same = all(_same(first, query.contribution(before.copy())) for _ in range(3))
        require(same, f"contribution gives something else when it is called again with the same records. {hint}")
        same = _same(first, copy.deepcopy(query).contribution(before.copy()))
        require(same, f"a copy of the query contributes something else. {hint}")
        same = described_bounds(query, self.domain) == described_bounds(query, self.domain)
        require(same, f"sensitivity gives something else when it is called again. {hint}")

    def one_by_one(self) -> None:
        x, rows, n = self.x, self.rows, len(self.x)
        order = np.random.default_rng(0).permutation(n)
        single = order[:_N_SINGLE]
        hint = (
            "Nothing may be computed over the rows: no mean, no maximum, no len(x); the last bit counts, since it "
            "decides integers (x @ w depends on the number of rows: write (x[:, None, :] * w).sum(axis=2))."
        )
        cases: list[tuple[Any, str]] = [
            (order, "in another order, the same records contribute something else"),
            *(([i], f"the record {_shown(x[i])} contributes something else alone than among {n}") for i in single),
            (np.arange(n // 2), "the same records contribute something else without the other half of them"),
        ]
        for chosen, what in cases:
            require(_same(rows[chosen], self.query.contribution(x[chosen].copy())), f"{what}. {hint}")
        for n_rows in (8 * n, *(_BLOCKS if self.query.size <= _MANY_ROWS_SIZE else ())):
            many = np.tile(x, (n_rows // n + 1, 1))[-n_rows:]
            same = _same(rows, self.query.contribution(many)[-n:])
            require(same, f"the same records contribute something else among {n_rows}. {hint}")

    def finite(self) -> None:
        rows = self.rows
        ok = np.isfinite(rows).all(axis=1) if isinstance(rows, np.ndarray) else np.isfinite(rows.sum(axis=1))
        all_finite = np.isfinite(rows if isinstance(rows, np.ndarray) else rows.data).all()
        require(all_finite, _not_finite(self.x[int(np.argmin(ok))]))

    def claims(self) -> None:
        for block, place in self.query.sensitivity(self.domain).parts():
            part = self.rows[:, place]
            values = part if isinstance(part, np.ndarray) else part.data
            sums = np.asarray(part.sum(axis=1)).ravel()
            claims = f"block {block.name!r} claims that every record"
            if block.ones is not None:
                worst = int(np.argmax(sums != block.ones))
                but = f"but the record {_shown(self.x[worst])} adds up to {sums[worst]:g}. Leave out `ones`, or count."
                ok = ((values == 0) | (values == 1)).all() and (sums == block.ones).all()
                require(ok, f"{claims} raises {block.ones} of its values by exactly 1, {but}")
            if block.total is not None:
                off = np.abs(sums - block.total)
                worst = int(off.argmax())
                but = f"but those of {_shown(self.x[worst])} add up to {sums[worst]:.6g}."
                hint = "Set `total` to none: inference takes the number of records from it."
                ok = (off <= _TOTAL_TOLERANCE * max(1.0, abs(block.total))).all()
                require(ok, f"{claims}'s values add up to {block.total:g}, {but} {hint}")

    def sensitivity(self) -> None:
        query, bounds = self.query, self.query.sensitivity(self.domain)
        worst = _worst_records(query, self.domain, bounds, self.x, self.rng)
        candidates = np.concatenate([worst, self.x])
        ratios = block_ratios(query.contribution(candidates.copy()), bounds)
        ok = np.isfinite(ratios).all(axis=1)
        require(ok.all(), _not_finite(candidates[int(np.argmin(ok))]), check="finite")
        i, goal = np.unravel_index(int(ratios.argmax()), ratios.shape)
        require(ratios[i, goal] <= 1.0 + _ROOM, _beyond(candidates[i], bounds, int(goal), float(ratios[i, goal])))
        self._integers(worst, bounds)

    def _integers(self, x: Array, bounds: Sensitivity) -> None:
        """What truly protects: the integers of one record against the integer sensitivity of its round."""
        for mechanism in MECHANISMS.values():
            weights, norm = mechanism.weights(self._shares(bounds), SENSITIVITY), mechanism.norm
            factors = mechanism.factors(bounds, weights)
            hint = f"Declare a larger l{norm}, and no `ones` for values that are not 0 or 1."
            for point in x:
                rows = self.query.contribution(point[None].copy())
                dense: Array = rows if isinstance(rows, np.ndarray) else rows.toarray()
                total = np.asarray(np.trunc(dense[0] * factors), dtype=np.int64)
                moves = f"with {mechanism.name} noise the record {_shown(point)} moves the integers of block"
                for (block, place), weight in zip(bounds.parts(), weights, strict=True):
                    ok = sum(abs(int(v)) ** norm for v in total[place]) <= weight**norm
                    more = "by more than the share of the sensitivity that they have."
                    require(ok, f"{moves} {block.name!r} {more} {hint}")

    def integer_total(self) -> None:
        query, bounds, records = self.query, self.query.sensitivity(self.domain), self.domain.fixed(self.x)
        fix = "Let it return recoup.queries.base.sum_of_contributions(self, records, factors)."
        dropped = np.full_like(records[:1], DROPPED)
        with_dropped = np.concatenate([dropped, records, dropped])
        n_times = _LONG_TABLE // len(records) + 1 if query.size <= _MANY_ROWS_SIZE else 2
        repeated, times = np.tile(records, (n_times, 1)), f"{n_times} times"
        for mechanism in MECHANISMS.values():
            factors = mechanism.factors(bounds, mechanism.weights(self._shares(bounds), SENSITIVITY))
            total = query.integer_total(records, factors)
            ok = isinstance(total, np.ndarray) and total.dtype == np.int64 and total.shape == (query.size,)
            require(ok, f"integer_total must give {query.size} 64-bit integers.")
            own, rest = sum_of_contributions(query, records, factors), query.integer_total(records[7:], factors)
            for what, table, expected in (
                ("integer_total is not the sum of the contributions, each rounded toward zero", records, own),
                ("the totals of two parts of a table do not add up to the table's", records[:7], total - rest),
                (f"the total of a table that is repeated {times} is not {times} its", repeated, n_times * total),
                ("a record with a missing value changes the total; it must contribute nothing", with_dropped, total),
            ):
                require(np.array_equal(query.integer_total(table, factors), expected), f"{what}. {fix}")

    def _shares(self, bounds: Sensitivity) -> list[Fraction]:
        if self.split is not None and set(self.split) == set(bounds.names):
            return [Fraction(self.split[name]) for name in bounds.names]
        return [Fraction(1, len(bounds.blocks))] * len(bounds.blocks)


def _beyond(record: Array, bounds: Sensitivity, goal: int, ratio: float) -> str:
    norm, at = divmod(goal, len(bounds.blocks))
    what = f"block {bounds.blocks[at].name!r}: the record {_shown(record)} contributes {ratio:.6g} times"
    rest = (
        ", so the noise would hide only a part of it. Declare a bound that holds for every record of the domain, at "
        f"least {ratio:.6g} times as large (a search cannot tell how much more), or clip the contribution to the bound "
        "that is declared."
    )
    if ratio < 1.0 + 1e-6:
        hint = "Leave room for it: declare a bound that is larger by a factor of 1 + 1e-9."
        rest = f" (too much by {ratio - 1:.2g}: rounding). {hint}"
    return f"{what} the declared l{norm + 1} bound{rest}"


def _not_finite(record: Array) -> str:
    return (
        f"the record {_shown(record)} contributes a number that is NaN or infinite. Look for divisions, logarithms and "
        "exponentials, and keep their arguments away from what breaks them."
    )


def _same(a: Array | csr_array, b: Array | csr_array) -> bool:
    if a.shape != b.shape:
        return False
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b, equal_nan=True)
    return bool((csr_array(a) != csr_array(b)).nnz == 0)


def described_bounds(query: Query, domain: Domain) -> str:
    """The bounds that a query declares as text, to the last bit."""
    blocks = query.sensitivity(domain).blocks
    return json.dumps([[b.name, b.size, b.l1.tolist(), b.l2.tolist(), b.ones, b.total] for b in blocks])


def _shown(record: Array) -> str:
    return "[" + ", ".join(f"{v:.6g}" for v in record[:6]) + (", ...]" if len(record) > 6 else "]")


def _on_grid(domain: Domain, unit: Array) -> Array:
    """Points moved into the domain and onto the grid, as records are."""
    return domain.fixed(domain.clip(unit)) / GRID


def _extreme_records(domain: Domain, rng: np.random.Generator) -> Array:
    """The centre, corners, edges, faces, vertices and poles of a domain, and points just beside them."""
    d = domain.n_columns
    if 3**d <= _MOST_PATTERNS:
        patterns = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=d)))
    else:
        patterns = rng.integers(-1, 2, size=(_MOST_PATTERNS, d)).astype(np.float64)
        corners = 2.0 * rng.integers(0, 2, size=(_MOST_PATTERNS, d)) - 1.0
        patterns = np.concatenate([np.zeros((1, d)), np.ones((1, d)), -np.ones((1, d)), corners, patterns])
    axes = np.eye(d)[: min(d, _MOST_AXES)]
    unit = np.concatenate([patterns, axes, -axes])
    # A hair inside: a step of the grid, and a little more.
    return _on_grid(domain, np.concatenate([unit, unit * (1.0 - 2.0**-29), unit * 0.999, unit * 0.5]))


def _random_records(domain: Domain, n: int, rng: np.random.Generator) -> Array:
    """Records spread over the domain, half of them on its boundary."""
    inside = uniform_points(domain, n - n // 2, rng)
    outside = rng.standard_normal((n // 2, domain.n_columns)) * 4.0
    return _on_grid(domain, np.concatenate([inside, outside]))


def block_ratios(rows: Array | csr_array, sensitivity: Sensitivity) -> Array:
    """For each record and block: its contribution over the declared bound, in L1, then in L2: (n, 2 n_blocks)."""
    n, n_blocks = rows.shape[0], len(sensitivity.blocks)
    l1 = np.concatenate([block.l1 for block in sensitivity.blocks])
    l2 = np.concatenate([block.l2 for block in sensitivity.blocks])
    edges = np.cumsum([0] + [block.size for block in sensitivity.blocks])
    if isinstance(rows, np.ndarray):
        first = np.add.reduceat(np.abs(rows / l1), edges[:-1], axis=1)
        second = np.sqrt(np.add.reduceat((rows / l2) ** 2, edges[:-1], axis=1))
        return np.concatenate([first, second], axis=1)
    rows = rows.copy()
    rows.sum_duplicates()
    owner = np.repeat(np.arange(n), np.diff(rows.indptr))
    place = owner * n_blocks + (np.searchsorted(edges, rows.indices, side="right") - 1)
    parts = [np.abs(rows.data / l1[rows.indices]), (rows.data / l2[rows.indices]) ** 2]
    first, second = (np.bincount(place, weights=p, minlength=n * n_blocks).reshape(n, n_blocks) for p in parts)
    return np.concatenate([first, np.sqrt(second)], axis=1)


def _worst_records(
    query: Query, domain: Domain, sensitivity: Sensitivity, known: Array, rng: np.random.Generator
) -> Array:
    """For each block and norm, the record that comes nearest to the bound, or breaks it: (2 n_blocks, d)."""
    ratios = block_ratios(query.contribution(known.copy()), sensitivity)
    n_goals, d = ratios.shape[1], domain.n_columns
    each = max(2, _CLIMBERS // n_goals)
    best = np.argsort(-ratios, axis=0, kind="stable")[: each // 2]
    fresh = _random_records(domain, each - len(best), rng)
    climbers = np.concatenate([np.concatenate([known[best[:, g]], fresh]) for g in range(n_goals)])
    goals = np.repeat(np.arange(n_goals), len(best) + len(fresh))

    def heights_of(x: Array, goals: NDArray[np.int64]) -> Array:
        heights = block_ratios(query.contribution(x.copy()), sensitivity)[np.arange(len(x)), goals]
        return np.where(np.isnan(heights), np.inf, heights)

    heights = heights_of(climbers, goals)
    m, everyone = len(climbers), np.arange(len(climbers))
    steps, slopes = np.full(m, _FIRST_STEP), np.zeros((m, d))
    for _ in range(_STEPS):
        if (steps < _SMALLEST_STEP).all():
            break
        columns = np.arange(d) if d <= _MOST_COLUMNS_TRIED else rng.choice(d, _MOST_COLUMNS_TRIED, replace=False)
        moves = _moves(columns, slopes, rng)
        tried = _on_grid(domain, climbers[:, None] + steps[:, None, None] * moves)
        reached = heights_of(tried.reshape(-1, d), np.repeat(goals, moves.shape[1])).reshape(m, -1)
        ahead, back = reached[:, : len(columns)], reached[:, len(columns) : 2 * len(columns)]
        slopes[:, columns] = np.where(np.isfinite(ahead - back), ahead - back, 0.0)
        choice = reached.argmax(axis=1)
        top = reached[everyone, choice]
        higher = top > heights
        climbers[higher] = tried[higher, choice[higher]]
        heights = np.where(higher, top, heights)
        steps = np.where(higher, np.minimum(steps * 1.5, _FIRST_STEP), steps * 0.5)
    winners = [np.flatnonzero(goals == g)[heights[goals == g].argmax()] for g in range(n_goals)]
    return climbers[winners]


def _moves(columns: NDArray[np.int64], slopes: Array, rng: np.random.Generator) -> Array:
    """For each climber: along each column, both ways; up its last known slope; and anywhere."""
    m, d = slopes.shape
    axes = np.broadcast_to(np.eye(d)[columns], (m, len(columns), d))
    anywhere = np.broadcast_to(rng.standard_normal((_RANDOM_DIRECTIONS, d)), (m, _RANDOM_DIRECTIONS, d))
    uphill = np.stack([slopes, np.sign(slopes)], axis=1)
    free = np.concatenate([uphill, anywhere], axis=1)
    free = free / np.maximum(np.abs(free).max(axis=2, keepdims=True), 1e-300)
    return np.concatenate([axes, -axes, free], axis=1)
