"""The privacy statement: a dictionary that cannot be changed, in one order, and strictly read back."""

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

import recoup
from recoup.errors import ParameterError
from recoup.privacy.statement import IMPORTED, NOT_PRIVATE, PrivacyStatement, Unit

KEYS = ["statement", "epsilon", "delta", "neighbours", "unit", "csv_dialect", "bounds", "domain", "mechanism", "noise"]


def statement(**changes):
    terms = {
        "epsilon": 0.5,
        "delta": 0.0,
        "unit": "one record",
        "csv_dialect": None,
        "bounds": {"low": [0.0], "high": [1.0], "columns": ("age",)},
        "domain": "box",
        "mechanism": "laplace",
        "noise": "secure",
        "spent": 0.25,
        "version": "1.0",
    }
    return PrivacyStatement(**terms | changes)


def test_it_reads_as_a_dictionary_in_a_fixed_order():
    privacy = statement()
    assert list(privacy) == [*KEYS, "spent", "version"]
    assert list(replace(privacy, counted="by a ledger")) == [*KEYS, "spent", "version", "counted"]
    assert privacy == dict(privacy)
    assert PrivacyStatement.__eq__ is dict.__eq__
    assert repr(privacy).startswith("<Privacy statement; epsilon 0.5; ")
    assert all(privacy[name] == getattr(privacy, name) for name in privacy)
    assert json.loads(json.dumps(privacy))["bounds"] == {"low": [0.0], "high": [1.0], "columns": ["age"]}
    assert recoup.PrivacyStatement is PrivacyStatement


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.__setitem__("epsilon", 0.1),
        lambda p: p.__delitem__("epsilon"),
        lambda p: p.update(epsilon=0.1),
        lambda p: p.setdefault("other", 1),
        lambda p: p.pop("epsilon"),
        lambda p: p.popitem(),
        lambda p: p.clear(),
        lambda p: p.__ior__({"epsilon": 0.1}),
    ],
)
def test_it_cannot_be_changed(change):
    privacy = statement()
    with pytest.raises(TypeError, match="cannot be changed"):
        change(privacy)
    with pytest.raises(FrozenInstanceError):
        privacy.epsilon = 0.1
    assert privacy == statement()
    assert type(privacy | {"epsilon": 0.1}) is dict


def test_copies_and_pickles_are_statements():
    privacy = statement(counted="by a ledger")
    for same in (copy.copy(privacy), copy.deepcopy(privacy), pickle.loads(pickle.dumps(privacy))):
        assert type(same) is PrivacyStatement
        assert same == privacy
        assert same.counted == "by a ledger"


def test_several_add_up_and_the_weakest_word_holds():
    other = statement(epsilon=0.1, delta=1e-6, mechanism="gaussian", noise="unverified", spent=0.1)
    both = PrivacyStatement.together([statement(), other, other])
    assert (both.epsilon, both.delta, both.spent) == (0.7, 2e-6, 0.45)
    assert (both.mechanism, both.noise, both.statement) == ("laplace and gaussian", "unverified", IMPORTED)
    assert PrivacyStatement.together([both, statement(noise="simulated")]).statement == NOT_PRIVATE
    # What else is said is said of the first, which is the release that was asked about.
    newer = [statement(version=f"1.{n}", bounds={"low": [0.0], "high": [1.0 + n], "columns": None}) for n in range(3)]
    assert PrivacyStatement.together(newer).version == "1.0"
    assert PrivacyStatement.together(newer).bounds == newer[0].bounds
    assert PrivacyStatement.together([statement()]) == statement()
    for term in ({"unit": "2 records of one person"}, {"neighbours": "replace-one-record"}):
        with pytest.raises(ParameterError, match="do not add up"):
            PrivacyStatement.together([statement(), statement(), statement(**term)])


def test_a_statement_covers_what_promises_no_less():
    assert statement().covers(statement())
    assert statement(epsilon=1.0, noise="unverified").covers(statement())
    for more in ({"epsilon": 0.6}, {"delta": 1e-9}, {"noise": "simulated"}):
        assert not statement().covers(statement(**more))
    assert statement(delta=0.5).covers(statement(delta=0.25))


