"""The sampler's full transition matrix, on a space of data sets small enough to write down.

The state is a data set D = (x_1, ..., x_n) together with the component z_i that each record was drawn from. A step
picks a record i uniformly and proposes (z', x') from the table g(z', x') = w_z' N(x'; c_z') / G, whatever the state is.
The constant G (here a sum over the table, in the continuum the normaliser of the mixture) is the same for all, so

    ratio = target(D') / target(D) * w_z N(x; c_z) / (w_z' N(x'; c_z'))
          = target(D') g(z, x) / (target(D) g(z', x')).

Hence, for two states that differ in record i alone, with pi(D, z) proportional to target(D),

    pi(D, z) P((D, z), (D', z')) = (1 / n) min( target(D) g(z', x'), target(D') g(z, x) ) / const,

which is symmetric: detailed balance. The law left invariant is *uniform over the components* of positive weight, not
weighted by w N: the component is a label that makes the proposal's density computable, and carries no belief. Its
marginal over D is the number of label vectors times target(D), hence the target itself, with respect to the uniform
measure on points (counting measure on the table here, Lebesgue measure on the domain in the continuum). A point outside
the domain has target 0 and is never entered.

A correction without w would leave target(D) prod_i w_z_i invariant: the same marginal over D, but other labels, which
is how the test tells it from the correction that the sampler claims. Without N, or inverted, the marginal is wrong too.

The other reading of the paper's q(x) is the density of the whole mixture, q(x) = sum_z g(z, x). With it the labels are
not uniform: the law left invariant is pi(D, z) proportional to target(D) prod_i g(z_i, x_i) / q(x_i), since

    pi(D, z) P((D, z), (D', z')) = (1 / n) g(z | x) g(z' | x') min( target(D) q(x'), target(D') q(x) ) / const

is symmetric again. Its marginal over D is the target, as before. Both readings are tested under both scales of the
target: the released ones, which make it the likelihood, and 1, as the paper prints its acceptance.

The compiled `log_acceptance` gives every ratio; the target and the table come from plain NumPy.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace

import numpy as np
import pytest
from metropolis_twin import is_inside, log_target

from recoup.inference.record_walk import Proposal, RecordWalk, Target
from recoup.kernels import walks as kernel
from recoup.maxent.consistency import Cells

TOLERANCE = 1e-12
# The third point lies on a tie of round 0, the last one outside the L1 ball.
POINTS = np.array([[-0.5, 0.25], [0.25, -0.125], [0.0, 0.5], [0.75, 0.5]])
N_RECORDS = {"l1": 3, "l2": 2}  # a point more is inside the L2 ball

ROUNDS = (
    Cells(
        centers=[[-0.25, 0.5], [0.25, 0.5]],
        counts=[2.2, 0.4],
        count_scales=0.9,
        sums=[[-0.6, 0.3], [0.2, 0.1]],
        sum_scales=0.4,
    ),
    Cells(centers=[[0.0, 0.0], [0.5, -0.5], [-0.5, 0.5]], counts=[0.1, 1.5, 1.2], count_scales=[0.7, 1.3, 2.0]),
    Cells(centers=[[0.1, 0.1]], counts=[3.4], count_scales=1.1, sums=[[0.3, 0.9]], sum_scales=[[0.5, 0.8]]),
)
# Component 1 has weight 0: the mixture must never use it.
PROPOSAL = Proposal(
    means=[[-0.3, 0.2], [0.9, 0.0], [0.3, 0.3], [0.1, -0.2]], weights=[0.5, 0.0, 0.1, 0.4], variance=0.2
)
LIVE = [0, 2, 3]


def kernel_log_density(mixture, component, point):
    return kernel.log_correction(mixture, component, point)


def without_weights(mixture, component, point):
    return kernel.log_component_density(mixture, component, point) - mixture.log_weights[component]


def inverted(mixture, component, point):
    return -kernel.log_component_density(mixture, component, point)


def absent(mixture, component, point):
    return 0.0


def without_densities(mixture, component, point):
    return float(mixture.log_weights[component])


class TinySpace:
    """Every data set of the table with every choice of components, and the kernel's transition matrix on them."""

    def __init__(self, noise, domain, record_weight=1.0, scale="noise", correction="component"):
        self.n = N_RECORDS[domain]
        self.target = Target(rounds=ROUNDS, noise=noise, scale=scale, domain=domain, radius=1.0)
        self.proposal = replace(PROPOSAL, correction=correction)
        self.record_weight = record_weight
        self.inside = [x for x in range(len(POINTS)) if is_inside(self.target, POINTS[x])]
        self.pairs = list(itertools.product(self.inside, range(len(LIVE))))
        self.states = list(itertools.product(range(len(self.pairs)), repeat=self.n))
        self.number = {state: s for s, state in enumerate(self.states)}
        log_targets = {
            data: log_target(self.target, POINTS[list(data)], record_weight)
            for data in itertools.product(self.inside, repeat=self.n)
        }
        self.data = [tuple(self.pairs[p][0] for p in state) for state in self.states]
        self.log_targets = log_targets
        # The proposal table, over all points and live components, outside points included.
        means, live = np.array(PROPOSAL.means)[LIVE], np.array(PROPOSAL.weights)[LIVE]
        squares = ((POINTS[:, None] - means) ** 2).sum(axis=2)
        table = live * np.exp(-squares / (2 * PROPOSAL.variance))
        self.table = table / table.sum()
        weights = np.exp([log_targets[data] for data in self.data])
        if correction == "mixture":
            labels = self.table / self.table.sum(axis=1, keepdims=True)
            weights *= [np.prod([labels[self.pairs[p]] for p in state]) for state in self.states]
        self.pi = weights / weights.sum()

    def kernel_inputs(self, state, log_density):
        """The kernel's view of one state, with the log densities that `log_density` says."""
        walk = RecordWalk(
            self.target,
            self.proposal,
            POINTS[[self.pairs[p][0] for p in state]],
            [LIVE[self.pairs[p][1]] for p in state],
            n_steps=0,
            record_weight=self.record_weight,
        )
        for i, p in enumerate(state):
            walk.state.log_densities[i] = log_density(walk.mixture, self.pairs[p][1], walk.state.points[i])
        return walk, walk.state

    def proposals(self, state, log_density):
        """Every (record, point, component) with the compiled acceptance ratio, and a function to decide by a floor."""
        start, filled = self.kernel_inputs(state, log_density)
        rows, distances = np.empty(len(ROUNDS), dtype=np.int32), np.empty(len(start.model.noisy))
        norms = [kernel.norm_in_domain(start.model, point) for point in POINTS]
        for i, x, z in itertools.product(range(self.n), range(len(POINTS)), range(len(LIVE))):
            density = log_density(start.mixture, z, POINTS[x])

            def decide(floor, i=i, x=x, density=density):
                return kernel.log_acceptance(
                    start.model, filled, i, POINTS[x], norms[x], density, floor, rows, distances
                )

            yield i, x, z, decide

    def transition_matrix(self, log_density=kernel_log_density):
        size = len(self.states)
        matrix = np.zeros((size, size))
        pair_number = {pair: p for p, pair in enumerate(self.pairs)}
        for s, state in enumerate(self.states):
            for i, x, z, decide in self.proposals(state, log_density):
                log_ratio, _ = decide(-np.inf)
                moved = self.table[x, z] / self.n * np.exp(min(0.0, log_ratio))
                if moved > 0:
                    new = (*state[:i], pair_number[x, z], *state[i + 1 :])
                    matrix[s, self.number[new]] += moved
            matrix[s, s] += 1.0 - matrix[s].sum()
        return matrix


