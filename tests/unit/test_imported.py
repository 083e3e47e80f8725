"""Answers that were made elsewhere: read strictly, marked as a claim everywhere, inferred from like any other."""

from __future__ import annotations

import copy
import json
import random
import sys

import numpy as np
import pyarrow as pa
import pytest
from html_page import Page, faults
from typer.testing import CliRunner

import recoup
from recoup.algorithms.kmeans.base import in_order
from recoup.cli.app import app
from recoup.cli.exits import ExitCode
from recoup.errors import ParameterError, TranscriptError, TranscriptFormatError
from recoup.imported import imported_from_json
from recoup.inference.intervals import intervals
from recoup.kernels.weighted_kmeans import weighted_inertia
from recoup.privacy.statement import IMPORTED, NOT_PRIVATE
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery, HistogramQuery
from recoup.queries.gradient import LogisticGradientQuery
from recoup.queries.mixture import MixtureQuery
from recoup.queries.moments import MomentsQuery
from recoup.transcript.transcript import Transcript, _checksum

CENTERS = np.array([[20.0, 60.0], [70.0, 20.0], [60.0, 80.0]])
LOW, HIGH = (0.0, 10.0), (100.0, 90.0)


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    return np.clip(CENTERS[rng.integers(3, size=n)] + rng.normal(0, 4, (n, 2)), LOW, HIGH)


def table():
    return pa.table({"age": people()[:, 0], "hours": people()[:, 1]})


