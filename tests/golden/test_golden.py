"""Transcripts and ledgers of every version that was ever written load for ever, with exactly these values."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from recoup import Box, Category, L1Ball, L2Ball, Ledger, Number, Transcript, refit
from recoup.privacy.ledger_file import VERSION
from recoup.privacy.statement import Unit
from recoup.transcript.transcript import SCHEMA_VERSION, Payment

FOLDER = Path(__file__).parent


def test_the_current_version_has_golden_files():
    # Only releases of declared columns or of persons have the newest.
    kept = {"lloyd-v3.json", "hybrid-v3.json", "every-query-v4.json", f"persons-v{SCHEMA_VERSION}.json"}
    kept |= {f"ledger-v{VERSION}.db"}
    assert {p.name for p in FOLDER.iterdir()} >= kept


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_golden_file_loads_and_says_that_it_is_not_private(path):
    transcript = Transcript.load(path)
    assert transcript.statement.startswith("NOT PRIVATE")


@pytest.mark.parametrize(
    ("version", "payment"),
    [(1, None), (3, Payment("0123456789abcdef0123456789abcdef", "5f0e4d9c6a7b48f1a2c3d4e5f60718a9"))],
)
def test_lloyd(version, payment):
    transcript = Transcript.load(FOLDER / f"lloyd-v{version}.json")
    assert transcript.payment == payment
    assert transcript.context.domain == Box([0, 0], [50, 10], ("age", "visits"))
    assert (transcript.context.epsilon, transcript.context.delta) == (Fraction(7, 10), 0)
    assert transcript.algorithm == {"type": "kmeans-lloyd", "n_clusters": 2, "n_rounds": 3}
    assert transcript.library_version == "0.1.0"
    assert [r.share for r in transcript.rounds] == [Fraction(1, 3)] * 3
    assert [r.price.amount for r in transcript.rounds] == [Fraction(8406719304424925, 36028797018963968)] * 3
    first = transcript.rounds[0]
    assert first.integers[:3] == (137995842690, 129430458242, -27719603333)
    assert (first.weights, first.scale) == ((2**29, 2**29), 4601750674.285715)
    assert first.noisy[:2].tolist() == [257.0372870005667, 241.08301520720124]
    assert transcript.rounds[2].noisy[-1] == -37.923331674222865
    expected = [[15.710903661226972, 2.4181988836305353], [21.62743381868309, 4.228297517912912]]
    np.testing.assert_allclose(refit(transcript, None), expected, rtol=1e-12)


@pytest.mark.parametrize(("version", "payment"), [(1, None), (3, Payment(None, None))])
def test_hybrid(version, payment):
    transcript = Transcript.load(FOLDER / f"hybrid-v{version}.json")
    assert transcript.payment == payment
    assert transcript.context.domain == L1Ball([0, 0, 0], [50, 10, 2])
    assert transcript.algorithm == {"type": "kmeans-hybrid", "n_clusters": 2}
    assert [(r.query.type_name, r.query.size) for r in transcript.rounds] == [
        ("voronoi", 1),
        ("grid", 27),
        ("voronoi", 8),
    ]
    assert [r.share for r in transcript.rounds] == [Fraction(1, 50), Fraction(49, 100), Fraction(49, 100)]
    assert transcript.rounds[2].price.amount == Fraction(96545917011755, 281474976710656)
    assert transcript.rounds[1].integers[:2] == (613126767, 45152458715)
    assert transcript.rounds[2].weights == (397255688, 676486135)
    assert [float(r.noisy[-1]) for r in transcript.rounds] == [
        491.70776268467307,
        -6.800916861742735,
        75.92628479524818,
    ]
    expected = [
        [20.525574364523127, 3.1525830584256207, 0.7627823197113521],
        [20.731998008670818, 3.8548185446086594, 1.4501121339380068],
    ]
    np.testing.assert_allclose(refit(transcript, None), expected, rtol=1e-12)


EXACT = [132.9385605379939, 4.306435883243969, -13.474421937931258, 27.119340525008738, 30.96963750512341]
IN_ZCDP = [132.18914812523872, 6.004742886441457, -14.169845525561433, 25.840176034718752, 27.647830936672985]


@pytest.mark.parametrize(
    ("version", "measure", "amount", "scale", "noisy"),
    [
        (1, "zcdp", Fraction(7622484759160959, 144115188075855872), 24259863116.47132, [*IN_ZCDP, 68.9081704383716]),
        (3, "zcdp", Fraction(7622484759160959, 144115188075855872), 24259863116.47132, [*IN_ZCDP, 68.9081704383716]),
        (
            4,
            "gaussian",
            Fraction(17380637924958783, 288230376151711744),
            22720546330.11777,
            [*EXACT, 68.72364361118525],
        ),
    ],
)
def test_every_query(version, measure, amount, scale, noisy):
    transcript = Transcript.load(FOLDER / f"every-query-v{version}.json")
    context = transcript.context
    assert context.domain == L2Ball([-1, 0], [1, 4], radius=1.25)
    assert (context.mechanism, context.n_records, context.records_per_person) == ("gaussian", 1000, 3)
    assert (transcript.lost, transcript.pending) == ((Fraction(1, 20),), Fraction(1, 40))
    assert transcript.shares_spent == Fraction(27, 40)
    answered = sum(r.price.amount for r in transcript.rounds)
    assert answered == amount
    assert {r.price.measure for r in transcript.rounds} == {context.budget.measure} == {measure}
    lost = sum(transcript.lost, Fraction(0)) + (transcript.pending or 0)
    assert transcript.amount_spent == answered + lost * transcript.context.budget.amount
    assert [(r.query.type_name, r.query.size) for r in transcript.rounds] == [
        *(("voronoi", 2), ("voronoi", 6), ("voronoi", 6), ("grid", 6), ("histogram", 8), ("histogram", 4))
    ]
    assert [getattr(r.query, "sums", None) for r in transcript.rounds[:3]] == ["none", "absolute", "relative"]
    assert transcript.rounds[2].query.radii.tolist() == [0.25, 0.5]
    assert transcript.rounds[1].weights == (619925131, 876706528)
    assert {r.scale for r in transcript.rounds} == {scale}
    assert [float(r.noisy[-1]) for r in transcript.rounds] == noisy


def test_persons_v5():
    transcript = Transcript.load(FOLDER / "persons-v5.json")
    context = transcript.context
    assert (context.person, context.per_person, context.records_per_person) == ("patient", "sample", 2)
    assert context.sample_key == "00112233445566778899aabbccddeeff"
    assert (str(context.unit), context.distance) == ("one person, by column 'patient'", 2**31)
    assert transcript.neighbours == transcript.privacy.neighbours == "add-remove-one-person"
    assert transcript.privacy.per_person == "at most 2 records of each person, chosen by a keyed hash"
    schema = context.domain.schema
    assert transcript.privacy.bounds["schema"] == schema.to_json()
    assert schema["charges"] == Number(1, 1e6, scale="log", unit="EUR", missing=1)
    assert schema["lab"] == Number(40, 400, scale=(100, 200), missing="own", weight=0.5)
    assert schema["ward"] == Category(["a", "b", "c"], weight=0.5, other=True, missing="own")
    assert schema["stage"] == Category(["1", "2", "3"], ordered=True)
    assert context.domain.columns == (
        *("age", "charges", "lab", "lab missing", "sex=M"),
        *("ward=a", "ward=b", "ward=c", "ward=other", "ward=missing", "stage"),
    )
    assert [(r.query.type_name, r.query.size) for r in transcript.rounds] == [("histogram", 24), ("voronoi", 24)]
    assert [float(r.noisy[-1]) for r in transcript.rounds] == [166.8090925838883, 45.642700516720964]


def test_writing_a_golden_transcript_gives_its_file_again():
    for path in FOLDER.glob("*.json"):
        assert Transcript.load(path).to_json() == json.loads(path.read_text(encoding="utf-8"))


def test_foreign_v2():
    transcript = Transcript.load(FOLDER / "foreign-v2.json")
    assert transcript.imported
    assert (transcript.neighbours, transcript.context.epsilon) == ("replace-one-record", Fraction(7, 10))
    assert transcript.algorithm == {"type": "kmeans-lloyd", "n_clusters": 2, "n_rounds": 3}
    grid, marginals, cells = transcript.rounds
    np.testing.assert_array_equal(grid.noisy, [251.5, 248.25])
    np.testing.assert_array_equal(grid.scales, [4.0, 4.0])
    np.testing.assert_array_equal(marginals.noisy, [260.125, 240.5, 251.0, 247.75])
    np.testing.assert_array_equal(marginals.scales, [2.0, 2.0, 3.0, 3.0])
    np.testing.assert_array_equal(cells.scales, [5.0, 5.0, 10.0, 10.0, 10.0, 10.0])
    np.testing.assert_array_equal(cells.query.centers, [[-0.5, 0.25], [0.5, -0.125]])
    assert grid.price.amount == Fraction(1, 4)
    assert refit(transcript).shape == (2, 2)


def test_ledger_v1():
    ledger = Ledger(FOLDER / "ledger-v1.db")
    assert (ledger.epsilon, ledger.delta, ledger.identifier, ledger.unit) == (3, Fraction(1, 10**6), None, None)
    assert ledger.spent == Fraction(506314927735427, 281474976710656)
    entries = ledger.entries()
    assert [(e.measure, e.amount) for e in entries] == [*[("pure", Fraction(1, 4))] * 2, ("zcdp", Fraction(1, 100))]
    assert [e.time for e in entries] == ["2025-03-01", "2025-03-01", "2025-03-02"]
    assert {e.library for e in entries} == {"0.1.0"}


def test_ledger_v2():
    ledger = Ledger(FOLDER / "ledger-v2.db")
    assert ledger.accounting == "zcdp"
    assert (ledger.epsilon, ledger.unit, len(ledger.identifier)) == (3, Unit(records_per_person=5), 32)
    assert [(e.amount, e.unit) for e in ledger.entries()] == [
        (Fraction(1, 4), Unit(records_per_person=5)),
        (Fraction(1, 1000), Unit()),
    ]
    assert ledger.spent == Fraction(882782439748459, 562949953421312)


@pytest.mark.parametrize("version", [3, 4])
def test_ledger_v3_and_v4(version):
    ledger = Ledger(FOLDER / f"ledger-v{version}.db")
    assert (ledger.epsilon, ledger.unit, ledger.accounting) == (3, Unit(records_per_person=5), "gaussian")
    assert [(e.measure, e.amount) for e in ledger.entries()] == [
        ("pure", Fraction(1, 4)),
        ("gaussian", Fraction(1, 1000)),
    ]
    assert ledger.spent == Fraction(7619758256982503, 4503599627370496)
    said = [("opening hours of the clinics", "ada"), ("", "")] if version == 4 else [("", "")] * 2
    assert [(release.purpose, release.by) for release in ledger.releases()] == said
