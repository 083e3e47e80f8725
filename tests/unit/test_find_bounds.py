"""Bounds from noisy counts: the list of bins, the decisions, and what a user gets."""

import copy
import json
import pickle
import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import recoup
from recoup.algorithms import bounds
from recoup.algorithms.bounds import FALSE_ALARM, FindBounds, _Noise, ranges_of
from recoup.cli.app import app
from recoup.errors import (
    BudgetExceededError,
    ColumnTypeError,
    ContinuationError,
    DataError,
    MissingBoundsError,
    TranscriptError,
)
from recoup.found_bounds import FoundBounds, find_bounds, share_for
from recoup.octaves import END, N_BINS, N_PLACES, edges_of, place_of, value_at
from recoup.schema import Category, Schema

RNG = np.random.default_rng(3)
MUCH = {"epsilon": 1000, "noise": "simulated", "random_state": 0}  # next to no noise: what is found is known exactly


def found(values, **terms):
    table = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    return [(column.low, column.high) for column in find_bounds(table, **(MUCH | terms)).values()]


def simulated(table, seed=0, **terms):
    return find_bounds(table, noise="simulated", random_state=seed, **terms)


# ---- the list of bins ----


def test_every_number_has_its_place_between_the_edges_of_its_bin():
    sizes = np.exp2(RNG.uniform(-32, 64, 2000))
    for x in np.concatenate([sizes, -sizes, 2.0 ** np.arange(-32, 64)]):
        place = int(place_of(x))
        low, high = edges_of(place, place)
        assert low <= x < high if x > 0 else low < x <= high
        assert place_of(value_at(place)) == place
        assert abs(high - low) <= abs(x) / 16


def test_the_ends_of_the_list():
    assert place_of([0.0, 1e-11, -1e-11, 5e-324]).tolist() == [0, 0, 0, 0]
    assert place_of([END, 1e300, -END, np.nextafter(END, 0)]).tolist() == [
        N_PLACES + 1,
        N_PLACES + 1,
        -N_PLACES - 1,
        N_PLACES,
    ]


def test_a_table_is_counted_in_the_bins_of_the_list():
    x = np.array([0.0, 1000.0, -1000.0, 1e300, -1e300, np.nan, np.inf, -np.inf])[:, None]
    answered = find_bounds(x, epsilon=10**6, noise="simulated", random_state=0).transcript.rounds[0]
    counts = dict(zip(range(-N_PLACES - 1, N_PLACES + 2), np.round(answered.noisy).astype(int).tolist(), strict=True))
    place = int(place_of(1000.0))
    # What is missing or infinite lies beyond the upper end, with what is too large.
    assert {k: n for k, n in counts.items() if n} == {0: 1, place: 1, -place: 1, N_PLACES + 1: 4, -N_PLACES - 1: 1}
    assert answered.query.size == N_BINS


# ---- decisions ----


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (RNG.integers(1900, 2026, 10_000), (1856, 2048)),
        (RNG.uniform(20, 100, 10_000), (0, 100)),  # near zero: from there
        (-RNG.uniform(20, 100, 10_000), (-100, 0)),
        (RNG.uniform(-30, 60, 10_000), (-30, 60)),
        (np.full(1000, 5.0), (5, 5.25)),
        (np.full(1000, -5.0), (-5.25, -5)),
        (np.full(1000, 5e-324), (-edges_of(1, 1)[1], edges_of(1, 1)[1])),
        (np.zeros(1000), (-edges_of(1, 1)[1], edges_of(1, 1)[1])),
        (np.repeat([0.0, 1.0], 500), (0, 1.0625)),
        (RNG.uniform(1e15, 2e15, 10_000), (28 * 2.0**45, 29 * 2.0**46)),
        (RNG.uniform(1e-9, 2e-9, 10_000), None),
    ],
)
def test_what_lies_where_it_can_be_told_is_covered_and_no_more(values, expected):
    (low, high) = found(values)[0]
    assert low <= values.min() or values.min() < 1e-300
    assert values.max() <= high
    if expected is not None:
        assert (low, high) == expected


@pytest.mark.parametrize(
    "values",
    [np.empty((0, 1)), np.full((100, 1), np.nan), np.full((100, 1), np.inf), np.full((100, 1), 1e300), np.ones((1, 1))],
    ids=["empty", "missing", "infinite", "beyond", "one record"],
)
def test_nothing_to_be_told_from_noise_is_an_answer_like_any_other(values):
    answer = find_bounds(values, epsilon=1, noise="simulated", random_state=1)
    assert [(column.low, column.high) for column in answer.values()] == [(-1, 1)]
    assert answer.not_found == ("x0",)
    assert answer.privacy.epsilon == 1


