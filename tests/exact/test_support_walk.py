"""The full transition matrix of the sampler on a support, on a space of data sets small enough to write down.

A step picks one of n records and one of m support points, both uniformly, and moves the record there with probability
min(1, target(D') / target(D)). The proposal is symmetric, so with pi proportional to the target

    pi(D) P(D, D') = min(pi(D), pi(D')) / (n m),

for D and D' that differ in one record: detailed balance. The compiled `walk_on_support` gives every change of the
log target and every decision; the target comes from plain NumPy.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cases import ALPHA
from scipy.stats import chi2

from recoup.inference.sampler import SupportTarget, SupportWalk, run_chain
from recoup.kernels.walks import log_target_on_support, walk_on_support

TOLERANCE = 1e-12
# Four support points, four rows that all points touch, as in a query of moments.
ROWS = np.array([[1.0, 0.5, -0.3, 0.1], [1.0, -0.7, 0.2, 0.4], [1.0, 0.1, 0.9, -0.6], [1.0, 0.4, 0.4, 0.0]])
OBSERVED = np.array([2.5, 0.8, 1.1, -0.9])
SCALES = np.array([0.6, 0.5, 0.8, 0.7])
LAWS = {
    "laplace": np.zeros(4, bool),
    "gaussian": np.ones(4, bool),
    "mixed": np.array([True, False, True, False]),
}


def twin(totals, gaussian):
    """The log target by plain NumPy."""
    misfit = (OBSERVED - totals) / SCALES
    return -np.where(gaussian, 0.5 * misfit**2, np.abs(misfit)).sum()


class TinySpace:
    """Every placement of n records on the support, and the kernel's transition matrix on them."""

    def __init__(self, gaussian, n_records=3, n_points=4, weight=1.0):
        self.gaussian, self.n, self.m = gaussian, n_records, n_points
        self.rows = np.ascontiguousarray(ROWS[:n_points]) * weight
        self.states = list(itertools.product(range(n_points), repeat=n_records))
        self.number = {state: s for s, state in enumerate(self.states)}
        self.log_targets = np.array([twin(self.rows[list(state)].sum(axis=0), gaussian) for state in self.states])
        chances = np.exp(self.log_targets)
        self.pi = chances / chances.sum()

    def step(self, state, mover, goal, log_uniform):
        """One step of the compiled kernel: where it leads, by how much it says the log target changed."""
        positions = np.array(state, dtype=np.int64)
        totals = self.rows[positions].sum(axis=0)
        left, trace = np.empty(1, np.int64), np.empty(1)
        moves = np.array([mover]), np.array([goal]), np.array([log_uniform])
        answers = OBSERVED, SCALES, self.gaussian
        last = walk_on_support(self.rows, *answers, *moves, positions, totals, 0.0, left, trace)
        assert last == trace[0]
        np.testing.assert_allclose(totals, self.rows[positions].sum(axis=0), atol=1e-14)
        return tuple(int(v) for v in positions), float(last), int(left[0])

    def transition_matrix(self, ratio=lambda change: change, proposal=None):
        """`ratio` and `proposal` are what planted errors change."""
        chances = np.full((self.m, self.m), 1.0 / self.m) if proposal is None else proposal
        matrix = np.zeros((len(self.states), len(self.states)))
        for s, state in enumerate(self.states):
            for mover, goal in itertools.product(range(self.n), range(self.m)):
                new, change, left = self.step(state, mover, goal, -np.inf)
                assert left == state[mover]
                assert new == (*state[:mover], goal, *state[mover + 1 :])
                matrix[s, self.number[new]] += chances[state[mover], goal] / self.n * np.exp(min(0.0, ratio(change)))
            matrix[s, s] += 1.0 - matrix[s].sum()
        return matrix


def imbalance(pi, matrix):
    flow = pi[:, None] * matrix
    return np.abs(pi @ matrix - pi).max() / pi.max(), np.abs(flow - flow.T).max() / pi.max()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("n_records", "n_points", "weight"), [(3, 4, 1.0), (2, 3, 0.6)])
def test_the_target_is_invariant_and_in_detailed_balance(law, n_records, n_points, weight):
    space = TinySpace(LAWS[law], n_records, n_points, weight)
    matrix = space.transition_matrix()
    assert (matrix >= -TOLERANCE).all()
    drift, asymmetry = imbalance(space.pi, matrix)
    assert drift <= TOLERANCE
    assert asymmetry <= TOLERANCE
    assert np.ptp(space.pi) / space.pi.max() > 0.5  # the law that is preserved is far from flat
    # No other law is preserved.
    assert np.abs(np.linalg.matrix_power(matrix, 2**16) - space.pi).max() <= 10 * TOLERANCE


@pytest.mark.parametrize(
    "ratio",
    [lambda change: 0.9 * change, lambda change: -change, lambda change: 0.0, lambda change: change + 0.1],
    ids=["tempered", "inverted", "always", "shifted"],
)
def test_a_wrong_ratio_is_noticed(ratio):
    space = TinySpace(LAWS["mixed"])
    assert min(imbalance(space.pi, space.transition_matrix(ratio=ratio))) > 1e-4


