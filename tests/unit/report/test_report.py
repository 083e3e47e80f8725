"""The report says what the transcript says, for every kind of transcript, and nothing that it does not say."""

from __future__ import annotations

import base64
import dataclasses
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from html_page import Page, faults

from recoup import InferredDataset, PrivateKMeans, Transcript, infer, refit
from recoup.domain import Box
from recoup.errors import ParameterError
from recoup.maxent.sizes import Clusters, WeightedPoints
from recoup.mixed import Mixed
from recoup.report.html import count, element, figure, in_units, noise_on_scale, settled, share
from recoup.report.sections import clusters, fit, picture, privacy
from recoup.report.sections.answer import Result, result_of
from recoup.report.sections.picture import evenly_chosen, matched, positions, shades
from recoup.report.sections.privacy import best_guess
from recoup.report.write import model_content, render, report_content, without_picture, write_report
from recoup.schema import Number, Schema
from recoup.transcript.context import Context

GOLDEN = Path(__file__).parents[2] / "golden"
LARGEST_PAGE = 3_000_000  # bytes
HOSTILE = ("</script><script>alert(1)</script>", "a\"&'<b>\u2028$title", "<!--x")


def is_shown(value, page):
    """Whether a page shows a number, with one to four digits behind the point."""
    return any(settled(value, 10.0**-places) in page.words for places in (1, 2, 3, 4))


def table(d=2, k=3, n=800, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.uniform(0.2, 0.8, size=(k, d))
    return np.clip(rng.normal(centers[rng.integers(k, size=n)], 0.05), 0, 1) * 10


def fitted(d=2, k=3, n=800, columns=None, **choices):
    x = table(d, k, n)
    bounds = (0, 10) if columns is None else dict.fromkeys(columns, (0, 10))
    data = x if columns is None else pa.table(dict(zip(columns, x.T, strict=True)))
    choices = {"epsilon": 2, "noise": "simulated", "random_state": 0} | choices
    return PrivateKMeans(k, bounds=bounds, **choices).fit(data)


def content_of(model, **choices):
    choices = {"level": None} | choices
    return report_content(model.transcript_, model.cluster_centers_, model.inferred_, **choices)


def fit_of(result):
    return fit.content(result.transcript, result.population if result.inferred is None else result.inferred)


KINDS = {
    "adaptive": {},
    "adaptive, one column": {"d": 1},
    "adaptive, four columns": {"d": 4, "n": 2000},
    "adaptive, one cluster": {"k": 1},
    "adaptive, Gaussian noise": {"delta": 1e-6},
    "adaptive, without inference": {"postprocess": "none"},
    "lloyd, maxent": {"algorithm": "lloyd"},
    "lloyd, mcmc": {"algorithm": "lloyd", "postprocess": "mcmc"},
    "lloyd, consistency": {"algorithm": "lloyd", "postprocess": "consistency"},
    "lloyd, none": {"algorithm": "lloyd", "postprocess": "none"},
    "lloyd, many rounds": {"algorithm": "lloyd", "n_rounds": 15, "k": 2},
    "grid": {"algorithm": "grid"},
    "grid, none": {"algorithm": "grid", "postprocess": "none"},
    "hybrid": {"algorithm": "hybrid", "d": 3},
}


@pytest.mark.parametrize("choices", KINDS.values(), ids=KINDS)
def test_every_kind_of_transcript_has_a_whole_page(choices):
    model = fitted(**choices)
    content = content_of(model)
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    text = render(content)
    assert faults(text) == []
    assert len(text.encode()) < LARGEST_PAGE
    page = Page(text)
    k, d = model.cluster_centers_.shape
    assert len(page.data["labels"]) == k
    assert sorted(page.data["labels"]) == list(range(k))
    for center in model.cluster_centers_:
        assert all(is_shown(value, page) for value in center)
    decoded = unpacked(page.data["after"], d)[np.argsort(page.data["labels"])]
    np.testing.assert_allclose(decoded * 10, model.cluster_centers_, atol=10 / 65535)
    assert ("Did the chains settle?" in page.words) == (choices.get("postprocess") == "mcmc")


def unpacked(text, width):
    return np.frombuffer(base64.b64decode(text), "<u2").reshape(-1, width) / 65535


@pytest.fixture(scope="module")
def adaptive():
    return fitted(columns=("age", "income"))


@pytest.fixture(scope="module")
def with_intervals(adaptive):
    return content_of(adaptive, level=0.9)


# ---- nothing but the transcript ----


def test_the_page_follows_from_transcript_and_result_alone(adaptive, tmp_path):
    adaptive.report(tmp_path / "model.html", intervals=False)
    adaptive.transcript_.save(tmp_path / "transcript.json")
    again = Transcript.load(tmp_path / "transcript.json")
    found = adaptive.cluster_centers_, adaptive.inferred_
    write_report(tmp_path / "again.html", again, *found, level=None, exact=True)
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "model.html").read_bytes()


