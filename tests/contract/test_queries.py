"""What every query promises, whatever it asks."""

import dataclasses
import json

import naive
import numpy as np
import pytest
from cases import domains, even_split, extreme_rows, queries

from recoup.curator.source import fixed_records, open_source
from recoup.privacy.mechanism import Gaussian, Laplace
from recoup.queries import QUERIES, query_from_json
from recoup.queries.base import Query, sum_of_contributions

CASES = [(d, name) for d in (1, 2, 5) for name in queries(d)]
MECHANISMS = {1: Laplace(), 2: Gaussian()}
# Kinds whose naive twin takes a library's exponential and adds up in another order: equal but for the last bits.
ROUNDED = {"logistic-gradient", "mixture"}


def test_every_registered_query_is_under_test():
    assert {query.type_name for query in queries(2).values()} == set(QUERIES)


@pytest.mark.parametrize(("d", "name"), CASES)
class TestQuery:
    def test_is_a_frozen_value(self, d, name):
        query = queries(d)[name]
        assert isinstance(query, Query)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(query, dataclasses.fields(query)[0].name, None)
        if name.startswith("voronoi"):
            with pytest.raises(ValueError, match="read-only"):
                query.centers[0] = 0

    def test_sizes_agree(self, d, name):
        query = queries(d)[name]
        x = np.zeros((4, d))
        assert query.n_columns == d
        assert query.contribution(x).shape == (4, query.size)
        assert query.contribution(x[:0]).shape == (0, query.size)
        for domain in domains(d).values():
            sensitivity = query.sensitivity(domain)
            assert sensitivity.size == query.size
            for block in sensitivity.blocks:
                assert block.l1.shape == block.l2.shape == (block.size,)
                assert (block.l1 > 0).all()
                assert (block.l2 > 0).all()

    def test_json_round_trip_keeps_the_contribution(self, d, name):
        query = queries(d)[name]
        again = query_from_json(json.loads(json.dumps(query.to_json())))
        assert again.to_json() == query.to_json()
        x = np.random.default_rng(0).uniform(-1, 1, size=(30, d))
        np.testing.assert_array_equal(_dense(again.contribution(x)), _dense(query.contribution(x)))

    def test_contribution_is_the_naive_one(self, d, name):
        query = queries(d)[name]
        x = np.random.default_rng(1).uniform(-1, 1, size=(40, d))
        expected = np.zeros((40, query.size))
        for row, point in zip(expected, x.tolist(), strict=True):
            for index, value in naive.contribution(query, point).items():
                row[index] = value
        rtol = 1e-12 if query.type_name in ROUNDED else 0.0
        np.testing.assert_allclose(_dense(query.contribution(x)), expected, rtol=rtol, atol=0.0)

    @pytest.mark.parametrize("norm", MECHANISMS)
    @pytest.mark.parametrize("domain_name", domains(1))
    def test_fused_total_is_the_sum_of_contributions(self, d, name, norm, domain_name):
        query, domain = queries(d)[name], domains(d)[domain_name]
        sensitivity = query.sensitivity(domain)
        mechanism = MECHANISMS[norm]
        shares = list(even_split(query, domain).values())
        factors = mechanism.factors(sensitivity, mechanism.weights(shares, 2**30))
        rows = np.concatenate([extreme_rows(domain), np.random.default_rng(2).normal(1, 4, size=(300, d))])
        rows[::7, 0] = np.nan
        rows[3::11, -1] = np.inf
        records = fixed_records(rows, domain)
        fused = query.integer_total(records, factors)
        assert fused.dtype == np.int64
        np.testing.assert_array_equal(fused, sum_of_contributions(query, records, factors))
        kept = [None if not np.isfinite(row).all() else list(map(int, r)) for row, r in zip(rows, records, strict=True)]
        # A last bit may carry a record's value across one integer.
        off = np.abs(fused - np.array(naive.integer_total(query, kept, factors)))
        assert off.max() <= (len(kept) if query.type_name in ROUNDED else 0)
        assert open_source(rows, domain).total(query, factors) == fused.tolist()


@pytest.mark.parametrize("domain_name", domains(1))
@pytest.mark.parametrize("d", [1, 2, 5, 60])
def test_fixed_records_are_the_naive_ones(domain_name, d):
    domain = domains(d)[domain_name]
    rows = np.concatenate([extreme_rows(domain), np.random.default_rng(4).normal(1, 4, size=(60, d))])
    for row, record in zip(rows.tolist(), fixed_records(rows, domain), strict=True):
        # The two ways to project differ by rounding, which may cross a step of the grid.
        np.testing.assert_allclose(record, naive.fixed_row(row, domain), atol=1)
    assert domain.contains(fixed_records(rows, domain) / 2.0**30).all()


def _dense(rows):
    return rows if isinstance(rows, np.ndarray) else rows.toarray()
