"""The ledger: exact sums, one file that is surely a ledger, and copies that share the budget."""

import copy
import json
import math
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import Make, gaussian, pure, zcdp

from recoup.errors import (
    BudgetError,
    BudgetExceededError,
    LedgerError,
    LedgerFormatError,
    LedgerLockedError,
    ParameterError,
)
from recoup.privacy.gaussian import Accounting, amount_of, counted, epsilon_of
from recoup.privacy.ledger import Entry, Ledger
from recoup.privacy.price import Price
from recoup.privacy.statement import Unit

DELTA = Fraction(1, 10**6)


def test_thirty_times_a_tenth_fits_into_three_and_no_more(make: Make) -> None:
    ledger = make(epsilon=3)
    for k in range(30):
        entry = ledger.charge(pure("0.1"), purpose=f"round {k}", run="a")
        assert entry.spent_after == Fraction(k + 1, 10)
    with pytest.raises(BudgetExceededError) as refusal:
        ledger.charge(pure("0.1"), purpose="one too many")
    assert (refusal.value.spent, refusal.value.asked, refusal.value.left) == (3, Fraction(1, 10), 0)
    assert (ledger.spent, ledger.left, len(ledger.entries())) == (3, 0, 30)
    with pytest.raises(BudgetExceededError):
        ledger.charge(pure(5e-324), purpose="the smallest float")


def test_what_was_typed_is_the_budget(make: Make) -> None:
    ledger = make(epsilon=0.3, delta="1e-6")
    assert (ledger.epsilon, ledger.delta) == (Fraction(3, 10), DELTA)
    assert (ledger.spent, ledger.left) == (0, Fraction(3, 10))


def test_the_smallest_floats_count_exactly() -> None:
    ledger = Ledger.in_memory(epsilon=1)
    for k in range(3):
        ledger.charge(pure(5e-324), purpose=str(k))
    assert ledger.spent == 3 * Fraction(5e-324)
    with pytest.raises(BudgetExceededError):
        ledger.charge(pure(1), purpose="all of it")
    ledger.charge(pure(ledger.left), purpose="the rest, exactly")
    assert ledger.left == 0


def test_an_entry_says_what_it_was(make: Make) -> None:
    ledger = make(epsilon=1)
    first = ledger.charge(pure("1/3"), purpose="counts", run="run 1")
    second = ledger.charge(pure("1/6"), purpose="sums")
    assert ledger.entries() == (first, second)
    assert isinstance(first, Entry)
    assert first[:6] == (1, "run 1", "counts", "pure", Fraction(1, 3), Fraction(1, 3))
    assert second[:6] == (2, "", "sums", "pure", Fraction(1, 6), Fraction(1, 2))
    assert first.library
    assert first.unit == second.unit == Unit()


def test_export_is_json(make: Make) -> None:
    ledger = make(epsilon="1/3")
    ledger.charge(pure("1/4"), purpose="counts")
    exported = json.loads(json.dumps(ledger.export()))
    assert {key: exported[key] for key in ("epsilon", "delta", "spent", "left")} == {
        "epsilon": "1/3",
        "delta": "0/1",
        "spent": "1/4",
        "left": "1/12",
    }
    assert exported["entries"][0]["amount"] == "1/4"


def test_a_preview_writes_nothing(path: Path) -> None:
    ledger = Ledger.create(path, epsilon=1)
    ledger.charge(pure("1/2"), purpose="before")
    before = path.read_bytes()
    assert ledger.preview([pure("1/4")] * 2) == (Fraction(1, 2), Fraction(1, 2), 0, True)
    assert ledger.preview(iter([pure("1/4")] * 3)) == (Fraction(1, 2), Fraction(3, 4), Fraction(-1, 4), False)
    assert ledger.preview([]) == (Fraction(1, 2), 0, Fraction(1, 2), True)
    assert path.read_bytes() == before


both = pytest.mark.parametrize("accounting", ["gaussian", "zcdp"])


def test_without_delta_zcdp_is_refused_and_says_what_to_do(make: Make) -> None:
    ledger = make(epsilon=1)
    for price in (zcdp("1/100"), gaussian("1/100")):
        with pytest.raises(BudgetError, match="with a delta"):
            ledger.charge(price, purpose="Gaussian")
    with pytest.raises(BudgetError, match="with a delta"):
        ledger.preview([zcdp("1/100")])
    assert ledger.entries() == ()


