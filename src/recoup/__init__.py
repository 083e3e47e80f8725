"""Recoup: get back the accuracy that a differentially private algorithm has already paid for.

The public names are loaded on first use, so that `import recoup` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from recoup.version import __version__

if TYPE_CHECKING:
    from recoup import testing
    from recoup.algorithms.adaptive import AdaptiveKMeans
    from recoup.algorithms.eugkm import GridKMeans
    from recoup.algorithms.gmm import GaussianMixture
    from recoup.algorithms.hybrid import HybridKMeans
    from recoup.algorithms.lloyd import KMeans
    from recoup.algorithms.logistic import LogisticRegression
    from recoup.algorithms.pca import CovariancePCA, PowerPCA
    from recoup.domain import Box, L1Ball, L2Ball
    from recoup.driver import release
    from recoup.estimators import PrivateGaussianMixture, PrivateKMeans, PrivateLogisticRegression, PrivatePCA
    from recoup.foreign import load_foreign, transcript_from
    from recoup.inference.choose import suggest_clusters
    from recoup.inference.infer import infer
    from recoup.inference.inferred import InferredDataset
    from recoup.inference.refit import refit
    from recoup.ledger import Ledger
    from recoup.registration import register
    from recoup.transcript import Round, Transcript

_HOMES = {
    "AdaptiveKMeans": "recoup.algorithms.adaptive",
    "GridKMeans": "recoup.algorithms.eugkm",
    "GaussianMixture": "recoup.algorithms.gmm",
    "HybridKMeans": "recoup.algorithms.hybrid",
    "KMeans": "recoup.algorithms.lloyd",
    "LogisticRegression": "recoup.algorithms.logistic",
    "CovariancePCA": "recoup.algorithms.pca",
    "PowerPCA": "recoup.algorithms.pca",
    "Box": "recoup.domain",
    "L1Ball": "recoup.domain",
    "L2Ball": "recoup.domain",
    "PrivateGaussianMixture": "recoup.estimators",
    "PrivateKMeans": "recoup.estimators",
    "PrivatePCA": "recoup.estimators",
    "PrivateLogisticRegression": "recoup.estimators",
    "load_foreign": "recoup.foreign",
    "transcript_from": "recoup.foreign",
    "suggest_clusters": "recoup.inference.choose",
    "infer": "recoup.inference.infer",
    "InferredDataset": "recoup.inference.inferred",
    "refit": "recoup.inference.refit",
    "Ledger": "recoup.ledger",
    "register": "recoup.registration",
    "release": "recoup.driver",
    "Round": "recoup.transcript",
    "Transcript": "recoup.transcript",
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
