"""The solver against independent ones, against dense twins, and on degenerate input."""

import cvxpy
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array

from recoup.errors import ParameterError
from recoup.maxent import newton
from recoup.maxent.newton import solve
from recoup.queries.base import Partition


def dense_rows(block):
    """A of one block as a matrix, written down from the definition of its rows."""
    if isinstance(block, csr_array):
        return block.toarray().T
    if isinstance(block, np.ndarray):
        return block.T
    inside = block.cells[None, :] == np.arange(block.n_cells)[:, None]
    if block.values is None:
        return inside.astype(float)
    sums = inside[:, None, :] * block.values.T[None, :, :]
    return np.concatenate([inside, sums.reshape(-1, inside.shape[1])])


def objective(a, y, b, base, temperature, gaussian, mu):
    rho = (y - a @ mu) / b
    positive = mu > 0
    entropy = np.sum(mu[positive] * np.log(mu[positive] / base[positive]))
    return np.sum(np.where(gaussian, rho**2 / 2, np.abs(rho))) + temperature * entropy


def dual_objective(a, y, b, base, temperature, gaussian, u):
    z, n = u / b, base.sum()
    exponent = a.T @ z / temperature + np.log(base / n)
    peak = exponent.max()
    return z @ y - temperature * n * (peak + np.log(np.exp(exponent - peak).sum())) - np.sum(u[gaussian] ** 2) / 2


def instance(seed, m=40, kinds=("partition", "partition")):
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, (m, 2))
    blocks = []
    for kind in kinds:
        if kind == "partition":
            centers = rng.uniform(-1, 1, (3, 2))
            cells = ((points[:, None] - centers) ** 2).sum(2).argmin(1)
            blocks.append(Partition(cells=cells, n_cells=4, values=points - centers[cells]))
        elif kind == "counts":
            blocks.append(Partition(cells=rng.integers(0, 5, m), n_cells=5))
        elif kind == "sparse":
            blocks.append(csr_array(rng.normal(size=(m, 6)) * (rng.random((m, 6)) < 0.3)))
        else:
            blocks.append(rng.normal(size=(m, 3)))
    a = np.concatenate([dense_rows(block) for block in blocks])
    base = rng.uniform(0.5, 2, m)
    b = rng.uniform(0.5, 2, len(a))
    y = a @ (base * rng.exponential(1, m)) + rng.laplace(0, b)
    return blocks, a, y, b, base


ALL_KINDS = ("partition", "dense", "counts", "sparse", "partition")


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "mixed"])
@pytest.mark.parametrize("kinds", [("partition", "partition"), ("counts", "counts"), ALL_KINDS])
def test_the_optimum_is_that_of_an_independent_solver(noise, kinds):
    blocks, a, y, b, base = instance(1, kinds=kinds)
    rows = np.where(np.arange(len(y)) % 2 == 0, "laplace", "gaussian") if noise == "mixed" else noise
    gaussian = np.broadcast_to(rows, y.shape) == "gaussian"
    solution = solve(blocks, y, b, base, temperature=0.1, noise=rows, tolerance=1e-9)
    assert solution.converged

    mu = cvxpy.Variable(len(base))
    rho = cvxpy.multiply(1 / b, y - a @ mu)
    loss = cvxpy.sum(cvxpy.abs(rho[~gaussian])) if (~gaussian).any() else 0
    loss += cvxpy.sum_squares(rho[gaussian]) / 2 if gaussian.any() else 0
    problem = cvxpy.Problem(
        cvxpy.Minimize(loss + 0.1 * cvxpy.sum(cvxpy.rel_entr(mu, base))), [cvxpy.sum(mu) == base.sum()]
    )
    optimum = problem.solve(solver=cvxpy.CLARABEL)
    assert solution.dual_value == pytest.approx(optimum, rel=1e-6, abs=1e-6)
    assert solution.primal == pytest.approx(optimum, rel=1e-6, abs=1e-6)


def test_a_low_temperature_approaches_the_linear_program():
    blocks, a, y, b, base = instance(2, m=25)
    temperature = 1e-4
    solution = solve(blocks, y, b, base, temperature=temperature, tolerance=1e-9)
    n_rows, m = a.shape
    # variables: mu, then t >= |y - A mu| / b
    program = linprog(
        np.concatenate([np.zeros(m), np.ones(n_rows)]),
        A_ub=np.block([[a / b[:, None], -np.eye(n_rows)], [-a / b[:, None], -np.eye(n_rows)]]),
        b_ub=np.concatenate([y / b, -y / b]),
        A_eq=np.concatenate([np.ones(m), np.zeros(n_rows)])[None],
        b_eq=[base.sum()],
        method="highs",
    )
    assert solution.converged
    largest_entropy = base.sum() * np.log(base.sum() / base.min())
    assert program.fun - 1e-6 <= solution.dual_value <= program.fun + temperature * largest_entropy
    assert np.sum(np.abs(y - a @ solution.measure) / b) <= program.fun + temperature * largest_entropy + 1e-6