def test_names_are_words_and_never_markup():
    model = fitted(d=3, columns=HOSTILE)
    text = render(content_of(model, title="<img src=x onerror=alert(2)>"))
    assert faults(text) == []
    page = Page(text)
    assert [attributes.get("type") for attributes, _ in page.scripts] == ["application/json", None]
    assert page.data["columns"] == list(HOSTILE)
    assert not page.named("img")
    assert not page.named("b") or HOSTILE[1].split("<")[0] in page.words
    for name in HOSTILE:
        assert " ".join(name.split()) in page.words


def test_faults_are_found_where_there_are_some(with_intervals):
    text = render(with_intervals)
    assert faults(text) == []
    for broken in (
        text.replace('<html lang="en">', "<html>"),
        text.replace('href="#privacy"', 'href="#nowhere"', 1),
        text.replace("<h3", "<h5", 1).replace("</h3", "</h5", 1),
        text.replace('id="budget"', 'id="fit"'),
        text.replace("RecoupDraw", "RecoupDrow", 1),
        text.replace("</main>", '<img src="https://example.org/x.png" alt="x"></main>'),
        text.replace("</main>", "<p onclick=alert(1)>x</p></main>"),
    ):
        assert faults(broken)


def test_simulated_noise_has_a_banner_and_secure_noise_has_none(with_intervals):
    assert "NOT PRIVATE" in Page(render(with_intervals)).words
    assert "with secure noise" in Page(render(with_intervals)).words.lower()
    secure = Page(render(content_of(fitted(noise="secure", algorithm="lloyd", postprocess="none"))))
    assert "NOT PRIVATE" not in secure.words
    assert not [a for _, a in secure.elements if a.get("role") == "alert"]


def test_data_from_simulated_noise_marks_a_page_that_it_joins():
    model = fitted(noise="secure", algorithm="lloyd")
    other = InferredDataset(
        points=model.inferred_.points, weights=model.inferred_.weights, method="maxent", simulated=True
    )
    content = report_content(model.transcript_, model.cluster_centers_, other, level=None)
    assert not content["private"]
    assert "NOT PRIVATE" in Page(render(content)).words


# ---- the promise ----


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 0.0), (1.0, 0.01), (4.0, 1e-6)])
def test_the_best_guess_is_reached_and_never_beaten(epsilon, delta):
    bound = best_guess(epsilon, delta)
    # Randomised response that keeps the whole promise: with probability delta it tells the truth outright.
    truth = delta + (1 - delta) * np.exp(epsilon) / (1 + np.exp(epsilon))
    assert truth == pytest.approx(bound, rel=1e-12)
    # Every test between two Laplace releases of distance 1, on a fine grid of thresholds.
    at = np.linspace(-20, 20, 20_001)
    right = 0.5 * laplace_cdf(at, 0.0, 1 / epsilon) + 0.5 * (1 - laplace_cdf(at, 1.0, 1 / epsilon))
    assert right.max() <= bound
    assert right.max() > best_guess(0.45 * epsilon)


