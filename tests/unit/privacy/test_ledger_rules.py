"""Which units a ledger counts, by its rules alone."""

from fractions import Fraction

import pytest
from ledgers import pure

from recoup.errors import LedgerUnitError, ParameterError
from recoup.privacy.ledger_rules import Budget, State
from recoup.privacy.statement import ONE_RECORD, Unit

UNITS = (
    Unit(),
    Unit(kind="line"),
    Unit(kind="person", column="who"),
    Unit(kind="person", column="ward"),
    Unit(kind="person by lines", column="who"),
)
EMPTY = State(Budget.of(1, 0, "gaussian"), identifier="0" * 32)


def test_the_first_charge_gives_the_unit():
    five = Unit(records_per_person=5)
    after = EMPTY.charged([pure("1/4")], five, "It")
    assert (after.unit, after.spent, after.totals.pure) == (five, Fraction(1, 4), Fraction(1, 4))
    assert after.charged([pure("1/8")], ONE_RECORD, "It").totals.pure == Fraction(7, 8)


@pytest.mark.parametrize("counted", UNITS, ids=str)
@pytest.mark.parametrize("priced", UNITS, ids=str)
def test_records_lines_and_persons_are_not_alike(counted, priced):
    ledger = EMPTY._replace(unit=counted)
    if counted == priced:
        assert ledger.charged([pure("1/4")], priced, "It").totals.pure == Fraction(1, 4)
        return
    alike = counted.kind == priced.kind
    both = "persons that two columns name" if alike else f"a {counted.kind} and a {priced.kind}"
    with pytest.raises(LedgerUnitError, match=f"{priced}: {both} are not alike, and neither can be converted"):
        ledger.charged([pure("1/4")], priced, "It")


def test_a_person_with_more_records_is_refused():
    with pytest.raises(LedgerUnitError, match=r"^It counts what is lost by one record, .* records_per_person=2"):
        EMPTY._replace(unit=ONE_RECORD).charged([], Unit(records_per_person=2), "It")


def test_a_ledger_that_does_not_say_for_whom_it_counts_is_refused():
    with pytest.raises(LedgerUnitError, match=r"^It was made by an earlier version"):
        EMPTY._replace(identifier=None).charged([], ONE_RECORD, "It")


def test_a_unit_is_a_unit():
    with pytest.raises(ParameterError, match="unit is a str: give a"):
        EMPTY.charged([], "one record", "It")
