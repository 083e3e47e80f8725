"""Private selection: which candidates score best, told with noise that protects people.

**What is drawn.** Report noisy max with exponential noise, one winner after the other, each taken out before the next
is chosen. OpenDP draws it exactly, as permute-and-flip, on integers. (OpenDP also offers Gumbel noise and a price in
zCDP; here only the pure price of this law is used.)

**What it costs.** Let every score move in the same direction between neighbours, by at most D (a record adds between 0
and D to a loss, so it does). Fix the noise of all candidates but i, and let M be the best of their noisy scores. Then i
wins if its own noise exceeds M - x_i; between neighbours M and x_i each move by 0 to D in the same direction, so that
threshold moves by at most D, and the probability that an exponential of scale b exceeds it changes by a factor within
e^(+-D/b). A winner costs D / b, and n winners n D / b: half of what scores that move either way would cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf
from typing import Any, ClassVar, Protocol

import numpy as np

from recoup.errors import ParameterError
from recoup.privacy.mechanism import Calibration, clamped, smallest_noise


class Selector(Protocol):
    """Where the randomness of a selection comes from."""

    @property
    def simulated(self) -> bool:
        """Whether a seed could reproduce it, so that nothing made with it is private."""

    def winners(self, scores: Sequence[int], n_winners: int, scale: float) -> list[int]:
        """The candidates with the highest noisy scores, best first, each drawn anew among those left."""


class SecureSelector:
    """OpenDP's exact sampler, fed by a cryptographic generator of its own; there is no seed to give."""

    simulated: ClassVar[bool] = False

    def winners(self, scores: Sequence[int], n_winners: int, scale: float) -> list[int]:
        """The candidates with the highest noisy scores, best first, each drawn anew among those left."""
        return [int(i) for i in _opendp(n_winners, scale)(list(scores))]


class SimulatedSelector:
    """The same law from a seeded NumPy generator, for experiments: what it makes is marked NOT PRIVATE."""

    simulated: ClassVar[bool] = True

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def winners(self, scores: Sequence[int], n_winners: int, scale: float) -> list[int]:
        """The candidates with the highest noisy scores, best first, each drawn anew among those left."""
        # Only differences matter, and those of large integers are exact before they become floats.
        best = max(scores)
        relative = np.array([float(score - best) for score in scores])
        noise = self._generator.standard_exponential((n_winners, len(scores))) * scale
        winners: list[int] = []
        for row in noise:
            noisy = relative + row
            noisy[winners] = -np.inf
            winners.append(int(np.argmax(noisy)))
        return winners


@dataclass(frozen=True, slots=True)
class NoisyMax:
    """Pure epsilon: the best of some candidates by noisy integer scores.

    Guarantees: choosing n winners by scores that all move in one direction, by at most the distance that it was
    calibrated for, is (price.amount)-differentially private.
    """

    name: ClassVar[str] = "exponential"

    def calibrate(self, budget: Fraction, *, distance: int, n_winners: int) -> Calibration:
        """The smallest noise for which all winners together, by OpenDP's own map, stay within a budget."""
        start = n_winners * distance / float(budget) if float(budget) > 0 else inf
        return smallest_noise("pure", budget, start, lambda scale: _opendp(n_winners, scale).map(distance))

    def release(self, scores: Sequence[int], scale: float, n_winners: int, selector: Selector) -> list[int]:
        """Clamp the exact scores and select by noisy ones; the number of candidates and of winners is public."""
        if not 1 <= n_winners <= len(scores):
            raise ParameterError(f"{n_winners} winners among {len(scores)} candidates: there must be at least as many.")
        return selector.winners(clamped(scores), n_winners, scale)


@lru_cache(maxsize=64)
def _opendp(n_winners: int, scale: float) -> Any:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_top_k
    from opendp.measures import max_divergence
    from opendp.metrics import linf_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    # monotonic: all scores of neighbours move in the same direction.
    metric = linf_distance(T="i64", monotonic=True)
    integers = vector_domain(atom_domain(T="i64"))
    return make_noisy_top_k(integers, metric, max_divergence(), k=n_winners, scale=scale)
