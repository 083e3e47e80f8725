"""Consistency equals independent solvers: a linear programme, optimality conditions, a cone programme.

The same `defects` that accept our answers must reject planted errors: a wrong weight, a wrong total, a negative count.
"""

import cvxpy as cp
import numpy as np
import pytest
from admm import consistent, consistent_by_admm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

values = st.one_of(
    st.integers(-5, 60).map(float),
    st.floats(-20, 100),
    st.floats(-1e7, 1e7),
    st.floats(-1e-7, 1e-7),
)
scales = st.one_of(st.just(2.0), st.sampled_from([1.0, 2.0, 3.0]), st.floats(-1.5, 1.5).map(lambda e: 10.0**e))


@st.composite
def instances(draw, d_max=4):
    n_rounds, d, shared = draw(st.integers(1, 6)), draw(st.integers(1, d_max)), draw(st.booleans())
    sizes = draw(st.lists(st.integers(1, 8), min_size=n_rounds, max_size=n_rounds))

    def array(elements, *shape):
        n = int(np.prod(shape))
        return np.reshape(draw(st.lists(elements, min_size=n, max_size=n)), shape)

    counts = [array(values, k) for k in sizes]
    count_scales = [np.full(k, draw(scales)) if shared else array(scales, k) for k in sizes]
    sums = [array(values, k, d) for k in sizes]
    sum_scales = [np.full((k, d), draw(scales)) if shared else array(scales, k, d) for k in sizes]
    return counts, count_scales, sums, sum_scales


def linear_programme(y, b, bounded):
    """Least sum |x - y| / b with equal totals: x = y + up - down."""
    flat, weights = np.concatenate(y), 1.0 / np.concatenate(b)
    n = flat.size
    rows = np.zeros((len(y), 2 * n + 1))
    stops = np.cumsum([len(part) for part in y])
    for t, stop in enumerate(stops):
        cells = slice(stop - len(y[t]), stop)
        rows[t, cells], rows[t, n:-1][cells], rows[t, -1] = 1.0, -1.0, -1.0
    bounds = {"A_ub": np.hstack([-np.eye(n), np.eye(n), np.zeros((n, 1))]), "b_ub": flat} if bounded else {}
    # the simplex method sometimes calls near ties of weights unbounded, which a cost >= 0 cannot be
    for method, presolve in (("highs-ds", True), ("highs-ds", False), ("highs-ipm", True), ("highs-ipm", False)):
        found = linprog(
            np.concatenate([weights, weights, [0.0]]) / weights.max(),
            A_eq=rows,
            b_eq=[-part.sum() for part in y],
            bounds=[(0, None)] * (2 * n) + [(None, None)],
            method=method,
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10, "presolve": presolve},
            **bounds,
        )
        if found.status == 0:
            return found.fun * weights.max()
    raise AssertionError(found.message)


def cost(x, y, b):
    return sum(float(np.sum(np.abs(p - q) / s)) for p, q, s in zip(x, y, b, strict=True))


def defects(x, y, b, bounded):
    """What is wrong with a claimed optimum, if anything."""
    size = sum(np.abs(part).sum() for part in y)
    # a total is known only up to the rounding of its summation, and each cell's cost up to that over its scale
    rounding = 1e-14 * size * max(1.0 / part.min() for part in b)
    found, optimum = [], linear_programme(y, b, bounded)
    if abs(cost(x, y, b) - optimum) > 1e-8 * (1 + optimum) + rounding:
        found.append("not optimal")
    if bounded and min(part.min() for part in x) < 0:
        found.append("negative")
    if np.ptp([part.sum() for part in x]) > 1e-9 * max(part.max() for part in b) + 1e-14 * size:
        found.append("unequal totals")
    return found


@pytest.mark.parametrize("solve", [consistent, consistent_by_admm])
@settings(deadline=None, max_examples=80)
@given(instances())
def test_laplace_optimum_is_the_linear_programmes(solve, instance):
    counts, count_scales, sums, sum_scales = instance
    result = solve(counts, count_scales, sums, sum_scales)
    assert result.converged
    assert defects(result.counts, counts, count_scales, bounded=True) == []
    parts = [cost(result.counts, counts, count_scales)]
    for j in range(sums[0].shape[1]):
        column = [[part[:, j] for part in rounds] for rounds in (result.sums, sums, sum_scales)]
        assert defects(*column, bounded=False) == []
        parts.append(cost(*column))
    assert result.objective == pytest.approx(sum(parts), rel=1e-12, abs=1e-12)
    assert result.total == pytest.approx(result.counts[-1].sum(), rel=1e-12, abs=1e-12)


def test_the_check_rejects_planted_errors():
    rng = np.random.default_rng(5)
    y = [rng.normal(10, 8, 6) for _ in range(4)]
    b = [np.full(6, scale) for scale in (1.0, 2.0, 3.0, 10.0)]
    right = consistent(y, b).counts
    assert defects(right, y, b, bounded=True) == []
    assert defects(consistent(y, [1 / s for s in b]).counts, y, b, bounded=True) == ["not optimal"]
    assert defects(consistent(y, [1.0] * 4).counts, y, b, bounded=True) == ["not optimal"]
    assert defects(consistent(y, b, noise="gaussian").counts, y, b, bounded=True) == ["not optimal"]
    assert "unequal totals" in defects([right[0] + 1e-6, *right[1:]], y, b, bounded=True)
    swapped = right[0].copy()
    swapped[:2] += [swapped[1] + 1e-6, -swapped[1] - 1e-6]
    assert "negative" in defects([swapped, *right[1:]], y, b, bounded=True)


