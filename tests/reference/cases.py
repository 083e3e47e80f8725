"""Domains, queries and extreme records that many tests go through."""

import itertools
from fractions import Fraction

import numpy as np

from recoup.domain import Box, L1Ball, L2Ball
from recoup.privacy.mechanism import SimulatedNoise
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery, HistogramQuery, Marginal
from recoup.queries.models import LogisticGradientQuery, MixtureQuery
from recoup.queries.moments import MomentsQuery, PowerQuery
from recoup.transcript.context import Context, Request

ALPHA = 1e-6  # false-alarm rate of one statistical assertion


def domains(d):
    """Every kind of domain over d columns, with bounds that are not symmetric."""
    low, high = np.linspace(-3.0, 1.0, d), np.linspace(1.5, 7.0, d)
    return {
        "box": Box(low, high),
        "l1": L1Ball(low, high),
        "l1-wide": L1Ball(low, high, radius=0.7 * d),
        "l1-tight": L1Ball(low, high, radius=0.01),
        "l2": L2Ball(low, high),
        "l2-wide": L2Ball(low, high, radius=0.9 * np.sqrt(d)),
        "l2-tight": L2Ball(low, high, radius=0.01),
    }


def queries(d, k=3, seed=0):
    """Every kind of query over d columns."""
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-0.6, 0.6, size=(k, d))
    radii = rng.uniform(0.05, 1.0, size=k)
    found = {
        "voronoi-none": VoronoiQuery(centers=centers, sums="none"),
        "voronoi-absolute": VoronoiQuery(centers=centers),
        "voronoi-relative-1": VoronoiQuery(centers=centers, sums="relative", radii=radii, norm=1),
        "voronoi-relative-2": VoronoiQuery(centers=centers, sums="relative", radii=radii, norm=2),
        "voronoi-squares-1": VoronoiQuery(centers=centers, sums="relative", radii=radii, norm=1, squares=True),
        "voronoi-squares-2": VoronoiQuery(centers=centers, sums="relative", radii=radii, norm=2, squares=True),
        "histogram-one-way": HistogramQuery.one_way(dimension=d, bins=3),
        "moments": MomentsQuery(dimension=d),
        "power": PowerQuery(directions=np.linalg.qr(rng.standard_normal((d, min(d, 2))))[0].clip(-1, 1)),
        "grid": GridQuery(sides=(3,) * min(d, 6) + (1,) * (d - min(d, 6))),
    }
    coefficients = np.random.default_rng(seed + 1).normal(0, 2, size=d)
    found["gradient-1"] = LogisticGradientQuery(coefficients=coefficients, clip=0.4, norm=1)
    found["gradient-2"] = LogisticGradientQuery(coefficients=coefficients, clip=0.4, norm=2)
    for norm in (1, 2):
        mixture = np.random.default_rng([seed, norm]).uniform(0.02, 1.0, size=(4, k))
        fields = dict(zip(("weights", "variances", "radii", "reaches"), mixture, strict=True))
        found[f"mixture-{norm}"] = MixtureQuery(means=centers, **fields, norm=norm)
    if d > 1:
        pairs = itertools.combinations(range(min(d, 4)), 2)
        marginals = tuple(Marginal(columns=pair, sides=(2, 2)) for pair in pairs)
        found["histogram-two-way"] = HistogramQuery(dimension=d, marginals=marginals)
    return found


def even_split(query, domain):
    """The same share for every block of an answer."""
    names = query.sensitivity(domain).names
    return dict.fromkeys(names, Fraction(1, len(names)))


def request(query, domain, share=Fraction(1)):
    """A request for a query with an even split."""
    return Request(query=query, share=share, split=even_split(query, domain))


def context(domain, mechanism="laplace", epsilon="1", **terms):
    """Terms of a release, with delta where the mechanism needs it."""
    delta = "1e-6" if mechanism == "gaussian" else 0
    return Context(domain=domain, epsilon=epsilon, delta=delta, mechanism=mechanism, **terms)


def extreme_rows(domain):
    """Raw rows at the corners, vertices, poles and centre of a domain, on its cells' boundaries and far outside."""
    d = domain.n_columns
    unit = [np.zeros(d)]
    unit += [np.array(signs) for signs in itertools.product((-1.0, 1.0), repeat=d)] if d <= 4 else []
    unit += [sign * np.eye(d)[j] for j in range(d) for sign in (-1.0, 1.0)]
    unit += [np.full(d, value) for value in (-1.0, -1 / 3, 1 / 3, 1.0, 1 / d, 1 / np.sqrt(d))]
    rows = [domain.from_unit(u) for u in unit]
    rows += [np.full(d, 1e300), np.full(d, -1e300), np.where(np.arange(d) % 2, 1e300, -1e300)]
    # Raw corners too: `from_unit` keeps what is far outside of a ball.
    return np.array([*rows, np.array(domain.low), np.array(domain.high)])


class RecordingNoise:
    """Simulated noise that remembers how often and for what it was asked."""

    simulated = True

    def __init__(self, seed=0):
        self._noise = SimulatedNoise(np.random.default_rng(seed))
        self.calls = []

    def laplace(self, totals, scale):
        self.calls.append(("laplace", list(totals), scale))
        return self._noise.laplace(totals, scale)

    def gaussian(self, totals, scale):
        self.calls.append(("gaussian", list(totals), scale))
        return self._noise.gaussian(totals, scale)

    @property
    def draws(self):
        """What an observer may know: the kind, number and scale of draws."""
        return [(kind, len(totals), scale) for kind, totals, scale in self.calls]
