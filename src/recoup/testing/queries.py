"""The contract of a query, tried on one query in one domain."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array, issparse

from recoup.domain import Domain
from recoup.errors import ParameterError
from recoup.kernels.fixed_point import DROPPED
from recoup.privacy.mechanism import MECHANISMS, SENSITIVITY
from recoup.queries import QUERIES, query_from_json
from recoup.queries.base import MAX_SIZE, Array, Integers, Query, Records, Sensitivity, sum_of_contributions
from recoup.testing.records import block_ratios, default_domains, extreme_records, random_records, worst_records
from recoup.testing.report import (
    Broken,
    Recorder,
    Report,
    check_frozen,
    check_json,
    check_protocol,
    listening,
    read_back,
)

QUERY_NAMES = ("type_name", "size", "n_columns", "sensitivity", "contribution", "integer_total", "to_json", "from_json")
# The curator's factors leave 2^-40 of room for rounding; half of that is for the contribution, half for the product.
_ROOM = 2.0**-41
_TOTAL_TOLERANCE = 1e-9
_N_RANDOM = 64
_N_SINGLE = 24
# Rows that the curator hands over at a time, one more, and a table of several such blocks; for answers of up to so many
# values, since larger ones would take long.
_BLOCKS, _LONG_TABLE, _MANY_ROWS_SIZE = (4096, 4097), 10_000, 1024


def check_query(
    query: Query,
    *,
    domain: Domain | Sequence[Domain] | None = None,
    random_state: int = 0,
    raise_on_failure: bool = True,
) -> Report:
    """Try the contract of a query of your own, and explain what breaks it.

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
        return default_domains(n_columns)
    given = [domain] if isinstance(domain, Domain) else list(domain)
    if not given or not all(isinstance(item, Domain) for item in given):
        raise ParameterError("domain must be a Box, L1Ball or L2Ball, a list of those, or none.")
    names = [type(item).__name__ + (f" of radius {item.shape()[1]:g}" if item.kind != "box" else "") for item in given]
    pairs = zip(names, given, strict=True)
    return {f"{name} (domain {i + 1})" if len(given) > 1 else name: d for i, (name, d) in enumerate(pairs)}


def try_query(
    recorder: Recorder,
    query: Query,
    domain: Domain,
    where: str,
    *,
    split: Mapping[str, Fraction] | None = None,
    random_state: int = 0,
) -> None:
    """Try every rule of a query; later ones only where the earlier ones let them be tried."""
    rng = np.random.default_rng(random_state)
    trial = _Trial(
        query, domain, np.concatenate([extreme_records(domain, rng), random_records(domain, _N_RANDOM, rng)])
    )
    recorder.run("frozen", where, check_frozen, query)
    if not recorder.run("sizes", where, trial.sizes):
        return
    recorder.run("json", where, trial.json)
    recorder.run("silence", where, trial.silence)
    recorder.run("purity", where, trial.purity)
    recorder.run("one by one", where, trial.one_by_one)
    # Where numbers are not finite there is nothing to compare.
    if recorder.run("finite", where, trial.finite):
        recorder.run("claims", where, trial.claims)
        recorder.run("sensitivity", where, trial.sensitivity, split, rng)
        recorder.run("integer total", where, trial.integer_total, split)


