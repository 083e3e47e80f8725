"""Everything that a query and an algorithm of your own are written with, in one place.

`docs/your-own.md` writes a private median with it; `recoup.testing.check_algorithm` tests what you write.
"""

from recoup.algorithms.base import Algorithm, SimpleAlgorithm
from recoup.algorithms.registry import register
from recoup.domain import Domain, uniform_points
from recoup.queries.base import Block, Query, Sensitivity, SimpleQuery, bounded_block
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round

__all__ = [
    "Algorithm",
    "Block",
    "Context",
    "Domain",
    "Query",
    "Request",
    "Round",
    "Sensitivity",
    "SimpleAlgorithm",
    "SimpleQuery",
    "bounded_block",
    "register",
    "uniform_points",
]
