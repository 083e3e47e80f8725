"""Private k-means from records to centres, without scikit-learn, which takes longer to import than a small fit takes.

The command line runs this; `PrivateKMeans` adds what scikit-learn expects of an estimator.
"""

from __future__ import annotations

from typing import Any, ClassVar

from recoup._validate import choice, whole_number
from recoup.algorithms.base import Algorithm
from recoup.algorithms.kmeans.lloyd import in_order
from recoup.algorithms.registry import choices, clustering_named
from recoup.curator.rivals import RIVALS, rival_of
from recoup.curator.rivals.base import release_model
from recoup.domain import Domain
from recoup.errors import Argument, ParameterError
from recoup.estimators.base import AnyLedger, AnyPerPerson, Noise, OrAuto, PrivateEstimator
from recoup.found_bounds import Fit
from recoup.inference.infer import METHODS
from recoup.inference.judge import doubts_of
from recoup.queries.base import Array
from recoup.transcript.transcript import Transcript

_OF_GRIDS = ("grid", "hybrid")
_OF_LLOYD = ("mcmc", "consistency")  # "auto" chooses DP-KMEANS for these


class Clustering(PrivateEstimator):
    """A private clustering; its parameters and what it learns are those of `PrivateKMeans`."""

    _learnt: ClassVar = {"cluster_centers_": ("k", "d"), "doubtful_": ()}

    def __init__(
        self,
        n_clusters: int = 8,
        epsilon: Any = None,
        bounds: Any = None,
        *,
        delta: Any = 0.0,
        domain: Any = "auto",
        n_records: OrAuto = "auto",
        records_per_person: int = 1,
        person: str | None = None,
        per_person: AnyPerPerson = None,
        algorithm: str = "auto",
        n_rounds: OrAuto = "auto",
        postprocess: str = "auto",
        ledger: AnyLedger = None,
        csv_dialect: str = "rfc4180",
        random_state: Any = None,
        noise: Noise = "secure",
    ) -> None:
        self._store(locals())

    def _release(self, X: Any, y: Any = None, **saved: Any) -> tuple[Transcript, Algorithm] | None:
        if self.algorithm not in RIVALS:
            return super()._release(X, **saved)
        fit = self._prepared(X, **saved)
        told = {"purpose": saved["purpose"], "on_release": saved["on_round"]}
        model = release_model(fit.algorithm, fit.source, domain=fit.records, **fit.terms, **told)
        self._set_domain(fit.features)
        self.transcript_ = self.inferred_ = self.verdict_ = None
        self.doubtful_: list[int] = []
        self.cluster_centers_, self.privacy_ = in_order(model.centers), model.privacy
        self._n_features_out = len(self.cluster_centers_)
        return None

    def _prepared(self, X: Any, y: Any = None, **saved: Any) -> Fit:
        if self.algorithm not in RIVALS:
            return super()._prepared(X, y, **saved)
        terms = self._terms()
        n_rounds = None if self.n_rounds == "auto" else whole_number(self.n_rounds, "n_rounds")
        rival = rival_of(self.algorithm, self.n_clusters, n_rounds)
        if self.postprocess not in ("auto", "none"):
            unused = f"{self.algorithm} releases centres alone, so there is nothing to infer from: leave out "
            raise ParameterError(unused, Argument("postprocess"), ".")
        if saved["path"] is not None or saved["resume"]:
            raise ParameterError(f"{self.algorithm} releases no transcript: none can be saved or resumed.")
        return Fit(*self._open(X), rival, terms)

    def _postprocesses(self) -> tuple[str, ...]:
        return ("auto", "none", *METHODS)

    def _keep(self, answer: Array, algorithm: Algorithm) -> None:
        self.cluster_centers_ = answer
        self.doubtful_ = doubts_of(self.transcript_, answer, self.inferred_).noise
        self._n_features_out = len(answer)

    def _algorithm(self, records: Domain) -> Algorithm:
        choice(self.algorithm, "algorithm", ("auto", *choices("kmeans"), *RIVALS))
        if self.algorithm not in ("auto", "lloyd") and self.postprocess == "consistency":
            asked, needed = Argument("postprocess", repr(self.postprocess)), Argument("algorithm", '"lloyd"')
            raise ParameterError(asked, " reads DP-KMEANS only: use ", needed, " with it.")
        if self.algorithm in _OF_GRIDS and not records.has_grid:
            asked, able = Argument("algorithm", repr(self.algorithm)), Argument("algorithm", '"adaptive"')
            raise ParameterError(asked, " counts in a grid of numbers, and this schema has more: use ", able, ".")
        name = "lloyd" if self.algorithm == "auto" and self.postprocess in _OF_LLOYD else self.algorithm
        entry, rounds = clustering_named(name, None if self.n_rounds == "auto" else self.n_rounds)
        return entry.kind(n_clusters=self.n_clusters, **rounds)  # type: ignore[call-arg]

    @classmethod
    def _reads(cls, algorithm: Algorithm) -> bool:
        return algorithm.has_centers
