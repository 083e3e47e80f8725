"""The project's own queries and algorithms go through the suite that it offers for yours."""

import importlib.util
from pathlib import Path

import pytest
from cases import queries

from recoup.algorithms.registry import ALGORITHMS
from recoup.testing import check_algorithm, check_query
from recoup.testing.queries import named_domains

pytestmark = pytest.mark.usefixtures("few_points")

CASES = [(d, name) for d in (1, 2, 5) for name in queries(d)]
KINDS = ("Box", "L1Ball", "L2Ball")  # queries go through wider balls too


def _listed_algorithms():
    """The cases of the contract of algorithms: what is listed there is checked here."""
    path = Path(__file__).with_name("test_algorithms.py")
    spec = importlib.util.spec_from_file_location("listed_algorithms", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CASES


LISTED = _listed_algorithms()


@pytest.mark.parametrize(("d", "name"), CASES)
def test_a_query_keeps_its_contract(d, name):
    assert check_query(queries(d)[name]).passed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LISTED)
def test_an_algorithm_keeps_its_contract(name, kind):
    assert type(LISTED[name]) is ALGORITHMS[name]
    assert check_algorithm(LISTED[name], domain=named_domains(None, 2)[kind]).passed
