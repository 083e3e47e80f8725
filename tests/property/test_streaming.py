"""Streaming gives what a table in memory gives: records by either layout, totals under any division into files."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from recoup.curator import source
from recoup.curator.source import fixed_records, open_source
from recoup.curator.tables.rules import NUMBERS
from recoup.curator.tables.table import Columns
from recoup.domain import Box, L1Ball, L2Ball
from recoup.kernels.fixed_point import DROPPED
from recoup.queries.cells import VoronoiQuery

ANY_FLOAT = st.floats(width=32) | st.floats(-3, 3, width=32) | st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0])


@settings(deadline=None, max_examples=60)
@given(
    rows=hnp.arrays(np.float64, st.tuples(st.integers(0, 300), st.integers(1, 6)), elements=ANY_FLOAT, fill=ANY_FLOAT),
    shape=st.sampled_from([Box, L1Ball, L2Ball]),
    narrow=st.booleans(),
)
def test_records_are_the_same_from_rows_and_from_columns(rows: np.ndarray, shape: type, narrow: bool) -> None:
    rows = rows.astype(np.float32) if narrow else rows
    d = rows.shape[1]
    domain = shape([-1.5] * d, [2.0] * d)
    by_row = fixed_records(np.ascontiguousarray(rows), domain)
    by_column = fixed_records(np.asfortranarray(rows), domain)
    np.testing.assert_array_equal(by_column, by_row)
    mixed = [column.astype(np.float32 if j % 2 else np.float64) for j, column in enumerate(rows.T)]
    np.testing.assert_array_equal(fixed_records(Columns(tuple(mixed), len(rows)), domain), by_row)
    np.testing.assert_array_equal(by_column[:, 0] == DROPPED, ~np.isfinite(rows).all(axis=1))


@settings(deadline=None, max_examples=25)
@given(
    cuts=st.lists(st.integers(0, 400), max_size=4),
    row_group=st.integers(1, 200),
    narrow=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_totals_do_not_depend_on_files(cuts: list[int], row_group: int, narrow: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(400, 3)).astype(np.float32 if narrow else np.float64)
    rows[rng.integers(0, 400, 5), rng.integers(0, 3, 5)] = np.nan
    names = ["x", "y", "z"]
    query = VoronoiQuery(centers=rng.uniform(-1, 1, (4, 3)))
    factors = np.full(query.size, 2.0**29)
    box = Box([-2] * 3, [2] * 3)
    expected = open_source(rows, box).total(query, factors)
    edges = [0, *sorted(cuts), 400]
    with tempfile.TemporaryDirectory() as folder:
        for i, (start, stop) in enumerate(pairwise(edges)):
            table = pa.table({name: rows[start:stop, j] for j, name in enumerate(names)})
            pq.write_table(table, Path(folder) / f"{i}.parquet", row_group_size=row_group)
        streamed = open_source(Path(folder), Box([-2] * 3, [2] * 3, names))
        assert streamed.total(query, factors) == expected
        assert streamed.total(query, factors) == expected


CELLS = st.text("0123456789+-.eE xnaifty_\t", max_size=9) | st.floats().map(repr) | st.integers().map(str)


@settings(deadline=None, max_examples=300)
@given(cells=st.lists(CELLS, min_size=1, max_size=6))
def test_a_csv_cell_is_read_the_same_alone_and_among_others(cells: list[str]) -> None:
    def read(texts: list[str]) -> np.ndarray:
        found = NUMBERS.of_texts(pa.array(texts, pa.string()))
        return np.where(np.isfinite(found), found, np.nan)

    # Among others means: also next to a cell that the fast way cannot read.
    alone = np.concatenate([read([cell]) for cell in cells])
    np.testing.assert_array_equal(read(cells), alone)
    np.testing.assert_array_equal(read([*cells, "x"])[:-1], alone)


@pytest.mark.parametrize("cached_bytes", [1, 24, 100, 2**20])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_totals_of_a_file_do_not_depend_on_the_parts_it_is_added_up_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached_bytes: int, threads: str
) -> None:
    x = np.random.default_rng(5).uniform(-1.2, 1.2, (500, 3))
    x[::50] = np.nan
    query = VoronoiQuery(centers=np.random.default_rng(6).uniform(-1, 1, (4, 3)))
    factors, domain = np.full(query.size, 2.0**20), L1Ball([-1] * 3, [1] * 3, ("a", "b", "c"))
    pq.write_table(pa.table(dict(zip("abc", x.T, strict=True))), tmp_path / "x.parquet", row_group_size=170)
    expected = open_source(x, L1Ball([-1] * 3, [1] * 3)).total(query, factors)
    monkeypatch.setattr(source, "_CACHED_BYTES", cached_bytes)
    monkeypatch.setenv("RECOUP_NUM_THREADS", threads)
    assert open_source(tmp_path, domain).total(query, factors) == expected


class Huge:
    """Stands for a query: whatever the records, a part of the total is 2^62."""

    size = 1

    def integer_total(self, records: np.ndarray, factors: np.ndarray) -> np.ndarray:
        return np.array([2**62])


def test_a_total_may_need_more_than_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    records = open_source(np.zeros((5, 1)), Box([-1], [1]))
    monkeypatch.setattr(source, "_LARGEST_BLOCK", 1)
    monkeypatch.setattr(source, "_LARGEST_SUM", 1)
    assert records.total(Huge(), np.ones(1)) == [5 * 2**62]
    # More rows than 64 bits allow: the same check sees the overflow.
    monkeypatch.setattr(source, "_LARGEST_SUM", 5)
    assert records.total(Huge(), np.ones(1)) != [5 * 2**62]