@both
def test_one_measure_alone_can_spend_all_of_its_amount(make: Make, accounting: Accounting) -> None:
    ledger = make(epsilon=3, delta=1e-6, accounting=accounting)
    most = amount_of(accounting, Fraction(3), DELTA)
    for k in range(10):
        entry = ledger.charge(Price(measure=accounting, amount=most / 10), purpose=str(k))
        assert (entry.measure, entry.amount) == (accounting, most / 10)
        assert ledger.spent == ledger.entries()[-1].spent_after
        assert ledger.spent == min(3, epsilon_of(accounting, most * (k + 1) / 10, DELTA))
    assert 3 * (1 - Fraction(1, 10**9)) < ledger.spent <= 3
    with pytest.raises(BudgetExceededError) as refusal:
        ledger.charge(Price(measure=accounting, amount=most / 10**6), purpose="one too many")
    assert refusal.value.asked > refusal.value.left >= 0
    assert refusal.value.spent + refusal.value.left == 3


@both
def test_pure_alone_can_spend_all_of_epsilon_with_delta_too(accounting: Accounting) -> None:
    ledger = Ledger.in_memory(epsilon=3, delta=DELTA, accounting=accounting)
    ledger.charge(pure(2), purpose="too large for zCDP to price well")
    assert ledger.spent == 2
    ledger.charge(pure(1), purpose="the rest")
    assert (ledger.spent, ledger.left) == (3, 0)
    with pytest.raises(BudgetExceededError):
        ledger.charge(pure("1/1000"), purpose="one too many")
    with pytest.raises(BudgetExceededError):
        ledger.charge(Price(measure=accounting, amount=Fraction(1, 10**9)), purpose="mixed")


@both
def test_many_small_pure_charges_are_priced_by_the_better_rule(accounting: Accounting) -> None:
    ledger = Ledger.in_memory(epsilon=1, delta=DELTA, accounting=accounting)
    for k in range(150):
        ledger.charge(pure("1/100"), purpose=str(k))
    each = counted(pure("1/100"), accounting)
    assert float(each) == pytest.approx(0.01**2 * (0.5 if accounting == "zcdp" else math.pi / 4), rel=1e-4)
    assert ledger.spent == epsilon_of(accounting, 150 * each, DELTA) < 1
    assert Ledger.in_memory(epsilon=1).preview([pure("1/100")] * 101).fits is False


@both
def test_mixed_charges_are_priced_in_the_accounting(accounting: Accounting) -> None:
    ledger = Ledger.in_memory(epsilon=3, delta=DELTA, accounting=accounting)
    most = amount_of(accounting, Fraction(3), DELTA)
    ledger.charge(pure("1/4"), purpose="Laplace")
    assert ledger.spent == Fraction(1, 4)
    left = most - counted(pure("1/4"), accounting)
    ledger.charge(Price(measure=accounting, amount=left), purpose="Gaussian, all that is left")
    assert 3 * (1 - Fraction(1, 10**9)) < ledger.spent <= 3
    with pytest.raises(BudgetExceededError):
        ledger.charge(pure("1/1000"), purpose="one too many")


def test_a_refusal_leaves_the_ledger_as_it_was(make: Make) -> None:
    ledger = make(epsilon=1)
    with pytest.raises(BudgetExceededError, match="Nothing was charged"):
        ledger.charge(pure(2), purpose="too much")
    assert ledger.entries() == ()
    assert ledger.charge(pure(1), purpose="all").id == 1


@pytest.mark.parametrize("price", [0.1, Fraction(1, 10), "0.1", None])
def test_only_a_price_can_be_charged(price: Price) -> None:
    ledger = Ledger.in_memory(epsilon=1)
    with pytest.raises(BudgetError, match="Price"):
        ledger.charge(price, purpose="typed")
    with pytest.raises(ParameterError, match="text"):
        ledger.charge(pure("1/2"), purpose=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", [{"epsilon": 0}, {"epsilon": float("nan")}, {"delta": 1}, {"delta": -1e-6}])
def test_what_is_no_budget_creates_no_file(path: Path, budget: dict[str, float]) -> None:
    with pytest.raises(BudgetError):
        Ledger.create(path, **budget)
    assert not path.exists()


def test_creating_over_a_file_is_refused(path: Path) -> None:
    Ledger.create(path, epsilon=1).charge(pure(1), purpose="all")
    with pytest.raises(LedgerError, match="exists already"):
        Ledger.create(path, epsilon=1)
    assert Ledger(path).left == 0


def test_creating_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be created"):
        Ledger.create(tmp_path / "none" / "ledger.db")


def test_a_missing_file_says_how_to_create_one(path: Path) -> None:
    with pytest.raises(LedgerError, match=r"Ledger\.create"):
        Ledger(path)
    assert not path.exists()


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerFormatError, match="folder"):
        Ledger(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"a,b\n1,2\n", b"SQLite format 3\0", bytes(range(256)) * 32],
    ids=["empty", "text", "header", "noise"],
)
def test_another_file_is_no_ledger_and_stays_as_it_is(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(LedgerFormatError):
        Ledger(path)
    assert path.read_bytes() == content


def test_a_database_of_another_application_is_no_ledger(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE entry (id INTEGER)")
    database.close()
    with pytest.raises(LedgerFormatError, match=r"or make one with Ledger\.create"):
        Ledger(path)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("PRAGMA user_version = 5", "Update Recoup"),
        ("DROP TABLE entry", "damaged"),
        ("DELETE FROM budget", "damaged"),
        ("UPDATE budget SET epsilon = 'lots'", "damaged"),
    ],
)
def test_a_newer_or_damaged_ledger_is_refused(path: Path, statement: str, message: str) -> None:
    ledger = Ledger.create(path, epsilon=1)
    database = sqlite3.connect(path)
    database.execute(statement)
    database.commit()
    database.close()
    with pytest.raises(LedgerFormatError, match=message):
        Ledger(path)
    with pytest.raises(LedgerFormatError, match=message):
        ledger.charge(pure("1/2"), purpose="in vain")


