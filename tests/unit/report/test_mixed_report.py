"""What a report says of declared columns: units once, categories in percent, means of what is not missing."""

import numpy as np
import pyarrow as pa
import pytest

import recoup
from recoup.report.sections import clusters, picture
from recoup.report.sections.answer import result_of
from recoup.report.write import write_report

SCHEMA = recoup.Schema(
    {
        "age": recoup.Number(0, 100, unit="years"),
        "charges": recoup.Number(1, 1e5, scale="log", unit="EUR"),
        "lab": recoup.Number(0, 10, missing="own"),
        "ward": recoup.Category(["north", "south", "east"]),
    }
)


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=4000)
    lab = np.where(rng.random(4000) < np.array([0.8, 0.1])[kind], np.nan, np.array([2.0, 8.0])[kind])
    table = pa.table(
        {
            "age": np.array([30.0, 70.0])[kind] + rng.normal(0, 3, 4000),
            "charges": 10 ** (np.array([2.0, 4.0])[kind] + rng.normal(0, 0.1, 4000)),
            "lab": pa.array(lab, from_pandas=True),
            "ward": np.array(["north", "south"])[kind],
        }
    )
    terms = {"domain": SCHEMA, "epsilon": 20, "random_state": 0, "noise": "simulated"}
    transcript = recoup.release(recoup.AdaptiveKMeans(n_clusters=2), table, **terms)
    inferred = recoup.infer(transcript, random_state=0)
    return result_of(transcript, recoup.refit(transcript, inferred, random_state=0), inferred, level=None)


def test_centres_are_in_the_users_units(result):
    by_name = dict(zip(result.columns, result.centers.T, strict=True))
    np.testing.assert_allclose(by_name["age"], [30, 70], atol=1)
    np.testing.assert_allclose(by_name["charges"], [100, 10_000], rtol=0.1)
    np.testing.assert_allclose(by_name["lab"], [2, 8], atol=0.3)  # not drawn to the middle by those without one
    np.testing.assert_allclose(by_name["lab missing"], [0.8, 0.1], atol=0.03)
    np.testing.assert_allclose(by_name["ward=south"], [0, 1], atol=0.02)


def test_sentences_have_units_and_shares(result):
    cards = sorted(clusters.content(result)["clusters"], key=lambda card: card["label"])
    words = " ".join(card["sentence"] for card in cards)
    assert "years against" in words or "EUR against" in words or "frequent" in words
    rows = {row["column"]: row for row in cards[0]["rows"]}
    assert rows["lab"]["q90"] < 5  # of those that have one
    assert rows["ward=south"]["q10"] == rows["ward=south"]["q90"] == rows["ward=south"]["center"]
    whole = {of["column"]: of for of in clusters.content(result)["whole"]}
    assert 5.5 < whole["lab"]["mean"] < 7.5
    assert 800 < whole["charges"]["mean"] < 1_250  # as centres are: the mean of logarithms
    assert (whole["age"]["unit"], whole["ward=east"]["unit"], whole["ward=east"]["axis"]) == ("years", "share", [0, 1])


def test_the_map_is_of_numbers_and_drawn_in_their_units(result):
    steps = picture.content(result)
    assert {steps["columns"][i] for i in steps["pair"]} <= {"age", "charges", "lab"}
    assert steps["high"][steps["columns"].index("charges")] == 1e5
    looks = [step["asked"] for step in steps["steps"] if step["asked"]["kind"] == "marginals"]
    drawn = {steps["columns"][int(place)] for look in looks for place in look["single"]}
    assert drawn == {"age", "charges", "lab"}
    scale = dict(zip(steps["columns"], steps["scale"], strict=True))
    assert scale["age"] is scale["ward=south"] is None
    np.testing.assert_allclose(scale["charges"][32], 10**2.5)  # half-way along the axis


def test_the_page_is_written_with_percentages(result, tmp_path):
    path = tmp_path / "report.html"
    write_report(path, result.transcript, result.centers, result.inferred, level=None, title=None, seed=0)
    page = path.read_text(encoding="utf-8")
    for words in ("2 private clusters in 4 columns", "age (years)", "ward=south", " EUR"):
        assert words in page or words.replace("private ", "") in page, words
    assert "0.37" not in page.split("The clusters")[1][:200]