def laplace_cdf(at, mean, scale):
    z = (at - mean) / scale
    return np.where(z < 0, 0.5 * np.exp(np.minimum(z, 0)), 1 - 0.5 * np.exp(-np.maximum(z, 0)))


def terms(**choices):
    context = Context(domain=Box([0.0], [1.0]), **{"epsilon": 1} | choices)
    return Transcript(context=context, algorithm={}, simulated=False)


def test_the_statement_in_words_and_numbers():
    content = privacy.content(terms(records_per_person=3, n_records=500).privacy, n_records=500)
    numbers = {row["name"]: row["value"] for row in content["numbers"]}
    assert (numbers["epsilon"], numbers["delta"], numbers["unit"]) == ("1", "0", "3 records of one person")
    assert numbers["declared records"] == "500"
    assert "73 times in 100" in content["words"][0]
    assert "3 records of one person" in content["words"][0]
    titles = {row["title"] for row in content["not_covered"]}
    assert {"Bounds taken from the data", "Other releases", "Exact helpers", "Time and machines"} <= titles
    assert "People with more than 3 records" in titles
    approximate = privacy.content(terms(delta=1e-6, mechanism="gaussian").privacy)
    assert "1e-06" in approximate["words"][1]
    assert "nearly every time" in privacy.content(terms(epsilon=50).privacy)["words"][0]


# ---- the sections ----


def test_the_budget_adds_up_and_a_lost_round_is_told():
    transcript = Transcript.load(GOLDEN / "every-query-v1.json")
    content = privacy.budget_content(transcript)
    assert content["measure"] == "rho"
    answered = sum(row["price"] for row in content["rounds"])
    assert answered + content["lost"] == pytest.approx(float(transcript.amount_spent))
    for row in content["rounds"]:
        assert sum(part["price"] for part in row["parts"]) == pytest.approx(row["price"])
    assert [row["kind"] for row in content["rounds"]] == ["counts", "sums", "sums", "grid", "marginals", "marginals"]
    centers = np.array([[-0.5, 1.0], [0.5, 3.0]])
    text = render(report_content(transcript, centers, level=None))
    assert faults(text) == []
    assert "lost in an interruption" in Page(text).words


def test_the_steps_end_at_the_result_and_follow_the_iterates():
    model = fitted(algorithm="lloyd", postprocess="maxent")
    transcript, domain = model.transcript_, model.transcript_.context.domain
    result = result_of(transcript, model.cluster_centers_, model.inferred_, level=None)
    content = picture.content(result)
    assert [step["round"] for step in content["steps"]] == [1, 2, 3, 4, 5]
    last = unpacked(content["before"], 2)
    expected = matched(domain.to_unit(refit(transcript)), domain.to_unit(model.cluster_centers_))
    np.testing.assert_allclose(last * 2 - 1, expected[result.shown_clusters], atol=1e-4)
    asked = unpacked(content["steps"][2]["asked"]["points"], 2)
    np.testing.assert_allclose(asked * 2 - 1, transcript.rounds[2].query.centers, atol=1e-4)
    assert 0 < content["gain"]["ratio"] <= 1


def test_a_grid_answer_is_added_up_over_the_columns_that_are_not_shown():
    model = fitted(algorithm="grid", d=3)
    answered = next(r for r in model.transcript_.rounds if r.query.type_name == "grid")
    content = picture.content(result_of(model.transcript_, model.cluster_centers_, model.inferred_, level=None))
    asked = next(step["asked"] for step in content["steps"] if step["asked"]["kind"] == "grid")
    pair = asked["pairs"]["0,2"]
    sides = answered.query.sides
    flat = np.maximum(answered.noisy.reshape(sides).sum(axis=1), 0).T
    drawn = np.frombuffer(base64.b64decode(pair["values"]), np.uint8).reshape(pair["ny"], pair["nx"])
    assert drawn.shape == flat.shape
    np.testing.assert_allclose(drawn / 255, flat / flat.max(), atol=0.5 / 255 + 1e-9)


