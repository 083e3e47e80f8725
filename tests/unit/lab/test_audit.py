"""The audit's own parts: bounds, hearing the samplers, a second way to exact totals, tables, pages and the command."""

import json
import logging
import math
import subprocess
import sys
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

import recoup_lab.audit.attacks.table as attacks
from recoup import Box, KMeans, L1Ball, L2Ball, Ledger, release
from recoup.algorithms.registry import ALGORITHMS
from recoup.cli.app import app
from recoup.curator.source import fixed_records
from recoup.errors import ParameterError
from recoup.privacy.mechanism import SecureNoise
from recoup.queries import QUERIES
from recoup_lab.audit import evidence
from recoup_lab.audit.attacks import subjects
from recoup_lab.audit.attacks.bounds import (
    GaussianClaim,
    PureClaim,
    lower_bound,
    noticed_noise,
    proportion_limits,
    repeats_allowed,
)
from recoup_lab.audit.attacks.effort import Effort
from recoup_lab.audit.attacks.law import noticed_scale, p_value, split_residuals
from recoup_lab.audit.attacks.observed import differences, observe
from recoup_lab.audit.attacks.paths import Losses, path_loss
from recoup_lab.audit.attacks.reference import exact_totals, log_likelihood_ratio, unit_records
from recoup_lab.audit.attacks.sampler import Draw, Heard, listening
from recoup_lab.audit.findings import Finding, power_sentences, summary_rows
from recoup_lab.pages import markers

ROOT = Path(__file__).parents[3]


def finding(**more):
    terms = {"group": "law", "attack": "law of the noise", "target": "a", "tries": 3, "result": "fine", "passed": True}
    return Finding(**(terms | more))


# ---- bounds ----


def test_limits_of_a_proportion_by_the_binomial_law():
    low, high = proportion_limits(7, 50, 0.01)
    assert binom.sf(6, 50, low) == pytest.approx(0.01)
    assert binom.cdf(7, 50, high) == pytest.approx(0.01)
    assert proportion_limits(0, 50, 0.01)[0] == 0
    assert proportion_limits(50, 50, 0.01)[1] == 1


def shifted(law, shift, n, seed):
    rng = np.random.default_rng(seed)
    draw = rng.laplace if law == "laplace" else rng.normal
    return [(draw(size=n) + move)[:, None] for move in (0.0, shift)]


@pytest.mark.parametrize("claim", [PureClaim(1.0), GaussianClaim(1.0)])
def test_a_bound_comes_near_a_claim_that_is_attained_and_exceeds_one_that_is_broken(claim):
    law = "laplace" if claim.name == "epsilon" else "normal"
    bound = lower_bound(*shifted(law, 1.0, 20_000, 0), claim, 1e-6)
    assert 0.75 < bound.amount <= 1
    assert lower_bound(*shifted(law, 1.6, 20_000, 1), claim, 1e-6).amount > 1


def test_the_stated_power_of_a_bound_is_reached():
    claim, n = PureClaim(1.0), 3000
    factor = noticed_noise(claim, n, 1e-6)
    caught = [lower_bound(*shifted("laplace", 1.0 / factor, n, seed), claim, 1e-6).amount > 1 for seed in range(40)]
    # The best event is picked by a pilot, so a little is lost against the formula.
    assert 0.4 < factor < 0.9
    assert sum(caught) >= 36


def test_an_event_that_only_one_table_reaches_is_found():
    one, other = np.zeros((2000, 2)), np.zeros((2000, 2))
    one[:, 1] = np.arange(2000) % 10 == 0
    bound = lower_bound(one, other, PureClaim(1.0), 1e-6)
    assert bound.amount > 1
    assert bound.event.column == 1


# ---- hearing the samplers ----


