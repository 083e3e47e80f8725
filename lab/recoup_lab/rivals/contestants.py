"""Who is compared: ours, what the library has of others, diffprivlib, and AIM and MST with every setting."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np

from recoup.domain import Array
from recoup.privacy.price import rho_of
from recoup_lab.experiments.methods import METHODS
from recoup_lab.experiments.run import Run
from recoup_lab.rivals.foreign import Foreign

DELTA = Fraction(1, 10**6)
BINS = (8, 16, 32, 64)
DEFAULT = "32-gaussian"  # opendp declares no number of bins; Gaussian noise is what both papers use
FAMILIES = {"aim": "AIM", "mst": "MST"}
Environment = Literal["mbi", "diffprivlib"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one run came to.

    Attributes:
        centers: (K, d), in the user's units.
        seconds: of a processor.
        points: (m, d) in unit coordinates: the data that it made, if any.
        weights: (m,), how many records each stands for.
    """

    centers: Array
    seconds: float
    points: Array | None = None
    weights: Array | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One way to get private centres.

    Attributes:
        name: in results; a setting of a family is "family-bins-noise".
        title: on the page.
        answer: from a run, and the process of its environment if it needs one.
        environment: the one that it needs.
        family: "aim" or "mst": of its settings only the default is run on all seeds, and the best on some.
    """

    name: str
    title: str
    answer: Callable[[Run, Foreign | None], Answer]
    environment: Environment | None = None
    family: str | None = None


def _timed(run: Run, _: Foreign | None, *, method: str) -> Answer:
    start = time.process_time()
    return Answer(centers=METHODS[method].function(run), seconds=time.process_time() - start)


def _ours(run: Run, _: Foreign | None, *, delta: Fraction) -> Answer:
    start = time.process_time()
    model = run.fit(delta=delta, ledger=None)
    seconds, inferred = time.process_time() - start, model.inferred_
    made = None if inferred is None else run.domain.to_unit(inferred.points)
    weights = None if inferred is None else inferred.weights
    return Answer(centers=np.asarray(model.cluster_centers_), seconds=seconds, points=made, weights=weights)


def _diffprivlib(run: Run, foreign: Foreign | None) -> Answer:
    assert foreign is not None
    assert run.epsilon is not None
    unit, loss = run.domain.to_unit(run.data.rows), {"epsilon": float(run.epsilon)}
    made = foreign.ask(unit, how="diffprivlib", k=run.n_clusters, seed=run.seed, loss=loss)
    return Answer(centers=run.from_unit(made.points), seconds=made.seconds)


def _synthetic(run: Run, foreign: Foreign | None, *, how: str, bins: int) -> Answer:
    from sklearn.cluster import KMeans

    assert foreign is not None
    assert run.epsilon is not None
    rho = math.nextafter(float(rho_of(run.epsilon, DELTA)), 0.0)
    made = foreign.ask(run.domain.to_unit(run.data.rows), how=how, bins=bins, loss={"rho": rho})
    start = time.process_time()
    found = KMeans(run.n_clusters, n_init=10, random_state=run.seed).fit(made.points)
    seconds = made.seconds + time.process_time() - start
    return Answer(centers=run.from_unit(found.cluster_centers_), seconds=seconds, points=made.points)


def _contestants() -> Mapping[str, Contestant]:
    found = [
        Contestant(name="recoup", title="Recoup, epsilon", answer=partial(_ours, delta=Fraction(0))),
        Contestant(name="recoup-delta", title="Recoup, epsilon and delta", answer=partial(_ours, delta=DELTA)),
    ]
    for name in ("eugkm", "hybrid", "gupt", "privgene", "non-private"):
        found.append(Contestant(name=name, title=METHODS[name].title, answer=partial(_timed, method=name)))
    found.append(
        Contestant(name="diffprivlib", title="diffprivlib 0.6.6", answer=_diffprivlib, environment="diffprivlib")
    )
    for how, title in FAMILIES.items():
        for bins in BINS:
            found.append(
                Contestant(
                    name=f"{how}-{bins}-gaussian",  # the noise that both papers use
                    title=f"{title}, {bins} bins",
                    answer=partial(_synthetic, how=how, bins=bins),
                    environment="mbi",
                    family=how,
                )
            )
    return {contestant.name: contestant for contestant in found}


CONTESTANTS = _contestants()
