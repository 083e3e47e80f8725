"""Queries as a user may write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from recoup.custom import Sensitivity, SimpleQuery, bounded_block


@dataclass(frozen=True)
class First(SimpleQuery):
    """The sum of the first column; it trusts whoever asks it."""

    n_columns: int = 1
    type_name: ClassVar[str] = "test-first"
    size: ClassVar[int] = 1

    def sensitivity(self, domain):
        return Sensitivity((bounded_block("sum", 1, l1=1.0),))

    def contribution(self, x):
        return x[:, :1]
