"""Are the exact prices of Gaussian noise right? Random sequences of rounds against dp-accounting's privacy losses.

Each sequence spends a part of a random budget in random shares, as a ledger admits and counts it. dp-accounting puts
together the privacy-loss distributions of the same rounds, once rounded so that its epsilon is too small (optimistic)
and once so that it is too large (pessimistic). Ours must lie between, for continuous noise at the true ratio of scale
to distance. For discrete noise the neighbours are put a step or two apart instead of 2^30, so that its own law shows,
and ours with the slack of that scale must not be below the optimistic one. Planted errors must fall below it.

No records and no noise are drawn: this is about prices alone.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections import Counter
from fractions import Fraction
from functools import partial, reduce
from math import exp, log, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as losses

from recoup.domain import Box
from recoup.privacy.gaussian import epsilon_of
from recoup.privacy.ledger_rules import Budget, State
from recoup.transcript.context import Context

EPSILONS = ("1/20", "1/10", "1/4", "1/2", "1", "2", "5")
DELTAS = ("1e-4", "1e-5", "1e-6", "1e-8", "1e-10")
_FINE = 200  # steps of the discretised loss in an epsilon, for each round
_ROOM = 1e-5  # of the slack in our own price, 2^-20 mu^2, and of the truncation of a distribution's ends
_BOX = Box((0.0,), (1.0,))
_PLANT = 10  # one sequence of so many is priced with errors, too
_OPTIMISTIC, _PESSIMISTIC = False, True


class Sequence(NamedTuple):
    """Rounds of one budget: each ratio of the distance between neighbours to the noise, and what a ledger counts."""

    ratios: tuple[float, ...]
    spent: Fraction
    delta: Fraction
    records_per_person: int


def sequence(rng: np.random.Generator) -> Sequence:
    """Up to six rounds with random shares of a random part of a random budget, by the ledger's own rules."""
    epsilon, delta = Fraction(str(rng.choice(EPSILONS))), Fraction(str(rng.choice(DELTAS)))
    person = int(rng.choice([1, 1, 2, 5]))
    terms = Context(domain=_BOX, epsilon=epsilon, delta=delta, mechanism="gaussian", records_per_person=person)
    state = State(Budget.of(epsilon, delta, "gaussian"), identifier="0" * 32)
    shares = rng.dirichlet(np.ones(int(rng.integers(1, 7)))) * rng.uniform(0.2, 1.0)
    rounds = [terms.calibrated(Fraction(float(max(share, 1e-3)))) for share in shares]
    after = state.charged([r.price for r in rounds], terms.unit, "The ledger")
    return Sequence(tuple(terms.distance / r.scale for r in rounds), after.spent, delta, person)


def continuous(ratios: tuple[float, ...], delta: Fraction, step: float, pessimistic: bool) -> float:
    """The epsilon of Gaussian noise by dp-accounting."""
    options = {"pessimistic_estimate": pessimistic, "use_connect_dots": pessimistic}
    of_ratio = partial(losses.from_gaussian_mechanism, value_discretization_interval=step, **options)
    return _epsilon_of_all([of_ratio(1.0 / ratio) for ratio in ratios], delta)


def discrete(ratios: tuple[float, ...], delta: Fraction, step: float, steps_apart: int) -> float:
    """The epsilon of discrete Gaussian noise by dp-accounting, optimistic, of neighbours some integers apart."""
    options = {"sensitivity": steps_apart, "pessimistic_estimate": _OPTIMISTIC}
    of_ratio = partial(losses.from_discrete_gaussian_mechanism, value_discretization_interval=step, **options)
    return _epsilon_of_all([of_ratio(steps_apart / ratio) for ratio in ratios], delta)


def _epsilon_of_all(rounds: list[Any], delta: Fraction) -> float:
    return float(reduce(lambda composed, one: composed.compose(one), rounds).get_epsilon_for_delta(float(delta)))


