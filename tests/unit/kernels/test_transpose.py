"""Tiles turned by shuffles hold what plain loops would have written, and nothing else is touched."""

from __future__ import annotations

import numpy as np
import pytest

from recoup.kernels.transpose import columns_of_rows, rows_of_columns


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 7, 8, 10, 13, 50])
@pytest.mark.parametrize("size", [0, 1, 3, 4, 6, 127, 128])
def test_rows_become_columns_and_rows_again(d: int, size: int) -> None:
    rows = np.random.default_rng(d).integers(-(2**31), 2**31, (140, d)).astype(np.int32)
    columns = np.full((d, 128), 7, np.int32)
    columns_of_rows(rows, 5, size, columns)
    np.testing.assert_array_equal(columns[:, :size], rows[5 : 5 + size].T)
    assert (columns[:, size:] == 7).all()

    back = np.full_like(rows, 7)
    rows_of_columns(columns, 9, size, back)
    np.testing.assert_array_equal(back[9 : 9 + size], rows[5 : 5 + size])
    assert (back[:9] == 7).all()
    assert (back[9 + size :] == 7).all()


def test_rows_of_a_part_of_an_array() -> None:
    table = np.arange(64 * 8, dtype=np.int32).reshape(64, 8)
    columns = np.zeros((8, 128), np.int32)
    columns_of_rows(table[16:48], 8, 16, columns)
    np.testing.assert_array_equal(columns[:, :16], table[24:40].T)