def test_it_is_read_back():
    for privacy in (
        statement(),
        statement(unit="7 lines of one person", csv_dialect="lines", neighbours="replace-one-record"),
        statement(mechanism="gaussian"),
        statement(mechanism="laplace and gaussian"),
        statement(mechanism="gaussian and laplace", noise="unverified", domain="l2"),
    ):
        assert PrivacyStatement.from_json(json.loads(json.dumps(privacy))) == privacy
    older = {name: item for name, item in statement().items() if name != "csv_dialect"}
    assert PrivacyStatement.from_json(older) == statement()
    vouched = dict(statement(noise="simulated")) | {"statement": "differentially private"}
    assert PrivacyStatement.from_json(vouched).statement == NOT_PRIVATE
    unnamed = statement(bounds={"low": [0.0], "high": [1.0], "columns": None})
    assert PrivacyStatement.from_json(unnamed).bounds["columns"] is None


@pytest.mark.parametrize(
    "spoilt",
    [
        *({"noise": word} for word in ("private", 1, None, [])),
        *({"neighbours": word} for word in ("none", None)),
        *({"unit": word} for word in ("one", "1 record", "0 records of one person", "two lines", "one lines", "")),
        *({"unit": word} for word in (1, None, "2 records", "9999999999 records of one person", "one record ", "one")),
        *({"domain": word} for word in ("ball", 1)),
        *({"mechanism": word} for word in ("exponential", "laplace and laplace", "laplace and", 1, None)),
        *({"csv_dialect": word} for word in ("excel", 1)),
        *({name: number} for name in ("epsilon", "delta", "spent") for number in (-1.0, 1, "1", float("inf"), None)),
        *({"bounds": {"low": low, "high": [1.0], "columns": None}} for low in ([1], [float("nan")], ["0"], 1)),
        {"bounds": {"low": [0.0], "high": [float("inf")], "columns": None}},
        {"bounds": {"low": [0.0], "high": [1.0]}},
        {"bounds": None},
    ],
)
def test_what_recoup_would_not_have_written_is_refused(spoilt):
    with pytest.raises((ValueError, KeyError, TypeError)):
        PrivacyStatement.from_json(dict(statement()) | spoilt)


def test_a_unit_cannot_be_changed():
    unit = Unit(records_per_person=2)
    with pytest.raises(FrozenInstanceError):
        unit.records_per_person = 1
    assert {unit: "as a key"}[Unit(records_per_person=2)] == "as a key"


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2", None])
def test_what_counts_no_records_is_refused_by_its_name(wrong):
    with pytest.raises(ParameterError, match=r"^records_per_person=") as refusal:
        Unit(records_per_person=wrong)
    assert refusal.value.parameter == "records_per_person"


@pytest.mark.parametrize("many", [2**20 + 1, 2**40, 2**62])
def test_of_too_many_records_the_refusal_says_how_many_are_supported(many):
    assert Unit(records_per_person=2**20).records_per_person == 2**20
    with pytest.raises(ParameterError, match=f"^records_per_person={many}: at most 1048576 is supported") as refusal:
        Unit(records_per_person=many)
    assert refusal.value.parameter == "records_per_person"


@pytest.mark.parametrize("words", ["1 record of one person", "one records", "2 lines", "02 records of one person"])
def test_other_words_than_its_own_are_refused(words):
    with pytest.raises(ParameterError, match="not the words for a unit"):
        Unit.from_words(words)


def test_lines_do_not_cover_records():
    assert Unit(kind="line", records_per_person=5).covers(Unit(kind="line"))
    assert not Unit(kind="line", records_per_person=5).covers(Unit(kind="record"))
    assert not Unit(kind="record").covers(Unit(kind="line"))


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "record",
        ["kind", "records_per_person"],
        {},
        {"kind": "record"},
        {"records_per_person": 1},
        {"kind": "record", "records_per_person": 1, "more": 1},
        {"kind": "people", "records_per_person": 1},
    ],
    ids=str,
)
def test_other_json_is_refused(value):
    with pytest.raises(
        ParameterError, match=r'^a unit (has a "kind" and "records_per_person"|of kind .* is not known)'
    ):
        Unit.from_json(value)


def test_who_counts_a_release_is_not_said_of_several():
    counted = statement(counted="by a ledger")
    assert "counted" not in PrivacyStatement.together([counted, counted])


