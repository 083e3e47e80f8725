"""The price of a planned round is what the curator asks for it."""

from dataclasses import FrozenInstanceError, replace
from fractions import Fraction

import numpy as np
import pytest
from cases import context, domains, queries, request

from recoup import Ledger
from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.errors import ParameterError
from recoup.queries.counts import GridQuery
from recoup.transcript.context import Request
from recoup.transcript.quote import quote


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("name", queries(2))
def test_it_is_what_the_curator_charges_and_releases(mechanism, name):
    domain, ledger = domains(2)["l1"], Ledger.in_memory(epsilon=9, delta="1e-6")
    terms, asked = context(domain, mechanism), request(queries(2)[name], domain, Fraction(1, 3))
    offer = quote(terms, asked)
    answered = Curator(open_source(np.zeros((1, 2)), domain), terms, ledger=ledger).answer(asked)
    assert (offer.price, offer.scale, offer.weights) == (answered.price, answered.scale, answered.weights)
    assert [entry.amount for entry in ledger.entries()] == [offer.price.amount]
    assert offer.price.amount <= terms.budget.amount * Fraction(1, 3)
    np.testing.assert_allclose(offer.scales, answered.scales, rtol=1e-15)
    np.testing.assert_array_equal(1.0 / offer.factors, answered.units)
    assert offer.sensitivity.names == tuple(asked.split)
    assert offer != quote(terms, asked)  # arrays have no one answer to whether they are equal
    with pytest.raises(FrozenInstanceError):
        offer.scale = 1.0


def test_a_split_must_name_the_blocks_of_the_answer():
    domain = domains(2)["box"]
    asked = request(next(iter(queries(2).values())), domain)
    with pytest.raises(ParameterError, match=r"the split names \['other'\], the answer has \["):
        quote(context(domain), replace(asked, split={"other": Fraction(1)}))


def test_bounds_that_do_not_fit_the_answer_are_refused():
    class Short:
        type_name, size = "short", 3

        def sensitivity(self, domain):
            return GridQuery(sides=(2, 1)).sensitivity(domain)

    asked = Request(query=Short(), share=Fraction(1), split={"count": Fraction(1)})
    with pytest.raises(ParameterError):
        quote(context(domains(2)["box"]), asked)
