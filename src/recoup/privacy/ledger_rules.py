"""Which charges a ledger admits, by exact sums over all of its entries.

Rounds may be chosen adaptively, each after having seen all earlier answers. With delta = 0 the epsilons of pure charges
must add up to at most epsilon. With delta > 0 let R = amount_of(accounting, epsilon, delta), fixed when the ledger is
created; entries are admitted if at least one of two rules holds for all of them together:

1. all are pure, and their epsilons add up to at most epsilon;
2. what they count in the ledger's accounting adds up to at most R. Mixing is priced in it, too.

In the accounting "gaussian" a price counts with its mu^2 / 2, and one that has none, being in zCDP alone, is refused.
In "zcdp", that of all ledgers of earlier versions, each counts with its rho: a price in "gaussian" is also one, and is
kept as such. A ledger has one of them for life. "Whichever holds in the end" would need a delta for each.

Each rule alone is a valid filter (for zCDP: Feldman and Zrnic 2021; Whitehouse, Ramdas, Rogers and Wu 2023; for
Gaussian DP: Smith and Thakurta 2022; Koskela, Tobaben and Honkela 2022), and so is "either". A path that ends under
rule 1 has a privacy loss of at most epsilon and adds nothing to delta; a path that ends under rule 2 is also a path,
with the same probabilities, of the algorithm that stops where rule 2 would first fail, and that algorithm is
(epsilon, delta)-DP.

All sums are of one unit, the ledger's. A price for fewer records of a person is converted upward before it is added
(`Unit`); one for more is refused, for all that was charged before would be worth more to such a person.

Amounts and sums are fractions; no float is ever added. Only where a sum's denominator outgrows 4096 bits (hundreds of
unrelated denominators; Python itself would refuse to print some thousands of digits) is it rounded up to a multiple of
2**-2048.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple, get_args

from recoup._validate import choice
from recoup.errors import Argument, BudgetError, Call, LedgerUnitError, ParameterError
from recoup.privacy.gaussian import Accounting, amount_of, counted, epsilon_of
from recoup.privacy.price import Amount, Price, as_fraction
from recoup.privacy.statement import Unit

_MOST_BITS = 4096
_GRID = 2**2048
_LARGEST_RHO = 10**200
_SMALLEST_DELTA = Fraction(1, 10**300)


class Budget(NamedTuple):
    """What may be spent; `rho` is the R of the rules."""

    epsilon: Fraction
    delta: Fraction
    rho: Fraction
    accounting: Accounting

    @classmethod
    def of(cls, epsilon: Amount, delta: Amount, accounting: Accounting) -> Budget:
        """A budget as it was typed."""
        epsilon_exact = as_fraction(epsilon, "epsilon")
        delta_exact = as_fraction(delta, "delta", allow_zero=True)
        if delta_exact >= 1:
            raise BudgetError("delta must be less than 1; it is a probability, such as 1e-6.")
        choice(accounting, "accounting", get_args(Accounting))
        most = amount_of(accounting, epsilon_exact, delta_exact) if delta_exact else Fraction(0)
        return cls(epsilon_exact, delta_exact, most, accounting)


class Totals(NamedTuple):
    """The sums over all entries that the rules need; `rho` is of what they count in the ledger's accounting."""

    pure: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    n_zcdp: int = 0

    def plus(self, price: Price, accounting: Accounting) -> Totals:
        """The sums with one more price, of the ledger's unit."""
        is_pure = price.measure == "pure"
        return Totals(
            bounded(self.pure + price.amount) if is_pure else self.pure,
            bounded(self.rho + counted(price, accounting)),
            self.n_zcdp + (not is_pure),
        )

    def fits(self, budget: Budget) -> bool:
        """Whether one of the two rules holds."""
        if self.n_zcdp == 0 and self.pure <= budget.epsilon:
            return True
        return budget.delta > 0 and self.rho <= budget.rho

    def spent(self, budget: Budget) -> Fraction:
        """The epsilon that the entries are worth."""
        if budget.delta == 0:
            return self.pure
        spent = epsilon_of(budget.accounting, self.rho, budget.delta)
        if self.n_zcdp == 0:
            spent = min(spent, self.pure)
        # R was certified for epsilon, so a conversion that is an ulp off its own monotony may not show more.
        return min(spent, budget.epsilon) if self.fits(budget) else spent