@pytest.mark.parametrize("tolerance", [10.0, 0.03, 1e-8])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_gap_is_certified(tolerance, noise):
    blocks, a, y, b, base = instance(3, kinds=ALL_KINDS)
    solution = solve(blocks, y, b, base, temperature=0.05, noise=noise, tolerance=tolerance)
    gaussian = np.full(len(y), noise == "gaussian")
    primal = objective(a, y, b, base, 0.05, gaussian, solution.measure)
    dual = dual_objective(a, y, b, base, 0.05, gaussian, solution.dual)
    assert solution.primal == pytest.approx(primal, rel=1e-9)
    assert solution.dual_value == pytest.approx(dual, rel=1e-9)
    assert solution.gap == pytest.approx(primal - dual, abs=1e-8 * (1 + abs(primal)))
    assert solution.gap_per_row == solution.gap / len(y)
    assert solution.gap_per_row <= tolerance
    assert noise == "gaussian" or np.all(np.abs(solution.dual) <= 1)


def test_the_measure_follows_from_the_dual():
    blocks, a, y, b, base = instance(4)
    solution = solve(blocks, y, b, base, temperature=0.2)
    expected = base * np.exp(a.T @ (solution.dual / b) / 0.2)
    np.testing.assert_allclose(solution.measure, expected * base.sum() / expected.sum(), rtol=1e-9)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("kinds", [ALL_KINDS, ("counts", "counts", "counts")])
def test_blocks_equal_their_dense_twin(noise, kinds):
    blocks, a, y, b, base = instance(5, kinds=kinds)
    ours = solve(blocks, y, b, base, temperature=0.1, noise=noise, tolerance=1e-9)
    twin = solve([a.T], y, b, base, temperature=0.1, noise=noise, tolerance=1e-9)
    assert ours.dual_value == pytest.approx(twin.dual_value, abs=1e-6)
    np.testing.assert_allclose(ours.measure, twin.measure, atol=1e-4)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_conjugate_gradients_equal_cholesky(noise, monkeypatch):
    blocks, _, y, b, base = instance(6, kinds=ALL_KINDS)
    direct = solve(blocks, y, b, base, temperature=0.1, noise=noise, tolerance=1e-7)
    monkeypatch.setattr(newton, "_DENSE_ROWS", 0)
    iterative = solve(blocks, y, b, base, temperature=0.1, noise=noise, tolerance=1e-7)
    assert iterative.converged
    assert iterative.dual_value == pytest.approx(direct.dual_value, abs=1e-5)


ONE_CELL = Partition(cells=np.zeros(3, np.int64), n_cells=1)
EMPTY_CELLS = Partition(cells=np.array([4, 4, 4]), n_cells=9, values=np.zeros((3, 2)))
TWINS = np.ones((3, 4))
DEGENERATE = {
    "one row": ([ONE_CELL], [5.0], [1.0], [1.0, 1.0, 1.0]),
    "rows of zero": ([EMPTY_CELLS], np.linspace(-9, 9, 27), np.ones(27), [1.0, 2.0, 3.0]),
    "duplicate rows": ([TWINS, TWINS, ONE_CELL], np.arange(9.0), np.full(9, 0.1), [1.0, 2.0, 3.0]),
    "far outside": ([ONE_CELL, TWINS], [1e9, -1e9, 1e9, -1e9, 1e6], np.ones(5), [1.0, 1.0, 1.0]),
    "one point": ([Partition(cells=np.array([1]), n_cells=3)], [-4.0, 5.0, 60.0], np.ones(3), [2.0]),
    "tiny total": ([ONE_CELL, EMPTY_CELLS], np.ones(28), np.ones(28), [1e-9, 1e-9, 1e-9]),
    "huge scales": ([ONE_CELL, EMPTY_CELLS], np.ones(28), np.full(28, 1e12), [1.0, 1.0, 1.0]),
    "tiny scales": ([TWINS], [1.0, 2.0, 3.0, 4.0], np.full(4, 1e-6), [1.0, 1.0, 1.0]),
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("n_dense", [newton._DENSE_ROWS, 0])
def test_degenerate_input_gives_a_certified_measure(name, noise, n_dense, monkeypatch):
    monkeypatch.setattr(newton, "_DENSE_ROWS", n_dense)
    blocks, y, b, base = DEGENERATE[name]
    solution = solve(blocks, y, b, base, temperature=0.01, noise=noise)
    assert np.all(solution.measure >= 0)
    assert solution.measure.sum() == pytest.approx(np.sum(base), rel=1e-9)
    assert np.isfinite(solution.gap)
    assert solution.gap >= 0
    assert solution.converged


def test_a_hopeless_step_limit_is_reported():
    blocks, _, y, b, base = instance(9)
    solution = solve(blocks, y, b, base, temperature=1e-3, tolerance=1e-12, max_steps=1)
    assert not solution.converged
    assert solution.n_steps == 1
    assert solution.gap > 0


@pytest.mark.parametrize(
    "change",
    [
        {"blocks": []},
        {"observed": [1.0]},
        {"observed": [np.nan, 1.0]},
        {"scales": [0.0, 1.0]},
        {"base": [1.0, 0.0]},
        {"base": [1.0, 1.0, 1.0]},
        {"temperature": 0.0},
        {"tolerance": 0.0},
        {"noise": "cauchy"},
        {"blocks": [Partition(cells=np.array([0, 2]), n_cells=2)]},
    ],
)
def test_what_has_no_solution_is_refused(change):
    given = {
        "blocks": [Partition(cells=np.array([0, 1]), n_cells=2)],
        "observed": [1.0, 2.0],
        "scales": [1.0, 1.0],
        "base": [1.0, 1.0],
        "temperature": 0.1,
    }
    with pytest.raises(ParameterError):
        solve(**(given | change))
