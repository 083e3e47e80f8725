"""Scikit-learn shaped estimators: the only Python face that holds both roles, curator and analyst."""

from recoup.estimators.kmeans import PrivateKMeans

__all__ = ["PrivateKMeans"]