def test_a_missing_cell_keeps_no_other_from_being_counted():
    table = np.column_stack([RNG.uniform(20, 100, 4000), np.full(4000, np.nan)])
    answer = find_bounds(table, **MUCH)
    assert (answer["x0"].high, answer.not_found) == (100, ("x1",))


def test_a_logarithmic_scale_is_suggested_where_the_counts_ask_for_it():
    n = 20_000
    charges, ages = np.exp(RNG.normal(7, 1.5, n)), RNG.uniform(18, 90, n)
    many_zeros, signed = np.where(RNG.random(n) < 0.3, 0, charges), charges * RNG.choice([-1, 1], n)
    answer = find_bounds(
        np.column_stack([charges, ages, many_zeros, signed]), epsilon=4, noise="simulated", random_state=0
    )
    assert {column.scale for column in answer.values()} == {"linear"}
    assert [column.scale for column in answer.suggested.values()] == ["log", "linear", "linear", "linear"]
    assert answer.suggested["x0"].low > 0
    assert answer.suggested["x0"].high == answer["x0"].high


def test_a_thin_tail_is_followed_one_octave_and_a_sharp_end_is_not():
    tail = np.minimum(RNG.pareto(1.5, 20_000) + 1, 1e6)
    epsilon = 0.02
    ends = [
        find_bounds(tail[:, None], epsilon=epsilon, noise="simulated", random_state=s)["x0"].high for s in range(20)
    ]
    assert np.mean(np.log2(ends) % 1 == 0) > 0.5  # a whole octave: not trimmed
    sharp = RNG.uniform(0, 100, 20_000)
    ends = [
        find_bounds(sharp[:, None], epsilon=epsilon, noise="simulated", random_state=s)["x0"].high for s in range(20)
    ]
    assert np.median(ends) <= 112


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_noise_alone_exceeds_a_threshold_as_rarely_as_said(law):
    # 4 standard deviations of 200,000 draws at a chance of 1 %: a false alarm in 30,000 for each of six assertions.
    draws = (RNG.laplace if law == "laplace" else RNG.normal)(scale=3.0, size=(200_000, 16))
    for n in (1, 4, 16):
        sums, most = draws[:, :n].sum(axis=1), _Noise(law, 3.0).exceeded(n, 0.01)
        limit = 0.01 + 4 * np.sqrt(0.01 / 200_000)
        assert np.mean(sums > most) <= limit
        assert np.mean(sums > 0.75 * most) > limit  # power: a threshold that is a quarter too low


def test_columns_without_records_are_found_as_rarely_as_said(monkeypatch):
    # One of 100 releases has a range with a chance of 1e-3 at most.
    def n_wrong():
        return sum(len(simulated(np.empty((0, 4)), s, epsilon=1).not_found) < 4 for s in range(100))

    assert FALSE_ALARM == 1e-5
    assert n_wrong() == 0
    # Power: of thresholds that are too low, a tenth of all releases and more are wrong.
    monkeypatch.setattr(bounds, "FALSE_ALARM", 1.0)
    assert n_wrong() >= 10


# ---- what a user gets ----


def test_it_is_a_schema_that_travels():
    answer = find_bounds(pd.DataFrame({"a": RNG.uniform(0, 9, 500), "b": RNG.uniform(0, 9, 500)}), ["a"], **MUCH)
    assert isinstance(answer, Schema)
    assert list(answer) == ["a"]
    again = recoup.Transcript.from_json(answer.transcript.to_json())
    assert FoundBounds(again) == answer
    assert pickle.loads(pickle.dumps(answer)) == copy.deepcopy(answer) == answer
    assert repr(answer) == "FoundBounds({'a': (0, 9)}, NOT PRIVATE: simulated noise)"


def test_it_is_saved_read_and_resumed_for_free(tmp_path):
    ledger = recoup.Ledger.in_memory(epsilon=1)
    x = RNG.uniform(0, 9, (500, 1))
    answer = find_bounds(x, epsilon=1, ledger=ledger, path=tmp_path / "t.json")
    assert FoundBounds.load(tmp_path / "t.json") == answer
    assert find_bounds(x, epsilon=1, ledger=ledger, path=tmp_path / "t.json", resume=True) == answer
    answer.save(tmp_path / "s.toml")
    assert Schema.load(tmp_path / "s.toml") == answer
    transcript = recoup.release(recoup.KMeans(n_clusters=2), x, domain=answer, epsilon=1)
    with pytest.raises(TranscriptError, match="not a transcript of recoup"):
        FoundBounds(transcript)


