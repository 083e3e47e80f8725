"""Every privacy or budget bug that was ever found, as the test that would have caught it."""

import os
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import recoup
from recoup._files import checksum_of, exclusive
from recoup.algorithms.kmeans.adaptive import AdaptiveKMeans
from recoup.curator.source import open_source
from recoup.errors import BudgetError, DataError, FileInUseError, ParameterError, TranscriptFormatError
from recoup.privacy.mechanism import Laplace
from recoup.queries.cells import VoronoiQuery
from recoup.queries.counts import GridQuery
from recoup.transcript.context import Context, Request
from recoup.transcript.transcript import Transcript
from recoup_lab.audit.attacks.updates import counts_around_an_update


def test_no_record_can_make_the_projection_loop_for_ever():
    # Rounding made a coordinate that equals the shift leave and come back.
    row = [[0.6208085204257638, 0.7618207359286113, 0.6794052178037022, 0.35401149138632904]]
    program = (
        "import recoup\n"
        f"algorithm, domain = recoup.KMeans(n_clusters=2, n_rounds=1), recoup.L1Ball([-1] * 4, [1] * 4)\n"
        f"recoup.release(algorithm, {row}, domain=domain, epsilon=1)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


@pytest.mark.slow
def test_a_stream_that_can_be_read_only_once_is_not_read_twice(few_points):
    x = np.random.default_rng(0).uniform(size=(3000, 2))
    for bounds in (([0, 0], [1, 1]), (0, 1), {"a": (0, 1), "b": (0, 1)}):
        reader = pa.table({"a": x[:, 0], "b": x[:, 1]}).to_reader()
        model = recoup.PrivateKMeans(2, epsilon=1e4, bounds=bounds).fit(reader)
        assert model.transcript_.rounds[0].noisy[0] == pytest.approx(3000, abs=1)


@pytest.mark.parametrize("postprocess", ["mcmc", "consistency"])
def test_a_postprocess_that_cannot_read_the_rounds_is_refused_before_they_are_paid_for(postprocess):
    x = np.random.default_rng(0).uniform(size=(300, 2))
    ledger = recoup.Ledger.in_memory(epsilon=3)
    model = recoup.PrivateKMeans(2, epsilon=1, bounds=(0, 1), postprocess=postprocess, ledger=ledger)
    adaptive = recoup.PrivateKMeans(**(model.get_params() | {"algorithm": "adaptive"}))
    if postprocess == "consistency":
        with pytest.raises(ParameterError, match="lloyd"):
            adaptive.fit(x)
        assert ledger.spent == 0
    else:  # any rounds can be sampled
        assert adaptive.fit(x).inferred_.method == "mcmc"
    assert model.fit(x).transcript_.algorithm["type"] == "kmeans-lloyd"


def test_two_processes_cannot_continue_one_transcript(tmp_path):
    path = tmp_path / "t.json"
    x, domain = np.zeros((10, 2)), recoup.Box([0, 0], [1, 1])
    program = "import sys\nfrom recoup._files import exclusive\nwith exclusive(sys.argv[1]):\n    pass"
    with exclusive(path):
        with pytest.raises(FileInUseError):
            recoup.release(recoup.KMeans(n_clusters=2), x, domain=domain, epsilon=1, path=path)
        refused = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True)
        assert "FileInUseError" in refused.stderr
    recoup.release(recoup.KMeans(n_clusters=2), x, domain=domain, epsilon=1, path=path)
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]


def test_a_lock_that_is_removed_while_it_is_taken_is_taken_again(tmp_path, monkeypatch):
    taken, exists = [], Path.exists

    def flock(descriptor, operation):
        taken.append(descriptor)

    def removed(path, **options):
        # The holder goes away at the worst moment: after somebody has seen the file.
        found = exists(path, **options)
        if len(taken) == 1:
            (tmp_path / ".t.json.lock").unlink(missing_ok=True)
        return found

    def stat(path, *arguments, **options):
        if len(taken) == 1:
            (tmp_path / ".t.json.lock").unlink(missing_ok=True)
        return os_stat(path, *arguments, **options)

    os_stat = os.stat
    monkeypatch.setattr("fcntl.flock", flock)
    monkeypatch.setattr(Path, "exists", removed)
    monkeypatch.setattr("recoup._files.os.stat", stat)
    with exclusive(tmp_path / "t.json"):
        assert len(taken) == 2