def test_profiles_of_data_that_is_known():
    # Two clusters around 2 and 8 in the first column, alike in the second.
    points = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0], [8.0, 5.0]])
    weights = np.array([1.0, 1.0, 1.0, 1.0])
    data = InferredDataset(points=points, weights=weights, columns=("a", "b"), method="maxent", simulated=False)
    context = Context(domain=Box([0, 0], [10, 10], ("a", "b")), epsilon=1)
    centers = np.array([[8.0, 5.0], [2.0, 5.0]])
    transcript = Transcript(context=context, algorithm={}, simulated=False)
    unit = context.domain.to_unit(centers)
    result = Result(
        transcript=transcript,
        centers=centers,
        inferred=data,
        population=data,
        intervals=None,
        sizes=Clusters(unit, WeightedPoints(context.domain.to_unit(points), weights)).sizes,
        cells=np.array([1, 1, 1, 0]),
        shown_columns=np.array([0, 1]),
        shown_clusters=np.array([1, 0]),
    )
    content = clusters.content(result)
    large, small = content["clusters"]
    assert (large["label"], large["size"], large["share"]) == (1, 3.0, 0.75)
    assert (small["label"], small["size"]) == (0, 1.0)
    assert content["whole"][0]["mean"] == pytest.approx(3.5, rel=1e-12)
    assert large["rows"][0]["deviation"] == pytest.approx(np.sqrt(2 / 3))
    assert (large["rows"][0]["q10"], large["rows"][0]["q90"]) == (1.0, 3.0)
    assert "a is much higher (8.00 against 3.50 overall)" in small["sentence"]
    assert "b is" not in small["sentence"] + large["sentence"]


def test_a_difference_that_the_interval_does_not_bear_out_is_not_told(adaptive):
    transcript = adaptive.transcript_
    result = result_of(transcript, adaptive.cluster_centers_, adaptive.inferred_, level=0.9)
    told = [row["trait"] for cluster in clusters.content(result)["clusters"] for row in cluster["rows"]]
    assert any(told)
    found = result.intervals
    wide = type(found)(
        level=0.9,
        n_draws=39,
        center_low=np.zeros_like(found.center_low),
        center_high=np.full_like(found.center_high, 10.0),
        size_low=np.zeros_like(found.size_low),
        size_high=found.size_high,
    )
    unsure = clusters.content(dataclasses.replace(result, intervals=wide))
    assert not any(row["trait"] for cluster in unsure["clusters"] for row in cluster["rows"])
    assert all("perhaps none" in cluster["sentence"] for cluster in unsure["clusters"])


def test_withheld_intervals_are_null_with_a_reason_and_not_drawn():
    empty = fitted(n=0)
    content = content_of(empty, level=0.9)
    text = json.dumps(without_picture(content), allow_nan=False)
    assert "NaN" not in text
    found = content["centers"]
    assert all(end == [None, None] for row in found["rows"] for end in (row["low"], row["high"]))
    names = [(k, column) for k in range(3) for column in found["columns"]]
    assert [(one["cluster"], one["column"]) for one in found["withheld"]] == names
    page = Page(render(content))
    reason = "the released counts cannot be told from those of an empty table"
    assert f"Intervals that are not given (withheld). Clusters 0, 1 and 2, all columns: {reason}." in page.words
    assert "(withheld)" in page.words
    assert page.data["interval"]["low"] == page.data["interval"]["high"] == page.data["after"]
    # What no interval bears out is not told to colleagues.
    assert not any(row["trait"] for cluster in content["profiles"]["clusters"] for row in cluster["rows"])


def test_a_data_set_that_explains_nothing_is_told_apart(adaptive):
    result = result_of(adaptive.transcript_, adaptive.cluster_centers_, adaptive.inferred_, level=None)
    assert not [row for row in fit_of(result)["rows"] if row["verdict"] == "above"]
    moved = InferredDataset(
        points=10.0 - adaptive.inferred_.points, weights=adaptive.inferred_.weights, method="maxent", simulated=True
    )
    wrong = fit_of(result_of(adaptive.transcript_, adaptive.cluster_centers_, moved, level=None))
    assert [row for row in wrong["rows"] if row["verdict"] == "above"]
    content = report_content(adaptive.transcript_, adaptive.cluster_centers_, moved, level=None)
    assert "not explained well" in Page(render(content)).words