def kmeans_elsewhere(x, *, n_rounds=3, count_scale=3.0, sum_scale=150.0, gaussian=False, seed=1):
    """Private k-means as somebody else might write it: in the columns' own units, with noise of NumPy's."""
    rng = np.random.default_rng(seed)
    draw = rng.normal if gaussian else rng.laplace
    centers, rounds = CENTERS + rng.normal(0, 10, CENTERS.shape), []
    for _ in range(n_rounds):
        nearest = ((x[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        counts = np.bincount(nearest, minlength=3) + draw(0, count_scale, 3)
        sums = np.stack([x[nearest == k].sum(axis=0) for k in range(3)]) + draw(0, sum_scale, (3, 2))
        query = {"type": "voronoi", "centers": centers.tolist(), "sums": "absolute"}
        noisy = {"count": counts.tolist(), "sum": sums.tolist()}
        rounds.append({"query": query, "noisy": noisy, "scale": {"count": count_scale, "sum": sum_scale}})
        centers = np.clip(sums / counts[:, None], LOW, HIGH)
    return rounds, centers


def file_of(rounds, **more):
    bounds = {"age": [0, 100], "hours": [10, 90]}
    return {
        "format": "recoup-foreign", "bounds": bounds, "mechanism": "laplace", "epsilon": 0.5, "units": "user",
        "rounds": rounds,
    } | more  # fmt: skip


GRID = {
    "format": "recoup-foreign", "bounds": [[0, 1]], "mechanism": "laplace", "epsilon": 1,
    "rounds": [{"query": {"type": "grid", "sides": [4]}, "noisy": [10.5, 20.25, 30, -1.5], "scale": 2.0}],
}  # fmt: skip


@pytest.fixture(scope="module")
def foreign():
    return imported_from_json(file_of(kmeans_elsewhere(people())[0]))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("foreign") / "foreign.json"
    path.write_text(json.dumps(file_of(kmeans_elsewhere(people())[0])))
    return path


# ---- what is read is used ----


def test_sums_in_own_units_are_moved_to_the_unit_domain(foreign):
    given = kmeans_elsewhere(people())[0][0]
    answered, domain = foreign.rounds[0], foreign.context.domain
    np.testing.assert_allclose((answered.query.centers + 1) * [50, 40] + [0, 10], given["query"]["centers"])
    counts, sums = np.array(given["noisy"]["count"]), np.array(given["noisy"]["sum"])
    np.testing.assert_array_equal(answered.noisy[:3], counts)
    # Their quotient is the same centre in both units.
    unit = answered.noisy[3:].reshape(3, 2) / counts[:, None]
    np.testing.assert_allclose(domain.from_unit(unit), sums / counts[:, None], rtol=1e-12)
    np.testing.assert_array_equal(answered.scales[:3], 3.0)
    np.testing.assert_allclose(answered.scales[3:5], [np.hypot(150, 50 * 3) / 50, np.hypot(150, 50 * 3) / 40])


@pytest.mark.parametrize("gaussian", [False, True])
def test_inference_recovers_what_the_noise_took(gaussian):
    x = people()
    rounds, last = kmeans_elsewhere(x, count_scale=60.0, sum_scale=6000.0, gaussian=gaussian)
    terms = {"mechanism": "gaussian", "delta": 1e-6} if gaussian else {}
    transcript = imported_from_json(file_of(rounds, **terms))
    inferred = recoup.infer(transcript, random_state=0)
    centers = recoup.refit(transcript, inferred, random_state=0)
    ones = np.ones(len(x))
    np.testing.assert_allclose(recoup.refit(transcript), in_order(last), rtol=1e-9)
    assert weighted_inertia(x, ones, centers) < weighted_inertia(x, ones, last)
    assert abs(inferred.n_records - len(x)) < 0.1 * len(x)


def test_the_noise_that_is_stated_decides_and_not_the_claim():
    rounds = kmeans_elsewhere(people(), sum_scale=600.0)[0]
    grid = {"query": {"type": "grid", "sides": [6, 6]}, "noisy": [80.0] * 36, "scale": 20.0}
    points = [
        recoup.infer(imported_from_json(file_of([*rounds, grid], epsilon=e)), random_state=0).weights for e in (0.1, 9)
    ]
    np.testing.assert_array_equal(*points)


def test_every_method_and_intervals_read_it(foreign):
    for method in ("mcmc", "consistency"):
        inferred = recoup.infer(foreign, method, random_state=0, n_steps=500)
        assert recoup.refit(foreign, inferred, random_state=0).shape == (3, 2)
    inferred = recoup.infer(foreign, random_state=0, n_points=2000)
    centers = recoup.refit(foreign, inferred, random_state=0)
    found = intervals(foreign, inferred, centers, level=0.5, n_draws=5, random_state=0)
    assert ((found.center_low <= centers) & (centers <= found.center_high)).all()
    assert (found.center_high > found.center_low).any()


def test_scales_of_a_value_a_block_or_all():
    domain = recoup.Box([0, 0], [1, 1])
    query = VoronoiQuery(centers=np.zeros((2, 2)))
    for scales, expected in (
        (2.0, [2.0] * 6),
        ([1, 3], [1, 1, 3, 3, 3, 3]),
        ({"sum": 3, "count": 1}, [1, 1, 3, 3, 3, 3]),
        ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]),
        (np.arange(1.0, 7.0), [1, 2, 3, 4, 5, 6]),
    ):
        made = recoup.transcript_from(domain=domain, epsilon=1, rounds=[(query, np.arange(6), scales)])
        np.testing.assert_array_equal(made.rounds[0].scales, expected)
    wrong = [[1, 2, 3], 0, -1, float("nan"), float("inf"), [], "2", True, [[1, 3]], {"count": 1}]
    for scales in [*wrong, {"count": [1, 2], "sum": 3}]:
        with pytest.raises(ParameterError, match="round 1"):
            recoup.transcript_from(domain=domain, epsilon=1, rounds=[(query, np.arange(6), scales)])


def test_a_grid_with_a_scale_of_its_own_for_each_cell_trusts_the_quiet_ones():
    domain, query = recoup.Box([0], [1]), GridQuery(sides=(4,))
    noisy = [100.0, 100.0, 100.0, 300.0]
    loud = recoup.transcript_from(domain=domain, epsilon=1, rounds=[(query, noisy, [1, 1, 1, 500])])
    quiet = recoup.transcript_from(domain=domain, epsilon=1, rounds=[(query, noisy, [500, 1, 1, 1])])
    last = [recoup.infer(t, random_state=0) for t in (loud, quiet)]
    share = [float(i.weights[i.points[:, 0] > 0.75].sum() / i.n_records) for i in last]
    assert share[0] < share[1]


def test_the_price_is_what_such_noise_would_cost_here():
    x = np.random.default_rng(0).uniform(size=(100, 2))
    for delta in (0, 1e-6):
        domain = recoup.Box([0, 0], [1, 1])
        released = recoup.release(recoup.KMeans(n_clusters=3), x, domain=domain, epsilon=2, delta=delta)
        again = recoup.transcript_from(
            domain=domain, epsilon=2, delta=delta, mechanism=released.context.mechanism,
            rounds=[(r.query, r.noisy, r.scales) for r in released.rounds],
        )  # fmt: skip
        for a, b in zip(again.rounds, released.rounds, strict=True):
            assert float(a.price.amount) == pytest.approx(float(b.price.amount), rel=1e-6)
            assert np.array(a.weights) / sum(a.weights) == pytest.approx(np.array(b.weights) / sum(b.weights), rel=1e-6)
        # The same answers give the same inferred data, wherever they were made.
        same = [recoup.infer(t, random_state=0).weights for t in (again, released)]
        np.testing.assert_allclose(*same, rtol=1e-3, atol=1e-6)


def test_rounds_alone_are_inferred_from_and_have_no_answer():
    transcript = imported_from_json(GRID | {"algorithm": "a survey's histogram"})
    assert transcript.algorithm == {"type": "elsewhere", "name": "a survey's histogram"}
    inferred = recoup.infer(transcript, random_state=0)
    assert inferred.n_records == pytest.approx(59.25)
    for data in (None, inferred):
        with pytest.raises(ParameterError, match="inferred data set itself"):
            recoup.refit(transcript, data)
    with pytest.raises(ParameterError, match=r"algorithm=recoup\.AdaptiveKMeans"):
        recoup.refit(transcript, inferred, n_clusters=2)
    # What the message names works.
    clustered = imported_from_json(GRID | {"algorithm": recoup.AdaptiveKMeans(n_clusters=2).to_json()})
    assert recoup.refit(clustered, recoup.infer(clustered, random_state=0), random_state=0).shape == (2, 1)
    with pytest.raises(ParameterError, match="ran elsewhere"):
        recoup.release(recoup.algorithms.base.ImportedAlgorithm(), [[0.5]], domain=recoup.Box([0], [1]), epsilon=1)


def test_marginals_can_be_clustered_if_an_algorithm_is_named():
    x = people()
    query = HistogramQuery.one_way(dimension=2, bins=10)
    domain = recoup.Box(LOW, HIGH)
    noisy = np.asarray(query.contribution(domain.to_unit(x)).sum(axis=0)) + np.random.default_rng(0).laplace(0, 5, 20)
    made = recoup.transcript_from(
        domain=domain, epsilon=0.4, rounds=[(query, noisy, 5)], algorithm=recoup.GridKMeans(n_clusters=3)
    )
    assert recoup.refit(made, recoup.infer(made, random_state=0), random_state=0).shape == (3, 2)


def test_it_is_read_together_with_a_release(foreign):
    terms = {"epsilon": 1, "noise": "simulated", "random_state": 0}
    grid = recoup.release(recoup.GridKMeans(n_clusters=3), table(), domain=foreign.context.domain, **terms)
    unnamed = recoup.release(recoup.GridKMeans(n_clusters=3), people(), domain=recoup.Box(LOW, HIGH), **terms)
    with pytest.raises(ParameterError, match="columns"):
        recoup.infer([foreign, unnamed])
    inferred = recoup.infer([foreign, grid], random_state=0, n_points=3000)
    assert inferred.simulated
    assert recoup.refit(foreign, inferred, random_state=0).shape == (3, 2)


# ---- a claim, wherever it is shown ----


def test_the_statement_is_a_claim(foreign):
    assert foreign.imported
    assert foreign.statement == IMPORTED == foreign.privacy["statement"] == foreign.to_json()["privacy"]
    assert "not verified by Recoup" in IMPORTED
    assert (foreign.privacy["noise"], foreign.privacy["spent"]) == ("unverified", 0.5)
    simulated = imported_from_json(GRID | {"simulated": True})
    assert simulated.statement == NOT_PRIVATE
    replaced = imported_from_json(GRID | {"neighbours": "replace-one-record"})
    assert replaced.privacy["neighbours"] == "replace-one-record"
    with pytest.raises(ParameterError, match="neighbours"):
        recoup.infer([imported_from_json(GRID | {"rounds": [GRID["rounds"][0] | {"noisy": [1, 2, 3, 4]}]}), replaced])


def test_round_trip_through_a_file(foreign, tmp_path):
    foreign.save(tmp_path / "t.json")
    again = Transcript.load(tmp_path / "t.json")
    assert again.to_json() == foreign.to_json()
    assert again.to_json()["schema_version"] == 2
    for a, b in zip(again.rounds, foreign.rounds, strict=True):
        np.testing.assert_array_equal(a.noisy, b.noisy)
        np.testing.assert_array_equal(a.scales, b.scales)
    same = [recoup.infer(t, random_state=1, n_points=1000).weights for t in (again, foreign)]
    np.testing.assert_array_equal(*same)


def test_it_cannot_be_continued(foreign, tmp_path):
    foreign.save(tmp_path / "t.json")
    with pytest.raises(TranscriptError, match="made elsewhere: it can be read, and not continued"):
        recoup.release(
            recoup.KMeans(n_clusters=3, n_rounds=3), table(), domain=foreign.context.domain, epsilon=0.5,
            path=tmp_path / "t.json", resume=True,
        )  # fmt: skip
    one = recoup.release(recoup.KMeans(n_clusters=3, n_rounds=1), table(), domain=foreign.context.domain, epsilon=1)
    with pytest.raises(TranscriptError, match="do not mix"):
        foreign.with_round(one.rounds[0])
    with pytest.raises(TranscriptError, match="do not mix"):
        one.with_round(foreign.rounds[0])


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_the_command_line_from_the_file_to_the_report(written, tmp_path, monkeypatch):
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)
    path = tmp_path / "new" / "t.json"
    answer = run("import", written, "-o", path, "--json")
    assert answer.exit_code == 0, answer.stderr
    value = json.loads(answer.stdout)
    assert list(value) == ["transcript", "algorithm", "rounds", "privacy", "files"]
    assert (value["privacy"]["statement"], value["files"]) == (IMPORTED, [str(path)])
    assert [r["n_values"] for r in value["rounds"]] == [9, 9, 9]
    assert "not verified by Recoup" in answer.stderr
    table = run("import", written, "-o", path)  # made again for free
    assert "not verified by Recoup" in table.stdout
    inferred = run("infer", path, "-o", tmp_path / "out")
    assert inferred.exit_code == 0, inferred.stderr
    assert "not verified by Recoup" in inferred.stdout
    assert "not verified by Recoup" in inferred.stderr
    assert (tmp_path / "out" / "centers.csv").read_text().startswith(f"# {IMPORTED}\n")
    report = run("report", path, "-o", tmp_path / "page.html", "--no-intervals")
    assert report.exit_code == 0, report.stderr
    text = (tmp_path / "page.html").read_text()
    assert faults(text) == []
    words = Page(text).words
    for phrase in ("Privacy claimed, not verified", "As claimed, and not verified by Recoup", "The claim itself"):
        assert phrase in words
    assert "3 clusters in 2 columns" in words
    assert "private clusters" not in words
    assert "OpenDP" not in words


