"""A ledger counts for one unit: what is released for fewer records of a person is counted upward, for more is refused.

Also: a ledger of an earlier version, which had no unit, takes no charge before one is declared, once; and what a ledger
shows of times tells nothing about how long a round took.
"""

import shutil
import sqlite3
import warnings
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import recoup.privacy.ledger
from recoup import Box, KMeans, Ledger, PrivateKMeans, release
from recoup.cli.app import app
from recoup.curator.rivals.base import release_model
from recoup.curator.rivals.gupt import Gupt
from recoup.errors import BudgetExceededError, LedgerUnitError, ParameterError, UnitConverted
from recoup.privacy.gaussian import amount_of, counted, epsilon_of
from recoup.privacy.price import Price
from recoup.privacy.statement import Unit

BOX = Box([0, 0], [1, 1])
X = np.random.default_rng(0).uniform(size=(60, 2))
DELTA = Fraction(1, 10**6)
FIVE = Unit(records_per_person=5)
OLD = Path(__file__).parents[1] / "golden" / "ledger-v1.db"


def pure(amount):
    return Price(measure="pure", amount=Fraction(amount))


def zcdp(amount):
    return Price(measure="zcdp", amount=Fraction(amount))


def run(ledger, records_per_person, epsilon="0.5", **terms):
    algorithm = KMeans(n_clusters=2, n_rounds=2)
    return release(
        algorithm, X, domain=BOX, epsilon=epsilon, ledger=ledger, records_per_person=records_per_person, **terms
    )


@pytest.fixture
def old(tmp_path):
    shutil.copy(OLD, tmp_path / "old.db")
    return tmp_path / "old.db"


# ---- units are not added as if alike ----


def test_a_person_with_five_records_loses_three_and_the_ledger_says_so():
    ledger = Ledger.in_memory(epsilon=3)
    run(ledger, 5)
    with pytest.warns(UnitConverted, match="every epsilon is counted 5 times, every rho 25 times"):
        run(ledger, 1)
    assert ledger.unit == FIVE
    # 0.5 for five records of a person, and 5 times 0.5 for one record; each round's price is an ulp below its share.
    assert Fraction(299999, 100000) < ledger.spent <= 3
    assert [entry.unit for entry in ledger.entries()] == [FIVE, FIVE, Unit(), Unit()]
    with pytest.raises(BudgetExceededError):
        run(ledger, 5, "0.001")


def test_a_release_for_more_records_than_the_ledger_is_refused_before_anything_is_drawn(tmp_path):
    ledger = Ledger.in_memory(epsilon=3)
    run(ledger, 1)
    before = ledger.entries()
    with pytest.raises(
        LedgerUnitError, match=r"counts what is lost by one record, and the release is for 5"
    ) as refusal:
        run(ledger, 5, path=tmp_path / "t.json")
    assert "records_per_person=5" in str(refusal.value)
    assert (ledger.entries(), list(tmp_path.iterdir())) == (before, [])
    with pytest.raises(LedgerUnitError):
        ledger.charge(pure("1/10"), purpose="more", unit=FIVE)
    assert ledger.entries() == before


@pytest.mark.parametrize(("ours", "theirs", "steps"), [(5, 1, 5), (5, 2, 3), (5, 5, 1), (6, 2, 3), (2**20, 1, 2**20)])
def test_prices_are_counted_upward_by_steps_of_what_they_hide(ours, theirs, steps):
    unit, priced = Unit(records_per_person=ours), Unit(records_per_person=theirs)
    assert unit.price(pure("1/7"), priced) == pure(Fraction(steps, 7))
    assert unit.price(zcdp("1/7"), priced) == zcdp(Fraction(steps**2, 7))
    # A pure price weighs the same whether it is converted before or after zCDP.
    assert unit.price(pure("1/7"), priced).rho == unit.price(zcdp(pure("1/7").rho), priced).rho


