"""Sentences of the documentation and of statements that can be checked, each by the fact that it states."""

import inspect
import math
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from scipy.stats import norm
from typer.testing import CliRunner

import recoup
from recoup.cli.app import app
from recoup.errors import BudgetError
from recoup.privacy.statement import COUNTED, NOT_COUNTED
from recoup.report.sections import privacy as privacy_section

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "recoup"
ESTIMATORS = (
    recoup.PrivateKMeans,
    recoup.PrivateGaussianMixture,
    recoup.PrivateLogisticRegression,
    recoup.PrivatePCA,
)
X = np.random.default_rng(0).uniform(size=(60, 2))
Y = (X[:, 0] > 0.5).astype(int)


def words(page):
    return " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())


# ---- epsilon ----


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_epsilon_has_no_default(estimator, tmp_path):
    assert inspect.signature(estimator).parameters["epsilon"].default is None
    ledger = recoup.Ledger.in_memory(epsilon=3)
    # Before the table is even looked for.
    with pytest.raises(BudgetError, match=r"no default.*epsilon=1"):
        estimator(bounds=(0, 1), ledger=ledger).fit(tmp_path / "none.csv", Y)
    assert ledger.spent == 0


@pytest.mark.parametrize("algorithm", ["gupt", "privgene", "lloyd"])
def test_no_algorithm_has_one(algorithm):
    with pytest.raises(BudgetError, match="no default"):
        recoup.PrivateKMeans(2, bounds=(0, 1), algorithm=algorithm).fit(X)


@pytest.mark.parametrize("command", ["cluster", "release", "plan", "ledger create"])
def test_no_command_has_one(command):
    answer = CliRunner().invoke(app, [*command.split(), *(["x.csv"] if command != "plan" else []), "-k", "2"])
    assert answer.exit_code == 2
    assert "--epsilon" in CliRunner().invoke(app, [*command.split(), "--help"]).stdout


# ---- a ledger ----


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_fit_without_a_ledger_says_that_nothing_counts_it(estimator):
    terms = {"epsilon": 1, "bounds": (0, 1), "postprocess": "none"}
    assert estimator(**terms).fit(X, Y).privacy_["counted"] == NOT_COUNTED
    assert estimator(**terms, ledger=recoup.Ledger.in_memory(epsilon=1)).fit(X, Y).privacy_["counted"] == COUNTED
    assert NOT_COUNTED.startswith("by nothing")


def test_so_does_a_release(tmp_path):
    ledger, terms = recoup.Ledger.in_memory(epsilon=3), {"domain": recoup.Box([0, 0], [1, 1]), "epsilon": 1}
    algorithm, path = recoup.KMeans(n_clusters=2, n_rounds=2), tmp_path / "t.json"
    paid = recoup.release(algorithm, X, **terms, ledger=ledger)
    unpaid = recoup.release(algorithm, X, **terms)
    assert [item.privacy["counted"] for item in (paid, unpaid)] == [COUNTED, NOT_COUNTED]
    # What the transcript says, not a later reader: a file of the first version does not name who paid.
    replace(unpaid, payment=None).save(path)
    given = {
        "n_clusters": 2,
        "epsilon": 1,
        "bounds": (0, 1),
        "algorithm": "lloyd",
        "n_rounds": 2,
        "postprocess": "none",
    }
    model = recoup.PrivateKMeans(**given, ledger=ledger).fit(X, transcript_path=path, resume=True)
    assert "counted" not in model.privacy_
    assert len(ledger.entries()) == 2