def test_import_never_writes_over_what_was_paid_for(written, tmp_path):
    path = tmp_path / "t.json"
    recoup.release(recoup.KMeans(n_clusters=1, n_rounds=1), [[0.5]], domain=recoup.Box([0], [1]), epsilon=1).save(path)
    before = path.read_bytes()
    answer = run("import", written, "-o", path)
    assert (answer.exit_code, answer.stdout) == (ExitCode.TRANSCRIPT, "")
    assert path.read_bytes() == before
    assert run("import", written, "-o", tmp_path).exit_code == ExitCode.USAGE


def test_noise_that_is_too_small_for_its_claim_is_noticed(tmp_path):
    (tmp_path / "f.json").write_text(json.dumps(GRID | {"epsilon": 0.01}))
    answer = run("import", tmp_path / "f.json", "-o", tmp_path / "t.json")
    assert answer.exit_code == 0
    assert "would cost epsilon 0.5 here, more than the 0.01 that is claimed" in answer.stderr
    (tmp_path / "f.json").write_text(json.dumps(GRID))
    assert "would cost" not in run("import", tmp_path / "f.json", "-o", tmp_path / "t.json").stderr


# ---- what is not such a file is refused ----


def _set(path, item):
    def change(value):
        for key in path[:-1]:
            value = value[key]
        if item is ...:
            del value[path[-1]]
        else:
            value[path[-1]] = item

    change.__name__ = f"{'.'.join(map(str, path))}={str(item)[:20]}"
    return change


