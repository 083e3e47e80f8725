"""Bounds on the command line: inline, as a file of pairs, as a declared schema; wrong ones name what is wrong."""

from __future__ import annotations

import json

import pytest

from recoup.cli.settings import read_columns
from recoup.errors import BoundsError, MissingBoundsError
from recoup.schema import Category, Number, Schema

SCHEMA = """
[columns.age]
low = 17
high = 90.5
unit = "years"

[columns.name]
type = "text"

[columns.born]
type = "date"

[columns.children]
type = "integer"
low = 0
high = 20

[columns.member]
type = "boolean"
"""


def test_inline():
    assert read_columns("x=-1e3:+1.5E3, y =-2:-1").bounds == {"x": (-1000.0, 1500.0), "y": (-2.0, -1.0)}
    assert read_columns("a=b=0:1").bounds == {"a=b": (0.0, 1.0)}
    assert read_columns("age=17:90").units == {}
    assert list(read_columns("b=0:1,a=0:1").bounds) == ["b", "a"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("b.json", '{"a, b": [-1, 2.5], "c": [0, 1]}'),
        ("b.toml", '"a, b" = [-1, 2.5]\nc = [0, 1]'),
        ("B.TOML", '["a, b"]\nlow = -1\nhigh = 2.5\n[c]\nlow = 0\nhigh = 1'),
        ("k=v.json", '{"columns": {"a, b": {"low": -1, "high": 2.5}, "c": [0, 1]}}'),
    ],
)
def test_files_and_inline_json_say_the_same(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    expected = {"a, b": (-1.0, 2.5), "c": (0.0, 1.0)}
    assert read_columns(str(tmp_path / name)).bounds == expected
    if name.endswith("json"):
        assert read_columns(text).bounds == expected


def test_a_schema_chooses_columns_and_names_units(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    declared = read_columns(str(tmp_path / "schema.toml"))
    assert declared.bounds == {"age": (17.0, 90.5), "children": (0.0, 20.0), "member": (0.0, 1.0)}
    assert declared.units == {"age": "years"}
    assert declared.header() == ["age (years)", "children", "member"]


RICH = """
[age]
low = 0
high = 110
[charges]
low = 1
high = 1e6
scale = "log"
unit = "EUR"
missing = 1
[ward]
values = ["a", "b", 3]
weight = 0.5
other = true
[stage]
type = "category"
values = [1, 2, 3]
ordered = true
[name]
type = "text"
"""


def test_a_schema_may_say_more_than_bounds(tmp_path):
    (tmp_path / "schema.toml").write_text(RICH)
    declared = read_columns(str(tmp_path / "schema.toml"))
    expected = Schema(
        {
            "age": Number(0, 110),
            "charges": Number(1, 1e6, scale="log", unit="EUR", missing=1),
            "ward": Category(["a", "b", "3"], weight=0.5, other=True),
            "stage": Category([1, 2, 3], ordered=True),
        }
    )
    assert declared.for_domain("auto") == declared.for_domain("l1") == expected
    expected.save(tmp_path / "again.toml")
    assert read_columns(str(tmp_path / "again.toml")).for_domain("auto") == expected
    assert Schema.load(tmp_path / "again.toml") == expected


def test_bounds_alone_stay_bounds_and_units_make_a_schema_where_there_can_be_one():
    plain = read_columns('{"a": [0, 1], "b": {"low": 0, "high": 5, "type": "integer"}}')
    assert plain.for_domain("auto") == {"a": (0.0, 1.0), "b": (0.0, 5.0)}
    units = read_columns('{"a": {"low": 0, "high": 1, "unit": "m"}}')
    assert units.for_domain("box") == Schema({"a": Number(0, 1, unit="m")})
    assert units.for_domain("l1") == {"a": (0.0, 1.0)}


def test_a_column_may_be_called_columns():
    assert read_columns('{"columns": [0, 1]}').bounds == {"columns": (0.0, 1.0)}


@pytest.mark.parametrize("text", [None, "", "  ", "{}", '{"columns": {}}', '{"a": {"type": "text"}}'])
def test_no_bounds_are_missing_bounds(text):
    with pytest.raises(MissingBoundsError):
        read_columns(text)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (1, "a pair of numbers"),
        ([1], "a pair of numbers"),
        ([1, "2"], "a pair of numbers"),
        ([0, True], "a pair of numbers"),
        ([0, 10**400], "finite"),
        ({"lo": 0, "high": 1}, "there is no 'lo'; known are type, unit, low, high"),
        ({"low": 0}, "both low and high"),
        ({"low": "0", "high": 1}, "a pair of numbers"),
        ({"low": 0, "high": 1, "unit": 3}, "unit must be text"),
        ({"low": 0, "high": 1, "type": "real"}, "type must be one of number"),
        ({"low": 0.5, "high": 1, "type": "integer"}, "whole numbers"),
        ({"low": 0, "high": 1, "type": "text"}, "has no bounds"),
        ({"low": 0, "high": 1, "scale": "log"}, "above 0"),
        ({"low": 0, "high": 1, "missing": "mean"}, "missing"),
        ({"low": 0, "high": 1, "values": ["a", "b"]}, "there is no 'low'"),
        ({"values": ["a"]}, "between 2 and"),
        ({"values": "ab"}, "a list of declared values"),
        ({"type": "category"}, "give values"),
        (["2020-01-01", "2021-01-01"], "dates are not read: turn them into a number"),
        ({"low": "2020-01-01", "high": "2021-01-01", "scale": "log"}, "dates are not read"),
        ({"low": "2020-01-01", "high": "2021-01-01", "type": "date"}, "left out and has no bounds; dates are not read"),
    ],
)
def test_a_wrong_column_is_named(tmp_path, column, words):
    path = tmp_path / "bounds.json"
    path.write_text(json.dumps({"age": column}))
    for given in (str(path), path.read_text()):
        with pytest.raises(BoundsError, match="'age'") as raised:
            read_columns(given)
        assert words in str(raised.value)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("b.json", "[1]", "one object"),
        ("b.json", "{", "is not JSON"),
        ("b.json", '{"a": [0, 1], "a": [0, 1]}', "names 'a' twice"),
        ("b.json", "[" * 100_000, "is not JSON"),
        ("b.toml", "a = ", "is not TOML"),
        ("b.toml", "a = [0, 1]\na = [0, 1]", "is not TOML"),
        ("b.toml", "a = 2020-01-01", "a pair of numbers, .* dates are not read"),
        ("b.toml", "a = [2020-01-01, 2021-01-01T12:00:00]", "such as a year or days since a day"),
        ("b.toml", "[a]\nlow = 2020-01-01\nhigh = 2021-01-01", "dates are not read"),
    ],
)
def test_a_wrong_file_is_named(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(BoundsError, match=words):
        read_columns(str(tmp_path / name))


def test_files_that_are_none(tmp_path):
    (tmp_path / "b.toml").write_bytes(b"\xff")
    (tmp_path / "folder.json").mkdir()
    for name, words in (("b.toml", "not a text file"), ("folder.json", "cannot be read"), ("c.toml", "no such file")):
        with pytest.raises(BoundsError, match=words):
            read_columns(str(tmp_path / name))


def test_a_file_of_records_is_not_opened(tmp_path):
    # Given by mistake: a message about what is in it would be a message about records.
    path = tmp_path / "people.csv"
    path.write_text("31337\n")
    with pytest.raises(BoundsError) as raised:
        read_columns(str(path))
    assert "31337" not in str(raised.value)
    assert ".toml or .json" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age=17", "name=low:high"),
        ("age=a:b", "in numbers"),
        ("age=1:2-3", "in numbers.$"),
        ("born=2020-01-01:2021-01-01", "in numbers; dates are not read"),
        ("age=1:2,age=1:2", "'age' twice"),
        ("=1:2", "name=low"),
    ],
)
def test_wrong_inline_bounds(text, words):
    with pytest.raises(BoundsError, match=words):
        read_columns(text)
