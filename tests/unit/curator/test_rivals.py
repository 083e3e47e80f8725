"""GUPT and PrivGene by hand, through the estimator and from the command line."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from cases import RecordingNoise, context
from rival_cases import Both, RecordingSelector, run
from sklearn.base import clone
from typer.testing import CliRunner

from recoup import Box, Category, L1Ball, Ledger, PrivateKMeans, Schema
from recoup.cli.app import app
from recoup.curator.rivals import RIVALS, rival_of
from recoup.curator.rivals.base import ChargedNoise, release_model
from recoup.curator.rivals.gupt import Gupt, block_outputs, blocks_for
from recoup.curator.rivals.privgene import PrivGene, loss_range
from recoup.curator.source import open_source
from recoup.errors import BudgetError, ParameterError

TRUE = np.array([[0.2, 0.2], [0.8, 0.6]])
X = np.concatenate([np.random.default_rng(k).normal(c, 0.03, size=(1000, 2)) for k, c in enumerate(TRUE)])


def model(algorithm, **terms):
    terms = {"n_clusters": 2, "epsilon": 1, "bounds": (0, 1), "random_state": 0, "noise": "simulated"} | terms
    return PrivateKMeans(algorithm=algorithm, **terms)


# ---- each rival ----


def test_the_number_of_blocks_is_the_published_one_and_at_least_one():
    assert [blocks_for(n) for n in (-5.0, 0.0, 1.0, 100.0, 5000.0, 26_733.0)] == [1, 1, 1, 6, 30, 59]


def test_a_block_without_records_has_centres_in_the_middle():
    source = open_source(np.empty((0, 2)), Box([0, 0], [1, 1]))
    assert not block_outputs(source, Box([0, 0], [1, 1]), 3, 4, key=0).any()


def test_outputs_of_blocks_are_in_lexicographic_order():
    outputs = block_outputs(open_source(X, Box([0, 0], [1, 1])), Box([0, 0], [1, 1]), 5, 3, key=0)
    for output in outputs:
        assert output.tolist() == sorted(output.tolist())


def test_gupt_averages_the_blocks_when_noise_is_negligible():
    domain = Box([0, 0], [1, 1])
    centers = run(Gupt(n_clusters=2, n_blocks=7), X, context(domain, epsilon="1e9"), noise=RecordingNoise())
    np.testing.assert_allclose(domain.from_unit(centers), TRUE, atol=0.01)


def test_privgene_finds_clusters_when_noise_is_negligible():
    fitted = model("privgene", epsilon=1e6).fit(X)
    best = min(np.abs(fitted.cluster_centers_[order] - TRUE).max() for order in ([0, 1], [1, 0]))
    assert best < 0.08


def test_rounds_of_privgene_follow_a_public_law():
    def n_rounds(**terms):
        charged = ChargedNoise(
            context(Box([0, 0], [1, 1]), **terms), noise=Both(RecordingNoise(), s := RecordingSelector(0))
        )
        PrivGene(n_clusters=2).centers(open_source(X[:5], Box([0, 0], [1, 1])), charged, np.random.default_rng(0))
        return len(s.calls)

    assert n_rounds(n_records=1000) == 8
    assert n_rounds(n_records=120_000) == 15
    assert n_rounds(n_records=10**9) == 20


def test_candidates_that_are_all_the_same_have_a_positive_range():
    assert 0 < loss_range(L1Ball([0], [1]), np.zeros((3, 2, 1))) < 1e-6


def test_the_range_is_never_above_the_squared_diameter():
    corners = np.array([[[1.0, 1.0]], [[-1.0, -1.0]]])
    assert loss_range(Box([0, 0], [1, 1]), corners) == 8.0
    assert loss_range(L1Ball([0, 0], [1, 1]), np.array([[[1.0, 0.0]], [[-1.0, 0.0]]])) == 4.0


@pytest.mark.parametrize("make", [Gupt, PrivGene])
def test_bad_parameters_are_refused(make):
    for k in (0, -1, 2.0, "3", True):
        with pytest.raises(ParameterError):
            make(n_clusters=k)
    with pytest.raises(ParameterError):
        Gupt(n_clusters=2, n_blocks=0)
    with pytest.raises(ParameterError):
        PrivGene(n_clusters=2, n_rounds=1.5)
    with pytest.raises(ParameterError, match="n_survivors"):
        PrivGene(n_clusters=2, n_candidates=5, n_survivors=6)
    for terms in ({"domain": None}, {"ledger": 3}, {"noise": "little"}, {"random_state": -1}, {"epsilon": 0}):
        with pytest.raises(ParameterError):
            release_model(make(n_clusters=2), X, **({"domain": Box([0, 0], [1, 1]), "epsilon": 1} | terms))


@pytest.mark.parametrize("rival", [Gupt(n_clusters=2), PrivGene(n_clusters=2, n_rounds=2)])
def test_a_schema_is_a_domain(rival):
    schema = Schema({"a": (0, 1), "c": Category(["u", "v", "w"])})
    frame = pd.DataFrame({"a": X[:, 0], "c": np.resize(["u", "v", "w"], len(X))})
    model = release_model(rival, frame, domain=schema, epsilon=100)
    assert model.privacy.bounds["schema"] == schema.to_json()
    assert model.centers.shape == (2, 4)
    np.testing.assert_allclose(model.centers[:, 1:].sum(axis=1), 1.0)


def test_the_registry_is_closed():
    assert RIVALS == ("gupt", "privgene")
    assert rival_of("privgene", 3, 4) == PrivGene(n_clusters=3, n_rounds=4)
    with pytest.raises(ParameterError, match="no rounds"):
        rival_of("gupt", 3, 4)
    with pytest.raises(ParameterError, match="choose"):
        rival_of("magic", 3)


def test_a_file_gives_what_a_frame_gives(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.to_csv(tmp_path / "x.csv", index=False)
    for algorithm in RIVALS:
        fits = [model(algorithm, bounds={"a": (0, 1), "b": (0, 1)}).fit(x) for x in (frame, tmp_path / "x.csv")]
        np.testing.assert_array_equal(fits[0].cluster_centers_, fits[1].cluster_centers_)


# ---- the estimator ----


@pytest.mark.parametrize("algorithm", RIVALS)
@pytest.mark.parametrize("domain", ["auto", "l1", "l2"])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (1, 5), (3, 4)])
def test_any_table_gets_finite_centres_inside_the_bounds(algorithm, domain, d, k):
    for table in (np.empty((0, d)), np.full((1, d), 0.9), np.full((3, d), np.nan)):
        centers = model(algorithm, n_clusters=k, domain=domain, epsilon=0.05).fit(table).cluster_centers_
        assert centers.shape == (k, d)
        assert np.isfinite(centers).all()
        assert ((centers >= 0) & (centers <= 1)).all()


@pytest.mark.parametrize("algorithm", RIVALS)
def test_a_fitted_rival_is_a_model_without_a_transcript(algorithm):
    fitted = model(algorithm, noise="secure").fit(pd.DataFrame(X, columns=["a", "b"]))
    assert fitted.transcript_ is None
    assert fitted.inferred_ is None
    assert set(fitted.privacy_) == set(model("lloyd", postprocess="none").fit(X).privacy_)
    assert fitted.privacy_["mechanism"] == {"gupt": "laplace", "privgene": "laplace and exponential"}[algorithm]
    assert fitted.feature_names_in_.tolist() == ["a", "b"]
    distances = fitted.transform(X)
    np.testing.assert_array_equal(fitted.predict(X), distances.argmin(axis=1))
    assert fitted.score(X) == pytest.approx(-(distances.min(axis=1) ** 2).sum())
    with pytest.raises(ParameterError, match="releases none"):
        fitted.intervals()
    assert not hasattr(clone(fitted), "cluster_centers_")
    # Another algorithm on the same object leaves nothing of the rival behind.
    again = fitted.set_params(algorithm="lloyd", postprocess="none").fit(X)
    assert again.transcript_ is not None
    assert again.privacy_["mechanism"] == "laplace"


@pytest.mark.parametrize("algorithm", RIVALS)
def test_what_needs_a_transcript_is_refused_before_anything_is_spent(algorithm, tmp_path):
    ledger = Ledger.in_memory(epsilon=2)
    for method in ("maxent", "mcmc", "consistency", "magic"):
        with pytest.raises(ParameterError, match="centres alone"):
            model(algorithm, postprocess=method, ledger=ledger).fit(X)
    for terms in ({"transcript_path": tmp_path / "t.json"}, {"resume": True}):
        with pytest.raises(ParameterError, match="no transcript"):
            model(algorithm, ledger=ledger).fit(X, **terms)
    with pytest.raises(BudgetError, match="pure epsilon"):
        model(algorithm, delta=1e-6, ledger=ledger).fit(X)
    with pytest.raises(ParameterError, match="n_records"):
        model(algorithm, n_records=0, ledger=ledger).fit(X)
    assert ledger.spent == 0


def test_a_ledger_with_delta_takes_rivals_too():
    ledger = Ledger.in_memory(epsilon=2, delta=1e-6)
    model("gupt", ledger=ledger).fit(X)
    assert 0.99 < ledger.spent <= 1


def test_rounds_are_for_privgene_only():
    seen = []
    model("privgene", n_rounds=3, n_records=2000).fit(X, on_round=seen.append)
    assert seen == [1, 2, 3]
    with pytest.raises(ParameterError, match="no rounds"):
        model("gupt", n_rounds=3).fit(X)


# ---- the command line ----


@pytest.mark.parametrize("algorithm", RIVALS)
def test_the_command_line_writes_centres_and_says_that_there_is_no_transcript(algorithm, tmp_path):
    pd.DataFrame(X, columns=["a", "b"]).to_csv(tmp_path / "x.csv", index=False)
    arguments = ["cluster", str(tmp_path / "x.csv"), "-k", "2", "--epsilon", "1", "--bounds", "a=0:1,b=0:1"]
    arguments += ["--algorithm", algorithm, "-o", str(tmp_path / "out"), "--json"]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 0, answer.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["centers.csv"]
    assert "no transcript" in answer.stderr
    assert "Differentially private" in answer.stderr
    value = json.loads(answer.stdout)
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "out" / "centers.csv"), value["centers"])
    again = CliRunner().invoke(app, [*arguments, "--resume"])
    assert again.exit_code != 0
    assert re.search("nothing to resume", again.stderr + str(again.exception))
