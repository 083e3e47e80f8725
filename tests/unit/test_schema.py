"""Declarations of columns: what they accept, what they refuse, and how they are written and read back."""

import datetime
import json

import numpy as np
import pytest

import recoup
from recoup.errors import BoundsError, MissingBoundsError
from recoup.schema import Category, Number, Schema

FULL = Schema(
    {
        "age": Number(0, 110, unit="years"),
        "charges": Number(1, 1e6, scale="log", unit="EUR", missing=1),
        "stay": Number(0, 60, scale=[1, 3, 7], weight=0.5),
        "lab1": Number(40, 400, missing="own"),
        "sex": Category(["F", "M", "unknown"]),
        "ward": Category(["surgery", "maternity"], weight=0.5, other=True, missing="own"),
        "grade": Category([1, 2, 3], ordered=True),
        "smokes": Category([True, False], missing="false"),
        'a.b = "c"': (0, 1),
    }
)


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_a_schema_is_read_back_from_a_file(tmp_path, suffix):
    FULL.save(tmp_path / f"schema{suffix}")
    assert Schema.load(tmp_path / f"schema{suffix}") == FULL
    assert list(Schema.load(tmp_path / f"schema{suffix}")) == list(FULL)


@pytest.mark.parametrize("suffix", [".toml", ".json"])
@pytest.mark.parametrize("name", ["columns", "\U0001f600", "a\x7fb", 'quote " and \\ slash', "tab\there", "a.b"])
def test_a_name_of_any_text_is_read_back(tmp_path, suffix, name):
    schema = Schema({name: Category([name, "other text"])})
    schema.save(tmp_path / f"s{suffix}")
    assert Schema.load(tmp_path / f"s{suffix}") == schema


def test_json_holds_only_what_was_declared():
    assert FULL.to_json()["age"] == {"type": "number", "low": 0.0, "high": 110.0, "unit": "years"}
    assert FULL.to_json()["smokes"] == {
        "type": "category",
        "values": ["true", "false"],
        "missing": "false",
        "weight": 0.25,
    }
    assert Schema.from_json(json.loads(json.dumps(FULL.to_json()))) == FULL


def test_a_file_by_hand_is_short(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text('[columns.age]\nlow = 0\nhigh = 110\n[columns.sex]\nvalues = ["F", "M"]\n')
    assert Schema.load(path) == Schema({"age": (0, 110), "sex": Category(["F", "M"])})
    path.write_text("age = [0, 110]\n")
    assert Schema.load(path) == Schema({"age": Number(0, 110)})


def test_values_are_texts_whatever_they_are_declared_as():
    assert Category([1, 2.0, 2.5, True, " a "]).values == ("1", "2", "2.5", "true", "a")


def test_a_schema_is_a_mapping_that_compares_by_order():
    assert recoup.Schema is Schema
    assert FULL["age"].unit == "years"
    assert len(FULL) == 9
    assert hash(FULL) == hash(Schema(dict(FULL)))
    assert Schema({"a": (0, 1), "b": (0, 1)}) != Schema({"b": (0, 1), "a": (0, 1)})
    assert len(repr(FULL)) < 300


REFUSED = {
    "bounds the wrong way round": lambda: Number(1, 0),
    "no distance": lambda: Number(1, 1),
    "a distance that overflows": lambda: Number(-1.7e308, 1.7e308),
    "infinite": lambda: Number(0, float("inf")),
    "text for a number": lambda: Number("0", 1),
    "a boolean for a number": lambda: Number(False, 1),
    "log from zero": lambda: Number(0, 1, scale="log"),
    "sqrt from below zero": lambda: Number(-1, 1, scale="sqrt"),
    "unknown scale": lambda: Number(0, 1, scale="cube"),
    "break points outside": lambda: Number(0, 1, scale=[2]),
    "break points that fall": lambda: Number(0, 9, scale=[5, 3]),
    "break points that cannot be told apart": lambda: Number(0, 1, scale=[1e-320]),
    "a logarithm that rounding loses": lambda: Number(1e15, 1e15 + 1, scale="log"),
    "octaves of known bounds": lambda: Number(1, 1.001, scale="octaves"),
    "missing outside of the bounds": lambda: Number(0, 1, missing=-999),
    "no break points": lambda: Number(0, 9, scale=[]),
    "weight of nothing": lambda: Number(0, 1, weight=0),
    "weight above one": lambda: Number(0, 1, weight=1.5),
    "missing is text": lambda: Number(0, 1, missing="none"),
    "unit is a number": lambda: Number(0, 1, unit=3),
    "one value": lambda: Category(["a"]),
    "a value twice": lambda: Category(["a", " a"]),
    "text for values": lambda: Category("ab"),
    "an empty value": lambda: Category(["a", " "]),
    "a value that is not finite": lambda: Category(["a", float("nan")]),
    "other is declared already": lambda: Category(["other", "b"], other=True),
    "missing is no value": lambda: Category(["a", "b"], missing="c"),
    "other in an order": lambda: Category(["a", "b"], ordered=True, other=True),
    "too many values": lambda: Category(range(2000)),
    "a column that is no declaration": lambda: Schema({"a": 3}),
    "a name that is no text": lambda: Schema({3: (0, 1)}),
    "an unknown field": lambda: Schema.from_json({"a": {"low": 0, "high": 1, "hi": 2}}),
    "an unknown type": lambda: Schema.from_json({"a": {"type": "date"}}),
    "a field too few": lambda: Schema.from_json({"a": {"low": 0}}),
    "a list": lambda: Schema.from_json([1, 2]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_declared_is_refused(what):
    with pytest.raises(BoundsError):
        REFUSED[what]()


def test_no_column_is_missing_bounds():
    with pytest.raises(MissingBoundsError):
        Schema({})


@pytest.mark.parametrize(
    ("text", "words"),
    [("[age]\nlow = 0\nlow = 1", "is not TOML"), ("[age", "is not TOML"), ("[age]\nlow = 0", "column 'age'")],
)
def test_a_file_that_is_wrong_is_named(tmp_path, text, words):
    path = tmp_path / "schema.toml"
    path.write_text(text)
    with pytest.raises(BoundsError, match=words) as caught:
        Schema.load(path)
    assert caught.value.__context__ is None or "column" in words


def test_a_file_that_is_not_there_or_of_another_kind_is_refused(tmp_path):
    for name, words in (("none.toml", "cannot be read"), ("table.csv", "must end in")):
        with pytest.raises(BoundsError, match=words):
            Schema.load(tmp_path / name)
    with pytest.raises(BoundsError, match="must end in"):
        FULL.save(tmp_path / "schema.yaml")
    (tmp_path / "twice.json").write_text('{"a": [0, 1], "a": [0, 2]}')
    with pytest.raises(BoundsError, match="twice"):
        Schema.load(tmp_path / "twice.json")


@pytest.mark.parametrize("low", [datetime.date(2020, 1, 1), np.datetime64("2020-01-01"), "2020-01-01", "1/1/2020"])
def test_dates_are_refused_with_what_to_do(low):
    for declare in (lambda: Number(low, 1), lambda: Schema({"born": (low, 1)})):
        with pytest.raises(BoundsError, match="dates are not read: turn them into a number, such as a year or days"):
            declare()


def test_dates_of_a_file_are_refused_with_what_to_do(tmp_path):
    (tmp_path / "s.toml").write_text("[born]\nlow = 1900-01-01\nhigh = 2025-12-31\n")
    with pytest.raises(BoundsError, match="column 'born': low is '1900-01-01': dates are not read"):
        Schema.load(tmp_path / "s.toml")