ROUND = ["rounds", 0]
HOSTILE = [
    _set(["format"], "recoup-transcript"),
    _set(["bounds"], ...),
    _set(["bounds"], {}),
    _set(["bounds"], {"age": [0, 100]}),
    _set(["bounds"], {"age": [0, 100], "hours": [90, 10]}),
    _set(["bounds"], {"age": [0, 100], "hours": ["10", "90"]}),
    _set(["bounds"], {"age": [0, 100], "hours": [0, 10**400]}),
    _set(["bounds"], {"age": [False, True], "hours": [10, 90]}),
    _set(["bounds"], "0:1"),
    _set(["domain"], "os.system"),
    _set(["domain"], ["box"]),
    _set(["radius"], 2),
    _set(["radius"], "1"),
    _set(["mechanism"], "uniform"),
    _set(["mechanism"], "gaussian"),
    _set(["mechanism"], ["laplace"]),
    _set(["epsilon"], 0),
    _set(["epsilon"], -1),
    _set(["epsilon"], None),
    _set(["epsilon"], True),
    _set(["epsilon"], "9" * 1000),
    _set(["epsilon"], [1]),
    _set(["delta"], 1),
    _set(["delta"], "x"),
    _set(["neighbours"], "none"),
    _set(["neighbours"], ["replace-one-record"]),
    _set(["records_per_person"], 0),
    _set(["records_per_person"], 1.5),
    _set(["n_records"], -3),
    _set(["simulated"], 1),
    _set(["units"], "metres"),
    _set(["units"], {}),
    _set(["algorithm"], {"type": "builtins.eval"}),
    _set(["algorithm"], {"type": "kmeans-lloyd"}),
    _set(["algorithm"], {"type": "kmeans-lloyd", "n_clusters": 4, "n_rounds": 3}),
    _set(["algorithm"], {"type": "kmeans-grid", "n_clusters": 3, "rule": "none"}),
    _set(["algorithm"], {"type": "elsewhere", "name": ""}),
    _set(["algorithm"], ""),
    _set(["algorithm"], 3),
    _set(["rounds"], []),
    _set(["rounds"], {}),
    _set(["rounds"], [None]),
    _set(["rounds"], [["grid", 1, 2]]),
    _set([*ROUND, "price"], 1),
    _set([*ROUND, "scale"], ...),
    _set([*ROUND, "query", "type"], "builtins.eval"),
    _set([*ROUND, "query", "type"], ["voronoi"]),
    _set([*ROUND, "query"], None),
    _set([*ROUND, "query", "centers"], [[1.0, 2.0]]),
    _set([*ROUND, "query", "centers"], [[1.0], [2.0], [3.0]]),
    _set([*ROUND, "query", "centers"], [[1, 2], [3, 4], [5, 10**400]]),
    _set([*ROUND, "query", "centers"], "text"),
    _set([*ROUND, "query", "sums"], "relative"),
    _set([*ROUND, "noisy"], [1, 2]),
    _set([*ROUND, "noisy"], {"count": [1, 2, 3]}),
    _set([*ROUND, "noisy"], {"count": [1, 2, 3], "sum": [[1, 2], [3, 4]]}),
    _set([*ROUND, "noisy"], {"count": [1, 2, 3], "sum": [1, 2, 3, 4, 5, "6"]}),
    _set([*ROUND, "noisy"], {"count": [1, 2, True], "sum": [1, 2, 3, 4, 5, 6]}),
    _set([*ROUND, "noisy"], {"count": [1, 2, 1e300], "sum": [1, 2, 3, 4, 5, 6]}),
    _set([*ROUND, "noisy"], {"count": [1, 2, 10**400], "sum": [1, 2, 3, 4, 5, 6]}),
    _set([*ROUND, "noisy"], "123456789"),
    _set([*ROUND, "noisy"], None),
    _set([*ROUND, "scale"], 0),
    _set([*ROUND, "scale"], -1),
    _set([*ROUND, "scale"], 1e-300),
    _set([*ROUND, "scale"], 1e300),
    _set([*ROUND, "scale"], "2"),
    _set([*ROUND, "scale"], None),
    _set([*ROUND, "scale"], {"count": 1}),
    _set([*ROUND, "scale"], {"count": 1, "sum": 2, "product": 3}),
    _set([*ROUND, "scale"], {"count": 1, "sum": 0}),
    _set([*ROUND, "scale"], [1, 2, 3]),
]


