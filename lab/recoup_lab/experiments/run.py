"""What a method is given: a data set at one epsilon and seed, a ledger, and the transcript that others read too."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from recoup.algorithms.kmeans.lloyd import KMeans
from recoup.domain import Array, Box, Domain, L1Ball
from recoup.driver import release
from recoup.errors import DoubtfulResult, ParameterError
from recoup.estimators import PrivateKMeans
from recoup.privacy.ledger import Ledger
from recoup.privacy.price import Price
from recoup.transcript.transcript import Transcript
from recoup_lab.experiments.datasets import LoadedSet

Metric = Literal["paper", "user"]
METRICS: tuple[Metric, ...] = ("paper", "user")
N_ROUNDS = 5  # T of the paper

_SHARED = "the transcript that all post-processors read"


def metric_domain(metric: Metric, data: LoadedSet) -> Domain:
    """Where records are scored: projected onto the unit L1 ball (the paper), or as they are, scaled by their bounds."""
    return L1Ball(data.low, data.high) if metric == "paper" else Box(data.low, data.high)


@dataclass(slots=True, kw_only=True, eq=False)
class SharedRelease:
    """One DP-KMEANS release of a set in a metric, at an epsilon, from a seed: made once, when it is first asked for.

    Attributes:
        seconds: of one core that it took; none before it was made.
    """

    data: LoadedSet
    metric: Metric
    epsilon: Fraction
    seed: int
    seconds: float | None = None
    _transcript: Transcript | None = None

    def transcript(self) -> Transcript:
        """The transcript: T = 5 rounds, simulated noise."""
        if self._transcript is None:
            start = time.process_time()
            self._transcript = release(
                KMeans(n_clusters=self.data.n_clusters, n_rounds=N_ROUNDS),
                self.data.rows,
                domain=metric_domain(self.metric, self.data),
                epsilon=self.epsilon,
                random_state=self.seed,
                noise="simulated",
            )
            self.seconds = time.process_time() - start
        return self._transcript


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """One run of one method: everything that its function may use.

    Attributes:
        data: records, bounds and K.
        metric: "paper" or "user".
        epsilon: what may be spent; none for a method that does not depend on it.
        seed: of everything random.
        ledger: what the method spends is charged here, and more than epsilon is refused; none without an epsilon.
    """

    data: LoadedSet
    metric: Metric
    epsilon: Fraction | None
    seed: int
    ledger: Ledger | None
    shared: SharedRelease | None = field(repr=False)

    @classmethod
    def of(cls, data: LoadedSet, metric: Metric, epsilon: Fraction | None, seed: int) -> Run:
        """A run with a release of its own; `sibling` makes more that share it."""
        shared = None if epsilon is None else SharedRelease(data=data, metric=metric, epsilon=epsilon, seed=seed)
        return cls(data=data, metric=metric, epsilon=epsilon, seed=seed, ledger=_ledger(epsilon), shared=shared)

    def sibling(self) -> Run:
        """A run of another method: the same release to read, and a ledger of its own."""
        return Run(
            data=self.data,
            metric=self.metric,
            epsilon=self.epsilon,
            seed=self.seed,
            ledger=_ledger(self.epsilon),
            shared=self.shared,
        )

    @property
    def domain(self) -> Domain:
        """Where the metric scores records: the unit L1 ball of the paper, or the box of the bounds."""
        return metric_domain(self.metric, self.data)

    @property
    def n_clusters(self) -> int:
        """K: how many centres to return."""
        return self.data.n_clusters

    @property
    def transcript(self) -> Transcript:
        """The DP-KMEANS transcript of this set, metric, epsilon and seed, the same for every method that reads it."""
        if self.shared is None or self.ledger is None:
            raise ParameterError("without an epsilon there is no transcript to read.")
        transcript = self.shared.transcript()
        if not self.reads_transcript:
            for answered in transcript.rounds:
                self.ledger.charge(answered.price, purpose="a round of DP-KMEANS", run=_SHARED)
        return transcript

    @property
    def reads_transcript(self) -> bool:
        """Whether the method has asked for the transcript."""
        return self.ledger is not None and any(entry.run == _SHARED for entry in self.ledger.entries())

    def fit(self, **choices: Any) -> PrivateKMeans:
        """Fit the estimator with simulated noise at this epsilon and seed, charged to the ledger.

        Args:
            choices: further parameters of `PrivateKMeans`, such as `algorithm`.

        Returns:
            The fitted estimator. In the paper's metric its domain is the unit L1 ball, else the default one.
        """
        if self.epsilon is None:
            raise ParameterError("without an epsilon there is nothing to fit privately.")
        given: dict[str, Any] = {
            "n_clusters": self.n_clusters,
            "epsilon": self.epsilon,
            "bounds": (self.data.low, self.data.high),
            "domain": "l1" if self.metric == "paper" else "auto",
            "ledger": self.ledger,
            "random_state": self.seed,
            "noise": "simulated",
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DoubtfulResult)  # the score will tell
            return PrivateKMeans(**(given | choices)).fit(self.data.rows)

    def charge_all(self, purpose: str) -> None:
        """Charge the whole epsilon, for a system that knows nothing of the ledger."""
        if self.epsilon is not None and self.ledger is not None:
            self.ledger.charge(Price(measure="pure", amount=self.epsilon), purpose=purpose)

    def from_unit(self, unit: Array) -> Array:
        """Points of the unit domain in the user's units."""
        return self.domain.from_unit(unit)


def _ledger(epsilon: Fraction | None) -> Ledger | None:
    return None if epsilon is None else Ledger.in_memory(epsilon=epsilon)
