"""The parts of an experiment: data sets, runs and methods."""

from __future__ import annotations

import gzip
from fractions import Fraction

import numpy as np
import pytest

from recoup.domain import Box, L1Ball
from recoup.errors import BudgetExceededError, DataError, ParameterError, UnreadableFileError
from recoup_lab.experiments import (
    METHODS,
    SETS,
    DataSet,
    LoadedSet,
    Method,
    Run,
    stand_ins,
)
from recoup_lab.experiments.datasets import check_folder, load
from recoup_lab.experiments.execute import Failure, execute
from recoup_lab.experiments.results import Result
from recoup_lab.experiments.scoring import wcss

LOW, HIGH = (0.0, -5.0), (10.0, 5.0)
TINY = DataSet(name="tiny", title="Tiny", n_records=400, n_columns=2, n_clusters=3)


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    middles = np.array([[2.0, -3.0], [5.0, 3.0], [8.0, -1.0]])
    return np.clip(middles[rng.integers(3, size=n)] + 0.5 * rng.normal(size=(n, 2)), LOW, HIGH)


def loaded(n=400):
    return LoadedSet(
        name="tiny", title="Tiny", source="file", digest="d", n_clusters=3, low=LOW, high=HIGH, rows=rows(n)
    )


def write_csv(path, table):
    lines = ["x,y", *(",".join(map(repr, map(float, row))) for row in table)]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))


# ---- data sets ----


def test_the_six_sets_of_the_paper_are_there():
    shapes = {name: (entry.n_records, entry.n_columns, entry.n_clusters) for name, entry in SETS.items()}
    assert shapes == {
        "s1": (5000, 2, 15),
        "adult": (48842, 6, 5),
        "tiger": (16281, 2, 2),
        "image_house": (33925, 3, 3),
        "gowalla": (107021, 2, 5),
        "lifesci": (26733, 10, 3),
    }


@pytest.mark.parametrize("name", list(SETS))
def test_generated_sets_have_the_size_of_their_originals_and_are_the_same_every_time(name):
    entry = SETS[name]
    first, second = load(entry, None), load(entry, None)
    assert first.rows.shape == (entry.n_records, entry.n_columns)
    assert first.digest == second.digest
    assert first.source == "generated"
    assert "(generated)" in first.title
    assert (first.rows >= first.low).all()
    assert (first.rows <= first.high).all()
    assert (first.rows.std(axis=0) > 0).all()


def test_another_seed_makes_another_table():
    assert not np.array_equal(stand_ins.census(0, 50).rows, stand_ins.census(1, 50).rows)
    assert len(np.unique(stand_ins.colours(n_records=500).rows, axis=0)) == 500


def test_a_file_is_read_with_the_bounds_of_its_columns(tmp_path):
    write_csv(tmp_path / "tiny.csv.gz", rows())
    found = load(TINY, tmp_path)
    assert found.source == "file"
    assert found.title == "Tiny"
    assert np.array_equal(found.rows, rows())
    assert found.low == tuple(rows().min(axis=0))
    (tmp_path / "tiny.csv.gz").unlink()
    np.savetxt(tmp_path / "tiny.csv", rows(), delimiter=",", header="x,y", comments="", fmt="%.17g")
    assert load(TINY, tmp_path).digest == found.digest


def test_another_table_has_another_digest(tmp_path):
    write_csv(tmp_path / "tiny.csv.gz", rows())
    first = load(TINY, tmp_path).digest
    write_csv(tmp_path / "tiny.csv.gz", rows(seed=1))
    assert load(TINY, tmp_path).digest != first


@pytest.mark.parametrize("table", [rows(399), rows()[:, :1], np.hstack([rows(), rows()]), np.empty((0, 2))])
def test_a_file_of_another_shape_is_refused_with_both_shapes(tmp_path, table):
    write_csv(tmp_path / "tiny.csv.gz", table)
    with pytest.raises(DataError, match=r"has \d+ rows and \d+ columns .* but Tiny has 400 rows and 2 columns"):
        load(TINY, tmp_path)


def test_a_file_that_holds_something_else_is_refused_without_quoting_it(tmp_path):
    (tmp_path / "tiny.csv").write_text("x,y\n1,31337.4242x\n")
    with pytest.raises(DataError, match="one header line") as caught:
        load(TINY, tmp_path)
    assert "31337" not in str(caught.value)
    table = rows()
    table[7, 1] = np.nan
    write_csv(tmp_path / "tiny.csv.gz", table)
    with pytest.raises(DataError, match="missing or infinite"):
        load(TINY, tmp_path)
    (tmp_path / "tiny.csv.gz").write_bytes(gzip.compress(b"x,y\n" + b"1,2\n" * 400)[:-20])
    with pytest.raises(UnreadableFileError, match="cannot be read"):
        load(TINY, tmp_path)


def test_a_missing_set_is_named_with_its_file_and_shape(tmp_path):
    write_csv(tmp_path / "s1.csv.gz", rows())
    (sentence,) = check_folder((SETS["s1"], SETS["adult"]), tmp_path)
    assert "Adult is missing" in sentence
    assert f"{tmp_path / 'adult.csv.gz'}" in sentence
    assert "48842 rows of 6 numbers" in sentence
    assert "generated set of the same size" in sentence
    with pytest.raises(DataError, match=r"Tiny is missing.*Leave it out with --sets"):
        check_folder((SETS["s1"], TINY), tmp_path)
    with pytest.raises(DataError, match=r"holds none of adult.csv.gz, tiny.csv.gz"):
        check_folder((SETS["adult"], TINY), tmp_path)
    with pytest.raises(DataError, match="no folder"):
        check_folder((TINY,), tmp_path / "nowhere")
    with pytest.raises(DataError, match="no generated form"):
        load(TINY, None)


