"""The only place where records meet noise."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from recoup.curator.source import Source
from recoup.errors import BudgetExceededError, ParameterError
from recoup.privacy.mechanism import Noise, SecureNoise
from recoup.privacy.price import Price
from recoup.privacy.statement import NOT_PRIVATE, Unit
from recoup.queries.base import check_columns
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round, quote


class Payer(Protocol):
    """Who pays for an answer: a `recoup.Ledger`, or whatever has charged one already."""

    def charge(self, price: Price, *, purpose: str, run: str, unit: Unit, n_before: int | None) -> object:
        """Pay, durably, or raise."""


class Curator:
    """Holds the records, the noise and the ledger, and answers queries.

    Args:
        source: the records.
        context: the public terms: domain, budget, mechanism.
        ledger: charged before noise is drawn, if given.
        run: a public name of the release in the ledger.
        n_charged: how many charges of this run the ledger holds; none: the ledger does not check it.
        spent: the share of the budget that earlier rounds of the same release have used.

    Guarantees: the rounds that it answers cost at most the context's budget together; nothing but noisy totals leaves.
    """

    def __init__(
        self,
        source: Source,
        context: Context,
        *,
        ledger: Payer | None = None,
        run: str = "",
        n_charged: int | None = None,
        spent: Fraction = Fraction(0),
    ) -> None:
        self._source, self._context, self._ledger, self._run = source, context, ledger, run
        self._spent, self._n_charged = spent, n_charged

    def answer(self, request: Request, noise: Noise | None = None) -> Round:
        """Answer one query within its share of the budget: exact integer totals, charge, then noise on every value.

        Noise is secure unless simulated noise is given.
        """
        context, query = self._context, request.query
        noise = SecureNoise() if noise is None else noise
        check_columns(query, context.domain)
        if self._spent + request.share > 1:
            raise BudgetExceededError(
                spent=self._spent, asked=request.share, left=1 - self._spent, where="shares of this release's budget"
            )
        terms = quote(context, request)
        totals = self._source.total(query, terms.factors)
        if len(totals) != query.size:
            raise ParameterError(f"a source answered {len(totals)} totals to a query of {query.size}.")
        if self._ledger is not None:
            mark = f"{NOT_PRIVATE}; " if noise.simulated else ""
            purpose = f"{mark}{query.type_name} query of {query.size} value{'' if query.size == 1 else 's'}"
            n_before, unit = self._n_charged, context.unit
            self._ledger.charge(terms.price, purpose=purpose, run=self._run, unit=unit, n_before=n_before)
            self._n_charged = None if n_before is None else n_before + 1
        self._spent += request.share
        noisy = context.noise.release(totals, terms.scale, noise)
        return Round.of(
            context,
            query=query,
            integers=tuple(noisy),
            weights=terms.weights,
            scale=terms.scale,
            price=terms.price,
            share=request.share,
        )
