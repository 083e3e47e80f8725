"""What several transcripts promise together, and what is said of results that were made from them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from commands import run
from html_page import Page
from joint_cases import registered, released  # noqa: F401

import recoup
from recoup.errors import ParameterError, UnreadableFileError
from recoup.inference.evidence import joint_privacy, privacy_of
from recoup.privacy.statement import IMPORTED, NOT_PRIVATE
from recoup.queries.counts import GridQuery
from recoup.report.write import report_content


def test_one_simulated_part_marks_all():
    secure = released("grid", noise="secure")
    simulated = released("lloyd")
    assert not recoup.infer([secure, released("lloyd", noise="secure")], random_state=0, n_points=500).simulated
    for order in ([secure, simulated], [simulated, secure]):
        assert recoup.infer(order, random_state=0, n_points=500).simulated
        assert joint_privacy(order)["statement"] == NOT_PRIVATE
    claimed = recoup.transcript_from(
        domain=secure.context.domain, epsilon=0.25, rounds=[(GridQuery(sides=(2, 2)), [1, 2, 3, 4], 3)]
    )
    both = joint_privacy([secure, claimed])
    assert (both["statement"], both["noise"], both["epsilon"], both["spent"]) == (IMPORTED, "unverified", 0.75, 0.75)
    mixed = joint_privacy([secure, released("lloyd", delta=1e-6)])
    assert (mixed["mechanism"], mixed["delta"]) == ("laplace and gaussian", 1e-6)
    assert set(mixed) == set(secure.privacy) - {"counted"}


def claimed(**more):
    rounds = [(GridQuery(sides=(2, 2)), [751.5, 760.25, 740.0, 755.0], 2)]
    return recoup.transcript_from(domain=recoup.Box([0, 0], [1, 1]), epsilon=0.25, rounds=rounds, **more)


# Of the transcript that the page is about, and of another one.
PROMISES = {
    "secure and secure": (lambda: released("grid", noise="secure"), 1.0, "secure", "differentially private"),
    "secure and unverified": (claimed, 0.75, "unverified", IMPORTED),
    "secure and simulated": (lambda: released("grid"), 1.0, "simulated", NOT_PRIVATE),
    "single": (None, 0.5, "secure", "differentially private"),
}


@pytest.mark.parametrize("kind", PROMISES)
def test_what_is_said_of_a_result_is_the_promise_of_all_that_it_was_made_from(kind, tmp_path):
    other, epsilon, noise, statement = PROMISES[kind]
    part = released("lloyd", noise="secure")
    parts = [part] if other is None else [part, other()]
    paths = [tmp_path / f"{i}.json" for i in range(len(parts))]
    for item, path in zip(parts, paths, strict=True):
        item.save(path)
    inferred = recoup.infer(parts, random_state=0, n_points=800)
    assert (inferred.privacy, inferred.simulated) == (joint_privacy(parts), noise == "simulated")
    assert inferred.privacy["spent"] == inferred.privacy["epsilon"] == epsilon
    for name in ("a", "b"):
        inferred.save(tmp_path / f"{name}.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    loaded = recoup.InferredDataset.load(tmp_path / "a.parquet")
    assert (loaded.privacy, loaded.sources) == (inferred.privacy, inferred.sources)
    centers = recoup.refit(part, inferred, random_state=0)
    pages = [report_content(part, centers, data, level=None) for data in (inferred, loaded)]
    assert json.loads(json.dumps(pages)) == pages
    for order in (paths, paths[::-1]):
        assert run("infer", *order, "-o", tmp_path / "out").exit_code == 0
        page = tmp_path / "page.html"
        arguments = ("report", paths[0], "--inferred", tmp_path / "out" / "inferred.parquet", "-o", page)
        answer = run(*arguments, "--no-intervals", "--json")
        assert answer.exit_code == 0, answer.stderr
        pages.append(json.loads(answer.stdout))
        assert f"epsilon = {epsilon:g}," in answer.stderr
        assert answer.stderr.lower().startswith(statement.lower())
        words = Page(page.read_text()).words
        assert (f"of {len(parts)} releases together" in words) == (len(parts) > 1)
        assert ("from another release as well" in words) == (len(parts) > 1)
        assert ("Privacy claimed, not verified" in words) == (noise == "unverified")
        assert ("Some of the answers behind this page were made elsewhere" in words) == (noise == "unverified")
        assert ("among them some that were made elsewhere" in words) == (noise == "unverified")
        assert (NOT_PRIVATE in words) == (noise == "simulated")
    for facts in pages:
        numbers = {row["name"]: row["value"] for row in facts["privacy"]["numbers"]}
        assert (numbers["epsilon"], numbers["spent"], numbers["noise"]) == (f"{epsilon:g}", f"{epsilon:g}", noise)
        assert (facts["privacy"]["statement"], facts["private"]) == (statement, noise == "secure")
        assert facts["budget"]["epsilon"] == 0.5  # the rounds on the page are those of one transcript
        # Lines that read one transcript alone would give other numbers.
        assert ("--inferred inferred.parquet" in facts["reproduce"]["command"]) == (len(parts) > 1)
        assert ("InferredDataset.load" in facts["reproduce"]["python"]) == (len(parts) > 1)


def test_data_of_another_release_adds_what_that_one_promises():
    """It may be used, so both stand behind the page."""
    part, other = released("lloyd", noise="secure"), released("grid", noise="secure", delta=1e-6)
    found = privacy_of(part, recoup.infer(other, random_state=0, n_points=500))
    assert (found["epsilon"], found["delta"], found["mechanism"]) == (1.0, 1e-6, "laplace and gaussian")
    assert privacy_of(part, recoup.infer(claimed(), random_state=0, n_points=500))["statement"] == IMPORTED
    alone = replace(part.privacy, counted=None)  # who counts it is said of a release, not of what is made from it
    assert privacy_of(part, None) == alone
    # A file that says less than this transcript itself cannot be the statement of both: both are added up.
    own = recoup.infer(part, random_state=0, n_points=500)
    assert privacy_of(part, own) == alone
    for less in ({"epsilon": 0.1}, {"noise": "secure", "epsilon": 0.49}):
        assert privacy_of(part, replace(own, privacy=replace(own.privacy, **less)))["epsilon"] == 0.5 + less["epsilon"]
    whole = claimed()
    vouched = recoup.infer(whole, random_state=0, n_points=500)
    vouched = replace(vouched, privacy=replace(vouched.privacy, noise="secure"))
    assert privacy_of(whole, vouched)["statement"] == IMPORTED
    several = recoup.infer(released("grid", noise="secure", records_per_person=2), random_state=0, n_points=500)
    with pytest.raises(ParameterError, match="do not add up"):
        privacy_of(part, several)


def test_epsilons_add_up_as_the_decimals_they_are():
    parts = [released("lloyd", noise="secure", epsilon=e) for e in ("0.1", "0.2", "1/3")]
    found = joint_privacy(parts)
    assert (found["epsilon"], found["spent"]) == (0.633333333334, 0.633333333334)  # rounded up: never below
    assert joint_privacy(parts[:2])["spent"] == joint_privacy(parts[:2])["epsilon"] == 0.3


def test_files_of_older_versions_say_what_they_know(tmp_path):
    part = released("lloyd", noise="secure")
    inferred = recoup.infer([part, released("grid", noise="secure")], random_state=0, n_points=500)
    for simulated in (False, True):
        old = replace(inferred, privacy=None, sources=(), simulated=simulated)
        assert set(json.loads(old.to_arrow().schema.metadata[b"recoup"])) == {"method", "simulated", "named"}
        old.save(tmp_path / "old.parquet")
        loaded = recoup.InferredDataset.load(tmp_path / "old.parquet")
        assert (loaded.privacy, loaded.sources) == (None, ())
        found, alone = privacy_of(part, loaded), replace(part.privacy, counted=None)
        assert found == (alone | {"statement": NOT_PRIVATE, "noise": "simulated"} if simulated else alone)


@pytest.mark.parametrize(
    "change",
    [
        {"noise": "none"}, {"epsilon": "0.1"}, {"epsilon": float("inf")}, {"epsilon": -1.0}, {"spent": True},
        {"mechanism": "laplace\x1b[2J"}, {"unit": "9 records of one person\n"}, {"neighbours": None}, {"bounds": {}},
        {"bounds": {"low": ["0"], "high": [1.0], "columns": None}}, {"delta": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_statement_that_recoup_would_not_have_written_is_refused(change, tmp_path):
    inferred = recoup.infer(released("lloyd"), "consistency")
    replace(inferred, privacy=inferred.privacy | change).save(tmp_path / "i.parquet")
    with pytest.raises(UnreadableFileError):
        recoup.InferredDataset.load(tmp_path / "i.parquet")
    # The statement follows from the kind of noise, whatever the file calls it.
    replace(inferred, privacy=inferred.privacy | {"statement": "perfectly private"}).save(tmp_path / "i.parquet")
    assert recoup.InferredDataset.load(tmp_path / "i.parquet").privacy["statement"] == NOT_PRIVATE
