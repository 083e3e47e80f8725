"""A result beside k-means without privacy: right, read as the release was, and NOT PRIVATE wherever it is shown."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from commands import one_line, run
from sklearn.cluster import KMeans as ExactKMeans

from recoup import Box, KMeans, Ledger, Number, PrivateKMeans, Schema, Transcript, refit, release
from recoup.demo import csv_of, people
from recoup.errors import DataError, ParameterError
from recoup.without_privacy import compare_with_exact, loss_of, picture_of

TABLE = people(0, 300)
BOUNDS = "age=17:90,hours=1:99"
BOX = Box(TABLE.low, TABLE.high, TABLE.columns)
pytestmark = pytest.mark.usefixtures("few_points")


def brute_force_loss(unit: np.ndarray, centers: np.ndarray) -> float:
    return sum(min(sum((a - b) ** 2 for a, b in zip(row, center, strict=True)) for center in centers) for row in unit)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)
    Path("people.csv").write_text(csv_of(TABLE))
    Ledger.create("budget.db", epsilon=9)
    more = ("--rounds", "2", "--ledger", "budget.db", "-o", "out/transcript.json")
    assert run("release", "people.csv", "-k", "3", "--epsilon", "5", "--bounds", BOUNDS, *more).exit_code == 0
    return tmp_path


def test_losses_and_agreement_are_those_of_the_records(folder: Path) -> None:
    transcript = Transcript.load("out/transcript.json")
    centers = refit(transcript)
    found = compare_with_exact(transcript, "people.csv", centers)
    unit = BOX.to_unit(TABLE.rows)
    assert found.records == pytest.approx(unit, abs=2**-29)
    assert found.private_loss == pytest.approx(brute_force_loss(unit, BOX.to_unit(centers)))
    assert found.exact_loss == pytest.approx(ExactKMeans(3, n_init=10, random_state=0).fit(unit).inertia_, rel=1e-6)
    assert found.ratio == found.private_loss / found.exact_loss >= 1.0
    own = compare_with_exact(transcript, "people.csv", found.exact_centers)
    assert (own.ratio, own.adjusted_rand) == (pytest.approx(1.0), 1.0)
    chance = compare_with_exact(transcript, "people.csv", np.array([[53.0, 1.0], [53.0, 50.0], [53.0, 99.0]]))
    assert chance.adjusted_rand < 0.6
    assert loss_of(unit, BOX.to_unit(centers)) == pytest.approx(brute_force_loss(unit, BOX.to_unit(centers)))


def test_records_are_clipped_dropped_and_put_together_as_the_release_did() -> None:
    schema = Schema({"x": Number(0, 10)})
    rows = {"x": [1.0, 3.0, 99.0, None, 5.0], "who": ["a", "a", "b", "b", None]}
    import pyarrow as pa

    given = {"n_clusters": 2, "epsilon": 9, "bounds": schema, "postprocess": "none", "algorithm": "lloyd"}
    plain = PrivateKMeans(**given).fit(pa.table(rows))
    found = compare_with_exact(plain.transcript_, pa.table(rows), plain.cluster_centers_)
    assert np.sort(found.records[:, 0]) == pytest.approx([-0.8, -0.4, 0.0, 1.0], abs=1e-6)
    persons = PrivateKMeans(**given, person="who").fit(pa.table(rows))
    found = compare_with_exact(persons.transcript_, pa.table(rows), persons.cluster_centers_)
    assert np.sort(found.records[:, 0]) == pytest.approx([-0.6, 1.0], abs=1e-6)


@pytest.mark.parametrize("n_columns", [1, 2, 4])
def test_the_picture_says_what_it_is(n_columns: int) -> None:
    x = np.random.default_rng(0).uniform(size=(60, n_columns))
    box = Box([0] * n_columns, [1] * n_columns)
    transcript = release(KMeans(n_clusters=2, n_rounds=1), x, domain=box, epsilon=5)
    figure = picture_of(compare_with_exact(transcript, x, refit(transcript)), box)
    assert "NOT PRIVATE" in figure.axes[0].get_title()
    assert {text.get_text() for text in figure.axes[0].get_legend().get_texts()} == {
        "private",
        "k-means without privacy",
    }


def test_what_cannot_be_compared_is_refused() -> None:
    x = np.random.default_rng(0).uniform(size=(60, 2))
    transcript = release(KMeans(n_clusters=3, n_rounds=1), x, domain=Box([0, 0], [1, 1]), epsilon=5)
    with pytest.raises(DataError, match=r"NOT PRIVATE: .*fewer records than clusters"):
        compare_with_exact(transcript, x[:2], refit(transcript))

    class Totals:
        def total(self, query: object, factors: object) -> list[int]:
            raise AssertionError

    with pytest.raises(ParameterError, match="reads the records themselves"):
        compare_with_exact(transcript, Totals(), refit(transcript))


# ---- the command ----


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_command_is_marked_everywhere_and_touches_nothing_else(folder: Path, ending: str) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    answer = run("compare", "people.csv", "out/transcript.json", "-o", f"c.{ending}", "--method", "none")
    assert answer.exit_code == 0, answer.stderr
    assert "NOT PRIVATE" in answer.stdout
    assert "must not be published" in answer.stderr
    assert "No ledger was charged" in answer.stderr
    assert {path for path in folder.rglob("*") if path.is_file()} - set(before) == {folder / f"c-NOT-PRIVATE.{ending}"}
    assert all(path.read_bytes() == content for path, content in before.items())
    picture = (folder / f"c-NOT-PRIVATE.{ending}").read_bytes()
    assert picture.startswith(b"\x89PNG" if ending == "png" else b"<?xml")
    value = json.loads(run("compare", "people.csv", "out/transcript.json", "-o", f"d.{ending}", "--json").stdout)
    assert value["statement"].startswith("NOT PRIVATE")
    assert value["files"] == [f"d-NOT-PRIVATE.{ending}"]
    assert value["ratio"] == pytest.approx(value["private"]["loss"] / value["exact"]["loss"])


def test_nothing_is_written_over(folder: Path) -> None:
    Path("c-NOT-PRIVATE.png").write_text("mine")
    for wrong in ("c.png", "out/transcript.json", "c.pdf"):
        answer = run("compare", "people.csv", "out/transcript.json", "-o", wrong)
        assert answer.exit_code == 2
        assert "-o" in one_line(answer)
    assert Path("c-NOT-PRIVATE.png").read_text() == "mine"
    Transcript.load("out/transcript.json")


@pytest.mark.parametrize("rows", ["", "30,20\n", "30,20\n" * 20])
def test_few_or_equal_records_end_in_words_and_without_a_warning(folder: Path, rows: str) -> None:
    Path("few.csv").write_text(f"age,hours\n{rows}")
    told = run("compare", "few.csv", "out/transcript.json", "--method", "none")
    assert "internal error" not in told.output
    assert "Warning" not in told.output
    assert "NOT PRIVATE" in told.output
    assert "inf" not in told.output.split()
