"""Recoup: get back the accuracy that a differentially private algorithm has already paid for.

The public names are loaded on first use, so that `import recoup` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from recoup.version import __version__

if TYPE_CHECKING:
    from recoup.algorithms.adaptive import AdaptiveKMeans
    from recoup.algorithms.eugkm import GridKMeans
    from recoup.algorithms.hybrid import HybridKMeans
    from recoup.algorithms.lloyd import KMeans
    from recoup.domain import Box, L1Ball, L2Ball
    from recoup.driver import release
    from recoup.estimators import PrivateKMeans
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
    "HybridKMeans": "recoup.algorithms.hybrid",
    "KMeans": "recoup.algorithms.lloyd",
    "Box": "recoup.domain",
    "L1Ball": "recoup.domain",
    "L2Ball": "recoup.domain",
    "PrivateKMeans": "recoup.estimators",
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
    "GridKMeans",
    "HybridKMeans",
    "InferredDataset",
    "KMeans",
    "L1Ball",
    "L2Ball",
    "Ledger",
    "PrivateKMeans",
    "Round",
    "Transcript",
    "__version__",
    "infer",
    "refit",
    "register",
    "release",
    "suggest_clusters",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'recoup' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
