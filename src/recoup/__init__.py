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
    from recoup.curator.tables.database import Table
    from recoup.domain import Box, L1Ball, L2Ball
    from recoup.driver import release
    from recoup.estimators import PrivateGaussianMixture, PrivateKMeans, PrivateLogisticRegression, PrivatePCA
    from recoup.found_bounds import FoundBounds, find_bounds
    from recoup.imported import load_foreign, transcript_from
    from recoup.incomplete import IncompleteCount, count_incomplete
    from recoup.inference.choose import suggest_clusters
    from recoup.inference.infer import infer
    from recoup.inference.inferred import InferredDataset, refit
    from recoup.privacy.ledger import Ledger
    from recoup.privacy.statement import PrivacyStatement
    from recoup.remote.table import connect
    from recoup.schema import Category, Number, Schema
    from recoup.transcript.round import Round
    from recoup.transcript.transcript import Transcript

# Where each public name is defined.
_HOMES = {
    name: f"recoup.{home}"
    for home, names in {
        "algorithms.components": "CovariancePCA PowerPCA",
        "algorithms.kmeans.adaptive": "AdaptiveKMeans",
        "algorithms.kmeans.grid": "GridKMeans HybridKMeans",
        "algorithms.kmeans.lloyd": "KMeans",
        "algorithms.logistic": "LogisticRegression",
        "algorithms.mixture": "GaussianMixture",
        "algorithms.registry": "register",
        "curator.tables.database": "Table",
        "domain": "Box L1Ball L2Ball",
        "driver": "release",
        "estimators": "PrivateGaussianMixture PrivateKMeans PrivateLogisticRegression PrivatePCA",
        "found_bounds": "FoundBounds find_bounds",
        "incomplete": "IncompleteCount count_incomplete",
        "imported": "load_foreign transcript_from",
        "inference.choose": "suggest_clusters",
        "inference.infer": "infer",
        "inference.inferred": "InferredDataset refit",
        "privacy.ledger": "Ledger",
        "privacy.statement": "PrivacyStatement",
        "remote.table": "connect",
        "schema": "Category Number Schema",
        "transcript.round": "Round",
        "transcript.transcript": "Transcript",
    }.items()
    for name in names.split()
}

__all__ = [
    "AdaptiveKMeans",
    "Box",
    "Category",
    "CovariancePCA",
    "FoundBounds",
    "GaussianMixture",
    "GridKMeans",
    "HybridKMeans",
    "IncompleteCount",
    "InferredDataset",
    "KMeans",
    "L1Ball",
    "L2Ball",
    "Ledger",
    "LogisticRegression",
    "Number",
    "PowerPCA",
    "PrivacyStatement",
    "PrivateGaussianMixture",
    "PrivateKMeans",
    "PrivateLogisticRegression",
    "PrivatePCA",
    "Round",
    "Schema",
    "Table",
    "Transcript",
    "__version__",
    "connect",
    "count_incomplete",
    "find_bounds",
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
    if name not in _HOMES:
        raise AttributeError(f"module 'recoup' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