def test_text_is_refused_by_type_and_csv_needs_names(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["secret", "x"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ColumnTypeError):
        find_bounds(frame, epsilon=1)
    with pytest.raises(DataError, match="declare the columns"):
        find_bounds(tmp_path / "t.csv", epsilon=1)
    with pytest.raises(MissingBoundsError, match="names persons"):
        find_bounds(frame, person="b")
    assert list(find_bounds(tmp_path / "t.csv", ["a"], epsilon=1)) == ["a"]
    with pytest.raises(recoup.errors.BoundsError, match="list of names"):
        find_bounds(frame, "a")
    with pytest.raises(recoup.errors.ParameterError, match="at most"):
        find_bounds(np.zeros((1, 400)), epsilon=1)


def test_a_person_touches_one_bin():
    frame = pd.DataFrame({"who": ["a"] * 5000 + ["b"] * 20, "x": 5.0})
    answer = find_bounds(frame, ["x"], epsilon=1, person="who", noise="simulated", random_state=0)
    assert answer.not_found == ("x",)
    assert answer.privacy.unit == "one person, by column 'who'"


# ---- within the budget of a fit ----


def test_bounds_and_fit_share_one_budget():
    ledger, x = recoup.Ledger.in_memory(epsilon=1), RNG.uniform(20, 100, (4000, 2))
    model = recoup.PrivateKMeans(2, epsilon=1, bounds="private", ledger=ledger).fit(x)
    parts = [model.bounds_.transcript.epsilon_spent, model.transcript_.epsilon_spent]
    assert ledger.spent == sum(parts) <= 1
    assert float(ledger.spent) == pytest.approx(1, abs=1e-12)
    assert model.bounds_.transcript.context.epsilon == share_for(2) == Fraction(1, 10)
    assert model.transcript_.context.epsilon == Fraction(9, 10)
    assert (model.privacy_.epsilon, model.bounds) == (1, "private")
    assert model.cluster_centers_.min() > 0
    assert set(model.predict(x)) <= {0, 1}


def test_some_columns_are_private_and_others_declared():
    frame = pd.DataFrame(
        {"a": RNG.uniform(20, 100, 4000), "b": RNG.uniform(0, 1, 4000), "c": RNG.choice(["u", "v"], 4000)}
    )
    declared = {"a": "private", "b": (0, 1), "c": Category(["u", "v"])}
    model = recoup.PrivateKMeans(2, epsilon=2, bounds=declared, noise="simulated", random_state=0).fit(frame)
    assert list(model.bounds_) == ["a"]
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_every_estimator_finds_its_bounds(delta):
    frame = pd.DataFrame({"a": RNG.uniform(20, 100, 3000), "b": RNG.uniform(-1, 1, 3000)})
    labelled = frame.assign(y=(frame.a > 60).astype(int))
    for model, given in (
        (recoup.PrivatePCA(1), (frame,)),
        (recoup.PrivateGaussianMixture(2), (frame,)),
        (recoup.PrivateLogisticRegression(), (labelled, "y")),
        (recoup.PrivateKMeans(2), (frame,)),
    ):
        ledger = recoup.Ledger.in_memory(epsilon=1, delta=delta)
        model.set_params(epsilon=1, delta=delta, bounds="private", ledger=ledger, postprocess="none").fit(*given)
        assert list(model.bounds_) == ["a", "b"]
        assert ledger.spent <= 1


def test_what_cannot_be_fitted_is_refused_before_anything_is_spent(tmp_path):
    ledger, x = recoup.Ledger.in_memory(epsilon=1), pd.DataFrame({"a": np.arange(100.0)})
    given = {"epsilon": 1, "bounds": "private", "ledger": ledger}
    x.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(BudgetExceededError):
        recoup.PrivateKMeans(2, **(given | {"epsilon": 2})).fit(x)
    with pytest.raises(recoup.errors.ParameterError):
        recoup.PrivateKMeans(2, **given, domain="other").fit(x)
    with pytest.raises(recoup.errors.ParameterError):
        recoup.PrivateKMeans(2, **given, postprocess="other").fit(x)
    with pytest.raises(recoup.errors.ParameterError):
        recoup.PrivateKMeans(0, **given).fit(x)
    with pytest.raises(DataError, match="declare the columns"):
        recoup.PrivateKMeans(2, **given).fit(tmp_path / "t.csv")
    import pyarrow as pa

    with pytest.raises(DataError, match="two readings"):
        recoup.PrivateKMeans(2, **given).fit(pa.table(x).to_reader())
    assert ledger.spent == 0


REFUSED = {
    "a rival's delta": ({"algorithm": "gupt", "delta": 1e-6}, {}, "cannot use a delta"),
    "a rival's rounds": ({"algorithm": "gupt", "n_rounds": 3}, {}, "gupt has no rounds"),
    "a rival's postprocess": ({"algorithm": "privgene", "postprocess": "maxent"}, {}, "nothing to infer from"),
    "a rival's transcript": ({"algorithm": "privgene"}, {"transcript_path": "new.json"}, "releases no transcript"),
    "a rival's size": ({"algorithm": "privgene", "n_clusters": 10**6}, {}, "ask for fewer clusters"),
    "another rival's size": ({"algorithm": "gupt", "n_clusters": 10**8, "n_records": 100}, {}, "at most"),
    "a transcript that is there": ({}, {"transcript_path": "old.json"}, "old.json exists"),
    "no function": ({}, {"on_round": 3}, "on_round must be a function"),
    "the sampler": (
        {"bounds": {"a": "private", "c": Category(["u", "v"])}, "postprocess": "mcmc"},
        {},
        "moves records",
    ),
    "a column that is not there": ({"bounds": {"a": "private", "z": (0, 1)}}, {}, "'z'"),
    "a column of text": ({"bounds": {"a": "private", "c": (0, 1)}}, {}, "'c'"),
    "persons without a column": ({"per_person": "mean"}, {}, "person"),
    "means of several": ({"person": "c", "records_per_person": 2}, {}, "one row"),
    "too many cells": ({"n_clusters": 10**8}, {}, "at most"),
    "an epsilon that is too small": ({"epsilon": "1e-200"}, {}, "."),
    "a domain with bounds": (
        {"domain": recoup.Box([0, 0], [1, 1])},
        {},
        "which has bounds of its own",
    ),
    "another domain": ({"domain": "other"}, {}, "domain='other'"),
    "a ball of categories": (
        {"bounds": {"a": "private", "c": Category(["u", "v"])}, "domain": "l1"},
        {},
        "a schema makes a domain",
    ),
    "no path to resume": ({}, {"resume": True}, "resume=True needs the path"),
    "bounds that are gone": ({}, {"transcript_path": "old.json", "resume": True}, r"old\.bounds\.json.* does not"),
    "bounds that are there": ({}, {"transcript_path": "found.json"}, r"found\.bounds\.json exists"),
    "too many cells, to be resumed": (
        {"n_clusters": 10**8},
        {"transcript_path": "new.json", "resume": True},
        "at most",
    ),
    "other noise": ({"noise": "little"}, {}, "noise"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_known_to_keep_a_fit_from_being_made_costs_nothing(tmp_path, what):
    parameters, given, words = REFUSED[what]
    frame = pd.DataFrame({"a": np.arange(100.0), "b": 1.0, "c": "u"})
    ledger = recoup.Ledger.in_memory(epsilon=1, delta=1e-6)
    for name in ("old.json", "found.bounds.json"):
        (tmp_path / name).write_text("{}")
    model = recoup.PrivateKMeans(2, epsilon=1, bounds={"a": "private", "b": (0, 1)}, ledger=ledger)
    given = {name: tmp_path / value if name == "transcript_path" else value for name, value in given.items()}
    with pytest.raises(recoup.errors.RecoupError, match=words):
        model.set_params(**parameters).fit(frame, **given)
    assert ledger.entries() == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["found.bounds.json", "old.json"]


@pytest.mark.parametrize(
    ("terms", "budget"),
    [
        ({}, {"epsilon": "0.99"}),
        ({"delta": 1e-6}, {"epsilon": 1}),  # Gaussian noise, and a ledger without a delta
        ({"delta": 1e-6}, {"epsilon": "0.5", "delta": 1e-6}),
        ({}, {"epsilon": 4, "records_per_person": 5}),  # every epsilon counts five times
        ({"algorithm": "privgene"}, {"epsilon": "0.99"}),
        ({"records_per_person": 2}, {"epsilon": 9, "records_per_person": 1}),
    ],
)
@pytest.mark.filterwarnings("ignore::recoup.errors.UnitConverted")
def test_a_ledger_that_cannot_pay_for_all_of_it_pays_for_nothing(terms, budget):
    ledger = recoup.Ledger.in_memory(**budget)
    model = recoup.PrivateKMeans(2, epsilon=1, bounds="private", ledger=ledger, **terms)
    with pytest.raises(recoup.errors.RecoupError):
        model.fit(RNG.uniform(20, 100, (200, 4)))
    assert ledger.entries() == ()


@pytest.mark.parametrize("algorithm", ["gupt", "privgene"])
@pytest.mark.parametrize("n_records", ["auto", 500])
def test_rivals_find_their_bounds_too(algorithm, n_records):
    ledger = recoup.Ledger.in_memory(epsilon=1)
    model = recoup.PrivateKMeans(2, epsilon=1, bounds="private", ledger=ledger, algorithm=algorithm)
    model.set_params(n_records=n_records).fit(RNG.uniform(20, 100, (500, 1)))
    assert model.cluster_centers_.shape == (2, 1)
    assert ledger.spent <= 1


def test_noise_is_of_the_kind_that_the_ledger_has_paid_for():
    ledger, x = recoup.Ledger.in_memory(epsilon=5, delta=1e-6), RNG.uniform(20, 100, (500, 1))
    recoup.release(recoup.KMeans(n_clusters=2), x, domain=recoup.Box([0], [100]), epsilon=1, delta=1e-6, ledger=ledger)
    assert {entry.measure for entry in ledger.entries()} == {"gaussian"}
    recoup.PrivateKMeans(2, epsilon=1, delta=1e-6, bounds="private", ledger=ledger, postprocess="none").fit(x)
    assert {entry.measure for entry in ledger.entries()} == {"gaussian"}


def test_costly_terms_are_told_once_and_while_nothing_is_spent():
    ledger = recoup.Ledger.in_memory(epsilon=1)
    model = recoup.PrivateKMeans(2, epsilon=1, bounds="private", ledger=ledger, postprocess="none")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(RNG.uniform(20, 100, (200, 40)))
    assert sum(warning.category is recoup.errors.CostlyTerms for warning in caught) == 1


def test_an_interrupted_fit_goes_on_with_the_bounds_that_were_paid_for(tmp_path):
    ledger, x = recoup.Ledger.in_memory(epsilon=1), RNG.uniform(20, 100, (2000, 1))
    path, model = tmp_path / "t.json", recoup.PrivateKMeans(2, epsilon=1, bounds="private", ledger=ledger)

    def stop(n):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(x, transcript_path=path, on_round=stop)
    paid = FoundBounds.load(tmp_path / "t.bounds.json")
    model.fit(x, transcript_path=path, resume=True)
    assert model.bounds_ == paid
    assert ledger.spent <= 1
    spent = ledger.spent
    (tmp_path / "t.bounds.json").unlink()
    with pytest.raises(ContinuationError, match="Nothing was charged"):
        model.fit(x, transcript_path=path, resume=True)
    assert ledger.spent == spent


@pytest.mark.parametrize("algorithm", ["adaptive", "privgene"])
def test_the_report_promises_what_bounds_and_fit_cost_together(tmp_path, algorithm):
    ledger, x = recoup.Ledger.in_memory(epsilon=2), RNG.uniform(20, 100, (2000, 2))
    model = recoup.PrivateKMeans(2, epsilon=1, bounds="private", algorithm=algorithm, ledger=ledger).fit(x)
    assert (model.privacy_.epsilon, model.privacy_.counted) == (1, "by a ledger")

    def page():
        model.report(tmp_path / "r.html", intervals=False)
        return " ".join(re.sub("<[^>]*>", " ", (tmp_path / "r.html").read_text()).split())

    said, cost = page(), "another release of the same records, for epsilon = 0.1: the promise is that of both"
    assert f"Bounds of 2 columns were found by {cost}" in said
    assert "epsilon 1 the privacy budget of 2 releases together" in said
    assert "The bounds below that no release found were declared" in said
    if algorithm == "adaptive":
        assert "Of epsilon = 0.9, all was spent, round after round. Before that, another release found" in said
        assert "not of the one that found its bounds" in said
    # Of a later fit with declared bounds nothing of that is told.
    said = (model.set_params(bounds=(0, 100), ledger=None).fit(x), page())[1]
    assert not hasattr(model, "bounds_")
    assert "another release" not in said
    assert "epsilon 1 the privacy budget of this release" in said


# ---- the command ----


def test_the_command_writes_a_schema_that_bounds_reads(tmp_path):
    pd.DataFrame({"age": RNG.uniform(20, 100, 4000), "none": np.nan}).to_csv(tmp_path / "t.csv", index=False)
    schema = str(tmp_path / "s.toml")
    command = ["bounds", str(tmp_path / "t.csv"), "--columns", "age,none", "--epsilon", "2", "-o", schema]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 0
    assert "age" in answer.stdout
    assert "Nothing can be told from noise in 'none', or it is no column of numbers" in answer.stderr
    assert "age, none counted in fixed public bins up to ±2^64;" in answer.stderr
    assert "suggested" not in answer.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.toml", "s.transcript.json", "t.csv"]
    assert Schema.load(schema) == FoundBounds.load(tmp_path / "s.transcript.json")
    again = CliRunner().invoke(app, command)
    assert again.exit_code != 0
    assert "was paid for" in again.stderr
    clustered = CliRunner().invoke(app, ["cluster", command[1], "-k", "2", "--epsilon", "1", "--bounds", schema])
    assert clustered.exit_code == 0


def test_the_command_writes_what_it_suggests_and_reads_its_transcript_for_free(tmp_path):
    pd.DataFrame({"paid": RNG.lognormal(7, 1.5, 20_000)}).to_csv(tmp_path / "t.csv", index=False)
    recoup.Ledger.create(tmp_path / "l.db", epsilon=2)

    def run(*typed):
        return CliRunner().invoke(app, ["bounds", *map(str, typed)])

    terms = ("--columns", "paid", "--epsilon", 2, "--ledger", tmp_path / "l.db", "-o")
    first = run(tmp_path / "t.csv", *terms, tmp_path / "s.toml", "--json")
    assert first.exit_code == 0, first.stderr
    transcript = tmp_path / "s.transcript.json"
    paid, spent = FoundBounds.load(transcript), recoup.Ledger(tmp_path / "l.db").spent
    assert paid.suggested["paid"].scale == "log"
    assert Schema.load(tmp_path / "s.toml") == paid
    assert Schema.load(tmp_path / "s.suggested.toml") == paid.suggested
    files = [str(tmp_path / name) for name in ("s.toml", "s.suggested.toml", "s.transcript.json")]
    assert json.loads(first.stdout)["files"] == files
    assert "s.suggested.toml' has it, and using that costs nothing" in first.stderr

    assert run(transcript, "-o", tmp_path / "x.json").exit_code == 0
    assert Schema.load(tmp_path / "x.json") == paid
    assert Schema.load(tmp_path / "x.suggested.json") == paid.suggested
    again = run(transcript, "-o", tmp_path / "y.toml", "--suggested")
    assert Schema.load(tmp_path / "y.toml") == paid.suggested
    assert "log" in again.stdout
    assert not (tmp_path / "y.suggested.toml").exists()
    assert recoup.Ledger(tmp_path / "l.db").spent == spent


def test_the_command_says_what_it_needs(tmp_path):
    pd.DataFrame({"x": [1.0]}).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "t.json").write_text("{}")
    for typed, code, words in (
        (("t.csv",), 2, "--columns is missing"),
        (("t.csv", "--columns", "x"), 2, "--epsilon is missing"),
        (("t.json", "--epsilon", "1"), 2, "leave out --epsilon"),
        (("t.json",), 6, "transcript"),
        (("none.json",), 6, "cannot be read"),
    ):
        given = [str(tmp_path / typed[0]), *typed[1:], "-o", str(tmp_path / "s.toml")]
        answer = CliRunner().invoke(app, ["bounds", *given])
        assert answer.exit_code == code
        assert words in answer.stderr
    assert not (tmp_path / "s.toml").exists()


def test_the_answer_of_the_algorithm_is_the_range_itself():
    answer = find_bounds(RNG.integers(1900, 2026, (5000, 1)), **MUCH)
    context, rounds = answer.transcript.context, answer.transcript.rounds
    algorithm = FindBounds()
    ends = algorithm.in_user_units(context, algorithm.estimate(context, rounds))
    assert ends.tolist() == [list(edges_of(*ranges_of(context, rounds)[0][:2]))] == [[1856, 2048]]