def with_slack(ratios: tuple[float, ...], spent: float, delta: Fraction, steps_apart: int) -> float:
    """Our epsilon for neighbours a few integers apart: the theorem with its slack at these scales.

    Offsets are cut at as many noises as leave out a thousandth of delta, and not at 64.
    """
    amount = Fraction(sum(ratio**2 for ratio in ratios) / 2)
    inverse = sum((ratio / steps_apart) ** 2 for ratio in ratios)  # of the squares of all scales
    cut = sqrt(2.0 * (spent + 1.0 + log(2000.0 * len(ratios) / float(delta)))) + 0.5 / min(
        steps_apart / r for r in ratios
    )
    normaliser = sum(3.0 * exp(-2.0 * np.pi**2 * (steps_apart / ratio) ** 2) for ratio in ratios)
    above, below = inverse / 24.0, cut**2 * inverse / 24.0 + normaliser
    less = Fraction(float(delta) * 0.998 * exp(-above))
    return float(epsilon_of("gaussian", amount, less)) + above + below


def study(n_sequences: int, seed: int) -> dict[str, Any]:
    """Count what does not hold, and how often each planted error is noticed.

    Returns:
        The figures; "optimistic is above ours", "ours is above pessimistic" and "discrete is above ours" must be 0.
    """
    logging.disable(logging.WARNING)
    rng = np.random.default_rng(seed)
    wrong, noticed, tried, apart = Counter[str](), Counter[str](), Counter[str](), 0.0
    for number in range(n_sequences):
        made = sequence(rng)
        ours, ratios, delta = float(made.spent), made.ratios, made.delta
        step = ours / (_FINE * len(ratios))
        low, high = (continuous(ratios, delta, step, way) for way in (_OPTIMISTIC, _PESSIMISTIC))
        wrong["optimistic is above ours"] += low > ours
        wrong["ours is above pessimistic"] += ours > high * (1.0 + _ROOM)
        apart = max(apart, high / low - 1.0)
        planted = {"mu 1% too small": 0.99, "records of a person left out": 1.0 / made.records_per_person}
        for name, factor in planted.items():
            if factor == 1.0 or number % _PLANT:
                continue
            amount = Fraction(sum((factor * ratio) ** 2 for ratio in ratios) / 2)
            tried[name] += 1
            noticed[name] += low > float(epsilon_of("gaussian", amount, delta))
        steps_apart = int(rng.choice([1, 2]))
        found = discrete(ratios, delta, step, steps_apart)
        wrong["discrete is above ours"] += found > with_slack(ratios, ours, delta, steps_apart)
    # Few steps between neighbours and a large price: here the discrete law is above the curve itself.
    for ratio in np.linspace(1.0, 2.0, 11):
        delta, name = Fraction(1, 10**8), "slack forgotten, at scales of 1/2 to 1"
        curve = float(epsilon_of("gaussian", Fraction(ratio**2 / 2), delta))
        tried[name] += 1
        noticed[name] += discrete((ratio,), delta, curve / 20_000, 1) > curve
    return {
        "sequences": n_sequences,
        "seed": seed,
        "wrong": dict(wrong),
        "pessimistic over optimistic, at most": round(1.0 + apart, 5),
        "planted": {name: {"tried": tried[name], "noticed": noticed[name]} for name in tried},
        "noise of one round at epsilon 1/4, delta 20000^-1.1": _saving(),
    }


def _saving() -> dict[str, float]:
    terms = {"domain": _BOX, "epsilon": "1/4", "delta": Fraction(20_000**-1.1), "mechanism": "gaussian"}
    found = {way: Context(**terms, accounting=way) for way in ("zcdp", "gaussian")}  # type: ignore[arg-type]
    return {way: round(c.calibrated(Fraction(1)).scale / c.distance, 3) for way, c in found.items()}


def main() -> None:
    """Run the study, print its figures, and write them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, help="a JSON file")
    options = parser.parse_args()
    text = json.dumps(study(options.sequences, options.seed), indent=1)
    print(text)
    if options.output is not None:
        options.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
