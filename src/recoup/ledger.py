"""What was spent, on what: a privacy budget in SQLite that several processes may share.

A charge is made, durably, before its noise is drawn. So whatever dies, and whenever, the ledger may count a release
that never happened, but no release goes unpaid. The ledger holds prices and purposes, and nothing of the records.

**Which charges are admitted.** Rounds may be chosen adaptively, each after having seen all earlier answers. With
delta = 0 the epsilons of pure charges must add up to at most epsilon. With delta > 0 let R = rho_of(epsilon, delta),
fixed when the ledger is created; entries are admitted if at least one of two rules holds for all of them together:

1. all are pure, and their epsilons add up to at most epsilon;
2. their zCDP prices (rho, and e**2 / 2 for a pure e) add up to at most R. Mixing is priced through zCDP.

Each rule alone is a valid filter (for zCDP: Feldman and Zrnic 2021; Whitehouse, Ramdas, Rogers and Wu 2023), and so
is "either". A path that ends under rule 1 has a privacy loss of at most epsilon and adds nothing to delta; a path that
ends under rule 2 is also a path, with the same probabilities, of the algorithm that stops where rule 2 would first
fail, and that algorithm is (epsilon, delta)-DP.

**What is durable.** One transaction a charge, in a rollback journal (mode DELETE) with synchronous=EXTRA: the commit
returns only after the data, and the disappearance of the journal from its folder, are on disk, so a charge survives
kill -9 and a power cut. FULL would not sync the folder, and a power cut could take back a commit. A write-ahead log
would need shared memory and two more files beside the ledger; charges are too few for its speed to matter.

**What is exact.** Amounts and sums are fractions, as text "p/q"; no float is ever added. Only where a sum's denominator
outgrows 4096 bits (hundreds of unrelated denominators; Python itself would refuse to print some thousands of digits) is
it rounded up to a multiple of 2**-2048.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, cast, runtime_checkable

from recoup.accounting import Amount, Measure, Price, as_fraction, epsilon_of_rho, rho_of
from recoup.errors import (
    BudgetError,
    BudgetExceededError,
    LedgerError,
    LedgerFormatError,
    ParameterError,
)
from recoup.files import appearing
from recoup.ledger_store import File, Memory
from recoup.ledger_tables import VERSION, check_tables, fraction_text, make_tables, read_fraction

_MOST_BITS = 4096
_GRID = 2**2048
_LARGEST_RHO = 10**200
_SMALLEST_DELTA = Fraction(1, 10**300)


class Entry(NamedTuple):
    """One charge. Entries are in the order of their ids; the time is for people to read, since clocks may go back."""

    id: int
    run: str
    purpose: str
    measure: Measure
    amount: Fraction
    spent_after: Fraction
    time: str
    library: str


class Priced(Protocol):
    """Something with a price."""

    @property
    def price(self) -> Price:
        """What it costs."""


@runtime_checkable
class PricedPlan(Protocol):
    """Planned rounds, each with its price."""

    @property
    def rounds(self) -> Sequence[Priced]:
        """The rounds in order."""


class Preview(NamedTuple):
    """What some charges would do, all in epsilon; a negative ``left_after`` is what is missing."""

    spent_before: Fraction
    asked: Fraction
    left_after: Fraction
    fits: bool


class _Budget(NamedTuple):
    epsilon: Fraction
    delta: Fraction
    rho: Fraction


class _Totals(NamedTuple):
    """The sums over all entries that the admission rules need."""

    pure: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    n_zcdp: int = 0

    def plus(self, price: Price) -> _Totals:
        is_pure = price.measure == "pure"
        return _Totals(
            _bounded(self.pure + price.amount) if is_pure else self.pure,
            _bounded(self.rho + price.rho),
            self.n_zcdp + (not is_pure),
        )

    def fits(self, budget: _Budget) -> bool:
        if self.n_zcdp == 0 and self.pure <= budget.epsilon:
            return True
        return budget.delta > 0 and self.rho <= budget.rho

    def spent(self, budget: _Budget) -> Fraction:
        if budget.delta == 0:
            return self.pure
        spent = epsilon_of_rho(self.rho, budget.delta)
        if self.n_zcdp == 0:
            spent = min(spent, self.pure)
        # R was certified for epsilon, so a conversion that is an ulp off its own monotony may not show more.
        return min(spent, budget.epsilon) if self.fits(budget) else spent


class _State(NamedTuple):
    budget: _Budget
    totals: _Totals
    spent: Fraction


class Ledger:
    """A privacy budget, and everything that was charged to it.

    Args:
        path: the ledger's file, made by ``Ledger.create``.
        timeout: seconds to wait while another process charges.

    Raises:
        LedgerFormatError: the file is not a ledger, is damaged, or is of a newer version.
        LedgerError: there is no such file, or it cannot be opened.

    Guarantees:
        The whole interaction with all releases charged here is (epsilon, delta)-DP, whichever way rounds were chosen,
        if each release satisfies its price. ``spent`` is what the entries would cost had they been planned in
        advance. May be used by several processes and threads, and after a fork. A copy, a pickle or a scikit-learn
        clone spends from the same file; a copy of a ledger in memory is the same object, and cannot be pickled.

    >>> ledger = Ledger.in_memory(epsilon=1)
    >>> entry = ledger.charge(Price(measure="pure", amount=Fraction(1, 4)), purpose="round 1")
    >>> float(ledger.spent), float(ledger.left), entry.id
    (0.25, 0.75, 1)
    """

    __slots__ = ("__weakref__", "_store")

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        self._store: File | Memory = File(path, timeout)
        self._state()

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], epsilon: Amount = 3, delta: Amount = 0, *, timeout: float = 30.0
    ) -> Self:
        """Create a ledger in a new file.

        Args:
            path: the file, which must not exist yet.
            epsilon: the whole budget; a float counts as the decimal that it prints.
            delta: 0 for pure differential privacy; more to allow zCDP charges (Gaussian noise).
            timeout: seconds to wait while another process charges.

        Returns:
            The ledger, with nothing spent.

        Guarantees:
            Never writes to a file that exists. After an interruption at any point there is a whole ledger, or none.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     float(Ledger.create(folder + "/ledger.db", epsilon=0.5).left)
        0.5
        """
        budget = _checked_budget(epsilon, delta)
        target = Path(path).absolute()
        try:
            with appearing(target) as temporary, File(temporary, timeout).connection() as connection:
                _initialise(connection, budget)
        except FileExistsError:
            raise LedgerError(f"{target} exists already. Open it with Ledger(path), or choose another name.") from None
        except OSError as error:
            raise LedgerError(f"{target} cannot be created: {error.strerror}.") from None
        return cls(path, timeout=timeout)

    @classmethod
    def in_memory(cls, epsilon: Amount = 3, delta: Amount = 0) -> Self:
        """Create a ledger that lives as long as this process.

        Args:
            epsilon: the whole budget.
            delta: 0 for pure differential privacy.

        Returns:
            The ledger, with nothing spent.

        >>> Ledger.in_memory(epsilon=0.1).epsilon
        Fraction(1, 10)
        """
        ledger = cls.__new__(cls)
        ledger._store = Memory()
        with ledger._store.connection() as connection:
            _initialise(connection, _checked_budget(epsilon, delta))
        return ledger

    @property
    def name(self) -> str:
        """How messages call it: by its file, if it has one."""
        return f"ledger {self._store.name}"

    @property
    def path(self) -> Path | None:
        """The ledger's file; None in memory."""
        return self._store.path

    @property
    def epsilon(self) -> Fraction:
        """The whole budget."""
        return self._state().budget.epsilon

    @property
    def delta(self) -> Fraction:
        """The delta at which the budget is spent."""
        return self._state().budget.delta

    @property
    def spent(self) -> Fraction:
        """The epsilon spent so far, at the ledger's delta."""
        return self._state().spent

    @property
    def left(self) -> Fraction:
        """The epsilon that is left, at least 0."""
        state = self._state()
        return state.budget.epsilon - state.spent

    def charge(self, price: Price, *, purpose: str, run: str = "") -> Entry:
        """Pay for one release, before its noise is drawn.

        Args:
            price: what the release costs.
            purpose: what it is for, in words; never anything about records.
            run: which run it belongs to.

        Returns:
            The entry, which is on disk.

        Raises:
            BudgetExceededError: too little is left.
            BudgetError: a zCDP price, and the ledger has delta = 0.
            LedgerLockedError: another process held the ledger for too long.

        Guarantees:
            If this raises, do not release. If it returns, the charge survives the death of the process.

        >>> Ledger.in_memory(epsilon=1).charge(Price(measure="pure", amount=Fraction(1)), purpose="all").spent_after
        Fraction(1, 1)
        """
        for text in (purpose, run):
            if not isinstance(text, str) or any("\ud800" <= letter <= "\udfff" for letter in text):
                raise ParameterError("purpose and run of a charge must be text.")
        with self._store.connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            state = _read_state(connection, self._store.name)
            totals, spent_after = _after(state, [price])
            if not totals.fits(state.budget):
                spent, left = state.spent, state.budget.epsilon - state.spent
                asked = spent_after - spent
                raise BudgetExceededError(spent=spent, asked=asked, left=left, where=f"Ledger {self._store.name}")
            time, library = datetime.now(UTC).isoformat(timespec="seconds"), _library()
            cursor = connection.execute(
                "INSERT INTO entry (run, purpose, measure, amount, spent_after, pure_after, rho_after, n_zcdp_after,"
                " time, library) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(run, purpose, price.measure, fraction_text(price.amount), fraction_text(spent_after)),
                    *(fraction_text(totals.pure), fraction_text(totals.rho), totals.n_zcdp, time, library),
                ),
            )
            connection.execute("COMMIT")
        return Entry(cast(int, cursor.lastrowid), run, purpose, price.measure, price.amount, spent_after, time, library)

    def preview(self, plan: Iterable[Price] | PricedPlan) -> Preview:
        """Say what some charges would do, and write nothing.

        Args:
            plan: a plan of rounds, as `recoup.planner` makes it, or the prices themselves; all of them are to fit.

        Returns:
            The epsilon spent before, asked for and left after, and whether all of it fits.

        >>> Ledger.in_memory(epsilon=1).preview([Price(measure="pure", amount=Fraction(3, 4))] * 2).fits
        False
        """
        state = self._state()
        prices = [planned.price for planned in plan.rounds] if isinstance(plan, PricedPlan) else plan
        totals, spent_after = _after(state, prices)
        left_after = state.budget.epsilon - spent_after
        return Preview(state.spent, spent_after - state.spent, left_after, totals.fits(state.budget))

    def entries(self) -> tuple[Entry, ...]:
        """Read all charges, oldest first."""
        with self._store.connection() as connection:
            _read_state(connection, self._store.name)
            rows = connection.execute(f"SELECT {', '.join(Entry._fields)} FROM entry ORDER BY id").fetchall()
        return tuple(_entry(row, self._store.name) for row in rows)

    def export(self) -> dict[str, Any]:
        """Give the whole ledger as plain values for JSON; fractions are text "p/q".

        >>> Ledger.in_memory(epsilon=0.5).export()["epsilon"]
        '1/2'
        """
        # Entries first: what is spent is then read from the same entries, whatever is charged meanwhile.
        entries, budget = self.entries(), self._state().budget
        spent = entries[-1].spent_after if entries else Fraction(0)
        return {
            "format": "recoup-ledger",
            "version": VERSION,
            "epsilon": fraction_text(budget.epsilon),
            "delta": fraction_text(budget.delta),
            "spent": fraction_text(spent),
            "left": fraction_text(budget.epsilon - spent),
            "entries": [
                {
                    **entry._asdict(),
                    "amount": fraction_text(entry.amount),
                    "spent_after": fraction_text(entry.spent_after),
                }
                for entry in entries
            ],
        }

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})" if self.path else "Ledger.in_memory()"

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: object) -> Ledger:
        # A clone of an estimator has to spend from the same budget; in memory only the same object does.
        return self if isinstance(self._store, Memory) else Ledger(self._store.path, timeout=self._store.timeout)

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self._store, Memory):
            raise LedgerError(
                "A ledger in memory cannot be pickled: its copy would be a second budget. "
                "Use Ledger.create(path, ...), which processes can share."
            )
        return _reopen, (str(self._store.path), self._store.timeout)

    def _state(self) -> _State:
        with self._store.connection() as connection:
            return _read_state(connection, self._store.name)


