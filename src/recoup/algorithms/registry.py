"""The closed registry of algorithms: a transcript can name only what is listed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recoup.algorithms.base import Algorithm
from recoup.algorithms.components import CovariancePCA, PowerPCA
from recoup.algorithms.imported import ImportedAlgorithm
from recoup.algorithms.kmeans.adaptive import AdaptiveKMeans
from recoup.algorithms.kmeans.grid import GridKMeans
from recoup.algorithms.kmeans.hybrid import HybridKMeans
from recoup.algorithms.kmeans.lloyd import KMeans
from recoup.algorithms.logistic import LogisticRegression
from recoup.algorithms.mixture import GaussianMixture
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.queries import unknown

ALGORITHMS: dict[str, type[Algorithm]] = {
    a.type_name: a
    for a in (
        CovariancePCA,
        PowerPCA,
        AdaptiveKMeans,
        GridKMeans,
        HybridKMeans,
        KMeans,
        ImportedAlgorithm,
        LogisticRegression,
        GaussianMixture,
    )
}


def algorithm_from_json(value: Mapping[str, Any]) -> Algorithm:
    """Read an algorithm back from the description in a transcript.

    >>> algorithm_from_json({"type": "kmeans-lloyd", "n_clusters": 3, "n_rounds": 5})
    KMeans(n_clusters=3, n_rounds=5)
    """
    if not isinstance(value.get("type"), str):
        raise TranscriptFormatError(f"unknown algorithm; known are {', '.join(ALGORITHMS)}.")
    if value["type"] not in ALGORITHMS:
        raise unknown("algorithm", value["type"])
    try:
        return ALGORITHMS[value["type"]].from_json(value)
    except (KeyError, TypeError, ParameterError) as error:
        raise TranscriptFormatError(f"the transcript's algorithm cannot be used: {error}") from None
