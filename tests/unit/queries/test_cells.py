"""Cells around centres: which are taken, what people are told, and the layout of their rows."""

import numpy as np
import pytest

from recoup.errors import ParameterError
from recoup.queries.base import Asked
from recoup.queries.cells import VoronoiQuery

CENTERS = np.array([[-0.5, 0.0], [0.5, 0.0], [0.0, 0.75]])


def test_centres_lie_within_a_stated_distance():
    for size in (2.0**20, -(2.0**20)):
        assert VoronoiQuery(centers=np.full((1, 1), size)).centers[0, 0] == size
        with pytest.raises(ParameterError, match=r"numbers within \+-1\.04858e\+06"):
            VoronoiQuery(centers=np.full((1, 1), size * (1 + 2**-20)))


def test_radii_lie_within_stated_ends():
    def relative(radius):
        return VoronoiQuery(centers=np.zeros((1, 1)), sums="relative", radii=np.array([radius]))

    for radius in (2.0**-30, 2.0**30):
        assert relative(radius).radii.tolist() == [radius]
    for radius in (2.0**-30 * (1 - 2**-20), 2.0**30 * (1 + 2**-20), 0.0, np.nan):
        with pytest.raises(ParameterError, match=r"between 2\^-30 and 2\^30"):
            relative(radius)


def test_other_sums_are_refused_by_their_name():
    with pytest.raises(ParameterError, match=r"^sums=") as refusal:
        VoronoiQuery(centers=CENTERS, sums="some")
    assert refusal.value.parameter == "sums"


def test_what_people_are_told():
    assert VoronoiQuery(centers=CENTERS).asked() == Asked("sums", 3, "counts and sums in 3 cells")
    assert VoronoiQuery(centers=CENTERS[:1]).asked() == Asked("sums", 1, "counts and sums in 1 cell")
    assert VoronoiQuery(centers=CENTERS[:2], sums="none").asked() == Asked("counts", 2, "counts in 2 cells")
    assert VoronoiQuery(centers=CENTERS[:1], sums="none").asked() == Asked("total", 1, "the number of records")


@pytest.mark.parametrize("terms", [{"sums": "none"}, {}, {"sums": "relative", "radii": np.array([0.1, 0.2, 0.3])}])
def test_rows_for_the_solver_are_the_contributions(terms):
    query, points = VoronoiQuery(centers=CENTERS, **terms), np.random.default_rng(0).uniform(-1, 1, size=(40, 2))
    (rows,) = query.solver_rows(points)
    assert (rows.n_cells, rows.shape) == (3, (40, query.size))
    whole = np.zeros((40, query.size))
    whole[np.arange(40), rows.cells] = 1.0
    if rows.values is not None:
        for i, cell in enumerate(rows.cells):
            whole[i, 3 + 2 * cell : 5 + 2 * cell] = rows.values[i]
    expected = query.contribution(points)
    np.testing.assert_array_equal(whole, expected if isinstance(expected, np.ndarray) else expected.toarray())