def _reopen(path: str, timeout: float) -> Ledger:
    return Ledger(path, timeout=timeout)


def _checked_budget(epsilon: Amount, delta: Amount) -> _Budget:
    epsilon_exact = as_fraction(epsilon, "epsilon")
    delta_exact = as_fraction(delta, "delta", allow_zero=True)
    if delta_exact >= 1:
        raise BudgetError("delta must be less than 1; it is a probability, such as 1e-6.")
    return _Budget(epsilon_exact, delta_exact, rho_of(epsilon_exact, delta_exact) if delta_exact else Fraction(0))


def _initialise(connection: sqlite3.Connection, budget: _Budget) -> None:
    make_tables(connection)
    connection.execute(
        "INSERT INTO budget (id, epsilon, delta, rho, time, library) VALUES (1, ?, ?, ?, ?, ?)",
        (*map(fraction_text, budget), datetime.now(UTC).isoformat(timespec="seconds"), _library()),
    )
    connection.execute("COMMIT")


def _read_state(connection: sqlite3.Connection, name: str) -> _State:
    check_tables(connection, name)
    # One statement, so that budget and totals are of one moment.
    row = connection.execute(
        "SELECT epsilon, delta, rho, spent_after, pure_after, rho_after, n_zcdp_after FROM budget"
        " LEFT JOIN entry ON entry.id = (SELECT max(id) FROM entry)"
    ).fetchone()
    if row is None:
        raise LedgerFormatError(f"{name} is a ledger without a budget: it is damaged.")
    budget = _Budget(*(read_fraction(text, name) for text in row[:3]))
    if row[3] is None:
        state = _State(budget, _Totals(), Fraction(0))
    else:
        spent, pure, rho = (read_fraction(text, name) for text in row[3:6])
        state = _State(budget, _Totals(pure, rho, row[6]), spent)
    if not _possible(state):
        raise LedgerFormatError(f"{name} holds numbers that no ledger can: it is damaged. Take its budget as spent.")
    return state


