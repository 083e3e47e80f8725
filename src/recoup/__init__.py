"""Recoup: get back the accuracy that a differentially private algorithm has already paid for.

The public names are loaded on first use, so that `import recoup` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from recoup.version import __version__

if TYPE_CHECKING:
    from recoup import testing
    from recoup.algorithms.components import CovariancePCA, PowerPCA
    from recoup.algorithms.kmeans.adaptive import AdaptiveKMeans
    from recoup.algorithms.kmeans.grid import GridKMeans, HybridKMeans
    from recoup.algorithms.kmeans.lloyd import KMeans
    from recoup.algorithms.logistic import LogisticRegression
    from recoup.algorithms.mixture import GaussianMixture
    from recoup.algorithms.registry import register
    from recoup.domain import Box, L1Ball, L2Ball
    from recoup.driver import release
    from recoup.estimators import PrivateGaussianMixture, PrivateKMeans, PrivateLogisticRegression, PrivatePCA
    from recoup.imported import load_foreign, transcript_from
    from recoup.inference.choose import suggest_clusters
    from recoup.inference.infer import infer
    from recoup.inference.inferred import InferredDataset, refit
    from recoup.privacy.ledger import Ledger
    from recoup.privacy.statement import PrivacyStatement
    from recoup.transcript.round import Round
    from recoup.transcript.transcript import Transcript

_HOMES = {
    "AdaptiveKMeans": "recoup.algorithms.kmeans.adaptive",
    "GridKMeans": "recoup.algorithms.kmeans.grid",
    "GaussianMixture": "recoup.algorithms.mixture",
    "HybridKMeans": "recoup.algorithms.kmeans.grid",
    "KMeans": "recoup.algorithms.kmeans.lloyd",
    "LogisticRegression": "recoup.algorithms.logistic",
    "CovariancePCA": "recoup.algorithms.components",
    "PowerPCA": "recoup.algorithms.components",
    "Box": "recoup.domain",
    "L1Ball": "recoup.domain",
    "L2Ball": "recoup.domain",
    "PrivateGaussianMixture": "recoup.estimators",
    "PrivateKMeans": "recoup.estimators",
    "PrivatePCA": "recoup.estimators",
    "PrivateLogisticRegression": "recoup.estimators",
    "load_foreign": "recoup.imported",
    "transcript_from": "recoup.imported",
    "suggest_clusters": "recoup.inference.choose",
    "infer": "recoup.inference.infer",
    "InferredDataset": "recoup.inference.inferred",
    "refit": "recoup.inference.inferred",
    "Ledger": "recoup.privacy.ledger",
    "PrivacyStatement": "recoup.privacy.statement",
    "register": "recoup.algorithms.registry",
    "release": "recoup.driver",
    "Round": "recoup.transcript.round",
    "Transcript": "recoup.transcript.transcript",
}

__all__ = [
    "AdaptiveKMeans",
    "Box",
    "CovariancePCA",
    "GaussianMixture",
    "GridKMeans",
    "HybridKMeans",
    "InferredDataset",
    "KMeans",
    "L1Ball",
    "L2Ball",
    "Ledger",
    "LogisticRegression",
    "PowerPCA",
    "PrivacyStatement",
    "PrivateGaussianMixture",
    "PrivateKMeans",
    "PrivateLogisticRegression",
    "PrivatePCA",
    "Round",
    "Transcript",
    "__version__",
    "infer",
    "load_foreign",
    "refit",
    "register",
    "release",
    "suggest_clusters",
    "testing",
    "transcript_from",
]


def __getattr__(name: str) -> object:
    if name == "testing":
        return import_module("recoup.testing")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'recoup' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
