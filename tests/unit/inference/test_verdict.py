"""Verdicts: chance is what it claims to be, planted errors are named, and everything that speaks says the same."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

import recoup
from recoup import Box, GridKMeans, KMeans, L1Ball, PrivateKMeans, infer, release
from recoup.cli.app import app
from recoup.errors import DoubtfulResult
from recoup.inference.diagnostics import expected_answer, log_probability_of_size, log_probability_of_sum
from recoup.inference.evidence import evidence_of
from recoup.inference.inferred import InferredDataset
from recoup.inference.judge import judge, predicted_last_round
from recoup.inference.verdict import Reason, Verdict, listed
from recoup.maxent.measure import total_of
from recoup.maxent.sizes import RecordCount, records_of
from recoup.report.write import write_report

FALSE_ALARM = 1e-6  # of each statistical assertion in this file
BOUNDS = {"age": (0, 100), "points": (0, 1000)}
MIDDLES = np.array([(20, 200), (50, 800), (80, 400)])


def people(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.integers(3, size=n)
    return np.clip(MIDDLES[label] + rng.normal(size=(n, 2)) * (5, 50), (0, 0), (100, 1000))


def fitted(x, **other):
    terms = {"n_clusters": 3, "epsilon": 1.0, "bounds": BOUNDS, "noise": "simulated", "random_state": 0} | other
    return PrivateKMeans(**terms).fit(x if isinstance(x, str) else pd.DataFrame(x, columns=list(BOUNDS)))


@pytest.fixture(scope="module")
def model():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return fitted(people())


def rare(found, n, rate):
    """Whether so many successes among n would be seen less often than the false-alarm rate."""
    return binom.sf(found - 1, n, rate) < FALSE_ALARM


# ---- the value ----


def test_a_verdict_reads_as_data_and_in_words():
    first = Reason(kind="column", sentence="age: measured 1", columns=("age",), clusters=(2, 0), numbers={"round": 1.0})
    second = Reason(kind="size", sentence="cluster 1: few", clusters=(1,))
    verdict = Verdict(reasons=(first, second), records=RecordCount(estimate=900.0, deviation=9.0), n_rounds=4)
    assert (verdict.status, verdict.good, verdict.columns, verdict.clusters) == ("doubtful", False, ("age",), (0, 1, 2))
    assert verdict.sentence == "Doubtful: age: measured 1; cluster 1: few."
    assert verdict.rests_on == "Rests on about 900 records (885 to 915)."
    assert verdict.in_words == f"{verdict.sentence} {verdict.rests_on}"
    value = json.loads(json.dumps(verdict.to_json()))
    assert value["status"] == "doubtful"
    assert value["reasons"][0] == {
        "kind": "column",
        "sentence": "age: measured 1",
        "columns": ["age"],
        "clusters": [2, 0],
        "numbers": {"round": 1.0},
    }
    assert "age: measured 1" in repr(verdict)
    assert len(repr(Verdict(n_rounds=3))) < 100


def test_a_sentence_stays_short():
    reasons = tuple(Reason(kind="column", sentence=f"column {j}: off", columns=(j,)) for j in range(20))
    assert Verdict(reasons=reasons, n_rounds=1).sentence.endswith("column 3: off; and 16 more.")
    assert Verdict(reasons=reasons).columns == tuple(range(20))


def test_without_counts_nothing_is_told():
    assert Verdict().rests_on == "Rests on a number of records that cannot be told."
    assert "no data were inferred" in Verdict().sentence


def test_names_are_listed_in_words():
    assert listed([1, 2, 3]) == "1, 2 and 3"


# ---- how many records ----


@pytest.mark.statistical
@pytest.mark.parametrize("domain", [Box([0, 0], [1, 1]), L1Ball([0, 0], [1, 1])])
@pytest.mark.parametrize("kind", [KMeans(n_clusters=2, n_rounds=2), GridKMeans(n_clusters=2)])
def test_the_number_of_records_is_unbiased_and_its_interval_holds(domain, kind):
    x = np.random.default_rng(1).uniform(size=(700, 2))
    found = []
    for seed in range(120):
        transcript = release(kind, x, domain=domain, epsilon=1, noise="simulated", random_state=seed)
        found.append(records_of(transcript.context, transcript.rounds))
    errors = np.array([(f.estimate - 700) / f.deviation for f in found])
    assert abs(errors.mean()) < 5 / np.sqrt(len(errors))
    misses = sum(not f.low <= 700 <= f.high for f in found)
    assert not rare(misses, len(found), 0.11)
    # The other half: an estimate that is off by two deviations would be seen.
    assert rare(sum(not f.low <= 700 + 2 * f.deviation <= f.high for f in found), len(found), 0.11)


def test_the_total_of_inference_is_that_estimate(model):
    context, rounds = model.transcript_.context, model.transcript_.rounds
    assert total_of(context, rounds) == records_of(context, rounds).estimate
    assert total_of(context, ()) == 1000.0
    assert records_of(context, ()) is None


@pytest.mark.parametrize(
    ("estimate", "deviation", "sentence"),
    [
        (42_913.0, 180.0, "rests on about 42,900 records (42,600 to 43,200)"),
        (1_234_567.0, 12_000.0, "rests on about 1,230,000 records (1,210,000 to 1,250,000)"),
        (51.0, 0.2, "rests on about 51 records (51 to 51)"),
        (-40.0, 20.0, "rests on a number of records that cannot be told from none (0 to 0)"),
    ],
)
def test_the_number_of_records_in_words(estimate, deviation, sentence):
    assert RecordCount(estimate=estimate, deviation=deviation).sentence == sentence


# ---- chance ----


@pytest.mark.statistical
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("n", [1, 3, 40])
def test_chance_is_not_understated(law, n):
    rng, draws = np.random.default_rng(n), 20_000
    scales = np.geomspace(0.1, 3.0, n)[:, None] * np.ones(draws)
    noise = rng.laplace(size=(n, draws)) if law == "laplace" else rng.normal(size=(n, draws))
    for chance in (log_probability_of_sum, log_probability_of_size):
        found = chance(noise * scales, scales, law)
        assert (found <= 0).all()
        for level in (0.1, 0.01, 0.001):
            assert not rare(int((found < np.log(level)).sum()), draws, level)
            # The other half: noise that is half as large again as was claimed would be seen.
            if level == 0.01:
                grown = chance(1.5 * noise * scales, scales, law)
                bound = chance is log_probability_of_sum and law == "laplace" and n > 1  # which leaves room
                assert bound or rare(int((grown < np.log(level)).sum()), draws, level)


# ---- rounds held against inferred data ----


@pytest.fixture(scope="module")
def explained(model):
    """Answers of the inferred data themselves: with fresh noise, these data explain them by construction."""
    points = model.transcript_.context.domain.to_unit(model.inferred_.points)
    return [expected_answer(r, points, model.inferred_.weights) for r in model.transcript_.rounds]


def simulated(model, exact, rng):
    rounds = [r.simulated(e, rng) for r, e in zip(model.transcript_.rounds, exact, strict=True)]
    return replace(model.transcript_, rounds=tuple(rounds))


@pytest.mark.statistical
def test_what_is_explained_is_good_and_a_planted_error_is_named(model, explained):
    rng, n = np.random.default_rng(0), 120
    alarms = 0
    for _ in range(n):
        verdict = judge(simulated(model, explained, rng), model.inferred_, model.cluster_centers_)
        alarms += not verdict.good
    assert not rare(alarms, n, 0.01)
    # The other half: all points of one cluster are 4 years older than what was measured.
    inferred = model.inferred_
    nearest = model.predict(pd.DataFrame(inferred.points, columns=list(BOUNDS)))
    moved = np.where((nearest == 1)[:, None], np.add(inferred.points, (4.0, 0.0)), inferred.points)
    wrong = replace(inferred, points=moved, verdict=None)
    for _ in range(5):
        verdict = judge(simulated(model, explained, rng), wrong, model.cluster_centers_)
        assert verdict.columns == ("age",)
        assert verdict.clusters == (1,)
        (reason,) = verdict.reasons
        assert reason.kind == "column"
        assert abs(reason.numbers["inferred"] - reason.numbers["measured"] - 4) < 0.5
        assert "age: the rounds measured " in verdict.sentence
        assert "in cluster 1" in verdict.sentence


def test_records_that_are_missing_in_a_cluster_are_named(model):
    inferred = model.inferred_
    nearest = model.predict(pd.DataFrame(inferred.points, columns=list(BOUNDS)))
    weights = np.where(nearest == 2, 0.5 * inferred.weights, inferred.weights)
    found = judge(model.transcript_, replace(inferred, weights=weights), model.cluster_centers_)
    sizes = [reason for reason in found.reasons if reason.kind == "size"]
    assert [reason.clusters for reason in sizes] == [(2,)]
    measured = sizes[0].numbers["measured"]
    assert measured == pytest.approx(2000, rel=0.05)
    assert f"cluster 2: about {measured:,.0f} records were counted" in sizes[0].sentence


def test_what_is_certain_and_small_is_noted_only():
    strong = fitted(people(), epsilon=1000.0)
    moved = np.add(strong.inferred_.points, (0.05, 0.0))  # a hundredth of a cluster's spread
    found = judge(strong.transcript_, replace(strong.inferred_, points=moved), strong.cluster_centers_)
    assert found.good
    assert any("age" in note.columns and "by too little to matter" in note.sentence for note in found.notes)


def test_a_round_that_came_as_a_surprise_is_noted(model, explained):
    last = len(explained) - 1
    none = judge(model.transcript_, model.inferred_, predictions={last: explained[last]})
    assert none.notes == model.inferred_.verdict.notes
    k = model.transcript_.rounds[last].query.n_cells
    shifted = explained[last].copy()
    shifted[k::2] += 0.2 * explained[last][:k]  # a tenth of the bounds of the first column
    found = judge(model.transcript_, model.inferred_, predictions={last: shifted})
    assert found.good
    (note,) = [note for note in found.notes if note.kind == "prediction"]
    assert note.columns == ("age",)
    assert f"round {last + 1} was not foreseen" in note.sentence


def test_the_last_round_of_an_adaptive_release_is_predicted_from_those_before(model, explained):
    """Planted: a last round that measured ages a tenth of their bounds higher than all rounds before it."""
    transcript, rng = model.transcript_, np.random.default_rng(0)
    *before, last = transcript.rounds
    k, expected = last.query.n_cells, explained[-1]
    shift = np.zeros_like(expected)
    shift[k::2] = 0.2 * expected[:k]
    for answer, surprised in ((expected, False), (expected + shift, True)):
        rounds = (*before, last.simulated(answer, rng))
        found = judge(replace(transcript, rounds=rounds), model.inferred_, model.cluster_centers_)
        assert any(note.kind == "prediction" and "age" in note.columns for note in found.notes) == surprised
    assert "explain every round" in model.verdict_.sentence
    again = tuple(
        answered.simulated(answer, rng) for answered, answer in zip(transcript.rounds, explained, strict=True)
    )
    assert predicted_last_round(evidence_of([transcript, replace(transcript, rounds=again)])) == {}
    assert predicted_last_round(evidence_of(replace(transcript, rounds=transcript.rounds[:2]))) == {}


def test_columns_without_names_and_cells_without_centres():
    x = people() / (100, 1000)
    transcript = release(KMeans(n_clusters=3), x, domain=Box([0, 0], [1, 1]), epsilon=5, noise="simulated")
    inferred = infer(transcript, random_state=0, warn=False)
    found = judge(transcript, replace(inferred, points=np.clip(np.add(inferred.points, (0, 0.1)), 0, 1)))
    assert 1 in found.columns
    assert "column 1: the rounds measured" in found.sentence
    assert " of round 5, the inferred data say " in found.sentence


@pytest.mark.parametrize("method", ["maxent", "mcmc", "consistency"])
def test_every_method_is_judged(method):
    transcript = release(
        KMeans(n_clusters=3), people(), domain=Box([0, 0], [100, 1000]), epsilon=2, noise="simulated", random_state=0
    )
    inferred = infer(transcript, method, random_state=0, n_steps=20_000, warn=False)
    assert inferred.verdict.n_rounds == (1 if method == "consistency" else 5)
    assert inferred.verdict.records.low < 6000 < inferred.verdict.records.high


def test_several_transcripts_are_judged_together():
    domain, noise = Box([0, 0], [100, 1000]), {"noise": "simulated", "random_state": 0}
    both = [
        release(kind, people(), domain=domain, epsilon=1, **noise)
        for kind in (KMeans(n_clusters=3), GridKMeans(n_clusters=3))
    ]
    inferred = infer(both, random_state=0)
    assert inferred.verdict.good
    assert inferred.verdict.n_rounds == sum(len(transcript.rounds) for transcript in both)
    alone = records_of(both[0].context, both[0].rounds)
    assert inferred.verdict.records.deviation < alone.deviation


# ---- what is wrong with the input ----


def test_a_good_table_is_silent_and_rests_on_its_records(model):
    assert model.verdict_.good
    assert model.inferred_.verdict.good
    assert model.doubtful_ == []
    assert model.verdict_.records.low < 6000 < model.verdict_.records.high


@pytest.mark.parametrize("records", ["text", "empty", "missing"])
def test_nothing_to_read_is_said_by_fit_and_cluster(records, tmp_path):
    path = tmp_path / "t.csv"
    rows = {"text": ["old,many"] * 3000, "empty": [], "missing": ["NA,"] * 3000}[records]
    path.write_text("\n".join(["age,points", *rows]) + "\n")
    with pytest.warns(DoubtfulResult, match="cannot be told from those of an empty table") as caught:
        found = fitted(str(path))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert np.isfinite(found.cluster_centers_).all()
    assert found.verdict_.reasons[0].kind == "records"
    words = ["cluster", str(path), "-k", "3", "--epsilon", "1", "--bounds", "age=0:100,points=0:1000"]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0
    assert "Doubtful: the released counts cannot be told from those of an empty table" in answer.stderr
    assert "cannot be told from none" in answer.stderr
    assert "Warning" not in answer.stderr
    # A table that is kept without its notes says so too; and that inference has begun is said in every run.
    assert answer.stdout.splitlines()[0] == "3 private centres (doubtful)"
    assert "inferring" not in answer.stderr  # progress is for terminals


@pytest.mark.parametrize("postprocess", ["auto", "none"])
def test_far_from_the_declared_number_of_records(postprocess):
    with pytest.warns(DoubtfulResult, match="and 50,000 were declared") as caught:
        far = fitted(people(), n_records=50_000, postprocess=postprocess)
    assert [reason.kind for reason in far.verdict_.reasons] == ["declared"]
    assert str(caught[0].message).count("ests on about") == 1
    assert far.verdict_.in_words == far.verdict_.sentence
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted(people(), n_records=5_000, postprocess=postprocess).verdict_.good


def test_clusters_that_may_be_noise_are_named():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal((20, 200), (3, 30), size=(3000, 2)), np.full((3, 2), (95.0, 990.0))])
    found = fitted(x, n_clusters=6, epsilon=0.1)
    assert set(found.doubtful_) == {k for r in found.verdict_.reasons if r.kind == "clusters" for k in r.clusters}


# ---- who says it ----


def test_infer_warns_once_and_only_where_asked():
    domain = Box([0, 0], [100, 1000])
    transcript = release(KMeans(n_clusters=3), np.empty((0, 2)), domain=domain, epsilon=1, noise="simulated")
    with pytest.warns(DoubtfulResult) as caught:
        infer(transcript, random_state=0)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert infer(transcript, random_state=0, warn=False).verdict.status == "doubtful"


@pytest.mark.filterwarnings("ignore::recoup.errors.PostprocessDeclined")
@pytest.mark.parametrize(
    "estimator",
    [
        recoup.PrivateGaussianMixture(2, bounds=(0, 1), noise="simulated", random_state=0, epsilon=4),
        recoup.PrivatePCA(1, bounds=(0, 1), noise="simulated", random_state=0, epsilon=4),
        recoup.PrivatePCA(1, bounds=(0, 1), algorithm="power", noise="simulated", random_state=0, epsilon=4),
        recoup.PrivateLogisticRegression(bounds=(0, 1), noise="simulated", random_state=0, epsilon=4),
    ],
)
def test_other_estimators_have_a_verdict(estimator):
    rng = np.random.default_rng(0)
    x = np.clip(rng.normal([[0.3, 0.6]], 0.15, size=(8000, 2)), 0, 1)
    y = (x[:, 0] + 0.1 * rng.normal(size=len(x)) > 0.3).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DoubtfulResult)
        found = estimator.fit(x, y)
    assert found.verdict_.good
    assert abs(found.verdict_.records.estimate - 8000) < 5 * found.verdict_.records.deviation
    if found.inferred_ is not None:
        assert found.inferred_.verdict is found.verdict_
    with pytest.warns(DoubtfulResult, match="empty table"):
        estimator.fit(np.full((8000, 2), np.nan), y)


def test_what_leaves_no_transcript_has_no_verdict():
    found = fitted(people(600), algorithm="privgene")
    assert found.verdict_ is None
    assert found.doubtful_ == []


def test_a_file_has_no_verdict_and_the_transcript_gives_it_again(model, tmp_path):
    model.inferred_.save(tmp_path / "i.parquet")
    loaded = InferredDataset.load(tmp_path / "i.parquet")
    assert loaded.verdict is None
    again, first = judge(model.transcript_, loaded), model.inferred_.verdict
    assert (again.status, again.records) == (first.status, first.records)


def test_commands_print_it_and_put_it_into_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savetxt("t.csv", people(), delimiter=",", header="age,points", comments="")
    given = ["-k", "3", "--epsilon", "1", "--bounds", "age=0:100,points=0:1000", "--seed", "0", "--simulated-noise"]
    for words in (["cluster", "t.csv", *given, "-o", "out"], ["infer", "out/transcript.json"]):
        answer = CliRunner().invoke(app, [*words, "--json"])
        value = json.loads(answer.stdout)
        assert value["verdict"]["status"] == "good"
        assert value["records"]["low"] < 6000 < value["records"]["high"]
        assert f"{value['verdict']['sentence']} R{value['records']['sentence'][1:]}." in answer.stderr


@pytest.mark.parametrize("wrong", [False, True])
def test_the_page_says_it_at_its_top(model, tmp_path, wrong):
    inferred = model.inferred_
    if wrong:
        inferred = replace(inferred, points=np.clip(np.add(inferred.points, (10.0, 0.0)), 0, (100, 1000)))
    facts = write_report(tmp_path / "r.html", model.transcript_, model.cluster_centers_, inferred, level=None)
    page = (tmp_path / "r.html").read_text()
    assert facts["verdict"]["status"] == ("doubtful" if wrong else "good")
    said = page.index('class="callout verdict doubtful" role="alert"' if wrong else 'class="callout verdict"')
    assert page.index("<h1") < said < page.index('id="overview"')
    assert page.index("Rests on about 6,0") > said
    assert ("age: the rounds measured" in page) == wrong
