"""What tests of the contract suite register is gone after each."""

import pytest

from recoup.algorithms.registry import ALGORITHMS
from recoup.queries import QUERIES


@pytest.fixture(autouse=True)
def registries():
    before = [(entries, dict(entries)) for entries in (QUERIES, ALGORITHMS)]
    yield
    for entries, kept in before:
        entries.clear()
        entries.update(kept)