@pytest.mark.parametrize("accounting", ["gaussian", "zcdp"])
def test_with_delta_the_total_is_converted_from_rhos_of_the_ledgers_unit(accounting):
    def price(amount):
        return Price(measure=accounting, amount=Fraction(amount))

    ledger = Ledger.in_memory(epsilon=3, delta=DELTA, records_per_person=3, accounting=accounting)
    ledger.charge(price("1/1000"), purpose="for one")
    assert ledger.spent == epsilon_of(accounting, Fraction(9, 1000), DELTA)
    ledger.charge(pure("1/10"), purpose="Laplace, for one")
    total = Fraction(9, 1000) + counted(pure("3/10"), accounting)
    assert ledger.spent == min(epsilon_of(accounting, total, DELTA), 3)
    left = amount_of(accounting, Fraction(3), DELTA) - total
    assert ledger.preview([price(left)], unit=Unit(records_per_person=3)).fits
    assert ledger.preview([price(left / 9)]).fits
    assert not ledger.preview([price(left / 8)]).fits
    with pytest.raises(BudgetExceededError):
        ledger.charge(price(left / 8), purpose="for one")
    alone = Ledger.in_memory(epsilon=3, delta=DELTA, records_per_person=3)
    alone.charge(pure(1), purpose="Laplace, for one")
    assert (alone.spent, alone.left) == (3, 0)


def test_gaussian_releases_are_counted_upward_too():
    ledger = Ledger.in_memory(epsilon=9, delta=DELTA, records_per_person=5)
    with pytest.warns(UnitConverted):
        transcript = run(ledger, 1, delta=DELTA)
    assert ledger.spent == epsilon_of("gaussian", 25 * transcript.amount_spent, DELTA)


def test_what_is_asked_is_shown_in_the_ledgers_unit():
    ledger = Ledger.in_memory(epsilon=1, records_per_person=5)
    with pytest.raises(BudgetExceededError) as refusal, pytest.warns(UnitConverted):
        run(ledger, 1)
    assert (refusal.value.asked, refusal.value.left) == (Fraction(5, 2), 1)
    assert ledger.entries() == ()


def test_algorithms_without_a_transcript_and_estimators_have_units_too():
    ledger = Ledger.in_memory(epsilon=4, records_per_person=2)
    with pytest.warns(UnitConverted):
        model = release_model(Gupt(n_clusters=2), X, domain=BOX, epsilon=1, n_records=60, ledger=ledger)
    assert ledger.spent == pytest.approx(2 * model.privacy["spent"])
    with pytest.raises(LedgerUnitError):
        release_model(Gupt(n_clusters=2), X, domain=BOX, epsilon=1, ledger=ledger, records_per_person=3)
    terms = {"bounds": ([0, 0], [1, 1]), "ledger": ledger, "algorithm": "lloyd", "postprocess": "none"}
    with pytest.raises(LedgerUnitError):
        PrivateKMeans(n_clusters=2, epsilon=1, records_per_person=3, **terms).fit(X)


def test_the_unit_is_that_of_the_first_charge_unless_it_was_declared(tmp_path):
    assert Ledger.in_memory(epsilon=1).unit is None
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnitConverted)
        first = Ledger.in_memory(epsilon=1)
        run(first, 5)
        assert first.unit == FIVE
        declared = Ledger.create(tmp_path / "l.db", epsilon=1, records_per_person=5)
        assert Ledger(tmp_path / "l.db").unit == FIVE
        run(declared, 5)
    for wrong in (0, 1.5, True, "5", 2**21):
        with pytest.raises(ParameterError, match="records_per_person"):
            Ledger.create(tmp_path / "m.db", epsilon=1, records_per_person=wrong)
    assert not (tmp_path / "m.db").exists()


def test_a_line_is_another_unit_than_a_record(tmp_path, old):
    path = tmp_path / "x.csv"
    np.savetxt(path, X, delimiter=",", header="a,b", comments="")
    terms = {"domain": Box([0, 0], [1, 1], columns=("a", "b")), "epsilon": "0.5"}
    ledger = Ledger.in_memory(epsilon=3)
    release(KMeans(n_clusters=2, n_rounds=1), path, ledger=ledger, csv_dialect="lines", **terms)
    assert ledger.unit == Unit(kind="line")
    with pytest.raises(LedgerUnitError, match="one line"):
        release(KMeans(n_clusters=2, n_rounds=1), path, ledger=ledger, **terms)
    assert float(ledger.spent) == pytest.approx(0.5)
    ran = CliRunner().invoke(app, ["ledger", "declare", str(old), "--records-per-person", "2", "--kind", "line"])
    assert ran.exit_code == 0, ran.stderr
    assert Ledger(old).unit == Unit(kind="line", records_per_person=2)