def test_a_truncated_ledger_is_refused(path: Path) -> None:
    ledger = Ledger.create(path, epsilon=1)
    for k in range(100):
        ledger.charge(pure("1/1000"), purpose=f"{k}" * 200)
    content = path.read_bytes()
    for kept in (len(content) // 2, len(content) - 4096, 100, 4096):
        path.write_bytes(content[:kept])
        with pytest.raises(LedgerFormatError):
            Ledger(path)


def test_a_ledger_that_is_held_too_long(path: Path) -> None:
    Ledger.create(path, epsilon=1)
    ledger = Ledger(path, timeout=0.02)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerLockedError, match=r"0\.02 s"):
        ledger.charge(pure(1), purpose="waiting")
    assert ledger.spent == 0
    holder.execute("ROLLBACK")
    holder.close()
    ledger.charge(pure(1), purpose="free again")


def test_a_file_that_cannot_be_written_is_not_charged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.create(path, epsilon=1)
    connect = sqlite3.connect

    def connect_read_only(database: str, **options: object) -> sqlite3.Connection:
        return connect(database.replace("mode=rw", "mode=ro"), **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(sqlite3, "connect", connect_read_only)
    assert ledger.left == 1
    with pytest.raises(LedgerError, match="Nothing may be released"):
        ledger.charge(pure(1), purpose="in vain")


def test_copies_of_a_file_ledger_share_the_file(path: Path) -> None:
    ledger = Ledger.create(path, epsilon=1, timeout=5)
    ledger.charge(pure("1/4"), purpose="original")
    for k, twin in enumerate([copy.copy(ledger), copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger))]):
        twin.charge(pure("1/4"), purpose="copy")
        assert twin.path == ledger.path
        assert ledger.spent == Fraction(k + 2, 4)
    assert ledger.left == 0


def test_copies_of_a_memory_ledger_are_the_ledger() -> None:
    ledger = Ledger.in_memory(epsilon=1)
    assert copy.deepcopy(ledger) is ledger
    assert copy.deepcopy({"ledger": ledger})["ledger"] is ledger
    assert copy.copy(ledger) is ledger
    with pytest.raises(LedgerError, match="second budget"):
        pickle.dumps(ledger)


def test_a_clone_spends_from_the_same_budget(make: Make) -> None:
    sklearn_base = pytest.importorskip("sklearn.base")

    class Estimator(sklearn_base.BaseEstimator):  # type: ignore[misc, name-defined]
        def __init__(self, ledger: Ledger | None = None) -> None:
            self.ledger = ledger

    estimator = Estimator(make(epsilon=1))
    sklearn_base.clone(estimator).ledger.charge(pure("3/4"), purpose="clone")
    assert estimator.ledger.left == Fraction(1, 4)
    assert repr(estimator.ledger).startswith("Ledger")


def test_a_memory_ledger_refuses_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.in_memory(epsilon=1)
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    with pytest.raises(LedgerError, match="another process"):
        ledger.charge(pure("1/2"), purpose="forked")


def test_a_file_ledger_travels_to_another_process(path: Path) -> None:
    ledger = Ledger.create(path, epsilon=1)
    program = (
        "import pickle, sys\n"
        "from fractions import Fraction\n"
        "from recoup.privacy.price import Price\n"
        "ledger = pickle.loads(sys.stdin.buffer.read())\n"
        "ledger.charge(Price(measure='pure', amount=Fraction(1, 2)), purpose='another process')\n"
    )
    subprocess.run([sys.executable, "-c", program], input=pickle.dumps(ledger), check=True)
    assert ledger.spent == Fraction(1, 2)


