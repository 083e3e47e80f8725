"""What all queries share: blocks and their places, kinds, words, layouts of rows, and the public cap."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from own_queries import First

from recoup.errors import ParameterError
from recoup.queries.base import (
    MAX_SIZE,
    Asked,
    Block,
    Partition,
    Sensitivity,
    asked_by,
    bounded_block,
    check_size,
    of_kind,
    rows_of,
)
from recoup.queries.counts import GridQuery

GRID = GridQuery(sides=(2, 3))


def test_blocks_lie_one_after_the_other():
    bounds = Sensitivity(tuple(bounded_block(f"sum {n}", n, l1=1.0) for n in (2, 3, 4)))
    assert [(block.name, part) for block, part in bounds.parts()] == [
        ("sum 2", slice(0, 2)), ("sum 3", slice(2, 5)), ("sum 4", slice(5, 9)),
    ]  # fmt: skip
    assert (bounds.size, bounds.names) == (9, ("sum 2", "sum 3", "sum 4"))


def test_bounds_and_partitions_cannot_be_changed():
    block, cells = Block.of_counts("count", 2), Partition(cells=np.array([0, 1]), n_cells=2)
    for value, name in ((block, "l1"), (block, "size"), (cells, "n_cells"), (Sensitivity((block,)), "blocks")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, 0)


def test_a_query_of_another_kind_is_refused():
    assert of_kind(GRID, GridQuery) is GRID
    with pytest.raises(ParameterError, match=r"^a query of type 'grid' was expected"):
        of_kind(First(), GridQuery)
    with pytest.raises(ParameterError, match=r"^Ask for a grid\.$"):
        of_kind(First(), GridQuery, "Ask for a grid.")


def test_what_is_asked_is_said_by_the_query_or_by_its_size():
    assert asked_by(First()) == Asked("other", 1, "1 numbers (test-first)")
    assert asked_by(GRID).kind == "grid"


def test_the_shape_of_a_partition_counts_rows():
    cells = np.array([0, 2, 1, 0, 2])
    assert Partition(cells=cells, n_cells=4).shape == (5, 4)
    assert Partition(cells=cells, n_cells=4, values=np.zeros((5, 3))).shape == (5, 16)


def test_rows_are_in_the_layout_of_the_query_or_as_they_are():
    class Own(First):
        def solver_rows(self, points):
            return [Partition(cells=np.zeros(len(points), dtype=int), n_cells=1)]

    points = np.array([[0.25], [-0.5]])
    (plain,) = rows_of(First(), points)
    np.testing.assert_array_equal(plain, points)
    (own,) = rows_of(Own(), points)
    assert isinstance(own, Partition)


def test_the_public_cap():
    assert MAX_SIZE == 2**20
    for size in (1, MAX_SIZE):
        check_size(size)
    for size in (-1, 0, MAX_SIZE + 1):
        with pytest.raises(ParameterError, match=f"a query of {size} values: at most 1048576 are allowed"):
            check_size(size)