@functools.cache
def space_of(*terms):
    return TinySpace(*terms)


@functools.cache
def matrix_of(*terms):
    """The transition matrix of a space with the kernel's own correction."""
    return space_of(*terms).transition_matrix()


USUAL = ("laplace", "l1", 1.0, "noise", "component")


@pytest.fixture
def space():
    return space_of(*USUAL)


def imbalance(pi, matrix):
    flow = pi[:, None] * matrix
    return np.abs(pi @ matrix - pi).max() / pi.max(), np.abs(flow - flow.T).max() / pi.max()


@pytest.mark.parametrize("correction", ["component", "mixture"])
@pytest.mark.parametrize("scale", ["noise", "one"])
@pytest.mark.parametrize(
    ("noise", "domain", "record_weight"),
    [("laplace", "l1", 1.0), ("gaussian", "l2", 1.0), ("laplace", "l2", 2.5)],
)
def test_the_target_is_invariant_and_in_detailed_balance(noise, domain, record_weight, scale, correction):
    terms = (noise, domain, record_weight, scale, correction)
    space, matrix = space_of(*terms), matrix_of(*terms)
    assert len(space.inside) == (3 if domain == "l1" else 4)
    assert (matrix >= -TOLERANCE).all()
    drift, asymmetry = imbalance(space.pi, matrix)
    assert drift <= TOLERANCE
    assert asymmetry <= TOLERANCE
    assert np.ptp(space.pi) / space.pi.max() > 0.5  # the law that is preserved is far from flat


