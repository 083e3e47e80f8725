"""What releases were for: said once and in public, kept beside their charges, and nothing that is charged changes."""

import sqlite3
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from ledgers import Make, gaussian, pure

from recoup import Box, KMeans, Ledger, PrivateKMeans, count_incomplete, find_bounds, release
from recoup.errors import LedgerFormatError, ParameterError
from recoup.privacy.gaussian import epsilon_of
from recoup.privacy.ledger_releases import user_name
from recoup.privacy.statement import Unit

GOLDEN = Path(__file__).parents[2] / "golden"
X = np.random.default_rng(0).uniform(size=(50, 2))


@pytest.fixture(autouse=True)
def ada(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOUP_USER", "ada")


def test_charges_of_a_run_are_one_release_also_where_runs_take_turns(make: Make) -> None:
    ledger = make(epsilon=2)
    ledger.begin("a", purpose="beds")
    ledger.begin("b", by="bob")
    for run, amount in (("a", "1/8"), ("b", "1/2"), ("a", "1/4")):
        ledger.charge(pure(amount), purpose="round", run=run)
    ledger.charge(pure("1/16"), purpose="by hand")
    ledger.begin("c", purpose="never came to a charge")
    first, second, third = ledger.releases()
    assert (first.run, first.purpose, first.by, first.epsilon) == ("a", "beds", "ada", Fraction(3, 8))
    assert (second.run, second.purpose, second.by, second.epsilon) == ("b", "", "bob", Fraction(1, 2))
    assert (third.run, third.purpose, third.by, third.epsilon) == ("", "by hand", "", Fraction(1, 16))
    assert [len(r.entries) for r in ledger.releases()] == [2, 1, 1]
    assert [r.spent_after for r in ledger.releases()] == [Fraction(7, 8), Fraction(5, 8), Fraction(15, 16)]
    assert ledger.export()["releases"] == [
        {"run": "a", "purpose": "beds", "by": "ada"},
        {"run": "b", "purpose": "", "by": "bob"},
        {"run": "c", "purpose": "never came to a charge", "by": "ada"},
    ]


def test_what_a_release_is_worth_is_for_the_unit_and_the_delta_of_the_ledger() -> None:
    ledger = Ledger.in_memory(epsilon=9, records_per_person=3)
    ledger.charge(pure("1/4"), purpose="round", run="a", unit=Unit())
    assert ledger.releases()[0].epsilon == Fraction(3, 4) == ledger.spent
    ledger = Ledger.in_memory(epsilon=3, delta="1e-6")
    for run in ("a", "b"):
        ledger.charge(gaussian("1/1000"), purpose="round", run=run)
    alone = [r.epsilon for r in ledger.releases()]
    assert alone == [epsilon_of("gaussian", Fraction(1, 1000), Fraction(1, 10**6))] * 2
    assert alone[0] < ledger.spent < sum(alone)


def test_what_was_said_first_stays() -> None:
    ledger = Ledger.in_memory(epsilon=1)
    ledger.charge(pure("1/4"), purpose="round", run="a")
    ledger.begin("a")
    for purpose in ("beds", "something else", ""):
        ledger.begin("a", purpose=purpose)
        assert ledger.releases()[0].purpose == "beds"


@pytest.mark.parametrize("field", ["purpose", "by"])
def test_only_one_line_that_can_be_shown_is_taken(make: Make, field: str) -> None:
    ledger = make(epsilon=1)
    for text in ("two\nlines", "\x1b[2J", "\u202e", "\ud800", "x" * 201, None if field == "purpose" else 3, b"a"):
        with pytest.raises(ParameterError, match="one line of text"):
            ledger.begin("a", **{field: text})  # type: ignore[arg-type]
    ledger.begin("a", **{field: "größe 数" + "x" * 193})


@pytest.mark.parametrize(
    "statement",
    [
        "SET amount = '1' || printf('%.*c', 3999, '0') || '/1'",
        "SET measure = 'zcdp'",
        """SET unit = '{"kind": "line"}'""",
    ],
)
def test_a_charge_that_cannot_have_been_taken_is_damage(path: Path, statement: str) -> None:
    ledger = Ledger.create(path, epsilon=1, delta="1e-6")
    ledger.charge(gaussian("1/1000"), purpose="round", run="a")
    database = sqlite3.connect(path)
    database.execute(f"UPDATE entry {statement}")
    database.commit()
    database.close()
    with pytest.raises(LedgerFormatError):
        ledger.releases()


@pytest.mark.parametrize("statement", ["SET purpose = 'a' || char(10)", "SET who = x'00'", "SET run = char(27)"])
def test_what_nobody_can_have_said_is_damage(path: Path, statement: str) -> None:
    ledger = Ledger.create(path, epsilon=1)
    ledger.begin("a", purpose="beds")
    database = sqlite3.connect(path)
    database.execute(f"UPDATE said {statement}")
    database.commit()
    database.close()
    with pytest.raises(LedgerFormatError, match="nobody can have said"):
        ledger.releases()


def test_the_user_is_whom_the_environment_or_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert user_name() == "ada"
    monkeypatch.setenv("RECOUP_USER", "a\nb")
    assert user_name() == ""
    monkeypatch.delenv("RECOUP_USER")
    monkeypatch.setattr("getpass.getuser", lambda: "grace")
    assert user_name() == "grace"

    def unknown() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", unknown)
    assert user_name() == ""


# ---- every face ----


@pytest.mark.usefixtures("few_points")
def test_every_face_that_spends_hands_its_purpose_on(tmp_path: Path) -> None:
    ledger = Ledger.in_memory(epsilon=20)
    box, given = Box([0, 0], [1, 1]), {"epsilon": 1, "ledger": ledger}
    release(KMeans(n_clusters=2, n_rounds=2), X, domain=box, purpose="1", **given)
    find_bounds(X, purpose="2", **given)
    count_incomplete(X, (0, 1), purpose="6", **given)
    model = {"n_clusters": 2, "postprocess": "none", "algorithm": "lloyd", **given}
    PrivateKMeans(**model, bounds=(0, 1)).fit(X, purpose="3")
    PrivateKMeans(**model | {"algorithm": "gupt"}, bounds=(0, 1)).fit(X, purpose="4")
    PrivateKMeans(**model, bounds="private").fit(X, purpose="5")
    assert [(r.purpose, r.by) for r in ledger.releases()] == [(text, "ada") for text in "1263455"]
    spent = ledger.spent
    for refused in (
        lambda: release(KMeans(n_clusters=2), X, domain=box, purpose="a\nb", **given),
        lambda: PrivateKMeans(**model | {"algorithm": "gupt"}, bounds=(0, 1)).fit(X, purpose="a\nb"),
    ):
        with pytest.raises(ParameterError, match="purpose must be one line"):
            refused()
    assert ledger.spent == spent


def test_a_run_that_is_continued_stays_one_release(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(_: int) -> None:
        raise Stop

    ledger = Ledger.create(tmp_path / "l.db", epsilon=1)
    given = {"domain": Box([0, 0], [1, 1]), "epsilon": 1, "ledger": ledger, "path": tmp_path / "t.json"}
    with pytest.raises(Stop):
        release(KMeans(n_clusters=2, n_rounds=3), X, purpose="beds", on_round=stop, **given)
    release(KMeans(n_clusters=2, n_rounds=3), X, resume=True, **given)
    (only,) = ledger.releases()
    assert (only.purpose, len(only.entries), only.epsilon) == ("beds", 3, ledger.spent)


# ---- ledgers of earlier versions ----


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_earlier_version_is_read_and_stays_as_it_is_without_a_purpose(path: Path, version: int) -> None:
    before = (GOLDEN / f"ledger-v{version}.db").read_bytes()
    path.write_bytes(before)
    ledger = Ledger(path)
    ledger.begin("a")
    assert len(ledger.releases()) > 1
    assert {(r.purpose, r.by) for r in ledger.releases() if r.run} <= {("", "")}
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [2, 3])
def test_a_purpose_makes_an_earlier_version_todays_and_nothing_else_changes(path: Path, version: int) -> None:
    path.write_bytes((GOLDEN / f"ledger-v{version}.db").read_bytes())
    ledger = Ledger(path)
    before, worth = ledger.export(), [r.epsilon for r in ledger.releases()]
    ledger.begin("a", purpose="beds")
    assert ledger.export() == before | {"releases": [{"run": "a", "purpose": "beds", "by": "ada"}]}
    assert [r.epsilon for r in ledger.releases()] == worth
    assert path.read_bytes()[60:64] == (4).to_bytes(4, "big")
    ledger.charge(pure("1/1000"), purpose="round", run="a", unit=Unit())
    assert ledger.releases()[-1].purpose == "beds"
    assert ledger.accounting == before["accounting"]


@pytest.mark.parametrize("version", [2, 3])
def test_an_upgrade_that_is_interrupted_leaves_the_older_ledger(
    path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes((GOLDEN / f"ledger-v{version}.db").read_bytes())
    before, connect, statements, fatal = Ledger(path).export(), sqlite3.connect, [], 1

    class Dying(sqlite3.Connection):
        def execute(self, statement: str, *arguments: object) -> sqlite3.Cursor:  # type: ignore[override]
            if not statement.startswith(("SELECT", "PRAGMA synchronous", "PRAGMA trusted")):
                statements.append(statement)
                if len(statements) == fatal:
                    raise RuntimeError("killed")
            return super().execute(statement, *arguments)  # type: ignore[arg-type]

    while True:
        statements.clear()
        with monkeypatch.context() as patched:
            patched.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Dying))
            try:
                Ledger(path).begin("a", purpose="beds")
                break
            except RuntimeError:
                fatal += 1
        assert Ledger(path).export() == before
        assert path.read_bytes()[60:64] == version.to_bytes(4, "big")
    assert fatal > 10
    assert Ledger(path).export()["entries"] == before["entries"]


@pytest.mark.parametrize("run", ["a\nb", "x" * 300, None, b"x", "\ud800", ""])
def test_a_run_that_could_not_be_read_back_is_refused(make: Make, run: object) -> None:
    ledger = make(epsilon=1)
    with pytest.raises(ParameterError):
        ledger.begin(run, purpose="beds")  # type: ignore[arg-type]
    assert ledger.releases() == ()


def test_who_began_a_release_stays(make: Make) -> None:
    ledger = make(epsilon=1)
    ledger.begin("r", by="alice")
    ledger.charge(pure("1/4"), purpose="a round", run="r")
    ledger.begin("r", by="bob", purpose="beds")
    assert [(one.by, one.purpose) for one in ledger.releases()] == [("alice", "beds")]
