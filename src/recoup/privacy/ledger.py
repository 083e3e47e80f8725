"""What was spent, on what: a privacy budget in SQLite that several processes may share.

A charge is made, durably, before its noise is drawn. So whatever dies, and whenever, the ledger may count a release
that never happened, but no release goes unpaid. The ledger holds prices and purposes, and nothing of the records.
`recoup.privacy.ledger_rules` says which charges are admitted. A random identifier, which transcripts name together with
the run that paid for them, makes sure that a run is continued under the ledger that it began with, and once.

**What is durable.** One transaction a charge, in a rollback journal (mode DELETE) with synchronous=EXTRA: the commit
returns only after the data, and the disappearance of the journal from its folder, are on disk, so a charge survives
kill -9 and a power cut. FULL would not sync the folder, and a power cut could take back a commit. A write-ahead log
would need shared memory and two more files beside the ledger; charges are too few for its speed to matter.

**No times.** Seconds would tell how long a round took, and so how many records there are. A charge keeps the day on
which its run began, and nothing finer.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

from recoup._files import appearing
from recoup._shown import Card, Shown, shortened
from recoup._validate import choice
from recoup.errors import (
    BudgetExceededError,
    Call,
    ContinuationError,
    LedgerError,
    LedgerUnitError,
    ParameterError,
    UnitConverted,
)
from recoup.privacy import ledger_file
from recoup.privacy.gaussian import Accounting
from recoup.privacy.ledger_file import Entry, File, Memory, Said, fraction_text, read_state, transaction
from recoup.privacy.ledger_releases import Release, releases_of, said_line, user_name
from recoup.privacy.ledger_rules import Budget, State
from recoup.privacy.price import Amount, Price
from recoup.privacy.statement import CSV_UNITS, ONE_RECORD, Kind, Unit


@runtime_checkable
class PricedPlan(Protocol):
    """Planned rounds, each with its `price`."""

    rounds: Sequence[Any]


class Preview(NamedTuple):
    """What some charges would do, all in epsilon; a negative ``left_after`` is what is missing."""

    spent_before: Fraction
    asked: Fraction
    left_after: Fraction
    fits: bool


class Ledger(Shown):
    """A privacy budget, and everything that was charged to it.

    Args:
        path: the ledger's file, made by ``Ledger.create``.
        timeout: seconds to wait while another process charges.

    Raises:
        LedgerFormatError: the file is not a ledger, is damaged, or is of a newer version.
        LedgerError: there is no such file, or it cannot be opened.

    Guarantees: the whole interaction with all releases charged here is (epsilon, delta)-DP for the unit, however rounds
    were chosen, if each release satisfies its price for its own unit. ``spent`` is what the entries would cost if they
    had been planned in advance. A ledger may be used by several processes and threads, and after a fork. A copy, a
    pickle or a scikit-learn clone spends from the same budget; a ledger in memory cannot be pickled.

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
        cls,
        path: str | os.PathLike[str],
        epsilon: Amount = 3,
        delta: Amount = 0,
        *,
        records_per_person: int | None = None,
        accounting: Accounting = "gaussian",
        timeout: float = 30.0,
    ) -> Self:
        """Create a ledger in a new file.

        Args:
            path: the file, which must not exist yet.
            epsilon: the whole budget; a float counts as the decimal that Python prints for it.
            delta: 0 for pure differential privacy; more to allow Gaussian noise.
            records_per_person: for whom it counts; None: that of the first release that is charged.
            accounting: how charges are added up where delta is above 0. "gaussian" is exact for Gaussian noise; "zcdp"
                also accepts your own mechanisms that are priced only in zCDP.
            timeout: seconds to wait while another process charges.

        Returns:
            The ledger, with nothing spent.

        Guarantees: never writes to a file that exists. After an interruption there is a whole ledger, or none.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     float(Ledger.create(folder + "/ledger.db", epsilon=0.5).left)
        0.5
        """
        budget, unit = Budget.of(epsilon, delta, accounting), _declared(records_per_person)
        target = Path(path).absolute()
        try:
            with appearing(target) as temporary, transaction(File(temporary, timeout)) as connection:
                ledger_file.create(connection, budget, unit)
        except FileExistsError:
            look = Call("Open it with Ledger(path)", "Look at it with recoup ledger show")
            raise LedgerError(f"{target} exists already. ", look, ", or choose another name.") from None
        except OSError as error:
            raise LedgerError(f"{target} cannot be created: {error.strerror}.") from None
        return cls(path, timeout=timeout)

    @classmethod
    def in_memory(
        cls,
        epsilon: Amount = 3,
        delta: Amount = 0,
        *,
        records_per_person: int | None = None,
        accounting: Accounting = "gaussian",
    ) -> Self:
        """Create a ledger that lives as long as this process.

        Args:
            epsilon: the whole budget.
            delta: 0 for pure differential privacy.
            records_per_person: for whom it counts; None: that of the first release that is charged.
            accounting: how charges are added up, as in ``create``.

        Returns:
            The ledger, with nothing spent.

        >>> Ledger.in_memory(epsilon=0.1).epsilon
        Fraction(1, 10)
        """
        ledger = cls.__new__(cls)
        ledger._store = Memory()
        with transaction(ledger._store) as connection:
            ledger_file.create(connection, Budget.of(epsilon, delta, accounting), _declared(records_per_person))
        return ledger

    @property
    def name(self) -> str:
        """What messages call it: its file, if it has one."""
        return f"ledger {self._store.name}"

    @property
    def path(self) -> Path | None:
        """The ledger's file; None in memory."""
        return self._store.path

    @property
    def identifier(self) -> str | None:
        """Its random public name; None in a ledger of an earlier version whose unit was not declared."""
        return self._state().identifier

    @property
    def unit(self) -> Unit | None:
        """For whom it counts; None before the first charge, or in a ledger of an earlier version."""
        return self._state().unit

    @property
    def epsilon(self) -> Fraction:
        """The whole budget."""
        return self._state().budget.epsilon

    @property
    def delta(self) -> Fraction:
        """The delta at which the budget is spent."""
        return self._state().budget.delta

    @property
    def accounting(self) -> Accounting:
        """How charges are added up where delta is above 0; "zcdp" in a ledger of an earlier version."""
        return self._state().budget.accounting

    @property
    def spent(self) -> Fraction:
        """The epsilon spent so far, at the ledger's delta."""
        return self._state().spent

    @property
    def left(self) -> Fraction:
        """The epsilon that is left, at least 0."""
        state = self._state()
        return state.budget.epsilon - state.spent

    def declare(
        self, *, records_per_person: int = 1, kind: Literal["record", "line"] = "record", person: str | None = None
    ) -> Unit:
        """Say for whom the ledger counts, once: needed for a ledger that an earlier version made.

        Args:
            records_per_person: the smallest that any release charged so far had; all of their promises hold for it.
            kind: "line" where CSV is read by lines, as in earlier versions, and lines are not records.
            person: the column that identifies persons, if there is one; the ledger then counts for persons.

        Returns:
            The unit.

        Raises:
            LedgerUnitError: the unit is already known.

        Guarantees: sums and entries stay as they are. A ledger of an earlier version gets an identifier; that version
        can then no longer read it.

        >>> str(Ledger.in_memory(epsilon=1).declare(records_per_person=5))
        '5 records of one person'
        """
        choice(kind, "kind", tuple(CSV_UNITS.values()))
        persons: Kind = "person by lines" if kind == "line" else "person"
        counted = kind if person is None else persons
        unit = Unit(kind=counted, records_per_person=records_per_person, column=person)
        with transaction(self._store) as connection:
            state = read_state(connection, self._store.name)
            if state.unit is not None:
                raise LedgerUnitError(f"The {self.name} counts for {state.unit} already; this is declared once.")
            ledger_file.declare(connection, state, unit)
        return unit

    def charge(
        self, price: Price, *, purpose: str, run: str = "", unit: Unit = ONE_RECORD, n_before: int | None = None
    ) -> Entry:
        """Pay for one release, before its noise is drawn.

        Args:
            price: what the release costs.
            purpose: what it is for, in words; never anything about records.
            run: which run it belongs to.
            unit: whose presence the price hides; a price for fewer records of a person than the ledger counts is
                converted upward.
            n_before: how many charges of this run the ledger must hold, so that a run continues in one place only.

        Returns:
            The entry, which is on disk.

        Raises:
            BudgetExceededError: too little is left.
            BudgetError: the price is not pure and delta is 0; or it is known only in zCDP and the accounting is
                "gaussian".
            LedgerUnitError: the price is for more records of a person than the ledger counts, or the ledger has no
                unit.
            ContinuationError: the run was continued elsewhere.
            LedgerLockedError: another process held the ledger for too long.

        Guarantees: if this raises, do not release. If it returns, the charge survives the death of the process.

        >>> Ledger.in_memory(epsilon=1).charge(Price(measure="pure", amount=Fraction(1)), purpose="all").spent_after
        Fraction(1, 1)
        """
        for text in (purpose, run):
            if not isinstance(text, str) or any("\ud800" <= letter <= "\udfff" for letter in text):
                raise ParameterError("purpose and run of a charge must be text.")
        with transaction(self._store) as connection:
            state = read_state(connection, self._store.name)
            after = state.charged([price], unit, f"The {self.name}")
            if not after.totals.fits(state.budget):
                spent, left = state.spent, state.budget.epsilon - state.spent
                asked = after.spent - spent
                raise BudgetExceededError(spent=spent, asked=asked, left=left, where=f"Ledger {self._store.name}")
            n_charged, day = ledger_file.charges_of(connection, run)
            if n_before is not None and n_charged != n_before:
                raise ContinuationError(
                    f"The {self.name} holds {n_charged} charges of this run, and not {n_before}: it goes on in another "
                    "place, with a copy of its transcript. Nothing was charged. Go on with one of them only."
                )
            if state.unit is None:
                ledger_file.declare(connection, state, unit)
            return ledger_file.add_entry(connection, price, after, purpose=purpose, run=run, unit=unit, day=day)

    def begin(self, run: str, *, purpose: str = "", by: str | None = None) -> None:
        """Note what a release is for and who makes it, before its first charge; nothing is spent by it.

        Args:
            run: which run the release is.
            purpose: what it is for, in one line of public text; what was said of the run before stays.
            by: who makes it; by default the environment variable RECOUP_USER, or the name that the system knows.

        Guarantees: a ledger of an earlier version stays as it is, unless a purpose is given: it then becomes one of
        today's, which that version cannot read.
        """
        if not said_line(run, "run"):
            raise ParameterError("run is empty: name the run of the release.", parameter="run")
        said = Said(said_line(purpose, "purpose"), said_line(user_name() if by is None else by, "by"))
        with transaction(self._store) as connection:
            ledger_file.say(connection, self._store.name, run, said)

    def preview(self, plan: Iterable[Price] | PricedPlan, *, unit: Unit = ONE_RECORD) -> Preview:
        """Say what some charges would do, and write nothing.

        Args:
            plan: a plan of rounds, as `recoup.planner` makes it, or the prices themselves; all of them must fit.
            unit: whose presence the prices hide.

        Returns:
            The epsilon spent before, asked for, and left afterwards, and whether all of it fits.

        Raises:
            LedgerUnitError: the ledger would refuse them because of their unit.

        >>> Ledger.in_memory(epsilon=1).preview([Price(measure="pure", amount=Fraction(3, 4))] * 2).fits
        False
        """
        state = self._state()
        prices = [planned.price for planned in plan.rounds] if isinstance(plan, PricedPlan) else plan
        after = state.charged(prices, unit, f"The {self.name}")
        left_after = state.budget.epsilon - after.spent
        return Preview(state.spent, after.spent - state.spent, left_after, after.totals.fits(state.budget))

    def afford(self, price: Price, unit: Unit) -> None:
        """Refuse more than is left (`BudgetExceededError`), before anything is spent."""
        preview = self.preview([price], unit=unit)
        if not preview.fits:
            spent, asked = preview.spent_before, preview.asked
            raise BudgetExceededError(spent=spent, asked=asked, left=self.left, where=self.name)

    def expect(self, unit: Unit) -> None:
        """Say how prices for a unit will be counted, before the first of them is charged.

        Warns (`UnitConverted`) where they are for fewer records of a person than the ledger counts; raises
        `LedgerUnitError` where they cannot be counted.
        """
        self.preview([], unit=unit)
        counted = self.unit
        if counted is not None and counted != unit:
            warnings.warn(
                f"The {self.name} counts what is lost by {counted}, and this release is for {unit}: every epsilon is "
                f"counted {counted.times(unit, 'pure')} times, every rho {counted.times(unit, 'zcdp')} times.",
                UnitConverted,
                stacklevel=3,
            )

    def entries(self) -> tuple[Entry, ...]:
        """Read all charges, oldest first."""
        with self._store.connection() as connection:
            return ledger_file.read_entries(connection, self._store.name)

    def releases(self) -> tuple[Release, ...]:
        """Read all releases, in the order in which they began."""
        with self._store.connection() as connection:
            entries = ledger_file.read_entries(connection, self._store.name)
            state = read_state(connection, self._store.name)
        return releases_of(entries, self._said(), state, self.name)

    def export(self) -> dict[str, Any]:
        """Give the whole ledger as plain values for JSON; fractions are text "p/q", and times are days."""
        # Entries first: what is spent is then read from the same entries, whatever is charged meanwhile.
        entries, state = self.entries(), self._state()
        budget = state.budget
        spent = entries[-1].spent_after if entries else Fraction(0)
        return {
            "format": "recoup-ledger",
            "version": ledger_file.VERSION if state.identifier else 1,
            "identifier": state.identifier,
            "unit": None if state.unit is None else state.unit.to_json(),
            "epsilon": fraction_text(budget.epsilon),
            "delta": fraction_text(budget.delta),
            "accounting": budget.accounting,
            "spent": fraction_text(spent),
            "left": fraction_text(budget.epsilon - spent),
            "entries": [
                {
                    **entry._asdict(),
                    "amount": fraction_text(entry.amount),
                    "spent_after": fraction_text(entry.spent_after),
                    "unit": None if entry.unit is None else entry.unit.to_json(),
                }
                for entry in entries
            ],
            "releases": [{"run": run, **said._asdict()} for run, said in self._said().items()],
        }

    def __repr__(self) -> str:
        return shortened(f"Ledger({str(self.path)!r})" if self.path else "Ledger.in_memory()")

    def _card(self) -> Card:
        try:
            entries, state = self.entries(), self._state()
        except LedgerError as error:
            return Card(f"Ledger {self._store.name}", note=str(error))
        budget, numbers = state.budget, {"epsilon": state.budget.epsilon, "delta": state.budget.delta}
        numbers |= {"spent": state.spent, "left": budget.epsilon - state.spent}
        facts = [(name, f"{float(value):.6g}") for name, value in numbers.items()]
        facts += [("hides", str(state.unit) if state.unit else "as the first release will say")]
        rows = [(e.purpose, f"{float(e.amount):.4g}", e.measure, f"{float(e.spent_after):.4g}") for e in entries[::-1]]
        return Card(
            f"Ledger {self._store.name}", facts, ("charged for, the last first", "price", "measure", "spent"), rows
        )

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: object) -> Ledger:
        # A clone of an estimator has to spend from the same budget; in memory only the same object does.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self._store, Memory):
            raise LedgerError(
                "A ledger in memory cannot be pickled: its copy would be a second budget. "
                "Use Ledger.create(path, ...), which processes can share."
            )
        return partial(Ledger, timeout=self._store.timeout), (str(self._store.path),)

    def _said(self) -> dict[str, Said]:
        with self._store.connection() as connection:
            return ledger_file.read_said(connection, self._store.name)

    def _state(self) -> State:
        with self._store.connection() as connection:
            return read_state(connection, self._store.name)


def _declared(records_per_person: int | None) -> Unit | None:
    return None if records_per_person is None else Unit(records_per_person=records_per_person)