def test_the_ledger_says_that_simulated_noise_is_not_private():
    ledger = recoup.Ledger.in_memory(epsilon=3)
    recoup.PrivateKMeans(2, epsilon=1, bounds=(0, 1), ledger=ledger, noise="simulated").fit(np.zeros((5, 2)))
    assert all("NOT PRIVATE" in entry.purpose for entry in ledger.entries())


def test_centers_so_far_away_that_clipping_loses_its_precision_are_refused():
    with pytest.raises(ParameterError, match="centers"):
        VoronoiQuery(centers=np.full((1, 2), 1e308), sums="relative", radii=np.full(1, 2.0**-30))


@pytest.mark.parametrize("rows", [[], [None], [5.0], ["ab"], [[]], [[1, 2, 3]], [[[1], [2]]], [[0.5, 0.5]]])
def test_a_list_of_odd_rows_is_answered_like_any_other(rows):
    model = recoup.PrivateKMeans(2, epsilon=1, bounds=([0, 0], [1, 1])).fit(rows)
    assert np.isfinite(model.cluster_centers_).all()


def test_one_row_of_a_list_does_not_change_how_the_others_are_read():
    domain, query = recoup.Box([0, 0], [10, 10]), GridQuery(sides=(1, 1))
    for row in (np.ma.array([1.0, 2.0], mask=[0, 1]), [np.timedelta64(1, "s"), 1.0], [np.datetime64("2020"), 1.0]):
        for more in ([], [["zz", 1.0]], [None], [np.array(5.0)]):
            assert open_source([row] * 100 + more, domain).total(query, np.ones(1)) == [0]
    for more in ([], [["zz", 1.0]], [None], [np.array(5.0)]):
        assert open_source([[1.0, 2.0]] * 100 + more, domain).total(query, np.ones(1)) == [100]


@pytest.mark.parametrize("rows", [[], [[1, 2]], [[1, 2, 3], [1, 2]], [[1, 2], [1, 2, 3], [1, 2, 3]], [None]])
def test_the_width_of_a_list_is_never_learnt_from_its_rows(rows):
    # It was that of most rows, so that one record could decide it.
    with pytest.raises(DataError, match="one entry a column"):
        recoup.PrivateKMeans(2, epsilon=1, bounds=(0, 1)).fit(rows)
    model = recoup.PrivateLogisticRegression(epsilon=1, bounds=(0, 1))
    with pytest.raises(DataError, match="one entry a column"):
        model.fit(rows, [0] * len(rows))


def test_a_list_is_labelled_row_by_row():
    model = recoup.PrivateKMeans(2, epsilon=1, bounds=([0, 0], [1, 1])).fit([[0.1, 0.2], [0.8, 0.9]])
    labels = model.predict([[0.1, 0.2], [1.0, None], [0.8, 0.9]])
    assert (labels == -1).tolist() == [False, True, False]
    # What is no row of the declared length would shift all labels after it, were it left out.
    for slip in ([1.0], None, [0.1, 0.2, 0.3]):
        with pytest.raises(DataError, match="expecting 2 features"):
            model.predict([[0.1, 0.2], slip, [0.8, 0.9]])


def test_a_file_with_two_names_is_counted_once(tmp_path):
    path = tmp_path / "in" / "a.csv"
    path.parent.mkdir()
    path.write_text("a\n0.5\n0.6\n")
    (path.parent / "b.csv").hardlink_to(path)
    source = open_source(path.parent, recoup.Box([0], [1], ("a",)))
    assert source.total(GridQuery(sides=(1,)), np.ones(1)) == [2]


def test_no_message_tells_the_values_in_the_names_of_folders(tmp_path):
    for value in ("canary", "bird"):
        (tmp_path / f"c={value}").mkdir()
        (tmp_path / f"c={value}" / "1.parquet").write_bytes(b"no parquet")
    with pytest.raises(DataError) as caught:
        open_source(tmp_path, recoup.Box([0], [1], ("a",)))
    assert "bird" not in str(caught.value)
    assert "c=*" in str(caught.value)


