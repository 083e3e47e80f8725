"""Scikit-learn shaped estimators: the only Python face that holds both roles, curator and analyst.

They are loaded on first use: one does not wait for the others, and the command line not for scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recoup.estimators.components import PrivatePCA
    from recoup.estimators.kmeans import PrivateKMeans
    from recoup.estimators.logistic import PrivateLogisticRegression
    from recoup.estimators.mixture import PrivateGaussianMixture

_HOMES = {
    "PrivateGaussianMixture": "mixture",
    "PrivateKMeans": "kmeans",
    "PrivateLogisticRegression": "logistic",
    "PrivatePCA": "components",
}

__all__ = ["PrivateGaussianMixture", "PrivateKMeans", "PrivateLogisticRegression", "PrivatePCA"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'recoup.estimators' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"recoup.estimators.{_HOMES[name]}"), name)
    return value
