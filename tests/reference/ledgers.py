"""Prices and ledgers that tests of the ledger share."""

from collections.abc import Callable
from fractions import Fraction

from recoup.privacy.ledger import Ledger
from recoup.privacy.price import Price

Make = Callable[..., Ledger]


def pure(amount: object) -> Price:
    return Price(measure="pure", amount=Fraction(amount))  # type: ignore[arg-type]


def zcdp(amount: object) -> Price:
    return Price(measure="zcdp", amount=Fraction(amount))  # type: ignore[arg-type]


def gaussian(amount: object) -> Price:
    return Price(measure="gaussian", amount=Fraction(amount))  # type: ignore[arg-type]
