"""For whom a price holds: what is no unit is refused by name, and what was declared stays."""

from dataclasses import FrozenInstanceError

import pytest

from recoup.errors import ParameterError
from recoup.privacy.unit import Unit


def test_it_cannot_be_changed():
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
        {"kind": "person", "records_per_person": 1},
    ],
    ids=str,
)
def test_other_json_is_refused(value):
    with pytest.raises(
        ParameterError, match=r'^a unit (has a "kind" and "records_per_person"|of kind .* is not known)'
    ):
        Unit.from_json(value)
