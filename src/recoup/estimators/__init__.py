"""Scikit-learn shaped estimators: the only Python face that holds both roles, curator and analyst."""

from recoup.estimators.components import PrivatePCA
from recoup.estimators.kmeans import PrivateKMeans
from recoup.estimators.logistic import PrivateLogisticRegression
from recoup.estimators.mixture import PrivateGaussianMixture

__all__ = ["PrivateGaussianMixture", "PrivateKMeans", "PrivateLogisticRegression", "PrivatePCA"]
