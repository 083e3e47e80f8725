"""Which seed a transcript is read with, so that everything that reads it finds the same centres.

Inference and refit draw support points and starts. That randomness protects nobody, so it has one fixed seed unless
another is asked for: the estimator, the commands and the page give the same numbers for the same transcript.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recoup.errors import ParameterError

USUAL_SEED = 0


def seed_for(random_state: Any = None) -> int:
    """The seed of `infer` and of `refit`, which each start from it anew.

    Args:
        random_state: none for the usual seed, a whole number for itself; a generator is asked for one.

    Returns:
        The seed: pass it to both as `random_state`.

    >>> seed_for(), seed_for(7)
    (0, 7)
    """
    match random_state:
        case None:
            return USUAL_SEED
        case int() | np.integer():
            return int(random_state)
        case np.random.Generator():
            return int(random_state.integers(2**31))
        case np.random.RandomState():
            return int(random_state.randint(2**31))
    try:
        return int(np.random.SeedSequence(random_state).generate_state(1)[0])
    except (TypeError, ValueError):
        raise ParameterError("random_state must be a whole number of at least 0, a Generator, or None.") from None
