"""The paper's sampler in plain Python: every step recomputes the log target of both data sets from nothing.

It shares no code and no shortcut with the compiled one: no cached cells, no running totals, no bound, no journal.
"""

from __future__ import annotations

import math

import numpy as np

GRID = 2.0**-30


def nearest(point, centers):
    """The nearest centre; ties to the lowest index, squares added in column order."""
    distances = [sum((float(p) - float(c)) ** 2 for p, c in zip(point, center, strict=True)) for center in centers]
    return distances.index(min(distances))


def log_target(target, points, record_weight=1.0):
    """How well the points explain all rounds."""
    value = 0.0
    for cells in target.rounds:
        centers = np.asarray(cells.centers, dtype=float)
        k = len(centers)
        labels = np.array([nearest(point, centers) for point in points])
        blocks = [(np.array([[np.sum(labels == c)] for c in range(k)]), cells.counts, cells.count_scales)]
        if cells.sums is not None:
            sums = np.array([points[labels == c].sum(axis=0) for c in range(k)])
            blocks.append((sums, cells.sums, cells.sum_scales))
        for exact, noisy, scale in blocks:
            noisy = np.asarray(noisy, dtype=float).reshape(exact.shape)
            scale = np.asarray(scale, dtype=float)
            scale = scale.reshape(k, 1) if scale.shape == (k,) and exact.shape[1] == 1 else scale
            scale = 1.0 if target.scale == "one" else scale
            residual = (noisy - record_weight * exact) / scale
            value -= np.sum(residual**2 / 2 if target.noise == "gaussian" else np.abs(residual))
    return float(value)


def is_inside(target, point):
    """Whether a point lies in the domain."""
    size = {
        "box": 0.0,
        "l1": np.abs(point).sum() / target.radius,
        "l2": math.sqrt((point**2).sum()) / target.radius,
    }[target.domain]
    return bool(np.abs(point).max() <= 1 and size <= 1)


def component_of(weights, uniform):
    """The component that an alias table over the positive weights, filled from the end, gives to a uniform number."""
    kept = [c for c, weight in enumerate(weights) if weight > 0]
    total = sum(np.asarray(weights, dtype=float)[kept])
    share = {c: weights[c] / total * len(kept) for c in kept}
    threshold, alias = dict.fromkeys(kept, 1.0), {c: c for c in kept}
    poor, rich = [c for c in kept if share[c] < 1], [c for c in kept if share[c] >= 1]
    while poor and rich:
        low, high = poor.pop(), rich[-1]
        threshold[low], alias[low] = share[low], high
        share[high] -= 1.0 - share[low]
        if share[high] < 1:
            poor.append(rich.pop())
    column, rest = divmod(uniform * len(kept), 1)
    component = kept[int(column)]
    return component if rest < threshold[component] else alias[component]


class Twin:
    """A chain whose state is nothing but its points and their components."""

    def __init__(self, target, proposal, points, components, record_weight=1.0):
        self.target, self.proposal, self.record_weight = target, proposal, record_weight
        self.points = np.trunc(np.array(points, dtype=float) / GRID) * GRID
        self.components = np.array(components)
        self.log_target = self.best_log_target = log_target(target, self.points, record_weight)
        self.best_points, self.n_accepted = self.points.copy(), 0

    def draw(self, rng):
        """The randomness of one step."""
        n, d = self.points.shape
        return rng.integers(n), rng.random(), rng.standard_normal(d), rng.standard_exponential()

    def log_proposal(self, component, point):
        """Log of weight times Gaussian density, of the component or of all of them, up to a constant."""
        if self.proposal.correction == "mixture":
            live = np.flatnonzero(self.proposal.weights)
            return float(np.logaddexp.reduce([self.log_component(c, point) for c in live]))
        return self.log_component(component, point)

    def log_component(self, component, point):
        """Log of weight times Gaussian density of one component, up to a constant."""
        squares = ((point - np.asarray(self.proposal.means[component])) ** 2).sum()
        return math.log(self.proposal.weights[component]) - squares / (2 * self.proposal.variance)

    def step(self, record, uniform, normals, exponential):
        """Try to replace one record; accept when the log ratio is at least minus the exponential."""
        component = component_of(self.proposal.weights, uniform)
        point = np.asarray(self.proposal.means[component]) + math.sqrt(self.proposal.variance) * normals
        point = np.rint(point / GRID) * GRID
        if not is_inside(self.target, point):
            return
        replaced = self.points.copy()
        replaced[record] = point
        proposed = log_target(self.target, replaced, self.record_weight)
        leaves = self.log_proposal(self.components[record], self.points[record])
        if proposed - self.log_target + leaves - self.log_proposal(component, point) >= -exponential:
            self.points, self.log_target = replaced, proposed
            self.components[record] = component
            self.n_accepted += 1
            if proposed > self.best_log_target:
                self.best_log_target, self.best_points = proposed, replaced.copy()