def test_draws_are_heard_and_can_be_held():
    with listening(held=1) as heard:
        first = (
            SecureNoise().laplace([5, 6], 1e9),
            SecureNoise().gaussian([1], 2e9),
            SecureNoise().winners([1, 2], 1, 9.0),
        )
    with listening(held=1):
        second = (
            SecureNoise().laplace([7, 8], 1e9),
            SecureNoise().gaussian([3], 2e9),
            SecureNoise().winners([9, 2], 1, 9.0),
        )
    assert first == second
    assert heard.public == [("laplace", 2, 1e9, 0), ("gaussian", 1, 2e9, 0), ("selection", 2, 9.0, 1)]
    assert heard.draws[0].exact == (5, 6)
    assert heard.draws[0].answers == tuple(first[0])
    assert SecureNoise().laplace([0] * 8, 1e9) != SecureNoise().laplace([0] * 8, 1e9)


def test_the_original_samplers_come_back_after_an_error():
    import recoup.privacy.mechanism

    before = recoup.privacy.mechanism._opendp
    with pytest.raises(ZeroDivisionError), listening():
        raise ZeroDivisionError
    assert recoup.privacy.mechanism._opendp is before


def test_prices_and_losses_by_hand():
    draw = Draw(kind="laplace", exact=(0, 0), answers=(), scale=4.0)
    assert draw.price(2) == Fraction(1, 2)
    gaussian = Draw(kind="gaussian", exact=(0, 0), answers=(), scale=2.0)
    assert gaussian.price(2) == Fraction(1, 2)
    assert path_loss(gaussian, Draw(kind="gaussian", exact=(3, 4), answers=(), scale=2.0)) == Fraction(25, 8)
    choice = Draw(kind="selection", exact=(0, 0, 0), answers=(), scale=4.0, n_winners=2)
    assert choice.price(2) == 1
    one_way, both_ways = ((0, -2, -1), (1, -2, 0))
    moved = [path_loss(choice, Draw(kind="selection", exact=m, answers=(), scale=4.0)) for m in (one_way, both_ways)]
    assert moved == [1, Fraction(3, 2)]


def test_the_largest_loss_is_kept_and_what_is_unlike_or_fails_is_noted():
    def heard(*exact):
        return Heard([Draw(kind="laplace", exact=exact, answers=(), scale=4.0)])

    losses, terms = Losses("a"), subjects.Terms()
    assert losses.compare([heard(0, 0), heard(4, 0)], terms, "all of it") == 1
    losses.compare([heard(0, 0), heard(1, 1)], terms, "half of it")
    assert losses.finding("loss", "x").passed
    assert (losses.tries, losses.where) == (2, "all of it")
    losses.compare([heard(0, 0), heard(4, 1)], terms, "too much")
    assert not losses.finding("loss", "x").passed
    for spoil in (
        lambda found: found.compare([heard(0), heard(0, 0)], terms, "b"),
        lambda found: found.compare([Heard(), Heard()], terms, "b"),
    ):
        spoil(unlike := Losses("b"))
        assert not unlike.finding("loss", "x").passed
    with (failing := Losses("c")).errors("d"):
        raise ValueError("the words of a record")
    assert failing.finding("loss", "x").result == "ValueError was raised: d"


# ---- a second way to exact totals ----


@pytest.mark.parametrize("domain", [Box([0, -1], [4, 1]), L1Ball([0, -1], [4, 1]), L2Ball([0, -1], [4, 1], radius=0.7)])
def test_the_second_way_agrees_with_the_curators(domain):
    rng = np.random.default_rng(2)
    table = np.concatenate([rng.uniform(-1, 5, size=(200, 2)), [[np.nan, 0], [np.inf, 1], [1e300, -1e300]]])
    ours = fixed_records(table, domain)
    ours = ours[ours[:, 0] != np.iinfo(np.int32).min]
    assert np.abs(ours - unit_records(table, domain) * 2.0**30).max() <= 1
    transcript = release(KMeans(n_clusters=3, n_rounds=2), table, domain=domain, epsilon=1e9, random_state=0)
    for answered in transcript.rounds:
        exact = exact_totals(answered, unit_records(table, domain))
        # Little noise, and a step of the grid for each record.
        assert np.abs(np.array(answered.integers) - exact).max() < 1000