def test_intervals_and_the_curve_are_on_the_page(adaptive, with_intervals):
    page = Page(render(with_intervals))
    found = with_intervals["choice"]
    assert found["chosen"] == 3
    assert found["n_clusters"] == list(range(1, 9))
    assert found["loss"][0] == 1.0
    assert (found["suggested"], found["outcome"]) == (3, "conclusive")
    assert f"{found['sentence']} 3 were asked for." in page.words
    assert all(low <= loss <= high for low, loss, high in zip(found["low"], found["loss"], found["high"], strict=True))
    assert "90% interval" in page.words
    assert page.data["interval"]["level"] == 0.9
    low, high = (unpacked(page.data["interval"][end], 2) for end in ("low", "high"))
    assert (low <= high).all()
    for cluster in with_intervals["profiles"]["clusters"]:
        assert cluster["size_low"] <= cluster["size"] <= cluster["size_high"]
        assert count(*(cluster[name] for name in ("size", "size_low", "size_high"))) in page.words


@pytest.mark.parametrize(
    ("suggested", "outcome", "mark"),
    [(8, "at least", "at least 8"), (1, "not conclusive", None), (5, "conclusive", "suggested: 5")],
)
def test_a_suggestion_is_shown_for_what_it_is(with_intervals, suggested, outcome, mark):
    words = {"suggested": suggested, "outcome": outcome, "sentence": "What it is."}
    text = render(with_intervals | {"choice": with_intervals["choice"] | words})
    page = Page(text)
    assert "What it is. 3 were asked for." in page.words
    assert ("dot suggested" in text) == (mark is not None)
    assert mark is None or mark in page.words


def test_chains_are_shown_with_their_diagnostics():
    model = fitted(algorithm="lloyd", postprocess="none", n=300)
    data = infer(model.transcript_, "mcmc", random_state=0, n_steps=2000, n_chains=2)
    content = report_content(model.transcript_, refit(model.transcript_, data, random_state=0), data, level=None)
    chains = content["fit"]["chains"]
    assert len(chains["traces"]) == len(chains["acceptance"]) == 2
    assert chains["r_hat"] == data.diagnostics.r_hat
    page = Page(render(content))
    assert f"R-hat {data.diagnostics.r_hat:.2f}" in page.words
    assert len(page.named("polyline")) == 2 + 1


def test_a_rival_without_a_transcript_has_a_short_page(tmp_path):
    x = table(n=2000)
    model = PrivateKMeans(2, 1.0, (0, 10), algorithm="gupt", random_state=0).fit(x)
    model.report(tmp_path / "gupt.html", title="A rival")
    text = (tmp_path / "gupt.html").read_text()
    assert faults(text) == []
    page = Page(text)
    assert "What is not covered" in page.words
    assert "no transcript" in page.words
    assert is_shown(model.cluster_centers_[0, 0], page)
    assert not page.named("canvas")


# ---- size ----