def stationarity(x, y, b):
    """The largest relative violation of x = max(0, y + tau_t b^2), sum of tau_t = 0 (>= 0 at total 0)."""
    worst, taus = 0.0, []
    for p, q, s in zip(x, y, b, strict=True):
        slopes = (p - q) / s**2
        tau = np.average(slopes, weights=p) if p.sum() > 0 else slopes.min()
        taus.append(tau)
        worst = max(worst, np.abs(np.maximum(0.0, q + tau * s**2) - p).max() / (1 + np.abs(q).max()))
    imbalance = sum(taus) / (1e-300 + sum(map(abs, taus)) + 1)
    return max(worst, abs(imbalance) if x[0].sum() > 0 else max(0.0, -imbalance))


@settings(deadline=None, max_examples=80)
@given(instances(d_max=1))
def test_gaussian_optimum_meets_its_optimality_conditions(instance):
    counts, count_scales, sums, sum_scales = instance
    exact = consistent(counts, count_scales, sums, sum_scales, noise="gaussian")
    assert min(part.min() for part in exact.counts) >= 0
    size = 1 + sum(np.abs(part).sum() for part in counts)
    assert np.ptp([part.sum() for part in exact.counts]) <= 1e-13 * size
    assert stationarity(exact.counts, counts, count_scales) <= 1e-8
    admm = consistent_by_admm(counts, count_scales, sums, sum_scales, noise="gaussian")
    assert admm.objective == pytest.approx(exact.objective, rel=1e-8, abs=1e-8)


def test_gaussian_conditions_reject_planted_errors():
    rng = np.random.default_rng(6)
    y, b = [rng.normal(3, 4, 5) for _ in range(3)], [np.array([1.0, 2.0, 3.0, 4.0, 5.0])] * 3
    assert stationarity(consistent(y, b, noise="gaussian").counts, y, b) < 1e-12
    assert stationarity(consistent(y, [np.sqrt(s) for s in b], noise="gaussian").counts, y, b) > 1e-3
    assert stationarity(consistent(y, b).counts, y, b) > 1e-3


def programme(instance, noise, cost_at_most=None):
    """The same problem as a cone programme for an interior-point solver."""
    counts, count_scales, sums, sum_scales = instance
    n, s = [cp.Variable(len(y), nonneg=True) for y in counts], [cp.Variable(y.shape) for y in sums]
    limits = [cp.sum(v) == cp.sum(n[0]) for v in n[1:]] + [cp.sum(v, axis=0) == cp.sum(s[0], axis=0) for v in s[1:]]
    deviations = [(v - y) / b for v, y, b in zip(n, counts, count_scales, strict=True)]
    deviations += [cp.vec((v - y) / b, order="C") for v, y, b in zip(s, sums, sum_scales, strict=True)]
    absolute, squared = sum(map(cp.norm1, deviations)), 0.5 * sum(map(cp.sum_squares, deviations))
    if cost_at_most is not None:
        limits.append(absolute <= cost_at_most)
    problem = cp.Problem(cp.Minimize(squared if noise == "gaussian" else absolute), limits)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value, [v.value for v in n]


def draw_instance(rng, spread, size):
    n_rounds, d = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    shapes = [int(k) for k in rng.integers(2, 6, n_rounds)]
    return (
        [rng.normal(size, size, k) for k in shapes],
        [spread ** rng.uniform(0, 1, k) for k in shapes],
        [rng.normal(0, size, (k, d)) for k in shapes],
        [spread ** rng.uniform(0, 1, (k, d)) for k in shapes],
    )


def test_of_all_laplace_optima_the_one_of_least_squares_is_returned():
    rng = np.random.default_rng(12)
    for spread in (1.0, 1.0, 4.0):
        counts, count_scales, sums, sum_scales = draw_instance(rng, spread, 10.0)
        count_scales = [np.round(b) for b in count_scales]
        instance = counts, count_scales, sums, sum_scales
        result = consistent(*instance)
        _, nearest = programme(instance, "gaussian", cost_at_most=result.objective * (1 + 1e-9))
        for ours, theirs in zip(result.counts, nearest, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-3)
        assert result.objective <= programme(instance, "laplace")[0] * (1 + 1e-8)


@settings(deadline=None, max_examples=40)
@given(instances(), st.sampled_from([1e-6, 0.5, 1e6]), st.sampled_from(["laplace", "gaussian"]))
def test_units_do_not_matter(instance, unit, noise):
    plain = consistent(*instance, noise=noise)
    scaled = consistent(*[[unit * y for y in part] for part in instance], noise=noise)
    size = 1 + sum(np.abs(y).sum() for y in instance[0])
    assert scaled.objective == pytest.approx(plain.objective, rel=1e-8, abs=1e-12 * size)
