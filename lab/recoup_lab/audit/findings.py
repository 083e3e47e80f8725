"""What attacks found: one line each, or for each attack the worst result of all its targets, and the power of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple, Self

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


# ---- many findings in few lines ----

# From a finding's figures: what makes one result worse than another.
_WORST: Final[dict[str, Callable[[Mapping[str, float]], float]]] = {
    "bound": lambda figures: figures["bound"] / figures["claim"],
    "share_of_claim": lambda figures: figures["share_of_claim"],
    "smallest_p": lambda figures: -figures["smallest_p"],
    "p": lambda figures: -figures["p"],
    "repeated": lambda figures: figures["repeated"] - figures["allowed"],
}


class Row(NamedTuple):
    """All findings of one attack."""

    group: str
    attack: str
    n_targets: int
    tries: int
    result: str
    passed: bool
    caught: tuple[str, ...]


def summary_rows(findings: Sequence[Finding], caught: Mapping[str, Sequence[str]] | None = None) -> list[Row]:
    """One row for each attack, in the order of the findings, with the planted bugs that "group: attack" caught."""
    together: dict[tuple[str, str], list[Finding]] = {}
    for found in findings:
        together.setdefault((found.group, found.attack), []).append(found)
    rows = []
    for (group, attack), members in together.items():
        failed = [found for found in members if not found.passed]
        worst = failed[0] if failed else max(members, key=_badness)
        said = worst.result if len(members) == 1 or worst.result in _EVERYWHERE else f"{worst.result} ({worst.target})"
        bugs = tuple((caught or {}).get(f"{group}: {attack}", ()))
        rows.append(Row(group, attack, len(members), sum(f.tries for f in members), said, not failed, bugs))
    return rows


_EVERYWHERE: Final = frozenset({"uniform", "plain integers", "the same residues, equally often"})


def _badness(found: Finding) -> float:
    for name, measure in _WORST.items():
        if name in found.figures:
            return float(measure(found.figures))
    return 0.0


def power_sentences(findings: Sequence[Finding]) -> list[str]:
    """What the run would have noticed with a probability of 99%, and how often it cries wolf."""
    said = []
    # Those of queries: a block of a release may have been seen a few times only.
    scales = [f.figures["notices_a_scale_of"] for f in findings if f.group == "law" and f.figures]
    if scales:
        said.append(
            f"Noise of {min(scales):.2f} times its claimed scale would be noticed in any block of any query with a "
            f"probability of 99%, by its law alone; where most values were looked at, {max(scales):.2f} times. A "
            "scale that reaches the sampler and is not the claimed one is noticed always."
        )
    bounds = [f.figures["notices_noise_of"] for f in findings if "notices_noise_of" in f.figures]
    if bounds:
        said.append(
            f"The bounds on single answers would notice {min(bounds):.2f} to {max(bounds):.2f} times the claimed noise."
        )
    exact = sum(f.alarm == 0 for f in findings)
    said.append(
        f"{exact} of {len(findings)} findings are exact; the others raise a false alarm with a probability of at most "
        f"{false_alarms(findings):.1e}, all together."
    )
    return said
