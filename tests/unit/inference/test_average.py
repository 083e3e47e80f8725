"""The average of the last iterates, the baseline that every inference should beat."""

import numpy as np
import pytest

import recoup
from recoup.algorithms.kmeans.lloyd import in_order
from recoup.errors import ParameterError

X = np.random.default_rng(0).uniform(size=(400, 2))
TRANSCRIPT = recoup.release(
    recoup.KMeans(n_clusters=3, n_rounds=4), X, domain=recoup.Box([0, 0], [1, 1]), epsilon=2, noise="simulated"
)


def iterate(n_rounds):
    """The last iterate of the transcript's first rounds, in the user's units."""
    algorithm = recoup.KMeans(n_clusters=3, n_rounds=4)
    unit = algorithm.estimate(TRANSCRIPT.context, TRANSCRIPT.rounds[:n_rounds])
    return TRANSCRIPT.context.domain.from_unit(unit)


def test_one_is_the_last_iterate_and_two_the_mean_of_the_last_two():
    np.testing.assert_allclose(recoup.refit(TRANSCRIPT, None, average_last=1), in_order(iterate(4)), atol=1e-12)
    mean = (iterate(3) + iterate(4)) / 2
    np.testing.assert_allclose(recoup.refit(TRANSCRIPT, None, average_last=2), in_order(mean), atol=1e-12)
    assert np.abs(iterate(3) - iterate(4)).max() > 1e-3


def test_more_rounds_than_there_are_average_all():
    mean = np.mean([iterate(n) for n in (1, 2, 3, 4)], axis=0)
    np.testing.assert_allclose(recoup.refit(TRANSCRIPT, None, average_last=9), in_order(mean), atol=1e-12)


def test_only_iterates_of_the_same_clusters_are_averaged():
    adaptive = recoup.release(
        recoup.AdaptiveKMeans(n_clusters=2), X, domain=recoup.Box([0, 0], [1, 1]), epsilon=2, noise="simulated"
    )
    with pytest.raises(ParameterError, match="DP-KMEANS"):
        recoup.refit(adaptive, None, average_last=2)
    with pytest.raises(ParameterError, match="inferred"):
        recoup.refit(TRANSCRIPT, recoup.infer(TRANSCRIPT, "consistency"), average_last=2)
    with pytest.raises(ParameterError, match="average_last"):
        recoup.refit(TRANSCRIPT, None, average_last=0)