@pytest.mark.parametrize("correction", ["component", "mixture"])
@pytest.mark.parametrize("scale", ["noise", "one"])
def test_no_other_law_is_invariant_and_its_marginal_is_the_target(scale, correction):
    terms = ("laplace", "l1", 1.0, scale, correction)
    space, matrix = space_of(*terms), matrix_of(*terms)
    power = np.linalg.matrix_power(matrix, 2**12)
    assert np.abs(power - space.pi).max() <= TOLERANCE
    marginal = dict.fromkeys(space.log_targets, 0.0)
    for data, probability in zip(space.data, power[0], strict=True):
        marginal[data] += probability
    expected = np.exp(list(space.log_targets.values()))
    np.testing.assert_allclose(list(marginal.values()), expected / expected.sum(), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("planted", [without_weights, inverted, absent, without_densities])
def test_a_wrong_correction_is_noticed(space, planted):
    drift, asymmetry = imbalance(space.pi, space.transition_matrix(planted))
    assert drift > 1e-3
    assert asymmetry > 1e-3


def test_a_wrong_target_is_noticed():
    other = TinySpace("gaussian", "l1")
    drift, _ = imbalance(other.pi, matrix_of(*USUAL))
    assert drift > 1e-3


def test_the_wrong_scale_is_noticed(space):
    other = ("laplace", "l1", 1.0, "one", "component")
    assert imbalance(space_of(*other).pi, matrix_of(*USUAL))[0] > 1e-3
    assert imbalance(space.pi, matrix_of(*other))[0] > 1e-3


def test_the_wrong_reading_of_the_correction_is_noticed():
    other = ("laplace", "l1", 1.0, "noise", "mixture")
    for law, walked in ((other, USUAL), (USUAL, other)):
        drift, asymmetry = imbalance(space_of(*law).pi, matrix_of(*walked))
        assert drift > 1e-3
        assert asymmetry > 1e-3


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_early_rejection_never_changes_a_decision(noise):
    space = TinySpace(noise, "l1")
    early = 0
    for state in space.states[::7]:
        for _, _, _, decide in space.proposals(state, kernel_log_density):
            exact, change = decide(-np.inf)
            for floor in (-8.0, -2.0, -0.5, -0.01, exact - 1e-6, exact + 1e-6):
                if not np.isfinite(floor):
                    continue
                ratio, found = decide(floor)
                assert (ratio >= floor) == (exact >= floor)
                if ratio >= floor:
                    assert (ratio, found) == (exact, change)
                early += ratio == -np.inf and np.isfinite(exact)
    assert (early > 0) == (noise == "laplace")
