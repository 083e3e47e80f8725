"""Records that are left out: which they are, for every kind of table, for persons, and what it costs."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cases import RecordingNoise
from typer.testing import CliRunner

import recoup
from recoup.algorithms.incomplete import CountIncomplete
from recoup.cli.app import app
from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.errors import BoundsError, BudgetExceededError, ParameterError, TranscriptError
from recoup.incomplete import IncompleteCount, count_incomplete
from recoup.mixed import Completeness, Mixed, domain_from_json
from recoup.privacy.statement import PrivacyStatement
from recoup.schema import Category, Number, Schema
from recoup.transcript.context import Context
from recoup.transcript.transcript import Transcript

SURE = {"epsilon": 10**6, "noise": "simulated", "random_state": 0}  # next to no noise: counts are known exactly
SCHEMA = Schema(
    {
        "age": Number(0, 100),
        "stay": Number(1, 1000, scale="log", missing=1),
        "lab": Number(0, 1, missing="own"),
        "sex": Category(["F", "M"]),
        "ward": Category(["a", "b"], other=True, missing="a"),
    }
)
# Each row with whether a fit can use it.
ROWS = [
    ((30.0, 5.0, 0.5, "F", "a"), True),
    ((None, 5.0, 0.5, "F", "a"), False),
    ((30.0, None, None, "M", None), True),
    ((30.0, 5.0, 0.5, None, "a"), False),
    ((30.0, 5.0, 0.5, "x", "a"), False),
    ((30.0, -5.0, 0.5, "F", "elsewhere"), True),
    ((float("inf"), 5.0, 0.5, "F", "a"), False),
    ((-1e300, 5.0, float("nan"), "M", "b"), True),
]
FRAME = pa.table({name: pa.array([row[j] for row, _ in ROWS], from_pandas=False) for j, name in enumerate(SCHEMA)})


def numbers(counted):
    return round(counted.used), round(counted.left_out)


def tables(folder):
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    csv.write_csv(FRAME, folder / "t.csv")
    pq.write_table(FRAME, folder / "t.parquet")
    frame = FRAME.to_pandas()
    return {"arrow": FRAME, "pandas": frame, "polars": pl.from_arrow(FRAME), "csv": folder / "t.csv",
            "parquet": folder / "t.parquet"}  # fmt: skip


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars", "csv", "parquet"])
def test_left_out_is_what_a_fit_cannot_use(kind, tmp_path):
    assert numbers(count_incomplete(tables(tmp_path)[kind], SCHEMA, **SURE)) == (4, 4)


def test_it_agrees_with_what_contributes_to_a_fit():
    domain = Mixed(schema=SCHEMA)
    query = recoup.algorithms.incomplete.CountIncomplete().next_request(context(domain), (), None).query
    contributing = sum(open_source(FRAME, domain).total(query, np.ones(1)))
    assert contributing == sum(fit for _, fit in ROWS) == numbers(count_incomplete(FRAME, SCHEMA, **SURE))[0]


def test_numbers_without_names():
    x = np.array([[0.5, 0.5], [np.nan, 0.5], [9.0, -9.0], [0.5, np.inf]])
    assert numbers(count_incomplete(x, (0, 1), **SURE)) == (2, 2)
    assert numbers(count_incomplete(x, [(0, 1), (0, 2)], **SURE)) == (2, 2)
    assert numbers(count_incomplete(pd.DataFrame(x, columns=["a", "b"]), {"b": (0, 1)}, **SURE)) == (3, 1)
    assert numbers(count_incomplete(np.empty((0, 2)), (0, 1), **SURE)) == (0, 0)


@pytest.mark.parametrize("who", ["text", "number"])
def test_a_person_is_left_out_who_has_no_complete_record(who):
    names = ["ann", "ann", "ann", "bob", "bob", "cy", None, None]
    keys = names if who == "text" else [None if name is None else ord(name[0]) for name in names]
    age = [1.0, None, None, None, None, 2.0, 3.0, None]
    table = pa.table({"who": keys, "age": pa.array(age)})
    for order in (range(8), range(7, -1, -1)):
        counted = count_incomplete(table.take(list(order)), {"age": (0, 9)}, person="who", **SURE)
        assert numbers(counted) == (2, 1)  # nobody's records are in neither count
    assert counted.privacy.unit == "one person, by column 'who'"


# ---- privacy ----


def context(domain, law="laplace", **terms):
    delta = 0 if law == "laplace" else "1e-6"
    return Context(domain=domain, epsilon=1, delta=delta, mechanism=law, **terms)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_a_record_moves_one_count_by_the_sensitivity(law):
    domain = Completeness(schema=SCHEMA)
    request = CountIncomplete().next_request(context(domain, law), (), None)

    def drawn(table):
        noise = RecordingNoise()
        Curator(open_source(table, domain), context(domain, law)).answer(request, noise)
        return noise.calls[0][1], noise.draws

    none = drawn(FRAME.slice(0, 0))
    for i in range(len(ROWS)):
        one = drawn(FRAME.slice(i, 1))
        assert sorted(np.subtract(one[0], none[0]).tolist()) == [0, 2**30]
        assert one[1] == none[1]  # as much noise as for no record


def test_a_person_with_any_records_moves_one_count():
    rng = np.random.default_rng(0)
    domain = Completeness(schema=Schema({"age": Number(0, 9)}))
    request = CountIncomplete().next_request(context(domain, person="who"), (), None)
    for n in (1, 2, 7, 1000):
        for missing in (0.0, 0.5, 0.999, 1.0):
            age = pa.array(rng.uniform(-5, 15, n), mask=rng.random(n) < missing)
            source = open_source(pa.table({"who": ["x"] * n, "age": age}), domain, person="who")
            assert sorted(source.total(request.query, np.full(1, 10.0))) == [0, 10]


def test_the_ledger_pays_and_refuses(tmp_path):
    ledger = recoup.Ledger.in_memory(epsilon=1)
    count_incomplete(FRAME, SCHEMA, epsilon="0.75", ledger=ledger)
    assert ledger.spent == Fraction(3, 4)
    with pytest.raises(BudgetExceededError):
        count_incomplete(FRAME, SCHEMA, epsilon="0.75", ledger=ledger)


def test_refusals():
    with pytest.raises(ParameterError, match="give a Schema"):
        count_incomplete(FRAME, (0, 1), person="who", epsilon=1)
    with pytest.raises(BoundsError):
        count_incomplete(FRAME, {}, epsilon=1)
    other = recoup.release(
        recoup.KMeans(n_clusters=1, n_rounds=1), np.zeros((3, 1)), domain=recoup.Box([0], [1]), epsilon=1
    )
    with pytest.raises(TranscriptError, match="count_incomplete"):
        IncompleteCount.of(other)
    on_a_box = recoup.release(CountIncomplete(), np.zeros((3, 1)), domain=recoup.Box([0], [1]), epsilon=1)
    with pytest.raises(TranscriptError, match="count_incomplete"):
        IncompleteCount.of(on_a_box)


# ---- what is kept and told ----


def test_the_transcript_gives_the_same_counts_again(tmp_path):
    counted = count_incomplete(FRAME, SCHEMA, path=tmp_path / "t.json", **SURE)
    loaded = Transcript.load(tmp_path / "t.json")
    assert repr(IncompleteCount.of(loaded)) == repr(counted)
    assert recoup.refit(loaded, None).round().tolist() == [[4, 4]]
    assert domain_from_json(loaded.context.domain.to_json()) == Completeness(schema=SCHEMA)
    assert PrivacyStatement.from_json(json.loads(json.dumps(counted.privacy)))["domain"] == "completeness"


@pytest.mark.statistical
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_the_error_holds_nine_times_in_ten(law):
    # 1,000 draws: a rate outside of .9 +- .045 has a chance of less than 1e-5.
    terms = {"epsilon": 1, "delta": 0 if law == "laplace" else 1e-6, "noise": "simulated"}
    held, of_one = [], []
    for seed in range(1000):
        counted = count_incomplete(np.zeros((50, 1)), (0, 1), random_state=seed, **terms)
        answered = counted.transcript.rounds[0]
        error = np.abs(answered.noisy - [50, 0]).max()
        held.append(error <= counted.error)
        of_one.append(error <= (np.log(10) if law == "laplace" else 1.645) * answered.scales[0])
    assert abs(np.mean(held) - 0.9) < 0.045
    # Planted: the error of one count by itself, taken for that of both.
    assert abs(np.mean(of_one) - 0.9) > 0.045


def test_the_command_counts_and_keeps_the_transcript(tmp_path):
    import pyarrow.csv as csv

    csv.write_csv(FRAME, tmp_path / "t.csv")
    SCHEMA.save(tmp_path / "schema.toml")
    command = ["incomplete", str(tmp_path / "t.csv"), "--bounds", str(tmp_path / "schema.toml"), "--epsilon", "1000"]
    command += ["-o", str(tmp_path / "t.json"), "--simulated-noise", "--seed", "0"]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0
    assert "left out" in told.output
    assert "NOT PRIVATE" in told.output
    assert round(IncompleteCount.of(Transcript.load(tmp_path / "t.json")).left_out) == 4
    again = CliRunner().invoke(app, command)
    assert again.exit_code != 0
    assert "choose another path" in again.output
    as_json = json.loads(CliRunner().invoke(app, [*command[:-5], "--simulated-noise", "--json"]).stdout)
    assert round(as_json["left_out"]) == 4