@pytest.mark.parametrize("change", HOSTILE, ids=lambda change: change.__name__)
def test_an_unusable_file_is_refused(change):
    value = file_of(kmeans_elsewhere(people(200))[0])
    imported_from_json(value)
    change(value)
    before = set(sys.modules)
    with pytest.raises(TranscriptFormatError) as found:
        imported_from_json(value)
    assert len(str(found.value)) < 500
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "null", "{}", "NaN", '{"format": "recoup-foreign"}', '{"format": "recoup-foreign", "epsilon": NaN}',
        '{"format": "recoup-foreign", "format": "recoup-foreign"}', '{"format": ' + "[" * 100_000, "\x00",
    ],
)  # fmt: skip
def test_other_files_are_refused(text, tmp_path):
    (tmp_path / "f.json").write_text(text)
    with pytest.raises(TranscriptFormatError):
        recoup.load_foreign(tmp_path / "f.json")
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    for name in ("binary", "missing", "."):
        with pytest.raises(TranscriptFormatError):
            recoup.load_foreign(tmp_path / name)
    answer = run("import", tmp_path / "f.json", "-o", tmp_path / "t.json")
    assert (answer.exit_code, answer.stdout, answer.stderr.count("\n")) == (ExitCode.TRANSCRIPT, "", 1)
    assert not (tmp_path / "t.json").exists()