@dataclass(slots=True)
class _Trial:
    query: Query
    domain: Domain
    x: Array
    _rows: Array | csr_array | None = field(default=None)

    @property
    def rows(self) -> Array | csr_array:
        if self._rows is None:
            self._rows = self.query.contribution(self.x.copy())
        return self._rows

    def sizes(self) -> None:
        query, d = self.query, self.domain.n_columns
        if query.n_columns != d:
            raise Broken(f"n_columns is {query.n_columns} in a domain of {d} columns. Ask for the domain's columns.")
        if not isinstance(query.size, int) or not 1 <= query.size <= MAX_SIZE:
            raise Broken(f"size is {query.size!r}. Let it be an int between 1 and {MAX_SIZE}.")
        blocks = query.sensitivity(self.domain).blocks
        if sum(block.size for block in blocks) != query.size:
            raise Broken(f"size is {query.size}, but the blocks of sensitivity have {[b.size for b in blocks]} values.")
        if len({block.name for block in blocks}) < len(blocks):
            raise Broken(f"two blocks have the same name: {[b.name for b in blocks]}. The split needs different ones.")
        for block in blocks:
            for name, bound in (("l1", block.l1), ("l2", block.l2)):
                if np.shape(bound) != (block.size,) or not (np.isfinite(bound).all() and (np.asarray(bound) > 0).all()):
                    raise Broken(
                        f"block {block.name!r} of {block.size} values has an {name} that is not as many positive "
                        "numbers. recoup.custom.bounded_block makes them from one number."
                    )
        for n in (len(self.x), 1, 0):
            rows = query.contribution(self.x[:n].copy())
            if not (isinstance(rows, np.ndarray) or (issparse(rows) and rows.format == "csr")):
                raise Broken(f"contribution gives a {type(rows).__name__}: give a NumPy array, or a csr_array.")
            if rows.shape != (n, query.size):
                raise Broken(
                    f"contribution of {n} records has the shape {rows.shape}: it must be ({n}, {query.size}), also "
                    "for no record at all."
                )

    def json(self) -> None:
        check_json(self.query, QUERIES, query_from_json)
        again = read_back(self.query, QUERIES, query_from_json)
        if not _same(self.rows, again.contribution(self.x.copy())):
            raise Broken(
                "read back from JSON, it contributes something else. Everything that contribution needs must be a "
                "field and be written in full: numbers with .tolist(), not rounded, not as text of a few digits."
            )

    def silence(self) -> None:
        records, ones = self.domain.fixed(self.x), np.ones(self.query.size)
        calls: dict[str, Callable[[], object]] = {
            "contribution": lambda: self.query.contribution(self.x.copy()),
            "integer_total": lambda: self.query.integer_total(records, ones),
        }
        for name, call in calls.items():
            with listening() as said:
                call()
            if said:
                raise Broken(
                    f"{name} says something on some records ({said[0]}). Handle the case before it warns (np.where, "
                    "np.maximum), and take out the prints."
                )

    def purity(self) -> None:
        query, before = self.query, self.x.copy()
        given = self.x.copy()
        first = query.contribution(given)
        if not np.array_equal(given, before):
            raise Broken("contribution changes the array it is given. Work on a copy: x = x.copy(), or x = x * 2.")
        query.contribution(before[::-1].copy())
        query.contribution(before[:3].copy())
        hint = "Keep no cache, counter or generator: everything it needs is a field of the query."
        # More than once: what changes in turns may be back at its start.
        if not all(_same(first, query.contribution(before.copy())) for _ in range(3)):
            raise Broken(f"contribution gives something else when it is called again with the same records. {hint}")
        if not _same(first, copy.deepcopy(query).contribution(before.copy())):
            raise Broken(f"a copy of the query contributes something else. {hint}")
        if described_bounds(query.sensitivity(self.domain)) != described_bounds(query.sensitivity(self.domain)):
            raise Broken(f"sensitivity gives something else when it is called again. {hint}")

    def one_by_one(self) -> None:
        x, rows, n = self.x, self.rows, len(self.x)
        order = np.random.default_rng(0).permutation(n)
        hint = (
            "Nothing may be computed over the rows: no mean, no maximum, no len(x); the last bit counts, since it "
            "decides integers (x @ w depends on the number of rows: write (x[:, None, :] * w).sum(axis=2))."
        )
        if not _same(rows[order], self.query.contribution(x[order].copy())):
            raise Broken(f"in another order, the same records contribute something else. {hint}")
        for i in order[:_N_SINGLE]:
            if not _same(rows[[i]], self.query.contribution(x[[i]].copy())):
                raise Broken(f"the record {_shown(x[i])} contributes something else alone than among {n}. {hint}")
        half = n // 2
        if not _same(rows[:half], self.query.contribution(x[:half].copy())):
            raise Broken(f"the same records contribute something else without the other half of them. {hint}")
        for n_rows in (8 * n, *(_BLOCKS if self.query.size <= _MANY_ROWS_SIZE else ())):
            many = np.tile(x, (n_rows // n + 1, 1))[-n_rows:]
            if not _same(rows, self.query.contribution(many)[-n:]):
                raise Broken(f"the same records contribute something else among {n_rows}. {hint}")

    def finite(self) -> None:
        rows = self.rows
        values = rows if isinstance(rows, np.ndarray) else rows.data
        if not np.isfinite(values).all():
            bad = ~np.isfinite(rows).all(axis=1) if isinstance(rows, np.ndarray) else ~np.isfinite(rows.sum(axis=1))
            raise Broken(_not_finite(self.x[np.flatnonzero(np.asarray(bad).ravel())[0]]))

    def claims(self) -> None:
        for block, place in self.query.sensitivity(self.domain).parts():
            part = self.rows[:, place]
            values = part if isinstance(part, np.ndarray) else part.data
            sums = np.asarray(part.sum(axis=1)).ravel()
            if block.ones is not None and not (((values == 0) | (values == 1)).all() and (sums == block.ones).all()):
                worst = int(np.argmax(sums != block.ones))
                raise Broken(
                    f"block {block.name!r} claims that every record raises {block.ones} of its values by exactly 1, "
                    f"but the record {_shown(self.x[worst])} adds up to {sums[worst]:g}. Leave out `ones`, or count."
                )
            if block.total is not None:
                off = np.abs(sums - block.total)
                if not (off <= _TOTAL_TOLERANCE * max(1.0, abs(block.total))).all():
                    worst = int(off.argmax())
                    raise Broken(
                        f"block {block.name!r} claims that every record's values add up to {block.total:g}, but those "
                        f"of {_shown(self.x[worst])} add up to {sums[worst]:.6g}. Set `total` to none: inference "
                        "takes the number of records from it."
                    )

    def sensitivity(self, split: Mapping[str, Fraction] | None, rng: np.random.Generator) -> None:
        query, bounds = self.query, self.query.sensitivity(self.domain)
        worst = worst_records(query, self.domain, bounds, self.x, rng)
        candidates = np.concatenate([worst, self.x])
        rows = query.contribution(candidates.copy())
        ratios = block_ratios(rows, bounds)
        if not np.isfinite(ratios).all():
            raise Broken(_not_finite(candidates[np.flatnonzero(~np.isfinite(ratios).all(axis=1))[0]]), check="finite")
        i, goal = np.unravel_index(int(ratios.argmax()), ratios.shape)
        if ratios[i, goal] > 1.0 + _ROOM:
            raise Broken(_beyond(candidates[i], bounds, int(goal), float(ratios[i, goal])))
        _check_integers(query, candidates[: len(worst)], bounds, split)

    def integer_total(self, split: Mapping[str, Fraction] | None) -> None:
        query, bounds = self.query, self.query.sensitivity(self.domain)
        records = self.domain.fixed(self.x)
        for mechanism in MECHANISMS.values():
            factors = mechanism.factors(bounds, mechanism.weights(_shares(bounds, split), SENSITIVITY))
            total = query.integer_total(records, factors)
            expected = sum_of_contributions(query, records, factors)
            if not isinstance(total, np.ndarray) or total.dtype != np.int64 or total.shape != (query.size,):
                raise Broken(f"integer_total must give {query.size} 64-bit integers.")
            fix = "Let it return recoup.queries.base.sum_of_contributions(self, records, factors)."
            if not np.array_equal(total, expected):
                raise Broken(f"integer_total is not the sum of the contributions, each rounded toward zero. {fix}")
            parts = [query.integer_total(part, factors) for part in (records[:7], records[7:])]
            if not np.array_equal(total, parts[0] + parts[1]):
                raise Broken(f"the totals of two parts of a table do not add up to the table's. {fix}")
            n_times = _LONG_TABLE // len(records) + 1 if query.size <= _MANY_ROWS_SIZE else 2
            if not np.array_equal(query.integer_total(np.tile(records, (n_times, 1)), factors), n_times * total):
                raise Broken(f"the total of a table that is repeated {n_times} times is not {n_times} times its. {fix}")
            if not np.array_equal(query.integer_total(_with_dropped(records), factors), total):
                raise Broken(f"a record with a missing value changes the total; it must contribute nothing. {fix}")


def _check_integers(query: Query, x: Array, bounds: Sensitivity, split: Mapping[str, Fraction] | None) -> None:
    """What truly protects: the integers of one record against the integer sensitivity of its round."""
    for mechanism in MECHANISMS.values():
        weights = mechanism.weights(_shares(bounds, split), SENSITIVITY)
        factors = mechanism.factors(bounds, weights)
        for point in x:
            total = _integers_of(query, point, factors)
            for (block, place), weight in zip(bounds.parts(), weights, strict=True):
                values = [abs(int(v)) for v in total[place]]
                moved = sum(values) if mechanism.norm == 1 else sum(v * v for v in values)
                if moved > weight**mechanism.norm:
                    raise Broken(
                        f"with {mechanism.name} noise the record {_shown(point)} moves the integers of block "
                        f"{block.name!r} by more than the share of the sensitivity that they have. Declare a larger "
                        f"l{mechanism.norm}, and no `ones` for values that are not 0 or 1."
                    )


def _integers_of(query: Query, point: Array, factors: Array) -> Integers:
    rows = query.contribution(point[None].copy())
    dense: Array = rows if isinstance(rows, np.ndarray) else rows.toarray()
    return np.asarray(np.trunc(dense[0] * factors), dtype=np.int64)


def _beyond(record: Array, bounds: Sensitivity, goal: int, ratio: float) -> str:
    n_blocks = len(bounds.blocks)
    block, norm = bounds.blocks[goal % n_blocks], 1 if goal < n_blocks else 2
    start = (
        f"block {block.name!r}: the record {_shown(record)} contributes {ratio:.6g} times the declared l{norm} bound"
    )
    if ratio < 1.0 + 1e-6:
        return (
            f"{start} (too much by {ratio - 1:.2g}: rounding). Leave room for it: declare a bound that is larger by a "
            "factor of 1 + 1e-9."
        )
    return (
        f"{start}, so the noise would hide only a part of it. Declare a bound that holds for every record of the "
        f"domain, at least {ratio:.6g} times as large (a search cannot tell how much more), or clip the contribution "
        "to the bound that is declared."
    )


def _not_finite(record: Array) -> str:
    return (
        f"the record {_shown(record)} contributes a number that is NaN or infinite. Look for divisions, logarithms and "
        "exponentials, and keep their arguments away from what breaks them."
    )


def _shares(bounds: Sensitivity, split: Mapping[str, Fraction] | None) -> list[Fraction]:
    if split is not None and set(split) == set(bounds.names):
        return [Fraction(split[name]) for name in bounds.names]
    return [Fraction(1, len(bounds.blocks))] * len(bounds.blocks)


def _with_dropped(records: Records) -> Records:
    dropped = np.full_like(records[:2], DROPPED)
    return np.concatenate([dropped[:1], records, dropped[1:]])


def _same(a: Array | csr_array, b: Array | csr_array) -> bool:
    if a.shape != b.shape:
        return False
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b, equal_nan=True)
    return bool((csr_array(a) != csr_array(b)).nnz == 0)


def described_bounds(sensitivity: Sensitivity) -> str:
    """Bounds as text, to the last bit."""
    return json.dumps([[b.name, b.size, b.l1.tolist(), b.l2.tolist(), b.ones, b.total] for b in sensitivity.blocks])


def _shown(record: Array) -> str:
    return "[" + ", ".join(f"{v:.6g}" for v in record[:6]) + (", ...]" if len(record) > 6 else "]")
