"""Many findings in few lines: for each attack the worst result of all its targets, and the power of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from recoup_lab.audit.findings import Finding, false_alarms

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
    """One row for each attack, in the order of the findings.

    Args:
        findings: of a run.
        caught: for each attack, as "group: attack", the planted bugs that it caught.

    Returns:
        The rows.
    """
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
    """What the run would have noticed with a probability of 99 %, and how often it cries wolf."""
    said = []
    # Those of queries: a block of a release may have been seen a few times only.
    scales = [f.figures["notices_a_scale_of"] for f in findings if f.group == "law" and f.figures]
    if scales:
        said.append(
            f"Noise of {min(scales):.2f} times its claimed scale would be noticed in any block of any query with a "
            f"probability of 99 %, by its law alone; where most values were looked at, {max(scales):.2f} times. A "
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
