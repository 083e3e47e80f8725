"""One reading of `random_state`: the randomness that protects nobody.

Whatever reads a transcript (inference, refit, intervals) draws from one usual seed unless another is asked for: the
estimator, the commands and the page give the same numbers for the same transcript. A release without a seed draws
other starts each time. Noise that protects people never comes from here, unless it is simulated and marked so.
"""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import numpy as np

from recoup.errors import Argument, Call, ParameterError

USUAL_SEED = 0
Rng: TypeAlias = np.random.Generator  # of harmless randomness


def seed_for(random_state: Any = None) -> int:
    """The seed of `infer` and of `refit`, which each start from it anew; a generator is asked for one."""
    match random_state:
        case None:
            return USUAL_SEED
        case int() | np.integer():
            return int(random_state)
        case np.random.Generator():
            return int(random_state.integers(2**31))
        case np.random.RandomState():
            return int(random_state.randint(2**31))
    return int(_sequence(random_state).generate_state(1)[0])


def generator(random_state: Any) -> np.random.Generator:
    """The stream of whatever reads a transcript; none is the usual seed, a generator is drawn from itself."""
    try:
        return np.random.default_rng(USUAL_SEED if random_state is None else random_state)
    except (TypeError, ValueError):
        raise _refusal() from None


def entropy_of(random_state: Any) -> Any:
    """What the streams of one release are made from; drawn by the operating system where there is no seed."""
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        bits = random_state.integers if isinstance(random_state, np.random.Generator) else random_state.randint
        random_state = [int(v) for v in bits(0, 2**31, size=4)]
    return _sequence(random_state).entropy


def stream(entropy: Any, *key: int) -> np.random.Generator:
    """One of independent streams, each with a key of its own."""
    return np.random.default_rng(_sequence(entropy, key))


def drawn_key(entropy: Any = None) -> str:
    """The key of a run that chooses records of a person, which is public; of a simulated run by its own entropy."""
    return os.urandom(16).hex() if entropy is None else stream(entropy, 3).bytes(16).hex()


def sampler(random_state: Any) -> np.random.Generator:
    """For records that are drawn from a fitted model: without a seed others each time."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return stream(seed_for(random_state) if isinstance(random_state, np.random.RandomState) else random_state, 2)


def _sequence(entropy: Any, key: tuple[int, ...] = ()) -> np.random.SeedSequence:
    try:
        return np.random.SeedSequence(entropy, spawn_key=key)
    except (TypeError, ValueError):
        raise _refusal() from None


def _refusal() -> ParameterError:
    others = Call(", a Generator, or None", "")
    return ParameterError(Argument("random_state"), " must be a whole number of at least 0", others, ".")