OF_PERSONS = {"unit": "one person, by column 'who'", "neighbours": "add-remove-one-person"}
PERSONS = [
    ("one person, by column 'who'", "each person's records become one row, their mean"),
    ("one person, by column 'who'", "at most 1 record of each person, chosen by a keyed hash"),
    ("one person by lines, by column 'who'", "at most 7 records of each person, chosen by a keyed hash"),
]


@pytest.mark.parametrize(("unit", "words"), PERSONS)
def test_persons_are_told_and_read_back(unit, words):
    privacy = statement(unit=unit, per_person=words, neighbours="add-remove-one-person")
    assert list(privacy)[-1] == "per_person"
    assert PrivacyStatement.from_json(json.loads(json.dumps(privacy))) == privacy
    with pytest.raises(ValueError, match="another word"):
        PrivacyStatement.from_json(dict(privacy) | {"neighbours": "add-remove-one-record"})
    assert Unit.from_words(unit).of_persons
    assert str(Unit.from_json(Unit.from_words(unit).to_json())) == unit


@pytest.mark.parametrize("words", ["their mean", "at most two records", "at most 2 record of each person", 3])
def test_other_words_of_persons_are_refused(words):
    with pytest.raises((ValueError, AttributeError)):
        PrivacyStatement.from_json(statement(**OF_PERSONS, per_person=words))


def test_a_person_is_one_whatever_they_hold():
    with pytest.raises(ParameterError, match="one person"):
        Unit(kind="person", records_per_person=2, column="who")
    with pytest.raises(ParameterError):
        Unit.from_words("2 persons of one person")
    who = Unit(kind="person", column="who")
    assert not who.covers(Unit())
    assert not Unit(records_per_person=5).covers(who)


def test_persons_are_those_of_one_column():
    who = Unit(kind="person", column="who")
    assert who.covers(Unit(kind="person", column="who"))
    assert not who.covers(Unit(kind="person", column="ward"))
    assert not who.covers(Unit(kind="person by lines", column="who"))
    other = {**OF_PERSONS, "unit": "one person, by column 'ward'"}
    assert PrivacyStatement.together([statement(**OF_PERSONS)] * 2).unit == str(who)
    with pytest.raises(ParameterError, match="do not add up"):
        PrivacyStatement.together([statement(**OF_PERSONS), statement(**other)])


@pytest.mark.parametrize(
    "name", ["who", "it's", 'a "b"', "a, by column 'b'", "\x1b[2J\n", "größe", "\ud800", "\\", "n" * 1000]
)
def test_any_name_of_a_column_is_told_and_read_back(name):
    unit = Unit(kind="person", column=name)
    assert Unit.from_words(str(unit)) == unit == Unit.from_json(json.loads(json.dumps(unit.to_json())))
    assert str(unit).isprintable()


@pytest.mark.parametrize("column", ["", None, 3, "n" * 1001])
def test_persons_without_the_name_of_a_column_are_refused(column):
    with pytest.raises(ParameterError, match="the column"):
        Unit(kind="person", column=column)
    with pytest.raises(ParameterError, match="the column"):
        Unit(kind="record", column=column or "who")


@pytest.mark.parametrize(
    "words",
    ["who", "'who", "3", "['who']", "'wh' 'o'", '"who"', "'who' ", "(" * 10_000, "''", "'\\x77ho'", "None"],
    ids=lambda words: words[:10],
)
def test_other_words_for_a_column_are_refused(words):
    with pytest.raises(ParameterError):
        Unit.from_words(f"one person, by column {words}")


def test_what_became_of_persons_is_told_of_several_only_if_alike():
    mean, sample = (statement(**OF_PERSONS, per_person=words) for _, words in PERSONS[:2])
    assert PrivacyStatement.together([mean, mean]).per_person == mean.per_person
    assert PrivacyStatement.together([mean, sample]).per_person is None


def test_a_schema_is_told_and_read_back():
    schema = recoup.Schema({"age": recoup.Number(0, 110, unit="years"), "sex": recoup.Category(["F", "M"])})
    bounds = {"low": [0.0, 0.0], "high": [110.0, 1.0], "columns": ("age", "sex=M"), "schema": schema.to_json()}
    privacy = statement(domain="mixed", bounds=bounds)
    assert PrivacyStatement.from_json(json.loads(json.dumps(privacy))).bounds["schema"] == schema.to_json()