def test_a_proposal_that_is_not_symmetric_is_noticed():
    space = TinySpace(LAWS["mixed"])
    by_goal = np.tile([0.4, 0.3, 0.2, 0.1], (4, 1))
    assert min(imbalance(space.pi, space.transition_matrix(proposal=by_goal))) > 1e-3
    symmetric = np.full((4, 4), 0.2) + 0.2 * np.eye(4)
    assert max(imbalance(space.pi, space.transition_matrix(proposal=symmetric))) <= TOLERANCE


def test_a_wrong_law_of_noise_is_noticed():
    space, other = TinySpace(LAWS["laplace"]), TinySpace(LAWS["gaussian"])
    assert imbalance(other.pi, space.transition_matrix())[0] > 1e-3


@pytest.mark.parametrize("law", LAWS)
def test_a_step_is_taken_below_the_ratio_and_not_above(law):
    space = TinySpace(LAWS[law])
    n_refused = 0
    for state in space.states[::5]:
        for mover, goal in itertools.product(range(3), range(4)):
            moved, change, _ = space.step(state, mover, goal, -np.inf)
            expected = space.log_targets[space.number[moved]] - space.log_targets[space.number[state]]
            assert change == pytest.approx(expected, abs=1e-13)
            assert space.step(state, mover, goal, change - 1e-9)[0] == moved
            kept, unchanged, left = space.step(state, mover, goal, change + 1e-9)
            assert (kept, unchanged, left) == (state, 0.0, -1)
            n_refused += 1
    assert n_refused > 100


@pytest.mark.parametrize("law", LAWS)
def test_incremental_totals_are_the_recomputed_ones(law):
    rng = np.random.default_rng(0)
    m, n, n_rows, n_steps = 200, 500, 40, 20_000
    rows, scales = rng.normal(size=(m, n_rows)), rng.uniform(2, 9, n_rows)
    gaussian = {"laplace": np.zeros(n_rows, bool), "gaussian": np.ones(n_rows, bool)}.get(law, rng.random(n_rows) < 0.5)
    positions = rng.integers(m, size=n)
    observed = rows[rng.integers(m, size=n)].sum(axis=0)
    totals = rows[positions].sum(axis=0)
    start = log_target_on_support(totals, observed, scales, gaussian)
    left, trace = np.empty(n_steps, np.int64), np.empty(n_steps)
    moves = rng.integers(n, size=n_steps), rng.integers(m, size=n_steps), np.log(rng.random(n_steps))
    first = positions.copy()
    last = walk_on_support(rows, observed, scales, gaussian, *moves, positions, totals, start, left, trace)
    assert 0.02 < (left >= 0).mean() < 0.98
    np.testing.assert_allclose(totals, rows[positions].sum(axis=0), atol=1e-9)
    assert last == trace[-1] == pytest.approx(log_target_on_support(totals, observed, scales, gaussian), abs=1e-8)
    # The steps that were accepted, replayed one at a time, lead to the same place.
    for mover, goal, old in zip(*moves[:2], left, strict=True):
        if old >= 0:
            assert first[mover] == old
            first[mover] = goal
    np.testing.assert_array_equal(first, positions)


@pytest.mark.statistical
def test_runs_of_the_sampler_end_in_the_target():
    """One assertion: false-alarm rate 1e-6; its power half rejects the target of another law of noise.

    The seed is fixed, so the test itself is not random.
    """
    n_chains, n_steps = 2500, 60
    space = TinySpace(LAWS["mixed"])
    target = SupportTarget(rows=ROWS, observed=OBSERVED, scales=SCALES, gaussian=LAWS["mixed"])
    kinds = sorted({tuple(np.bincount(state, minlength=4)) for state in space.states})
    seen = dict.fromkeys(kinds, 0)
    for stream in np.random.default_rng(0).spawn(n_chains):
        started = SupportWalk(target, np.array([1.0, 1.0, 0.5, 0.5]), n_records=3, n_steps=n_steps)
        chain = run_chain(started, rng=stream)
        seen[tuple(np.rint(chain.last).astype(int))] += 1

    def statistic(pi):
        expected = dict.fromkeys(kinds, 0.0)
        for state, chance in zip(space.states, pi, strict=True):
            expected[tuple(np.bincount(state, minlength=4))] += n_chains * chance
        # Rare data sets are counted together: the law of the statistic needs some expected visits of each.
        common = [kind for kind in kinds if expected[kind] >= 10.0]
        pairs = [(seen[kind], expected[kind]) for kind in common]
        pairs.append((n_chains - sum(s for s, _ in pairs), n_chains - sum(e for _, e in pairs)))
        return sum((s - e) ** 2 / e for s, e in pairs), len(pairs) - 1

    found, freedom = statistic(space.pi)
    assert freedom >= 10
    assert found < chi2.isf(ALPHA, freedom)
    found, freedom = statistic(TinySpace(LAWS["laplace"]).pi)
    assert found > chi2.isf(ALPHA, freedom)