def test_likelihood_ratio_by_hand():
    transcript = release(KMeans(n_clusters=2, n_rounds=1), [[0.5]], domain=Box([0], [1]), epsilon=1)
    (answered,) = transcript.rounds
    values = np.array(answered.integers, dtype=float)
    assert log_likelihood_ratio(answered, values + answered.scale, values) == pytest.approx(len(values))


# ---- laws ----


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_stated_power_of_the_law_is_reached(mechanism):
    n = 800
    factor = noticed_scale(n, mechanism)
    rng = np.random.default_rng(3)
    draw = rng.laplace if mechanism == "laplace" else rng.normal
    assert sum(p_value(factor * draw(size=n), mechanism) <= 1e-6 for _ in range(200)) >= 190
    assert all(p_value(draw(size=n), mechanism) > 1e-6 for _ in range(200))


def test_residuals_of_empty_cells_are_apart():
    terms = subjects.Terms()
    transcript = release(KMeans(n_clusters=2, n_rounds=1), np.empty((0, 2)), domain=terms.domain, epsilon=1)
    parts = split_residuals(transcript.rounds[0], np.array([0.0, 5, 0, 0, 1, 1]), terms)
    assert {name: len(values) for name, values in parts.items()} == {
        "count, empty": 1,
        "count, not empty": 1,
        "sum, empty": 2,
        "sum, not empty": 2,
    }


def test_repeats_by_chance_are_allowed_for():
    values = np.random.default_rng(0).integers(0, 2**10, size=200)
    assert 0 < 200 - len(np.unique(values)) <= repeats_allowed(200, 2.0**9, 1e-6)
    assert repeats_allowed(2, 2.0**40, 1e-6) == 0


# ---- what is attacked ----


def test_everything_registered_is_attacked():
    names = {subject.name for subject in subjects.subjects()}
    assert names >= set(ALGORITHMS) - subjects.NEVER_RELEASED
    assert names >= {"gupt", "privgene"}
    assert {query.type_name for query in subjects.queries("laplace").values()} == set(QUERIES)


def test_an_algorithm_that_cannot_be_built_is_named(monkeypatch):
    monkeypatch.setitem(subjects.ALGORITHM_EXAMPLES, "kmeans-lloyd", {"n_clusters": -1})
    with pytest.raises(ParameterError, match="no example of kmeans-lloyd"):
        subjects.subjects()


def test_neighbours_differ_by_what_one_person_holds():
    for per_person in (1, 3):
        for pair in subjects.neighbours(subjects.BOX, n_records=per_person, rng=np.random.default_rng(0)).values():
            np.testing.assert_array_equal(pair.having[: len(pair.without)], pair.without)
            assert len(pair.having) - len(pair.without) == per_person


# ---- what can be seen ----


def test_all_that_can_be_seen_is_noted(tmp_path):
    def work(folder):
        logging.getLogger("recoup.test").debug("a log line")
        warnings.warn("a warning", stacklevel=1)
        sys.stdout.write("said")
        sys.stderr.write(f"complained in {folder}")
        (folder / "a.txt").write_text("content")
        ledger = Ledger.create(folder / "l.db", epsilon=2)
        release(KMeans(n_clusters=2, n_rounds=1), [[0.5]], domain=Box([0], [1]), epsilon=1, ledger=ledger)
        raise ValueError("bad")

    seen = observe(work, tmp_path, held=0)
    assert seen["error"] == "ValueError: bad"
    assert seen["log"] == ["recoup.test DEBUG a log line"]
    assert seen["warnings"] == ["UserWarning: a warning"]
    assert (seen["standard output"], seen["standard error"]) == ("said", "complained in FOLDER")
    assert seen["file a.txt"] == "content"
    assert [entry[1:3] for entry in seen["file l.db"]] == [("pure", Fraction(1))]
    assert [draw[:2] for draw in seen["draws"]] == [("laplace", 4)]
    assert differences(seen, seen | {"log": []}) == ["log"]


# ---- the table of attacks, the page and the command ----


def planned(monkeypatch, *found):
    def run(effort):
        for item in found:
            if isinstance(item, Exception):
                raise item
            yield item

    monkeypatch.setattr(attacks, "ATTACKS", (attacks.Attack("law", "a plan of a test", run),))


