"""A table with labels, and releases of it by a logistic regression."""

import numpy as np

import recoup
from recoup import Box, LogisticRegression, PrivateLogisticRegression

RNG = np.random.default_rng(7)
FEATURES = RNG.uniform([0.0, -5.0], [10.0, 5.0], size=(4000, 2))
LABELS = FEATURES[:, 0] - FEATURES[:, 1] + RNG.logistic(size=4000) > 5.0
BOUNDS = ([0.0, -5.0], [10.0, 5.0])


def model(**parameters):
    terms = {"epsilon": 1, "bounds": BOUNDS, "random_state": 0, "noise": "simulated"} | parameters
    return PrivateLogisticRegression(**terms)


def released(x, positive, *, step_size=16.0, epsilon=1, seed=0, delta=1e-6):
    d = x.shape[1]
    records = np.column_stack([x, np.where(positive, 1.0, -1.0)])
    algorithm = LogisticRegression(step_size=step_size)
    domain = Box(-np.ones(d + 1), np.ones(d + 1))
    terms = {"domain": domain, "epsilon": epsilon, "delta": delta, "random_state": seed, "noise": "simulated"}
    return algorithm, recoup.release(algorithm, records, **terms)
