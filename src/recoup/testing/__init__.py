"""The contract suite for queries and algorithms of your own: it tries to break their promises, and explains.

It needs no real record. `docs/your-own.md` shows it at work.
"""

from recoup.errors import ContractViolation
from recoup.testing.algorithms import check_algorithm
from recoup.testing.queries import check_query
from recoup.testing.report import Check, Report

__all__ = ["Check", "ContractViolation", "Report", "check_algorithm", "check_query"]