# ---- runs and methods ----


def naive_l1(point):
    """Euclidean projection onto the unit L1 ball by bisection of the threshold."""
    if np.abs(point).sum() <= 1:
        return point
    low, high = 0.0, np.abs(point).max()
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(np.abs(point) - middle, 0).sum() > 1 else (low, middle)
    return np.sign(point) * np.maximum(np.abs(point) - low, 0)


@pytest.mark.parametrize("metric", ["paper", "user"])
def test_the_score_is_that_of_the_definition(metric):
    data = loaded(50)
    centers = np.array([[1.0, 1.0], [9.0, -4.0], [5.0, 5.0]])
    scale = lambda x: 2 * (x - np.array(LOW)) / (np.array(HIGH) - np.array(LOW)) - 1  # noqa: E731
    view = (lambda x: np.array([naive_l1(p) for p in scale(x)])) if metric == "paper" else scale
    expected = sum(min(((p - c) ** 2).sum() for c in view(centers)) for p in view(data.rows))
    domain = Run.of(data, metric, None, 0).domain
    assert isinstance(domain, L1Ball if metric == "paper" else Box)
    assert wcss(domain.to_unit(data.rows), centers, domain) == pytest.approx(expected)


@pytest.mark.parametrize("metric", ["paper", "user"])
@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_returns_its_centres_and_spends_what_it_may(name, metric):
    method = METHODS[name]
    epsilon = Fraction("0.3") if method.private else None
    result = execute(method, Run.of(loaded(), metric, epsilon, 1))
    assert isinstance(result, Result), result
    assert np.isfinite(result.wcss)
    assert result.noise == "NOT PRIVATE: simulated noise"
    if method.private:
        assert result.epsilon_spent <= 0.3
        assert result.epsilon_spent == pytest.approx(0.3, rel=1e-9)
    else:
        assert result.epsilon is result.epsilon_spent is None
    again = execute(method, Run.of(loaded(), metric, epsilon, 1))
    assert again.wcss == result.wcss


def test_methods_of_one_setting_read_one_transcript(monkeypatch):
    from recoup_lab.experiments import run as module

    calls = []
    proper = module.release
    monkeypatch.setattr(module, "release", lambda *a, **k: calls.append(1) or proper(*a, **k))
    first = Run.of(loaded(), "paper", Fraction(1), 0)
    readers = ("dpkm", "avg2", "consistency", "mcmc", "mcmc-noise", "maxent")
    results = [execute(METHODS[name], first.sibling()) for name in readers]
    assert len(calls) == 1
    assert len({result.transcript for result in results}) == 1
    assert None not in {result.transcript for result in results}
    # All are charged for it, in money and in time.
    assert {result.epsilon_spent for result in results} == {results[0].epsilon_spent}
    assert all(result.seconds >= round(first.shared.seconds, 4) for result in results)
    other = execute(METHODS["dpkm"], Run.of(loaded(), "paper", Fraction(1), 1))
    assert other.transcript != results[0].transcript
    assert execute(METHODS["recoup"], first.sibling()).transcript is None


def test_a_method_that_spends_twice_is_refused():
    def greedy(run):
        run.transcript  # noqa: B018
        return run.fit(algorithm="lloyd").cluster_centers_

    method = Method(name="greedy", title="greedy", function=greedy)
    failure = execute(method, Run.of(loaded(), "user", Fraction(1), 0))
    assert isinstance(failure, Failure)
    assert BudgetExceededError.__name__ in failure.why


def test_what_went_wrong_is_said_without_records():
    def broken(run):
        raise RuntimeError(f"could not convert {run.data.rows[0]}")

    def short(run):
        return run.data.rows[:1]

    def infinite(run):
        return np.full((3, 2), np.inf)

    run = Run.of(loaded(), "user", Fraction(1), 4)
    failure = execute(Method(name="broken", title="", function=broken), run)
    assert failure.what == "broken on tiny at epsilon 1, seed 4, user metric"
    assert failure.why == "RuntimeError"
    assert "could not convert" in failure.trace
    for function in (short, infinite):
        failure = execute(Method(name="wrong", title="", function=function), run)
        assert failure.why == "ParameterError: wrong must return 3 x 2 finite numbers."


def test_data_free_centres_are_those_from_which_the_algorithm_starts():
    for metric in ("paper", "user"):
        run = Run.of(loaded(), metric, Fraction(1), 5)
        start = run.transcript.rounds[0].query.centers
        assert run.domain.to_unit(METHODS["data-free"].function(run)) == pytest.approx(start)


def test_an_outside_system_can_be_charged_for():
    def outside(run):
        run.charge_all("a system that knows no ledger")
        return run.data.rows[:3]

    result = execute(Method(name="outside", title="", function=outside), Run.of(loaded(), "user", Fraction("0.1"), 0))
    assert result.epsilon_spent == pytest.approx(0.1)


def test_without_an_epsilon_nothing_private_can_be_had():
    run = Run.of(loaded(), "user", None, 0)
    with pytest.raises(ParameterError):
        run.transcript  # noqa: B018
    with pytest.raises(ParameterError):
        run.fit()
