"""How hard the audit tries: numbers of tries, the rate of false alarms, and harmless seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

ALARM: Final = 1e-6  # the false-alarm rate of each test and each bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """What holds for all attacks of a run.

    Attributes:
        quick: fewer tries, two to three minutes for everything.
        seed: of tables and of harmless choices; the noise that is audited has none.
        say: told about progress.
    """

    quick: bool = False
    seed: int = 0
    say: Callable[[str], None] = lambda text: None

    def tries(self, full: int, quick: int) -> int:
        """How often to try.

        >>> Effort().tries(100, 10), Effort(quick=True).tries(100, 10)
        (100, 10)
        """
        return quick if self.quick else full

    def rng(self, *path: int) -> np.random.Generator:
        """A stream of harmless randomness."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=path))
