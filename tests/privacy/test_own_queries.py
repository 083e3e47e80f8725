"""Queries of a user's own that break their promises: refused, or kept within what their noise was calibrated to."""

from __future__ import annotations

import re
import warnings
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

import recoup
from recoup.errors import ParameterError
from recoup.kernels.fixed_point import DROPPED
from recoup.queries.base import Block, Sensitivity, sum_of_contributions
from recoup.transcript.context import Request


class Own:
    """The sum of each column, with bounds and contributions that a test sets."""

    type_name: ClassVar[str] = "own-sums"
    blocks: tuple[Block, ...] = ()
    seen: Any = staticmethod(lambda x: x)

    def __init__(self, d: int = 2) -> None:
        self.n_columns = self.size = d
        self.blocks = (Block(name="sum", size=d, l1=np.full(d, float(d)), l2=np.full(d, d**0.5)),)

    def sensitivity(self, domain: object) -> Sensitivity:
        return Sensitivity(self.blocks)

    def contribution(self, x: np.ndarray) -> np.ndarray:
        return self.seen(x)

    def integer_total(self, records: np.ndarray, factors: np.ndarray) -> np.ndarray:
        return sum_of_contributions(self, records, factors)

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type_name}

    @classmethod
    def from_json(cls, value: object) -> Own:
        return cls()


class Once:
    """An algorithm that asks one query."""

    type_name: ClassVar[str] = "own-once"

    def __init__(self, query: Own) -> None:
        self.query = query

    def next_request(self, context: object, rounds: Any, rng: object) -> Request | None:
        names = dict.fromkeys((block.name for block in self.query.blocks), Fraction(1, max(1, len(self.query.blocks))))
        return None if rounds else Request(query=self.query, share=Fraction(1), split=names)

    def estimate(self, context: object, rounds: Any) -> Any:
        return np.array(rounds[-1].integers, dtype=float)

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type_name}

    @classmethod
    def from_json(cls, value: object) -> Once:
        return cls(Own())


def released(query: Own, x: np.ndarray, ledger: recoup.Ledger | None = None) -> recoup.Transcript:
    domain = recoup.Box([-1] * x.shape[1], [1] * x.shape[1])
    # A query whose bounds a test sets is known in this process alone.
    return recoup.release(Once(query), x, domain=domain, epsilon=1, ledger=ledger, isolate=False)


def test_a_query_that_keeps_its_promises_is_answered() -> None:
    assert len(released(Own(), np.ones((5, 2))).rounds[0].integers) == 2


def block(name: str = "sum", size: int = 2, l1: Any = (2.0, 2.0), l2: Any = (1.5, 1.5)) -> Block:
    return Block(name=name, size=size, l1=np.array(l1), l2=np.array(l2))


@pytest.mark.parametrize(
    "blocks",
    [
        (block(size=1, l1=[2.0], l2=[1.5]),),
        (block(), block("more", 1, [1.0], [1.0])),
        (block(size=1, l1=[2.0], l2=[1.5]), block(size=1, l1=[2.0], l2=[1.5])),
        (block(l1=[2.0]),),
        (block(l2=2.0),),
        (block(l1=[2.0, 0.0]),),
        (block(l1=[2.0, -1.0]),),
        (block(l1=[2.0, np.nan]),),
        (block(l2=[np.inf, 1.0]),),
        (),
    ],
)
def test_bounds_that_noise_cannot_be_calibrated_to_are_refused_before_a_charge(blocks: tuple[Block, ...]) -> None:
    query, ledger = Own(), recoup.Ledger.in_memory(epsilon=1)
    query.blocks = blocks
    with pytest.raises(ParameterError, match="the sensitivity of the query 'own-sums'"):
        released(query, np.ones((100, 2)), ledger)
    assert ledger.spent == 0


@pytest.mark.parametrize("value", [1e300, -1e300, np.inf, -np.inf, np.nan])
def test_no_record_moves_a_value_by_more_than_all_of_the_sensitivity(value: float) -> None:
    query, factors = Own(), np.full(2, 2.0**29)
    query.seen = lambda x: np.where(x > 0.5, value, x)
    base = np.zeros((3, 2), dtype=np.int32)
    more = np.vstack([base, np.full((1, 2), 2**30, dtype=np.int32)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        moved = query.integer_total(more, factors) - query.integer_total(base, factors)
    assert (np.abs(moved) <= 2**30).all()
    assert not np.isnan(value) or (moved == 0).all()


def test_an_error_of_a_contribution_tells_of_no_record() -> None:
    def fails(x: np.ndarray) -> np.ndarray:
        raise ValueError(f"bad record {x.max()}")

    query = Own()
    query.seen = fails
    with pytest.raises(ParameterError) as caught:
        released(query, np.full((3, 2), 0.625))
    assert not re.search(r"0\.\d|record", str(caught.value))
    assert caught.value.__context__ is None


@pytest.mark.parametrize("rows", [lambda x: x[:, :1], lambda x: x[:1], lambda x: x.sum(axis=0)])
def test_a_contribution_of_another_shape_is_refused(rows: Any) -> None:
    query = Own()
    query.seen = rows
    records = np.array([[1, 2], [3, 4], [DROPPED, 0]], dtype=np.int32)
    with pytest.raises(ParameterError, match="2 values a record"):
        query.integer_total(records, np.ones(2))
