"""What every algorithm promises: it is a function from the transcript so far to the next query."""

import functools
import json

import numpy as np
import pytest
from cases import context, domains

from recoup.algorithms.base import Algorithm
from recoup.algorithms.bounds import FindBounds
from recoup.algorithms.components import CovariancePCA, PowerPCA
from recoup.algorithms.incomplete import CountIncomplete
from recoup.algorithms.kmeans.adaptive import AdaptiveKMeans
from recoup.algorithms.kmeans.grid import GridKMeans, HybridKMeans
from recoup.algorithms.kmeans.lloyd import KMeans
from recoup.algorithms.logistic import LogisticRegression
from recoup.algorithms.mixture import GaussianMixture
from recoup.algorithms.registry import ALGORITHMS, algorithm_from_json
from recoup.driver import release
from recoup.errors import TranscriptFormatError
from recoup.transcript.transcript import Transcript

pytestmark = pytest.mark.usefixtures("few_points")

CASES = {
    "bounds": FindBounds(),
    "incomplete": CountIncomplete(),
    "kmeans-lloyd": KMeans(n_clusters=3, n_rounds=4),
    "kmeans-adaptive": AdaptiveKMeans(n_clusters=3),
    "kmeans-grid": GridKMeans(n_clusters=3, rule="rugnik"),
    "kmeans-hybrid": HybridKMeans(n_clusters=3),
    "pca-covariance": CovariancePCA(n_components=2),
    "pca-power": PowerPCA(n_components=1, n_rounds=3),
    "gaussian-mixture": GaussianMixture(n_components=3, n_rounds=4),
    "logistic-regression": LogisticRegression(n_rounds=4),
}


def test_every_registered_algorithm_is_under_test():
    # One that ran elsewhere releases nothing here.
    assert set(CASES) == set(ALGORITHMS) - {"elsewhere"}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("domain_name", domains(1))
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
class TestAlgorithm:
    def test_asks_for_the_whole_budget_and_no_more(self, name, domain_name, mechanism):
        transcript = _usual(name, domain_name, mechanism)
        assert sum(r.share for r in transcript.rounds) == 1

    def test_next_request_is_a_function_of_the_rounds(self, name, domain_name, mechanism):
        algorithm = CASES[name]
        transcript = _usual(name, domain_name, mechanism)
        # From the JSON alone, as another process would have it.
        again = Transcript.from_json(json.loads(json.dumps(transcript.to_json())))
        for n in range(len(transcript.rounds) + 1):
            requests = [
                algorithm.next_request(t.context, t.rounds[:n], np.random.default_rng(5)) for t in (transcript, again)
            ]
            if n == len(transcript.rounds):
                assert requests == [None, None]
            else:
                assert requests[0].query.to_json() == requests[1].query.to_json()
                assert (requests[0].share, requests[0].split) == (requests[1].share, requests[1].split)
                if n and name != "kmeans-adaptive":  # the others draw nothing after their start
                    assert requests[0].query.to_json() == transcript.rounds[n].query.to_json()

    def test_estimate_is_finite_and_inside(self, name, domain_name, mechanism):
        algorithm, domain = CASES[name], domains(2)[domain_name]
        for x in (np.empty((0, 2)), np.zeros((1, 2)), np.full((3, 2), np.nan)):
            transcript = _released(algorithm, domain, mechanism, x)
            answer = algorithm.estimate(transcript.context, transcript.rounds)
            assert np.isfinite(answer).all()
            if algorithm.has_centers:
                assert answer.shape == (3, 2)
                assert domain.contains(answer).all()


@pytest.mark.parametrize("name", CASES)
def test_json_round_trip(name):
    assert isinstance(CASES[name], Algorithm)
    assert algorithm_from_json(json.loads(json.dumps(CASES[name].to_json()))) == CASES[name]


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"type": "os.system"},
        {"type": ["kmeans-lloyd"]},
        {"type": "kmeans-lloyd"},
        {"type": "kmeans-lloyd", "n_clusters": "3", "n_rounds": 5},
        {"type": "kmeans-lloyd", "n_clusters": 0, "n_rounds": 5},
        {"type": "kmeans-grid", "n_clusters": 3},
        {"type": "kmeans-grid", "n_clusters": 3, "rule": ["eugkm"]},
        {"type": "kmeans-hybrid", "n_clusters": "3"},
    ],
)
def test_a_description_that_is_none_is_refused(value):
    with pytest.raises(TranscriptFormatError):
        algorithm_from_json(value)


@functools.cache
def _usual(name, domain_name, mechanism):
    x = np.random.default_rng(0).uniform(-3, 7, size=(200, 2))
    return _released(CASES[name], domains(2)[domain_name], mechanism, x)


def _released(algorithm, domain, mechanism, x):
    terms = context(domain, mechanism)
    return release(algorithm, x, domain=domain, epsilon=terms.epsilon, delta=terms.delta, random_state=0)
