"""The score kernel equals its readable twin, and no chunking or order of records changes it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rival_cases import naive_losses

from recoup.curator.rivals.privgene import excess_totals
from recoup.kernels.fixed_point import DROPPED


def totals(records, centers, members, factor, cap):
    found = np.zeros(len(members), dtype=np.int64)
    excess_totals(records, centers, members, factor, float(cap), found)
    return found.tolist()


cases = st.tuples(
    st.integers(0, 300),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 6),
    st.sampled_from([2.0**30, 2.0**29, 1e3, 2.0**31]),
    st.sampled_from([2**30, 2**20, 1]),
    st.integers(0, 2**32 - 1),
)


def drawn(n, d, k, m, seed):
    rng = np.random.default_rng(seed)
    records = rng.integers(-(2**30), 2**30, size=(n, d), endpoint=True).astype(np.int32)
    records[rng.random(n) < 0.1, 0] = DROPPED
    n_centers = int(rng.integers(1, m * k + 1))
    centers = rng.uniform(-1, 1, size=(n_centers, d))
    return records, centers, rng.integers(0, n_centers, size=(m, k)), rng


@given(cases)
def test_the_kernel_equals_its_twin(case):
    n, d, k, m, factor, cap, seed = case
    records, centers, members, _ = drawn(n, d, k, m, seed)
    expected = naive_losses(records, centers[members], factor, cap)
    assert totals(records, centers, members, factor, cap) == expected


@given(cases)
def test_order_and_chunks_change_nothing(case):
    n, d, k, m, factor, cap, seed = case
    records, centers, members, rng = drawn(n, d, k, m, seed)
    whole = totals(records, centers, members, factor, cap)
    cut = int(rng.integers(0, n + 1))
    shuffled = np.ascontiguousarray(rng.permutation(records))
    parts = [totals(part, centers, members, factor, cap) for part in (shuffled[:cut], shuffled[cut:])]
    assert [a + b for a, b in zip(*parts, strict=True)] == whole


@given(cases)
def test_a_record_adds_between_nothing_and_the_cap(case):
    n, d, k, m, factor, cap, seed = case
    records, centers, members, _ = drawn(n, d, k, m, seed)
    for record in records[:20]:
        added = totals(record[None], centers, members, factor, cap)
        assert min(added) == 0
        assert max(added) <= cap