def _possible(state: _State) -> bool:
    """Whether charges could have led to this state; cells may hold anything."""
    budget, totals = state.budget, state.totals
    try:
        as_fraction(budget.epsilon, "epsilon")
    except BudgetError:
        return False
    if budget.delta == 0:
        delta = totals.n_zcdp == 0 and state.spent == totals.pure
    else:
        delta = _SMALLEST_DELTA <= budget.delta < 1
    ordinary = max(budget.rho, totals.rho) <= _LARGEST_RHO and state.spent <= budget.epsilon
    counted = isinstance(totals.n_zcdp, int) and totals.n_zcdp >= 0
    return delta and ordinary and counted and totals.fits(budget)


def _after(state: _State, prices: Iterable[Price]) -> tuple[_Totals, Fraction]:
    totals = state.totals
    for price in prices:
        if not isinstance(price, Price):
            raise BudgetError(f"A price must be a recoup.accounting.Price, but is of type {type(price).__name__}.")
        if price.measure == "zcdp" and state.budget.delta == 0:
            raise BudgetError(
                "This ledger has delta = 0 and takes pure charges only. For zCDP (Gaussian noise) create the ledger "
                "with a delta: Ledger.create(path, epsilon=3, delta=1e-6)."
            )
        totals = totals.plus(price)
    return totals, (state.spent if totals == state.totals else totals.spent(state.budget))


def _entry(row: tuple[Any, ...], name: str) -> Entry:
    entry = Entry(*row)
    entry = entry._replace(amount=read_fraction(row[4], name), spent_after=read_fraction(row[5], name))
    texts = (entry.run, entry.purpose, entry.time, entry.library)
    if entry.amount == 0 or entry.measure not in ("pure", "zcdp") or not all(isinstance(text, str) for text in texts):
        raise LedgerFormatError(f"{name} holds an entry that is none: it is damaged.")
    return entry


def _bounded(total: Fraction) -> Fraction:
    if total.denominator.bit_length() <= _MOST_BITS:
        return total
    return Fraction(-(-total.numerator * _GRID // total.denominator), _GRID)


@cache
def _library() -> str:
    from importlib.metadata import version

    return version("recoup")
