"""What other systems scored on the same public sets when they were measured: quoted here, not run.

Mean WCSS of diffprivlib 0.6.6, of Google's LSH tree and of FastLloyd (USENIX Security 2025). The last two spend
delta = 1e-6 beside epsilon, which no method of an experiment does. A figure is quoted only where non-private k-means
scores the same as it did there, that is, on the same records.
"""

from __future__ import annotations

from dataclasses import dataclass

from recoup_lab.experiments.run import Metric

_SAME = 0.01  # relative difference of non-private scores up to which records count as the same
SOURCE = "diffprivlib 0.6.6, Google's LSH tree, FastLloyd; the last two spend delta = 1e-6"
LABEL = "best peer (quoted)"


@dataclass(frozen=True, slots=True)
class Quoted:
    """The best peer on one set in one metric: what non-private k-means scored, and the best mean at each epsilon."""

    non_private: float
    best: dict[float, float]


# The paper's metric: 10 seeds. The user's metric: 6 seeds.
_QUOTED: dict[Metric, dict[str, Quoted]] = {
    "paper": {
        "s1": Quoted(31.3, {0.05: 292, 0.1: 188, 0.25: 109, 0.5: 92, 1.0: 73}),
        "adult": Quoted(706.9, {0.05: 1509, 0.1: 1334, 0.25: 1243, 0.5: 1065, 1.0: 978}),
        "tiger": Quoted(327.6, {0.05: 347, 0.25: 328.5, 1.0: 327.7}),
        "image_house": Quoted(1369.4, {0.05: 1839, 0.1: 1820, 0.25: 1841, 0.5: 1900, 1.0: 1728}),
        "gowalla": Quoted(1409.0, {0.05: 1665, 0.25: 1671, 1.0: 1639}),
        "lifesci": Quoted(5190.6, {0.05: 5956, 0.1: 5772, 0.25: 5557, 0.5: 5440, 1.0: 5427}),
    },
    "user": {
        "s1": Quoted(41.15, {0.05: 355, 0.25: 142, 1.0: 104}),
        "adult": Quoted(9481, {0.05: 14788, 0.25: 12111, 1.0: 10560}),
        "tiger": Quoted(670.3, {0.05: 684, 0.25: 671, 1.0: 670.4}),
        "image_house": Quoted(3535, {0.05: 4497, 0.25: 3929, 1.0: 3735}),
        "gowalla": Quoted(1891, {0.05: 2260, 0.25: 2245, 1.0: 2156}),
        "lifesci": Quoted(18661, {0.05: 20556, 0.25: 19559, 1.0: 19238}),
    },
}


def best_peer(metric: Metric, name: str, non_private: float | None) -> dict[float, float]:
    """The best peer's mean WCSS by epsilon; empty on other records than those that the peers were measured on.

    >>> best_peer("user", "s1", 41.2)[1.0], best_peer("user", "s1", 60.0)
    (104, {})
    """
    quoted = _QUOTED[metric].get(name)
    if quoted is None or non_private is None or abs(non_private / quoted.non_private - 1.0) > _SAME:
        return {}
    return quoted.best