def _junk_anywhere(original, read, seed):
    """Junk in a place at random is refused with a typed error, or leaves finite numbers."""
    rng = random.Random(seed)
    junk = [None, True, -1, 0, 1.5, 10**30, "", "x", [], [[]], {}, {"type": "grid"}, "1/2", [1e300]]

    def places(value, path=()):
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in items:
            yield (*path, key)
            yield from places(item, (*path, key))

    paths = list(places(original))
    for path in rng.choices(paths, k=200):
        value = copy.deepcopy(original)
        _set(path, rng.choice(junk))(value)
        try:
            loaded = read(value)
        except TranscriptFormatError:
            continue
        for answered in loaded.rounds:
            assert np.isfinite(answered.noisy).all()
            assert (answered.scales > 0).all()


def test_junk_anywhere_in_what_people_write():
    _junk_anywhere(file_of(kmeans_elsewhere(people(200))[0]), imported_from_json, 2)


def test_junk_anywhere_in_what_is_saved(foreign):
    def signed(value):
        body = {name: item for name, item in value.items() if name != "checksum"}
        return Transcript.from_json(body | {"checksum": _checksum(body)})

    _junk_anywhere(foreign.to_json(), signed, 3)


SAVED = [
    _set([*ROUND, "noisy", 0], 1e16),
    _set([*ROUND, "noisy", 0], True),
    _set([*ROUND, "noisy"], [1.0]),
    _set([*ROUND, "scales"], 0.0),
    _set([*ROUND, "scales"], [1.0, 2.0, 3.0]),
    _set([*ROUND, "scales"], "1"),
    _set([*ROUND, "share"], "1/2"),
    _set([*ROUND, "query", "type"], "builtins.eval"),
    _set(["rounds"], []),
    _set(["lost"], ["1/4"]),
    _set(["pending"], "1/4"),
    _set(["neighbours"], "none"),
    _set(["schema_version"], 1),
    _set(["schema_version"], 3),
]


@pytest.mark.parametrize("change", SAVED, ids=lambda change: change.__name__)
def test_an_edited_transcript_is_refused_even_if_it_is_signed_anew(foreign, change):
    value = copy.deepcopy(foreign.to_json())
    change(value)
    body = {name: item for name, item in value.items() if name != "checksum"}
    with pytest.raises(TranscriptFormatError):
        Transcript.from_json(body | {"checksum": _checksum(body)})


