"""What must hold for any rows, answers and noise: a measure of the right total with a gap that is true."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from recoup.maxent.newton import solve
from recoup.queries.base import Partition


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m = draw(st.integers(1, 30))
    blocks, matrices = [], []
    for kind in draw(st.lists(st.sampled_from(["counts", "sums", "sparse", "dense"]), min_size=1, max_size=4)):
        if kind in ("counts", "sums"):
            k, d = int(rng.integers(1, 6)), int(rng.integers(1, 4))
            cells, values = rng.integers(0, k, m), rng.normal(size=(m, d))
            inside = (cells[None] == np.arange(k)[:, None]).astype(float)
            blocks.append(Partition(cells=cells, n_cells=k, values=values if kind == "sums" else None))
            matrices.append(inside)
            if kind == "sums":
                matrices.append((inside[:, None] * values.T[None]).reshape(k * d, m))
        else:
            contribution = rng.normal(size=(m, 4)) * (rng.random((m, 4)) < 0.5)
            sparse = kind == "sparse"
            blocks.append(csr_array(contribution) if sparse else contribution)
            matrices.append(contribution.T)
    a = np.concatenate(matrices)
    total = draw(st.sampled_from([1e-3, 1.0, 50.0, 1e5]))
    base = rng.uniform(0.1, 1, m)
    base *= total / base.sum()
    b = np.full(len(a), draw(st.sampled_from([1e-2, 1.0, 1e3]))) * rng.uniform(0.5, 2, len(a))
    y = a @ (base * rng.exponential(1, m)) + rng.laplace(0, b) * draw(st.sampled_from([0.0, 1.0, 100.0]))
    noise = np.where(rng.random(len(a)) < draw(st.sampled_from([0.0, 0.5, 1.0])), "gaussian", "laplace")
    return blocks, a, y, b, base, noise, draw(st.sampled_from([1e-4, 1e-2, 1.0]))


@given(problems())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_measure_has_its_total_and_the_gap_is_true(problem):
    blocks, a, y, b, base, noise, temperature = problem
    solution = solve(blocks, y, b, base, temperature=temperature, noise=noise)
    mu, u, gaussian = solution.measure, solution.dual, noise == "gaussian"
    assert np.all(mu >= 0)
    np.testing.assert_allclose(mu.sum(), base.sum(), rtol=1e-9)
    assert np.all(np.abs(u[~gaussian]) <= 1)
    rho = (y - a @ mu) / b
    entropy = np.sum(mu[mu > 0] * np.log(mu[mu > 0] / base[mu > 0]))
    primal = np.sum(np.where(gaussian, rho**2 / 2, np.abs(rho))) + temperature * entropy
    exponent = a.T @ (u / b) / temperature + np.log(base / base.sum())
    log_mass = exponent.max() + np.log(np.exp(exponent - exponent.max()).sum())
    dual = (u / b) @ y - temperature * base.sum() * log_mass - np.sum(u[gaussian] ** 2) / 2
    size = 1 + np.abs(primal) + np.abs((u / b) @ y) + np.abs(temperature * base.sum() * log_mass)
    np.testing.assert_allclose(solution.gap, primal - dual, atol=1e-9 * size)
    assert solution.converged == (solution.gap_per_row <= 0.03)
    # A measure that is next to frozen (few noisy rows, no noise to speak of) may stop early, and says so.
    assert solution.converged or temperature * b.min() < 1e-2