class State(NamedTuple):
    """All of a ledger but its entries.

    Attributes:
        identifier: drawn when the ledger was made; none in a file of version 1 that was not declared yet.
        unit: that its sums are of; none before the first charge, and in a file of version 1.
    """

    budget: Budget
    totals: Totals = Totals()
    spent: Fraction = Fraction(0)
    identifier: str | None = None
    unit: Unit | None = None

    @property
    def possible(self) -> bool:
        """Whether charges could have led to this state; cells may hold anything."""
        budget, totals = self.budget, self.totals
        try:
            as_fraction(budget.epsilon, "epsilon")
        except BudgetError:
            return False
        if budget.delta == 0:
            delta = totals.n_zcdp == 0 and self.spent == totals.pure
        else:
            delta = _SMALLEST_DELTA <= budget.delta < 1
        ordinary = max(budget.rho, totals.rho) <= _LARGEST_RHO and self.spent <= budget.epsilon
        counted = isinstance(totals.n_zcdp, int) and totals.n_zcdp >= 0
        return delta and ordinary and counted and totals.fits(budget)

    def charged(self, prices: Iterable[Price], priced: Unit, name: str) -> State:
        """The state after charges for the unit `priced`, whether they fit or not; `name` is what errors call it."""
        unit = self._unit_for(priced, name)
        totals = self.totals
        for price in prices:
            if not isinstance(price, Price):
                raise BudgetError(
                    f"A price must be a recoup.privacy.price.Price, but is of type {type(price).__name__}."
                )
            if price.measure != "pure" and self.budget.delta == 0:
                raise BudgetError(
                    "This ledger has delta = 0 and takes pure charges only. For Gaussian noise, or zCDP, create the "
                    "ledger with a delta: ",
                    _create(delta="1e-6"),
                    ".",
                )
            if price.measure == "zcdp" and self.budget.accounting != "zcdp":
                raise BudgetError(
                    "This ledger adds up what Gaussian noise is worth exactly, and a price that is known in zCDP alone "
                    "does not say that. Create the ledger so that it adds up zCDP: ",
                    _create(delta="1e-6", accounting="zcdp"),
                    ".",
                )
            totals = totals.plus(unit.price(price, priced), self.budget.accounting)
        spent = self.spent if totals == self.totals else totals.spent(self.budget)
        return self._replace(totals=totals, spent=spent, unit=unit)

    def _unit_for(self, priced: Unit, name: str) -> Unit:
        if self.identifier is None:
            raise LedgerUnitError(
                f"{name} was made by an earlier version of Recoup and does not say for whom it counts: one record, or "
                "several of one person. Nothing was charged. Declare once the smallest number of records per person "
                "that any of its releases had: ",
                Call("Ledger(path).declare(records_per_person=1)", "recoup ledger declare PATH --records-per-person 1"),
                ".",
            )
        if not isinstance(priced, Unit):
            raise ParameterError(f"unit is a {type(priced).__name__}: give a recoup.privacy.statement.Unit.")
        unit = self.unit or priced
        if not unit.like(priced):
            both = f"a {unit.kind} and a {priced.kind}"
            both = both if unit.kind != priced.kind else "persons that two columns name"
            raise LedgerUnitError(
                f"{name} counts what is lost by {unit}, and the release is for {priced}: {both} are not alike, "
                "and neither can be converted. Nothing was charged. Keep a ledger for each (one that is made without ",
                Argument("records_per_person"),
                " takes the unit of its first release), or release as before, in the same dialect of CSV, and with the "
                "same ",
                Argument("person"),
                " or without one.",
            )
        if not unit.covers(priced):
            raise LedgerUnitError(
                f"{name} counts what is lost by {unit}, and the release is for {priced}: what was charged before would "
                "be worth more to such a person. Nothing was charged. Make a ledger for this unit with ",
                _create(records_per_person=str(priced.records_per_person)),
                ' and charge to it what was charged here ("When a ledger refuses" in the documentation says how).',
            )
        return unit


def _create(**more: str) -> Call:
    """How to make a ledger with this besides a budget."""
    python = "".join(f", {name}={value!r}" if value.isalpha() else f", {name}={value}" for name, value in more.items())
    command = "".join(f" --{name.replace('_', '-')} {value}" for name, value in more.items())
    return Call(f"Ledger.create(path, epsilon=3{python})", f"recoup ledger create PATH --epsilon 3{command}")


def bounded(total: Fraction) -> Fraction:
    """A sum, rounded up where it has too many digits to be kept."""
    if total.denominator.bit_length() <= _MOST_BITS:
        return total
    return Fraction(-(-total.numerator * _GRID // total.denominator), _GRID)