def test_an_attack_that_cannot_be_run_is_broken_and_fails(monkeypatch):
    planned(monkeypatch, finding(), ValueError("unforeseen"))
    first, second = attacks.run_attacks(Effort())
    assert first.passed
    assert (second.passed, second.broken) == (False, True)
    assert "unforeseen" in second.result


def test_the_command_ends_with_an_error_if_an_attack_succeeds(monkeypatch, tmp_path):
    planned(monkeypatch, finding(), finding(target="b", passed=False, result="not fine"))
    result = CliRunner().invoke(app, ["audit", "--json", "-o", str(tmp_path)])
    assert result.exit_code == 1
    value = json.loads(result.stdout)
    assert (value["passed"], len(value["findings"])) == (False, 2)
    assert "1 attack succeeded" in result.stderr
    assert "**failed:** not fine" in (tmp_path / "evidence.md").read_text()
    planned(monkeypatch, finding())
    result = CliRunner().invoke(app, ["audit", "-o", str(tmp_path)])
    assert result.exit_code == 0
    assert "law of the noise" in result.stdout
    assert "failed" not in (tmp_path / "evidence.md").read_text()


def test_only_must_name_a_group(monkeypatch):
    planned(monkeypatch, finding(passed=False), finding())
    value = json.loads(CliRunner().invoke(app, ["audit", "--only", "law", "--json"]).stdout)
    assert [found["passed"] for found in value["findings"]] == [False, True]
    result = CliRunner().invoke(app, ["audit", "--only", "nothing"])
    assert result.exit_code == 2
    assert "choose from law" in result.stderr


def test_parts_of_the_page_are_replaced_and_the_rest_stays(tmp_path):
    begin, end = markers(evidence.ATTACKS)
    (tmp_path / "evidence.md").write_text(f"# Evidence\nwords\n{begin}\nold\n{end}\nmore words\n")
    evidence.write_audit(tmp_path, [finding()], quick=True, seed=0)
    evidence.write_planted(tmp_path, {"half-the-noise": {"what": "half | noise", "caught": ["law: law of the noise"]}})
    text = (tmp_path / "evidence.md").read_text()
    assert "old" not in text
    assert text.startswith("# Evidence\nwords\n")
    assert "more words" in text
    assert "| half-the-noise | half \\| noise | law |" in text
    assert "| law | law of the noise | 1 | 3 | fine | 1 |" in text
    assert "1 of 1 caught" in text
    (tmp_path / "evidence.md").write_text(f"{end}\n{begin}\n")
    with pytest.raises(ParameterError, match="one line"):
        evidence.write_audit(tmp_path, [finding()], quick=True, seed=0)


def test_a_summary_shows_the_worst_result():
    bounds = [
        finding(group="mechanisms", attack="bound", target=t, result=f"{b} of 1", figures={"bound": b, "claim": 1.0})
        for t, b in (("a", 0.2), ("b", 0.9), ("c", 0.5))
    ]
    (row,) = summary_rows(bounds, {"mechanisms: bound": ["a-bug"], "mechanisms: another": ["not-here"]})
    assert (row.n_targets, row.tries, row.result, row.caught) == (3, 9, "0.9 of 1 (b)", ("a-bug",))
    assert "3 of 3 findings are exact" in power_sentences(bounds)[-1]
    assert math.isclose(sum(f.alarm for f in bounds), 0)


# ---- planted bugs ----

PATCHES = sorted((ROOT / "lab" / "recoup_lab" / "audit" / "planted").glob("*.patch"))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_every_patch_says_what_it_does_and_applies(patch):
    lines = patch.read_text().splitlines()
    assert lines[0].startswith("# ")
    assert lines[0].endswith(".")
    catchers = lines[1].removeprefix("# Caught by: ").split(", ")
    assert {catcher.split(": ")[0] for catcher in catchers} <= {attack.name for attack in attacks.ATTACKS}
    command = ["git", "apply", "--check", "-C1", "-p1", str(patch)]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_there_are_many_planted_bugs():
    assert len(PATCHES) >= 20