@pytest.mark.parametrize("command", ["cluster", "release"])
def test_so_do_the_commands(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savetxt("x.csv", X, delimiter=",", header="a,b", comments="")
    recoup.Ledger.create("l.db", epsilon=1)
    given = [command, "x.csv", "-k", "2", "--epsilon", "1", "--bounds", "a=0:1,b=0:1", "--rounds", "1"]
    for more, counted in (([], NOT_COUNTED), (["--ledger", "l.db"], COUNTED)):
        answer = CliRunner().invoke(app, [*given, "-o", f"out{len(more)}", *more])
        assert answer.exit_code == 0, answer.stderr
        assert f"Counted {counted}." in " ".join(answer.stderr.split())


# ---- what a promise is worth ----


def gaussian_delta(mu, epsilon):
    """The smallest delta of Gaussian noise whose means are mu deviations apart (Balle and Wang 2018)."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
def test_what_replacing_a_record_costs(mu, epsilon):
    one, two = gaussian_delta(mu, epsilon), gaussian_delta(2 * mu, 2 * epsilon)
    assert two <= (1 + math.exp(epsilon)) * one
    page = words("statement.md")
    assert r"(1 + e^{\varepsilon}) \, \delta" in page
    assert "twice as much" not in page


def test_twice_the_delta_would_not_be_enough():
    assert gaussian_delta(2.0, 2.0) > 2.5 * gaussian_delta(1.0, 1.0)


@pytest.mark.parametrize("t", [0.1, 1.0])
def test_how_often_the_loss_exceeds_epsilon(t):
    # The loss of Gaussian noise is normal: mean mu^2 / 2, deviation mu. Delta alone is no bound on exceeding epsilon.
    mu, epsilon = 1.0, 1.0
    delta = gaussian_delta(mu, epsilon)
    assert norm.sf((epsilon + t - mu**2 / 2) / mu) <= delta / (1 - math.exp(-t))
    assert norm.sf((epsilon - mu**2 / 2) / mu) > 2 * delta
    assert r"\delta / (1 - e^{-t})" in words("statement.md")


def test_no_page_calls_delta_a_chance_of_failure():
    for path in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *SOURCE.rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"may fail with probability|With what probability may it fail|bound may be exceeded", text)


def test_the_report_says_what_delta_does():
    privacy = recoup.PrivateKMeans(2, 1, (0, 1), delta=1e-6, algorithm="lloyd", postprocess="none").fit(X).privacy_
    text = str(privacy_section.content(privacy))
    assert "every set of possible releases is at most 2.72 times as likely" in text
    assert "plus 1e-06." in text
    assert "the delta is 1 + e^epsilon times as large" in text
    pure = str(privacy_section.content(privacy | {"delta": 0.0}))
    assert "every possible release is" in pure
    assert "e^epsilon times" not in pure
    assert "cryptographic generator" in text


# ---- noise and arithmetic ----


def test_noise_is_computational_and_the_pages_say_so():
    assert "the promise is computational" in words("statement.md")
    for path in [*(ROOT / "docs").glob("*.md"), *SOURCE.rglob("*.py")]:
        assert "system's entropy" not in path.read_text(encoding="utf-8"), path


def test_what_is_used_of_opendp_is_named_with_its_flag():
    sources = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")]
    imported = [line for text in sources for line in re.findall(r"from opendp\.\w+ import (.+)", text)]
    made = {name for line in imported for name in line.split(", ") if name.startswith("make_")}
    flags = {flag for text in sources for flag in re.findall(r"enable_features\((.+)\)", text)}
    assert flags == {'"contrib"'}
    assert set(re.findall(r"`(make_\w+)`", words("statement.md"))) == made
    assert "flag `contrib`" in words("statement.md")


def test_floating_point_is_not_denied():
    # That the integers keep their bound without tolerance is tested in tests/contract and tests/property.
    page = words("statement.md")
    assert "No floating-point error is on the protected side" not in page
    assert "Floating point is used for one record at a time" in page


# ---- figures ----


def test_figures_about_synthetic_data_are_those_of_the_comparison():
    # They are measured and written there; quote them again after `make rivals`.
    comparison = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "synthetic.md").read_text(encoding="utf-8")
    parts = re.split(r"^\*\*(.+)\*\*$", page, flags=re.MULTILINE)
    for name, part in zip(parts[1::2], parts[2::2], strict=True):
        measured = comparison.split(f"### {name}\n")[1].split("\n### ")[0].splitlines()
        quoted = [line for line in part.splitlines() if re.match(r"\| \d", line)]
        assert len(quoted) >= 3
        assert [line for line in quoted if line not in measured] == []
    sentences = [line.removeprefix("> ") for line in page.splitlines() if line.startswith("> ")]
    assert len(parts) > 4
    assert len(sentences) == 2
    assert [sentence for sentence in sentences if sentence not in comparison] == []
    rest = "\n".join(line for line in page.splitlines() if not line.startswith(("|", ">")))
    assert re.findall(r"\d+\.\d+", rest) == []  # no figure that nothing checks


# ---- dependencies ----


def requirements(name):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    runs = [Requirement(line) for line in project["dependencies"]]
    develops = [Requirement(line) for line in project["optional-dependencies"]["dev"]]
    return [r for r in runs if r.name == name], [r for r in develops if r.name == name]


def test_opendp_is_new_enough():
    ((opendp,), _) = requirements("opendp")
    assert not any(opendp.specifier.contains(old) for old in ("0.12.1", "0.14.1", "0.14.2", "0.15.1"))
    assert opendp.specifier.contains("0.16.0")


def test_dp_accounting_is_for_tests():
    runs, develops = requirements("dp-accounting")
    assert (len(runs), len(develops)) == (0, 1)
    assert not any("dp_accounting" in path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))


# ---- names and walls ----


def test_testing_is_reachable_and_loaded_late():
    program = (
        "import recoup, sys\n"
        "assert 'recoup.testing' not in sys.modules\n"
        "assert recoup.testing.check_query.__name__ == 'check_query'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


class _Curious(recoup.KMeans):
    """Looks for the table in the frames that called it."""

    def next_request(self, context, rounds, rng):
        frame = sys._getframe()
        while frame is not None and "X" not in frame.f_locals:
            frame = frame.f_back
        object.__setattr__(self, "found", None if frame is None else frame.f_locals["X"])


def test_an_algorithm_in_the_curators_process_can_reach_records():
    curious = _Curious(n_clusters=2)
    recoup.release(curious, X, domain=recoup.Box([0, 0], [1, 1]), epsilon=1, isolate=False)
    assert curious.found is X
    table = (ROOT / "docs" / "statement.md").read_text(encoding="utf-8")
    (ours,) = re.findall(r"^\| Recoup's algorithms, while they release.*$", table, re.MULTILINE)
    (others,) = re.findall(r"^\| algorithms that are not Recoup's.*$", table, re.MULTILINE)
    (queries,) = re.findall(r"^\| queries that are not Recoup's.*$", table, re.MULTILINE)
    assert ours.endswith("| yes, as code |")
    # tests/unit/test_isolation.py and the audit's group "strangers" show what is said of a process of its own.
    assert "isolate=False" in others
    assert "the rights of the same user" in others
    assert "| yes" in queries
