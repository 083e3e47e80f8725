"""Inference and refit from a transcript alone."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recoup
from recoup.errors import ParameterError, UnreadableFileError
from recoup.inference.infer import METHODS
from recoup.kernels.weighted_kmeans import weighted_inertia
from recoup.maxent.measure import temperature_of_means


def table(seed=0, n=3000, k=4, d=2):
    rng = np.random.default_rng(seed)
    centers = rng.uniform(0.15, 0.85, (k, d))
    return np.clip(centers[rng.integers(0, k, n)] + 0.04 * rng.normal(size=(n, d)), 0, 1)


def released(x=None, *, k=4, algorithm=None, epsilon=2.0, delta=0, domain=None, seed=0):
    x = table() if x is None else x
    d = x.shape[1]
    domain = recoup.L1Ball([0.0] * d, [1.0] * d) if domain is None else domain
    algorithm = recoup.KMeans(n_clusters=k, n_rounds=4) if algorithm is None else algorithm
    return recoup.release(
        algorithm, x, domain=domain, epsilon=epsilon, delta=delta, random_state=seed, noise="simulated"
    )


@pytest.mark.slow
def test_the_same_seed_gives_the_same_result_in_another_process(tmp_path):
    program = (
        "import sys, json, recoup\n"
        "for path, method in json.loads(sys.argv[1]):\n"
        "    t = recoup.Transcript.load(path)\n"
        "    c = recoup.refit(t, recoup.infer(t, method, random_state=3), random_state=4)\n"
        "    print(json.dumps(c.tolist()))\n"
    )
    asked, here = [], []
    for delta in (0, 1e-6):
        transcript, path = released(delta=delta), str(tmp_path / f"{delta}.json")
        transcript.save(path)
        for method in METHODS:
            asked.append((path, method))
            here.append(recoup.refit(transcript, recoup.infer(transcript, method, random_state=3), random_state=4))
    command = [sys.executable, "-c", program, json.dumps(asked)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    for line, centers in zip(ran.stdout.splitlines(), here, strict=True):
        np.testing.assert_array_equal(np.array(json.loads(line)), centers)


@pytest.mark.parametrize("method", METHODS)
def test_a_nearly_noiseless_transcript_gives_nearly_exact_centers(method):
    # Over starts: k-means rounds can end, and inference with them, in another local optimum.
    x, ratios = table(1), []
    for seed in range(8):
        transcript = released(x, epsilon=1e5, seed=seed)
        last = recoup.refit(transcript, None)
        centers = recoup.refit(transcript, recoup.infer(transcript, method, random_state=0), random_state=0)
        ones = np.ones(len(x))
        ratios.append(weighted_inertia(x, ones, centers) / weighted_inertia(x, ones, last))
    assert np.mean(ratios) <= 1.1


def test_the_temperature_of_means_by_hand():
    assert round(temperature_of_means(20.0, 5000.0), 6) == 0.010637


def test_the_sampler_never_scores_below_its_start():
    inferred = recoup.infer(released(epsilon=0.5), "mcmc", random_state=0, n_steps=5000, n_chains=2)
    diagnostics = inferred.diagnostics
    assert max(diagnostics.log_likelihood_trace[0]) >= diagnostics.log_likelihood_trace[0][0]
    assert len(diagnostics.acceptance) == len(inferred.draws) == 2
    assert all(0 < a < 1 for a in diagnostics.acceptance)
    assert diagnostics.ess > 0
    assert diagnostics.r_hat > 0
    assert set(diagnostics.seconds) == {"consistency", "sampling", "diagnostics"}
    assert len(diagnostics.residuals) == 4
    json.dumps(diagnostics.to_json())


def test_grouping_records_that_never_moved_keeps_the_data_set():
    transcript = released(epsilon=0.5)
    inferred = recoup.infer(transcript, "mcmc", random_state=0, n_steps=100)
    n = inferred.n_records
    assert n == round(n)
    assert len(inferred.points) <= 4 + 100
    assert len(inferred.draws[0]) == n


def test_raw_values_are_an_option_of_the_sampler():
    transcript = released(epsilon=0.3)
    raw = recoup.infer(transcript, "mcmc", random_state=0, raw=True)
    assert np.isfinite(recoup.refit(transcript, raw, random_state=0)).all()


def test_a_huge_table_is_sampled_with_weighted_points(monkeypatch):
    monkeypatch.setattr("recoup.inference.record_walk.MAX_LATENT", 500)
    transcript = released()
    inferred = recoup.infer(transcript, "mcmc", random_state=0)
    assert inferred.n_records == pytest.approx(3000, rel=0.1)
    assert len(inferred.draws[0]) == 500


def test_an_interrupted_run_keeps_the_best_found_so_far():
    def stop(done, total):
        raise KeyboardInterrupt

    transcript = released()
    inferred = recoup.infer(transcript, "mcmc", random_state=0, n_steps=10**8, on_progress=stop)
    assert inferred.diagnostics.interrupted
    assert np.isfinite(recoup.refit(transcript, inferred, random_state=0)).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("x", "epsilon"),
    [(np.empty((0, 2)), 1), (np.full((1, 2), 0.3), 1), (np.full((50, 2), 0.3), 1e-3), (table(n=200), 1e-3)],
    ids=["empty", "one record", "one point, huge noise", "huge noise"],
)
@pytest.mark.parametrize("domain", [recoup.Box, recoup.L1Ball, recoup.L2Ball])
def test_degenerate_transcripts_give_finite_centers_inside_the_bounds(method, x, epsilon, domain):
    for seed in range(3):
        transcript = released(x, k=3, epsilon=epsilon, domain=domain([0, 0], [1, 1]), seed=seed)
        centers = recoup.refit(transcript, recoup.infer(transcript, method, random_state=0), random_state=0)
        assert centers.shape == (3, 2)
        assert np.isfinite(centers).all()
        assert ((centers >= 0) & (centers <= 1)).all()


@pytest.mark.parametrize("method", METHODS)
def test_one_cluster_and_one_column(method):
    transcript = released(table(2, d=1), k=1)
    centers = recoup.refit(transcript, recoup.infer(transcript, method, random_state=0), random_state=0)
    assert centers.shape == (1, 1)
    assert abs(centers[0, 0] - table(2, d=1).mean()) < 0.05


def test_another_number_of_clusters_is_free():
    transcript = released()
    inferred = recoup.infer(transcript, random_state=0)
    assert recoup.refit(transcript, inferred, n_clusters=7, random_state=0).shape == (7, 2)
    with pytest.raises(ParameterError, match="needs an inferred data set"):
        recoup.refit(transcript, None, n_clusters=7)


def test_inferred_data_can_be_saved_sampled_and_shown(tmp_path):
    inferred = recoup.infer(released(), random_state=0)
    inferred.save(tmp_path / "i.parquet")
    loaded = recoup.InferredDataset.load(tmp_path / "i.parquet")
    np.testing.assert_array_equal(loaded.points, inferred.points)
    np.testing.assert_array_equal(loaded.weights, inferred.weights)
    assert (loaded.method, loaded.simulated, loaded.columns) == ("maxent", True, None)
    assert inferred.sample(10, random_state=0).shape == (10, 2)
    assert list(inferred.to_pandas().columns) == ["x0", "x1", "weight"]
    (tmp_path / "i.parquet").write_bytes(b"PAR1 something else")
    with pytest.raises(UnreadableFileError, match="not an inferred data set"):
        recoup.InferredDataset.load(tmp_path / "i.parquet")


@pytest.mark.parametrize("header", [b"3", b'"text"', b"1.5", b"[]", b"null", b'{"privacy": 3}'])
def test_a_header_that_is_no_mapping_is_refused_by_name(tmp_path, header):
    path = tmp_path / "data.parquet"
    table = pa.table({"a": [0.5], "weight": [1.0]}).replace_schema_metadata({b"recoup": header})
    pq.write_table(table, path)
    with pytest.raises(UnreadableFileError, match="not an inferred data set"):
        recoup.InferredDataset.load(path)


def test_methods_that_need_means_refuse_other_rounds():
    from recoup.algorithms.kmeans.adaptive import AdaptiveKMeans

    transcript = released(algorithm=AdaptiveKMeans(n_clusters=4))
    with pytest.raises(ParameterError, match="absolute sums"):
        recoup.infer(transcript, "consistency")
    assert recoup.refit(transcript, recoup.infer(transcript, random_state=0), random_state=0).shape == (4, 2)


def on_their_own_data(x, centers):
    return weighted_inertia(x, np.ones(len(x)), centers)


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("algorithm", [recoup.AdaptiveKMeans, recoup.GridKMeans, recoup.HybridKMeans])
def test_the_sampler_reads_every_clustering(algorithm, delta):
    x = table()
    transcript = released(x, algorithm=algorithm(n_clusters=4), delta=delta, domain=recoup.Box([0, 0], [1, 1]))
    inferred = recoup.infer(transcript, "mcmc", random_state=0, n_steps=3000, n_chains=2)
    assert inferred.method == "mcmc"
    assert inferred.n_records == pytest.approx(len(x), rel=0.05)
    assert len(inferred.diagnostics.acceptance) == len(inferred.draws) == 2
    centers = recoup.refit(transcript, inferred, random_state=0)
    without_noise = recoup.refit(transcript, recoup.infer(transcript, random_state=0), random_state=0)
    assert on_their_own_data(x, centers) < 1.1 * on_their_own_data(x, without_noise)
    for choice in ({"raw": True}, {"target_scale": "one"}, {"correction": "mixture"}):
        with pytest.raises(ParameterError, match=f"{next(iter(choice))} is for one transcript of DP-KMEANS"):
            recoup.infer(transcript, "mcmc", **choice)
    recoup.infer(transcript, "mcmc", target_scale="noise", n_steps=10)


def test_the_scale_of_the_target_is_the_printed_one_unless_the_noise_is_asked_for():
    transcript = released(epsilon=0.5)
    traces = {}
    for scale in ("auto", "one", "noise"):
        inferred = recoup.infer(transcript, "mcmc", random_state=0, n_steps=2000, target_scale=scale)
        traces[scale] = inferred.diagnostics.log_likelihood_trace[0]
    np.testing.assert_array_equal(traces["auto"], traces["one"])
    # In the unit L1 ball counts and sums have one noise scale, so at the start the targets differ by just that factor.
    b = 2 * 4 / 0.5
    assert traces["one"][0] == pytest.approx(b * traces["noise"][0], rel=1e-6)
    gain = {scale: trace.max() / trace[0] for scale, trace in traces.items()}
    assert gain["one"] < gain["noise"] < 1  # the sharper target explains the values better: less of the misfit is left


def test_where_the_noise_is_below_one_its_own_scale_is_the_sharper_one():
    for epsilon, scale in ((7.9, "one"), (8.1, "noise")):  # 2 T / epsilon on both sides of 1
        transcript = released(epsilon=epsilon)
        auto, same = (
            recoup.infer(transcript, "mcmc", random_state=0, n_steps=500, target_scale=name) for name in ("auto", scale)
        )
        np.testing.assert_array_equal(
            auto.diagnostics.log_likelihood_trace[0], same.diagnostics.log_likelihood_trace[0]
        )


def test_the_correction_can_be_that_of_the_mixture():
    transcript = released(epsilon=0.5)
    found = [
        recoup.infer(transcript, "mcmc", random_state=0, n_steps=3000, correction=name)
        for name in ("component", "mixture")
    ]
    assert found[0].diagnostics.acceptance != found[1].diagnostics.acceptance
    assert all(0.05 < inferred.diagnostics.acceptance[0] < 1 for inferred in found)
    for inferred in found:
        assert np.isfinite(recoup.refit(transcript, inferred, random_state=0)).all()


def test_further_chains_start_far_from_the_first_and_from_each_other():
    transcript = released(epsilon=0.5)
    several = recoup.infer(transcript, "mcmc", random_state=0, n_steps=400, n_chains=4).diagnostics
    alone = recoup.infer(transcript, "mcmc", random_state=0, n_steps=400).diagnostics
    starts = [trace[0] for trace in several.log_likelihood_trace]
    assert starts[0] == alone.log_likelihood_trace[0][0] == max(starts)
    np.testing.assert_array_equal(several.log_likelihood_trace[0], alone.log_likelihood_trace[0])
    assert len(set(starts)) == 4
    assert min(np.diff(np.sort(starts))) > 1
    # A few steps of 3,000 records cannot meet, and R-hat must say so; from one start it could not.
    assert several.r_hat > 1.5


def test_further_chains_on_a_support_start_apart_too():
    transcript = released(algorithm=recoup.GridKMeans(n_clusters=4), domain=recoup.Box([0, 0], [1, 1]))
    diagnostics = recoup.infer(transcript, "mcmc", random_state=0, n_steps=400, n_chains=3).diagnostics
    starts = [trace[0] for trace in diagnostics.log_likelihood_trace]
    assert starts[0] > max(starts[1:]) + 10
    assert len(set(starts)) == 3
    assert diagnostics.r_hat > 1.5


@pytest.mark.parametrize("method", ["mcmc", "consistency"])
def test_the_papers_methods_cluster_all_that_they_inferred(method, monkeypatch):
    def pruned(*_, **__):
        raise AssertionError("the paper does not prune")

    transcript = released(epsilon=0.1)
    inferred = recoup.infer(transcript, method, random_state=0, n_steps=2000)
    centers = recoup.refit(transcript, inferred, n_clusters=3, random_state=0)
    monkeypatch.setattr("recoup.algorithms.kmeans.lloyd.without_doubtful_clusters", pruned)
    np.testing.assert_array_equal(recoup.refit(transcript, inferred, n_clusters=3, random_state=0), centers)
    with pytest.raises(AssertionError):
        recoup.refit(transcript, recoup.infer(transcript, random_state=0), random_state=0)


def test_bad_arguments():
    transcript = released()
    with pytest.raises(ParameterError, match="choose one of"):
        recoup.infer(transcript, "magic")
    with pytest.raises(ParameterError, match="positive"):
        recoup.infer(transcript, "mcmc", proposal_variance=0)
    for choice in ({"target_scale": "two"}, {"correction": "none"}):
        with pytest.raises(ParameterError, match=f"{next(iter(choice))}=.*choose one of"):
            recoup.infer(transcript, "mcmc", **choice)
    with pytest.raises(ParameterError, match="random_state"):
        recoup.infer(transcript, random_state="no")