def test_threads_share_the_budget(make: Make) -> None:
    ledger = make(epsilon=1)
    admitted: list[int] = []

    def spend() -> None:
        for _ in range(5):
            try:
                admitted.append(ledger.charge(pure("1/10"), purpose="thread").id)
            except BudgetExceededError:
                return

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(admitted) == list(range(1, 11))
    assert ledger.left == 0


def test_unrelated_denominators_are_rounded_up_and_stay_small() -> None:
    ledger = Ledger.in_memory(epsilon=1)
    exact = Fraction(0)
    for k in range(60):
        amount = Fraction(1, 2**256 + 2 * k + 1)
        exact += amount
        ledger.charge(pure(amount), purpose=str(k))
    assert exact.denominator.bit_length() > 4096 >= ledger.spent.denominator.bit_length()
    assert exact < ledger.spent < exact + Fraction(1, 2**2000)


def try_to_charge(ledger: Ledger, price: Price) -> BudgetExceededError | None:
    try:
        ledger.charge(price, purpose="drawn")
    except BudgetExceededError as refusal:
        return refusal
    return None


amounts = st.one_of(
    st.fractions(min_value=Fraction(1, 10**6), max_value=1, max_denominator=10**6),
    st.floats(min_value=5e-324, max_value=1).map(Fraction),
    st.sampled_from([Fraction(1, 10), Fraction(1, 3), Fraction(5e-324)]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(amounts, max_size=12), amounts)
def test_what_is_admitted_never_sums_to_more_than_epsilon(asked: list[Fraction], epsilon: Fraction) -> None:
    ledger, total = Ledger.in_memory(epsilon=epsilon), Fraction(0)
    for amount in asked:
        fits = ledger.preview([pure(amount)]).fits
        assert fits == (total + amount <= epsilon)
        refusal = try_to_charge(ledger, pure(amount))
        assert fits == (refusal is None)
        if refusal is None:
            total += amount
        else:
            assert (refusal.spent, refusal.asked, refusal.left) == (total, amount, epsilon - total)
    assert ledger.spent == total <= epsilon


def test_an_exact_ledger_refuses_what_is_known_in_zcdp_alone(make: Make) -> None:
    ledger = make(epsilon=3, delta=DELTA)
    assert ledger.accounting == "gaussian"
    with pytest.raises(BudgetError, match=r"create PATH --epsilon 3 --delta 1e-6 --accounting zcdp|accounting='zcdp'"):
        ledger.charge(zcdp("1/100"), purpose="a mechanism of one's own")
    with pytest.raises(BudgetError, match="in zCDP alone"):
        ledger.preview([zcdp("1/100")])
    assert ledger.entries() == ()


def test_a_ledger_of_zcdp_keeps_an_exact_price_as_its_rho(make: Make) -> None:
    ledger = make(epsilon=3, delta=DELTA, accounting="zcdp")
    entry = ledger.charge(gaussian("1/100"), purpose="Gaussian")
    assert (entry.measure, entry.amount, ledger.entries()) == ("zcdp", Fraction(1, 100), (entry,))
    assert ledger.spent == epsilon_of("zcdp", Fraction(1, 100), DELTA)


def test_an_accounting_is_one_of_two(make: Make) -> None:
    with pytest.raises(ParameterError, match="accounting"):
        make(epsilon=3, delta=DELTA, accounting="renyi")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), amounts), max_size=8),
    st.sampled_from([1, 3]),
    st.sampled_from(get_args(Accounting)),
)
def test_what_is_admitted_obeys_one_of_the_two_rules(
    asked: list[tuple[bool, Fraction]], epsilon: int, accounting: Accounting
) -> None:
    ledger = Ledger.in_memory(epsilon=epsilon, delta=DELTA, accounting=accounting)
    for is_pure, amount in asked:
        before = ledger.spent
        refusal = try_to_charge(ledger, pure(amount) if is_pure else gaussian(amount / 20))
        assert refusal is None or refusal.asked > refusal.left
        assert before <= ledger.spent * (1 + Fraction(1, 10**12))
    entries = ledger.entries()
    only_pure = all(entry.measure == "pure" for entry in entries)
    total = sum(counted(Price(measure=entry.measure, amount=entry.amount), accounting) for entry in entries)
    most = amount_of(accounting, Fraction(epsilon), DELTA)
    assert (only_pure and sum(entry.amount for entry in entries) <= epsilon) or total <= most
    assert 0 <= ledger.spent <= epsilon


# ---- the file itself ----
