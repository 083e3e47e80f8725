"""What is compared: every method is one function from a run to centres in the user's units.

The functions see records only through `Run`: private ones through `transcript` and `fit`, with simulated noise. They
cannot import the score, so none can choose between candidates by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from recoup.algorithms.kmeans.lloyd import spread_centers
from recoup.algorithms.registry import choices
from recoup.domain import Array
from recoup.errors import ParameterError
from recoup.inference.infer import infer
from recoup.inference.inferred import refit
from recoup_lab.experiments.run import METRICS, Metric, Run

CHAIN_STEPS, PROPOSAL_VARIANCE = 30_000, 0.001  # the paper's section 4
Function = Callable[[Run], Array]
Varies = Literal["epsilon and seed", "seed", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One entry of the list of methods.

    Attributes:
        name: what it is called on the command line and in results.
        title: what it is called in figures and tables.
        function: from a run to (K, d) centres in the user's units; a function of a module, so that other processes can
            call it.
        metrics: the metrics in which it takes part.
        varies: what the result depends on; a method that does not depend on epsilon has no epsilon in the results.
    """

    name: str
    title: str
    function: Function
    metrics: tuple[Metric, ...] = METRICS
    varies: Varies = "epsilon and seed"

    @property
    def private(self) -> bool:
        """Whether it is compared as a private method, and not as a baseline."""
        return self.varies == "epsilon and seed"


METHODS: dict[str, Method] = {}


def method(
    name: str, title: str, *, metrics: Iterable[Metric] = METRICS, varies: Varies = "epsilon and seed"
) -> Callable[[Function], Function]:
    """Add the function below to the list of methods.

    Args:
        name: short and new.
        title: for figures and tables.
        metrics: "paper", "user" or both.
        varies: what the result depends on.

    Returns:
        A decorator that leaves the function as it is.

    >>> method("dpkm", "again")(lambda run: run.data.rows)
    Traceback (most recent call last):
    ...
    recoup.errors.ParameterError: there is a method 'dpkm' already: choose another name.
    """

    def add(function: Function) -> Function:
        if name in METHODS:
            raise ParameterError(f"there is a method {name!r} already: choose another name.")
        METHODS[name] = Method(name=name, title=title, function=function, metrics=tuple(metrics), varies=varies)
        return function

    return add


def _inferred(run: Run, how: str, **settings: Any) -> Array:
    inferred = infer(run.transcript, how, random_state=run.seed, warn=False, **settings)
    return refit(run.transcript, inferred, random_state=run.seed)


@method("dpkm", "DP-KMEANS")
def _dpkm(run: Run) -> Array:
    return refit(run.transcript, None)


@method("avg2", "mean of last two", metrics=["paper"])
def _avg2(run: Run) -> Array:
    return refit(run.transcript, None, average_last=2)


@method("consistency", "consistency", metrics=["paper"])
def _consistency(run: Run) -> Array:
    return _inferred(run, "consistency")


def _sampled(run: Run, target_scale: str) -> Array:
    setting = {"n_steps": CHAIN_STEPS, "proposal_variance": PROPOSAL_VARIANCE, "n_chains": 1}
    return _inferred(run, "mcmc", target_scale=target_scale, **setting)


@method("mcmc", "MCMC (the paper)", metrics=["paper"])
def _mcmc(run: Run) -> Array:
    return _sampled(run, "one")  # as the acceptance is printed


@method("mcmc-noise", "MCMC, scale of the noise", metrics=["paper"])
def _mcmc_noise(run: Run) -> Array:
    return _sampled(run, "noise")  # as the target is printed, with the budgets in it


@method("maxent", "maximum entropy")
def _maxent(run: Run) -> Array:
    return _inferred(run, "maxent")


def _fitted(run: Run, **settings: Any) -> Array:
    return np.asarray(run.fit(**settings).cluster_centers_)


method("recoup", "Recoup, default")(_fitted)
method("eugkm", "EUGkM")(partial(_fitted, algorithm="grid", postprocess="none"))
method("hybrid", "hybrid")(partial(_fitted, algorithm="hybrid", postprocess="none"))
method("gupt", "GUPT")(partial(_fitted, algorithm="gupt"))
method("privgene", "PrivGene")(partial(_fitted, algorithm="privgene"))


@method("data-free", "spread, no data", varies="seed")
def _data_free(run: Run) -> Array:
    # The stream of the first round of a release, so that these are the centres from which DP-KMEANS starts.
    rng = np.random.default_rng(np.random.SeedSequence(run.seed, spawn_key=(0, 0)))
    return run.from_unit(spread_centers(run.domain, run.n_clusters, rng))


@method("non-private", "non-private", varies="nothing")
def _non_private(run: Run) -> Array:
    from sklearn.cluster import KMeans

    found = KMeans(run.n_clusters, n_init=10, random_state=0).fit(run.domain.to_unit(run.data.rows))
    return run.from_unit(found.cluster_centers_)


def known_methods() -> dict[str, Method]:
    """The methods of this list, and every further k-means algorithm that the library has learnt by now.

    Its own take part under the paper's names: adaptive as "recoup", lloyd as "dpkm" and all that reads its transcript.
    """
    further = {name: entry for name, entry in choices("kmeans").items() if name not in _UNDER_OTHER_NAMES}
    return METHODS | {
        name: Method(name=name, title=entry.description, function=partial(_fitted, algorithm=name, postprocess="none"))
        for name, entry in further.items()
    }


_UNDER_OTHER_NAMES = ("adaptive", "grid", "hybrid", "lloyd")
