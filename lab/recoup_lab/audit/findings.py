"""What an attack found, and how findings are shown: one line each, for people and for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

HEADER = ("attack", "run on", "tries", "result", "passed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The outcome of one attack on one target.

    Attributes:
        group: the entry of the table of attacks that it belongs to; what `--only` names.
        attack: what was tried.
        target: what it was tried on.
        tries: how often: releases, values, pairs of tables.
        result: what was found, in words.
        passed: whether the attack failed, as it should.
        alarm: the probability that it fails on correct code; 0 where nothing is random.
        broken: the attack could not be run at all, so it says nothing; it counts as not passed.
        figures: numbers behind the result, by name.
    """

    group: str
    attack: str
    target: str
    tries: int
    result: str
    passed: bool
    alarm: float = 0.0
    broken: bool = False
    figures: Mapping[str, float] = field(default_factory=dict)

    def row(self) -> tuple[str, ...]:
        """The finding as a row of a table under `HEADER`."""
        return (self.attack, self.target, f"{self.tries:,}", self.result, "yes" if self.passed else "NO")

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read a finding back.

        >>> found = Finding(group="law", attack="law", target="grid", tries=9, result="as claimed", passed=True)
        >>> Finding.from_json(found.to_json()) == found
        True
        """
        return cls(**value)


def bounded(what: str, bound: float, claim: float) -> str:
    """A bound beside its claim, in words.

    >>> bounded("epsilon", 0.8123, 1)
    'epsilon at least 0.81 of 1 claimed'
    """
    return f"{what} at least {max(bound, 0.0):.2f} of {claim:.3g} claimed"


def false_alarms(findings: Sequence[Finding]) -> float:
    """The probability, at most, that any of these findings fails on correct code."""
    return sum(found.alarm for found in findings)
