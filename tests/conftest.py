"""Settings that every test shares."""

import pytest
from hypothesis import settings

# The first call of a compiled kernel takes longer than hypothesis's default deadline; derandomised, so that a red test
# is red for everybody.
settings.register_profile("recoup", deadline=None, derandomize=True, max_examples=60, print_blob=True)
settings.load_profile("recoup")

_FEW = {
    "recoup.algorithms.base.Algorithm.support_points": 1_000,
    "recoup.algorithms.kmeans.adaptive._POINTS_BETWEEN": 600,
    "recoup.algorithms.kmeans.adaptive._POINTS_SETTLING": 500,
    "recoup.algorithms.kmeans.adaptive._RESTARTS_BETWEEN": 3,
    "recoup.algorithms.kmeans.adaptive._RESTARTS_FOR_CLUSTERS": 5,
    "recoup.inference.choose._DRAWS": 9,  # enough for a level of 0.9
    "recoup.maxent.measure._SETTLING_POINTS": 500,
    "recoup.inference.intervals._DRAWS": 9,
}


@pytest.fixture
def few_points(monkeypatch):
    """Small supports and few restarts and draws: for tests that ask whether something works, and not how well."""
    for name, value in _FEW.items():
        monkeypatch.setattr(name, value)