def test_whom_one_column_names_is_not_whom_another_names(tmp_path):
    table = {"a": X[:, 0], "patient": np.arange(60) // 4, "ward": np.arange(60) % 3}
    terms = {"domain": Box([0], [1], columns=("a",)), "epsilon": "0.5"}
    ledger = Ledger.create(tmp_path / "l.db", epsilon=3)

    def spend(person):
        return release(KMeans(n_clusters=2, n_rounds=1), pd.DataFrame(table), ledger=ledger, person=person, **terms)

    first = spend("patient")
    spent = ledger.spent
    with pytest.raises(LedgerUnitError, match="for one person, by column 'ward': persons that two columns name are"):
        spend("ward")
    with pytest.raises(LedgerUnitError, match="by column 'patient', and the release is for one record"):
        spend(None)
    assert ledger.spent == spent
    assert Ledger(tmp_path / "l.db").unit == first.context.unit == Unit(kind="person", column="patient")
    spend("patient")
    assert ledger.spent == 2 * spent
    other = Ledger.in_memory(epsilon=1)
    assert str(other.declare(kind="line", person="ward")) == "one person by lines, by column 'ward'"
    with pytest.raises(ParameterError):
        Ledger.in_memory(epsilon=1).declare(kind="person", person="ward")


def test_a_ledger_that_forgot_the_column_would_add_both_up(monkeypatch):
    monkeypatch.setattr(Unit, "like", lambda ours, theirs: ours.kind == theirs.kind)
    ledger = Ledger.in_memory(epsilon=1)
    for column in ("patient", "ward"):
        ledger.charge(pure("0.5"), purpose="x", unit=Unit(kind="person", column=column))
    assert ledger.spent == 1


def test_what_was_charged_can_be_charged_to_a_ledger_for_more_records():
    ledger, larger = Ledger.in_memory(epsilon=1), Ledger.in_memory(epsilon=9, records_per_person=5)
    run(ledger, 1)
    for entry in ledger.entries():
        price = Price(measure=entry.measure, amount=entry.amount)
        larger.charge(price, purpose=entry.purpose, run=entry.run, unit=entry.unit)
    assert larger.spent == 5 * ledger.spent


# ---- ledgers of an earlier version ----


def test_an_older_ledger_is_read_and_takes_no_charge(old):
    before = old.read_bytes()
    ledger = Ledger(old)
    assert (ledger.identifier, ledger.unit, len(ledger.entries())) == (None, None, 3)
    assert ledger.epsilon == 3
    for use in (
        lambda: ledger.charge(pure("1/100"), purpose="more"),
        lambda: ledger.preview([pure("1/100")]),
        lambda: run(ledger, 1, "0.01"),
    ):
        with pytest.raises(LedgerUnitError, match=r"declare\(records_per_person=1\)"):
            use()
    assert old.read_bytes() == before


def test_an_older_ledger_is_declared_once_and_goes_on(old):
    ledger, before = Ledger(old), Ledger(old).export()
    assert ledger.declare(records_per_person=2) == Unit(records_per_person=2)
    after = ledger.export()
    assert {key: after[key] for key in ("epsilon", "delta", "spent", "left")} == {
        key: before[key] for key in ("epsilon", "delta", "spent", "left")
    }
    unit = {"kind": "record", "records_per_person": 2}
    assert after["entries"] == [entry | {"unit": unit} for entry in before["entries"]]
    assert (after["version"], after["unit"], len(after["identifier"])) == (4, unit, 32)
    for again in (1, 2, 3):
        with pytest.raises(LedgerUnitError, match="once"):
            ledger.declare(records_per_person=again)
    assert ledger.charge(zcdp("1/1000"), purpose="more", unit=Unit(records_per_person=2)).id == 4
    with pytest.raises(LedgerUnitError):
        ledger.charge(zcdp("1/1000"), purpose="more", unit=Unit(records_per_person=3))


def test_a_declaration_that_is_interrupted_leaves_the_older_ledger(old, monkeypatch):
    before = Ledger(old).export()
    connect, statements = sqlite3.connect, []

    class Dying(sqlite3.Connection):
        def execute(self, statement, *arguments):
            if not statement.startswith(("SELECT", "PRAGMA synchronous", "PRAGMA trusted")):
                statements.append(statement)
                if len(statements) == fatal:
                    raise RuntimeError("killed")
            return super().execute(statement, *arguments)

    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Dying))
    for fatal in range(1, 100):  # noqa: B007 (the connection reads it)
        statements.clear()
        try:
            Ledger(old).declare(records_per_person=1)
        except RuntimeError:
            monkeypatch.undo()
            assert Ledger(old).export() == before
            monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Dying))
        else:
            break
    assert 10 < fatal < 100
    fatal = -1
    assert Ledger(old).unit == Unit()


