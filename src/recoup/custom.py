"""Everything that a query, an algorithm and a way to infer of your own are written with, in one place.

`docs/your-own.md` writes a private median with it; `recoup.testing.check_algorithm` tests what you write.
"""

from recoup.algorithms.base import Algorithm, SimpleAlgorithm
from recoup.algorithms.registry import Entry, register
from recoup.domain import Domain, uniform_points
from recoup.inference.infer import register_method
from recoup.isolation.named import by_name
from recoup.queries.base import Block, Query, Sensitivity, SimpleQuery, bounded_block
from recoup.transcript.context import Context, Request
from recoup.transcript.round import Round

__all__ = [
    "Algorithm",
    "Block",
    "Context",
    "Domain",
    "Entry",
    "Query",
    "Request",
    "Round",
    "Sensitivity",
    "SimpleAlgorithm",
    "SimpleQuery",
    "bounded_block",
    "by_name",
    "register",
    "register_method",
    "uniform_points",
]
