"""Transcripts that are read and never changed."""

from fractions import Fraction

import numpy as np
import pytest
from cases import context, domains, queries, request

from recoup import Box, KMeans, release
from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.transcript.transcript import Transcript


@pytest.fixture(scope="module")
def transcript():
    x = np.random.default_rng(0).uniform(size=(200, 2))
    return release(KMeans(n_clusters=3, n_rounds=2), x, domain=Box([0, 0], [1, 1]), epsilon=1, random_state=0)


@pytest.fixture(scope="module")
def mixed():
    """A transcript of every kind of query."""
    domain = domains(2)["l2"]
    terms = context(domain, "gaussian")
    curator = Curator(open_source(np.zeros((1, 2)), domain), terms)
    share = Fraction(1, 2 * len(queries(2)))
    rounds = tuple(curator.answer(request(query, domain, share)) for query in queries(2).values())
    return Transcript(
        context=terms,
        algorithm={"type": "x"},
        rounds=rounds,
        simulated=True,
        lost=(Fraction(1, 4),),
        pending=Fraction(1, 8),
    )