def test_the_command_declares_and_says_for_whom(old, tmp_path):
    def called(*words):
        return CliRunner().invoke(app, [str(word) for word in words])

    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in X))
    cluster = ["release", tmp_path / "t.csv", "-k", 2, "--epsilon", "0.1", "--bounds", "a=0:1,b=0:1", "--rounds", 1]
    refused = called(*cluster, "--ledger", old, "-o", tmp_path / "t.json")
    assert refused.exit_code == 5
    assert "recoup ledger declare PATH --records-per-person 1" in refused.stderr
    assert "not declared" in called("ledger", "show", old).stdout
    assert "2 records of one person" in called("ledger", "declare", old, "--records-per-person", 2).stdout
    assert called("ledger", "declare", old, "--records-per-person", 2).exit_code == 5
    made = called("ledger", "create", tmp_path / "l.db", "--epsilon", 3, "--records-per-person", 5, "--json")
    assert '"records_per_person": 5' in made.stdout
    done = called(*cluster, "--ledger", tmp_path / "l.db", "-o", tmp_path / "t.json")
    assert done.exit_code == 0
    assert "recoup: The ledger" in done.stderr
    assert "counted 5 times" in done.stderr
    assert "5 x" in called("ledger", "show", tmp_path / "l.db", "--rounds").stdout
    more = called(*cluster, "--ledger", tmp_path / "l.db", "-o", tmp_path / "u.json", "--records-per-person", 6)
    assert more.exit_code == 5
    assert "recoup ledger create PATH --epsilon 3 --records-per-person 6" in more.stderr


# ---- times ----


def test_nothing_that_is_shown_or_kept_tells_how_long_a_round_took(tmp_path, monkeypatch):
    class Clock(datetime):
        hours = 0

        @classmethod
        def now(cls, tz=None):
            cls.hours += 7
            return datetime(2026, 1, 1, 5, 3, 7, tzinfo=UTC) + timedelta(hours=cls.hours)

    monkeypatch.setattr(recoup.privacy.ledger_file, "datetime", Clock)
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1)
    transcript = run(ledger, 1)
    # Two rounds, seven hours apart: both have the day on which the run began.
    assert [entry.time for entry in ledger.entries()] == ["2026-01-01", "2026-01-01"]
    assert ledger.charge(pure("1/100"), purpose="by hand").time == "2026-01-02"
    shown = CliRunner().invoke(app, ["ledger", "show", str(tmp_path / "l.db")]).stdout
    exported = CliRunner().invoke(app, ["ledger", "export", str(tmp_path / "l.db")]).stdout
    kept = (tmp_path / "l.db").read_bytes().decode("latin-1")
    for text in (shown, exported, kept, str(transcript.to_json())):
        assert ":03:07" not in text
    assert exported.count("2026-01-01") == 2


def test_times_of_an_older_ledger_are_days_too(old):
    entries = Ledger(old).entries()
    # Its file has 23:59:32 and 00:00:33 of the next day for one run.
    assert [entry.time for entry in entries] == ["2025-03-01", "2025-03-01", "2025-03-02"]
    ledger = Ledger(old)
    ledger.declare(records_per_person=1)
    assert ledger.entries() == tuple(entry._replace(unit=Unit()) for entry in entries)
    assert b":59:32" not in old.read_bytes()