def test_shares_given_as_floats_are_the_decimals_that_were_typed():
    query = VoronoiQuery(centers=np.zeros((1, 1)), sums="none")
    request = Request(query=query, share=0.1, split={"count": 1.0})
    assert request.share == Fraction(1, 10)
    assert request.split == {"count": Fraction(1)}


@pytest.mark.parametrize(("n_records", "epsilon", "error"), [(10**15, 1, ParameterError), (5000, "2e-8", BudgetError)])
def test_a_plan_that_cannot_be_paid_is_refused_before_its_first_round(n_records, epsilon, error):
    context = Context(domain=recoup.Box([0] * 5, [1] * 5), epsilon=epsilon, n_records=n_records)
    with pytest.raises(error):
        AdaptiveKMeans(n_clusters=3).next_request(context, (), np.random.default_rng(0))


@pytest.mark.slow
def test_many_clusters_in_many_columns_never_ask_for_more_than_the_cap(few_points, monkeypatch):
    # A small cap: three cells a cluster, as wanted, would make 330 values, which a query refuses.
    for module in ("recoup.queries.base", "recoup.algorithms.kmeans.adaptive"):
        monkeypatch.setattr(f"{module}.MAX_SIZE", 325)
    x = np.random.default_rng(0).uniform(size=(50, 10))
    domain = recoup.Box([0] * 10, [1] * 10)
    transcript = recoup.release(AdaptiveKMeans(n_clusters=10), x, domain=domain, epsilon=1e9)
    assert sum(r.share for r in transcript.rounds) == 1
    assert max(r.query.n_cells for r in transcript.rounds if "sum" in r.query.sensitivity(domain).names) == 29


def test_a_share_that_does_not_cover_its_price_is_refused():
    x, domain = np.zeros((10, 2)), recoup.Box([0, 0], [1, 1])
    value = recoup.release(recoup.KMeans(n_clusters=2), x, domain=domain, epsilon=1).to_json()
    for share in ("0", "1/1000"):
        value["rounds"][0]["share"] = share
        body = {name: item for name, item in value.items() if name != "checksum"}
        with pytest.raises(TranscriptFormatError, match="share"):
            Transcript.from_json(body | {"checksum": checksum_of(body)})


def test_the_smallest_budgets_end(monkeypatch):
    # rho_of doubled zero for ever.
    from recoup.privacy.price import rho_of

    assert rho_of(Fraction(1, 10**160), Fraction(1, 10**6)) == 0


def test_wrong_types_are_refused_before_anything_is_charged():
    ledger = recoup.Ledger.in_memory(epsilon=3)
    good = {"domain": recoup.Box([0, 0], [1, 1]), "epsilon": 1, "ledger": ledger}
    x, algorithm = np.zeros((5, 2)), recoup.KMeans(n_clusters=2)
    for wrong in ({"domain": 5}, {"on_round": 5}, {"path": 5}, {"mechanism": []}, {"noise": "loud"}):
        with pytest.raises(ParameterError):
            recoup.release(algorithm, x, **(good | wrong))
    with pytest.raises(ParameterError):
        recoup.release("kmeans", x, **good)
    assert ledger.spent == 0


def test_a_count_factor_is_never_zero():
    from recoup.queries.counts import HistogramQuery

    query = HistogramQuery.one_way(dimension=2000, bins=2)
    sensitivity = query.sensitivity(recoup.Box([0] * 2000, [1] * 2000))
    with pytest.raises(ParameterError, match="too small"):
        Laplace().factors(sensitivity, [1999])


def test_a_changed_constant_of_another_kernel_takes_effect(tmp_path):
    # numba compared a cached function with its own file alone: a record without a value was counted after an update.
    package = Path(recoup.__file__).parent
    assert counts_around_an_update(package) == (0, 0)
    shutil.copytree(package / "kernels", tmp_path / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "version.py"):
        shutil.copy(package / name, tmp_path)
    keyed = tmp_path / "kernels" / "compiled.py"
    keyed.write_text(keyed.read_text().replace('function.__qualname__ += f"_{_DIGEST}"', ""))
    assert counts_around_an_update(tmp_path) == (0, 1)
