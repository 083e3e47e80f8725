"""What tests of rivals share: selectors that remember, readable twins, tables, and a bound on what an attack tells."""

import itertools
import math
from collections import Counter

import numpy as np
from cases import ALPHA
from scipy.stats import beta

from recoup.curator.rivals.base import ChargedNoise
from recoup.curator.source import open_source
from recoup.kernels.fixed_point import DROPPED
from recoup.kernels.weighted_kmeans import Clustering
from recoup.privacy.mechanism import SecureNoise, SimulatedNoise

TABLES = {
    "empty": np.empty((0, 2)),
    "one": np.array([[0.2, 0.3]]),
    "two": np.array([[0.2, 0.3], [0.9, 0.1]]),
    "missing": np.array([[np.nan, 0.3], [0.9, 0.1]]),
    "far": np.array([[1e300, -1e300], [np.inf, 0.0]]),
    "equal": np.full((50, 2), 0.5),
    "many": np.random.default_rng(0).uniform(size=(5000, 2)),
}


class RecordingSelector:
    """Remembers every call; without a seed it ignores the scores, so that neighbours see the same candidates."""

    simulated = True

    def __init__(self, seed=None):
        self._selector = None if seed is None else SimulatedNoise(np.random.default_rng(seed))
        self.calls = []

    def winners(self, scores, n_winners, scale):
        self.calls.append((list(scores), n_winners, scale))
        if self._selector is None:
            return list(range(n_winners))
        return self._selector.winners(scores, n_winners, scale)

    @property
    def draws(self):
        """What an observer may know: the number of candidates and of winners, and the scale."""
        return [(len(scores), n, scale) for scores, n, scale in self.calls]


class Both:
    """Noise whose totals and selections are recorded, or drawn, by two others; secure where none is given."""

    def __init__(self, noise=None, selector=None):
        noise, selector = noise or SecureNoise(), selector or SecureNoise()
        self.simulated = noise.simulated or selector.simulated
        self.laplace, self.gaussian = noise.laplace, noise.gaussian
        self.winners = selector.winners


def run(rival, table, context, *, seed=0, noise=None, selector=None):
    """A rival's centres on a table, with recorded noise."""
    charged = ChargedNoise(context, noise=Both(noise, selector), name=rival.type_name)
    source = open_source(table, context.domain)
    return rival.centers(source, charged, np.random.default_rng(seed))


def naive_losses(records, candidates, factor, cap):
    """Sums over records of the clipped integer excess over the best candidate, one record and centre at a time."""
    totals = [0] * len(candidates)
    for record in records:
        if record[0] == DROPPED:
            continue
        point = [int(v) * 2.0**-30 for v in record]
        losses = []
        for candidate in candidates:
            distances = []
            for center in candidate:
                distance = 0.0
                for a, b in zip(point, center, strict=True):
                    distance += (a - float(b)) * (a - float(b))
                distances.append(distance)
            losses.append(min(distances))
        for i, loss in enumerate(losses):
            totals[i] += int(min((loss - min(losses)) * factor, cap))
    return totals


def unclipped(records, centers, members, factor, cap, totals):
    """The planted bug of scores without a cap, with the interface of the kernel."""
    totals += np.array(naive_losses(records, centers[members], factor, np.inf), dtype=np.int64)


def block_of_parity(points, weights, n_clusters, **_):
    """As sensitive a function of a block as there is: from corner to corner with every record, and far outside."""
    return Clustering(np.full((n_clusters, points.shape[1]), 50.0 if len(points) % 2 else -50.0), 0.0)


def winner_law(scores, scale):
    """The probability of every candidate to win, by permute-and-flip over all permutations; scores by candidate."""
    best, law = max(scores.values()), dict.fromkeys(scores, 0.0)
    for order in itertools.permutations(scores):
        left = 1.0
        for candidate in order:
            accepted = math.exp((scores[candidate] - best) / scale)
            law[candidate] += left * accepted / math.factorial(len(scores))
            left *= 1 - accepted
    return law


def winners_law(scores, n_winners, scale):
    """The probability of every sequence of winners, each drawn among those left."""
    if n_winners == 0:
        return {(): 1.0}
    law = {}
    for first, p in winner_law(scores, scale).items():
        rest = {name: score for name, score in scores.items() if name != first}
        for others, q in winners_law(rest, n_winners - 1, scale).items():
            law[(first, *others)] = p * q
    return law


def epsilon_lower_bound(one, other):
    """A bound of epsilon from below, from outcomes of two neighbours, with confidence 1 - 2 ALPHA.

    Half of the draws put the outcomes in the order of their likelihood ratio and pick a level set of it; the other half
    prices that event with Clopper-Pearson bounds, so that picking costs no confidence.
    """
    best = 0.0
    for a, b in ((one, other), (other, one)):
        half = len(a) // 2
        picking, pricing = [[Counter(draws[part]) for draws in (a, b)] for part in (slice(half), slice(half, None))]
        ratio = {o: (picking[0][o] + 0.5) / (picking[1][o] + 0.5) for o in picking[0] | picking[1]}
        ordered = sorted(ratio, key=lambda o: -ratio[o])
        events = [set(ordered[: i + 1]) for i in range(len(ordered))]
        chosen = max(events, key=lambda event: _log_ratio_from_below(event, picking, half))
        best = max(best, _log_ratio_from_below(chosen, pricing, len(a) - half))
    return best


def _log_ratio_from_below(event, counts, n):
    hits, misses = (sum(count[o] for o in event) for count in counts)
    if hits == 0:
        return -math.inf
    p = beta.ppf(ALPHA / 2, hits, n - hits + 1)
    q = 1.0 if misses == n else beta.ppf(1 - ALPHA / 2, misses + 1, n - misses)
    return math.log(p / q)
