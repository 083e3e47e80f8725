"""Two centres, and a mixture of one component with some fields changed."""

import numpy as np

from recoup.queries.models import MixtureQuery

CENTERS = np.array([[-0.5, 0.0], [0.5, 0.0]])


def mixture(**changes):
    k = len(changes.get("means", [0]))
    fields = dict.fromkeys(("weights", "variances", "radii", "reaches"), np.ones(k))
    return MixtureQuery(**({"means": np.zeros((1, 1))} | fields | changes))
