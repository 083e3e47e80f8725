"""The contract suite for queries and algorithms of your own (`docs/your-own.md`): it tries to break their promises."""

from recoup.errors import ContractViolation
from recoup.testing.algorithms import check_algorithm
from recoup.testing.queries import check_query
from recoup.testing.report import Check, Report

__all__ = ["Check", "ContractViolation", "Report", "check_algorithm", "check_query"]