def test_a_release_cannot_pass_for_something_made_elsewhere_nor_the_reverse(foreign):
    released = recoup.release(recoup.KMeans(n_clusters=1, n_rounds=1), [[0.5]], domain=recoup.Box([0], [1]), epsilon=1)
    for value, version in ((released.to_json(), 2), (foreign.to_json(), 1)):
        body = {name: item for name, item in value.items() if name != "checksum"} | {"schema_version": version}
        with pytest.raises(TranscriptFormatError):
            Transcript.from_json(body | {"checksum": _checksum(body)})


# ---- other units than was said ----


def without_units(rounds):
    return {name: item for name, item in file_of(rounds).items() if name != "units"}


def counts_alone(rounds):
    return [
        {"query": r["query"] | {"sums": "none"}, "noisy": r["noisy"]["count"], "scale": r["scale"]["count"]}
        for r in rounds
    ]


def one_center(answered, at):
    return answered | {"query": answered["query"] | {"centers": [at, *answered["query"]["centers"][1:]]}}


def times(answered, factor):
    sums = (np.array(answered["noisy"]["sum"]) * factor).tolist()
    return answered | {"noisy": answered["noisy"] | {"sum": sums}}


def test_units_that_cannot_be_are_refused():
    rounds = kmeans_elsewhere(people())[0]
    single = {
        "query": {"type": "voronoi", "centers": [[25.0, 20.0]], "sums": "absolute"},
        "noisy": {"count": [3000.0], "sum": [[150_000.0, 160_000.0]]}, "scale": {"count": 3, "sum": 150},
    }  # fmt: skip
    for value, words in (
        (without_units(rounds), 'say units="user"'),
        (without_units(counts_alone(rounds)), 'say units="user"'),
        (without_units([single]), 'say units="user"'),
        (file_of([one_center(rounds[0], [300.0, 60.0])]), "check the centres"),
        (file_of(rounds, bounds={"age": [0, 30], "hours": [10, 90]}), "check the centres"),
        (file_of([times(rounds[0], 100.0)]), "its sums are larger"),  # of hundredths
    ):
        with pytest.raises(TranscriptFormatError, match=f"round 1: .*{words}"):
            imported_from_json(value)


def test_a_query_that_is_read_in_one_unit_only_says_so():
    x, domain = people(), recoup.Box(LOW, HIGH)
    query = MomentsQuery(dimension=2)
    right = np.asarray(query.contribution(domain.to_unit(x)).sum(axis=0))
    wrong = np.asarray(query.contribution(x).sum(axis=0))
    terms = {"domain": domain, "epsilon": 1}
    assert recoup.transcript_from(**terms, rounds=[(query, right, 20.0)]).rounds
    with pytest.raises(ParameterError, match=r"block 'sum' .* moments is read as of columns scaled"):
        recoup.transcript_from(**terms, rounds=[(query, wrong, 20.0)])