def test_many_clusters_and_columns_stay_within_the_size(monkeypatch):
    monkeypatch.setattr("recoup.report.sections.picture._STEP_RESTARTS", 1)
    rng = np.random.default_rng(0)
    d, k = 60, 150
    transcript = Transcript.load(GOLDEN / "lloyd-v1.json")
    domain = Box([0.0] * d, [1.0] * d, tuple(f"a column with a rather long name, number {j}" for j in range(d)))
    points = rng.uniform(size=(4000, d))
    data = InferredDataset(points=points, weights=np.ones(4000), method="maxent", simulated=True)
    query = type(transcript.rounds[0].query)(centers=rng.uniform(-1, 1, size=(k, d)), sums="none")
    context = Context(domain=domain, epsilon=1)
    answered = type(transcript.rounds[0]).of(
        context, query=query, integers=(2**40,) * k, weights=(2**30,), scale=2.0**30,
        price=transcript.rounds[0].price, share=transcript.rounds[0].share,
    )  # fmt: skip
    algorithm = {"type": "kmeans-adaptive", "n_clusters": k}
    wide = Transcript(context=context, algorithm=algorithm, rounds=(answered,), simulated=True)
    centers = points[:k]
    result = result_of(wide, centers, data, level=None)
    content = picture.content(result)
    assert (len(content["columns"]), len(content["labels"])) == (40, 100)
    whole = model_content(wide.privacy, centers, algorithm="x") | {
        "map": content,
        "profiles": clusters.content(result),
        "centers": clusters.centers_content(result),
        "fit": fit_of(result),
    }
    text = render(whole)
    assert faults(text) == []
    assert len(text.encode()) < LARGEST_PAGE
    assert "100 largest of 150 clusters" in Page(text).words


# ---- small parts ----


def test_numbers_keep_the_digits_that_matter():
    assert [in_units(v, 5000.0) for v in (0.4, -0.4, 1234567.0)] == ["0", "0", "1,235,000"]
    assert [in_units(v, 0.3, "EUR") for v in (-12.34, 0.04)] == ["\N{MINUS SIGN}12.3 EUR", "0.0 EUR"]
    assert in_units(1e-9, 1e-9) == "1e-09"
    assert (count(-3.0), count(1e6), count(1234.0)) == ("0", "1,000,000", "1,230")
    assert count(252.0, 239.0, 265.0) == "252 (239 to 265)"
    log = Mixed(schema=Schema({"charges": Number(1, 1e6, scale="log")}))
    shown = [in_units(v, noise_on_scale(log, 0, v)) for v in (1.234, 252.4, 16369.0, 999_999.0)]
    assert shown == ["1.23", "250", "16,400", "1,000,000"]  # three digits or so, whatever the size
    assert [figure(v) for v in (0.0, 1.0, 0.0325, 1234.5, -2.5)] == ["0", "1", "0.0325", "1,234", "−2.5"]
    assert [share(v) for v in (0.0, 0.5, 0.999)] == ["0%", "50%", "100%"]


def test_markup_escapes_text_and_attributes():
    assert element("a", "<", title='"', hidden=False) == '<a title="&quot;">&lt;</a>'
    assert element("input", checked=True) == "<input checked>"


def test_positions_and_levels_come_back():
    unit = np.random.default_rng(0).uniform(-1, 1, size=(7, 3))
    np.testing.assert_allclose(unpacked(positions(unit), 3) * 2 - 1, unit, atol=2 / 65535)
    assert base64.b64decode(shades(np.zeros(2))) == b"\x00\x00"
    weights = np.array([0.1, 0.0, 0.7, 0.2])
    counts = np.bincount(evenly_chosen(weights, 1000), minlength=4)
    assert counts.tolist() == [100, 0, 700, 200]


def test_centres_are_matched_all_together():
    target = np.array([[0.0], [1.0], [2.0]])
    assert matched(np.array([[1.4], [2.6], [0.6]]), target).ravel().tolist() == [0.6, 1.4, 2.6]


def test_what_does_not_belong_together_is_refused(adaptive):
    empty = Transcript(context=adaptive.transcript_.context, algorithm=adaptive.transcript_.algorithm, simulated=True)
    with pytest.raises(ParameterError, match="no rounds"):
        report_content(empty, adaptive.cluster_centers_)
    with pytest.raises(ParameterError, match="shape"):
        report_content(adaptive.transcript_, np.zeros((2, 5)))
    other = InferredDataset(points=np.zeros((3, 5)), weights=np.ones(3), method="maxent", simulated=True)
    with pytest.raises(ParameterError, match="do not belong together"):
        report_content(adaptive.transcript_, adaptive.cluster_centers_, other)