@pytest.mark.parametrize("gaussian", [False, True])
def test_noise_is_never_taken_for_wrong_units(gaussian):
    """Unclipped means of almost empty cells: most runs have a centre far outside, and none is refused.

    A value beyond 30 scales has probability 1e-13, so a false alarm in any of 60 runs one of 1e-9.
    """
    terms = {"mechanism": "gaussian", "delta": 1e-6} if gaussian else {}
    far = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        draw = rng.normal if gaussian else rng.laplace
        # The first column is narrow and the nearest centre is the author's, in own units.
        x, centers, rounds = people(200, seed) * [0.01, 1], rng.uniform(LOW, HIGH, (8, 2)) * [0.01, 1], []
        for _ in range(4):
            nearest = ((x[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
            counts = np.bincount(nearest, minlength=8) + draw(0, 10, 8)
            sums = np.stack([x[nearest == k].sum(axis=0) for k in range(8)]) + draw(0, [10, 1000], (8, 2))
            query = {"type": "voronoi", "centers": centers.tolist(), "sums": "absolute"}
            noisy = {"count": counts.tolist(), "sum": sums.tolist()}
            scale = [10.0] * 8 + [10.0, 1000.0] * 8
            rounds.append({"query": query, "noisy": noisy, "scale": scale})
            centers = np.clip(sums / counts[:, None], -1e4, 1e4)
        far += any(np.abs(np.array(r["query"]["centers"])[:, 1]).max() > 300 for r in rounds)
        assert imported_from_json(file_of(rounds, bounds={"share": [0, 1], "hours": [10, 90]}, **terms)).rounds
    assert far > 30


def test_what_was_released_here_is_never_taken_for_wrong_units():
    x = np.random.default_rng(0).uniform(size=(300, 2))
    algorithms = (
        recoup.KMeans(n_clusters=5), recoup.AdaptiveKMeans(n_clusters=3), recoup.GaussianMixture(n_components=3),
        recoup.LogisticRegression(), recoup.CovariancePCA(n_components=1), recoup.PowerPCA(n_components=1),
    )  # fmt: skip
    for algorithm in algorithms:
        for epsilon in (0.01, 50):
            for kind in (recoup.Box, recoup.L1Ball):
                terms = {"domain": kind([0, 0], [1, 1]), "epsilon": epsilon}
                released = recoup.release(algorithm, x, **terms, noise="simulated", random_state=0)
                again = [(r.query, r.noisy, r.scales) for r in released.rounds]
                assert recoup.transcript_from(**terms, rounds=again, algorithm="any").rounds


def test_bad_arguments_of_the_builder():
    domain, good = recoup.Box([0], [1]), [(GridQuery(sides=(2,)), [1, 2], 1)]
    for change in (
        {"domain": None}, {"domain": "box"}, {"rounds": None}, {"rounds": "x"}, {"rounds": [(1, 2)]}, {"epsilon": 0},
        {"rounds": [("x", [1, 2], 1)]}, {"units": "user"}, {"units": None}, {"simulated": "no"}, {"algorithm": 3},
        {"algorithm": recoup.KMeans(n_clusters=2)}, {"rounds": [(GridQuery(sides=(2, 2)), [1, 2, 3, 4], 1)]},
        {"rounds": [(GridQuery(sides=(2,)), [1, np.nan], 1)]}, {"rounds": [(GridQuery(sides=(2,)), [[1, 2]], 1)]},
        {"mechanism": "gaussian"}, {"neighbours": "x"},
    ):  # fmt: skip
        with pytest.raises(ParameterError):
            recoup.transcript_from(**{"domain": domain, "epsilon": 1, "rounds": good} | change)


def test_extreme_numbers_give_finite_results():
    domain = recoup.Box([0], [1])
    query = VoronoiQuery(centers=np.array([[-0.5], [0.5]]))
    for noisy, scale in (([1e12, -1e12, 1e12, 1e12], 1.0), ([0.0] * 4, 1e12), ([5, 6, 1, -1], 1e-6)):
        made = recoup.transcript_from(domain=domain, epsilon=1, rounds=[(query, noisy, scale)])
        centers = recoup.refit(made, recoup.infer(made, random_state=0, n_points=500), random_state=0)
        assert np.isfinite(centers).all()
        assert ((centers >= 0) & (centers <= 1)).all()


ONE_COMPONENT = MixtureQuery(
    weights=np.ones(1), means=np.zeros((1, 2)), variances=np.ones(1), radii=np.ones(1), reaches=np.ones(1)
)


@pytest.mark.parametrize(
    "query",
    [
        MomentsQuery(dimension=2),
        ONE_COMPONENT,
        LogisticGradientQuery(coefficients=np.zeros(2), clip=1.0),
    ],
    ids=lambda query: query.type_name,
)
def test_only_queries_without_units_or_of_cells_are_read_in_the_columns_own(query):
    answer = np.ones(query.size).tolist()
    terms = {"domain": recoup.Box([0, 0], [100, 100]), "epsilon": 1, "mechanism": "laplace"}
    with pytest.raises(ParameterError, match="in the unit domain only"):
        recoup.transcript_from(**terms, rounds=[(query.to_json(), answer, 1.0)], units="user")
    recoup.transcript_from(**terms, rounds=[(query.to_json(), answer, 1.0)])


def test_an_algorithm_of_another_number_of_components_is_refused():
    domain = recoup.Box([0, 0], [100, 100])
    cases = [
        (ONE_COMPONENT, recoup.GaussianMixture(n_components=4)),
        (MomentsQuery(dimension=2), recoup.CovariancePCA(n_components=7)),
    ]
    for query, algorithm in cases:
        rounds = [(query, np.full(query.size, 50.0), 1.0)]
        with pytest.raises(ParameterError, match="components"):
            recoup.transcript_from(domain=domain, epsilon=1, mechanism="laplace", rounds=rounds, algorithm=algorithm)
