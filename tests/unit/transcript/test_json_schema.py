"""The JSON schema of transcripts: every file that was ever written fits it, and what does not follow it is noticed."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest

from recoup import Box, Category, Number, Schema, count_incomplete, release
from recoup.algorithms.registry import ALGORITHMS
from recoup.domain import DOMAINS
from recoup.mixed import MIXED_DOMAINS
from recoup.queries import QUERIES
from recoup.transcript.transcript import SCHEMA_VERSION

SCHEMA = json.loads(resources.files("recoup.transcript").joinpath("transcript.schema.json").read_text(encoding="utf-8"))
CHECK = jsonschema.Draft202012Validator(SCHEMA)
GOLDEN = sorted((Path(__file__).parents[2] / "golden").glob("*.json"))
SPOILT = {
    "format": lambda v: v.update(format="other"),
    "version": lambda v: v.update(schema_version=SCHEMA_VERSION + 1),
    "another field": lambda v: v.update(n_records=7),
    "a missing field": lambda v: v.pop("lost"),
    "privacy of simulated noise": lambda v: v.update(simulated=not v["simulated"]),
    "neighbours": lambda v: v.update(neighbours="all"),
    "a float as budget": lambda v: v["context"].update(epsilon=0.7),
    "a mechanism": lambda v: v["context"].update(mechanism="uniform"),
    "a domain": lambda v: v["context"]["domain"].update(type="sphere"),
    "rows in the terms": lambda v: v["context"].update(rows=[1, 2]),
    "a key without persons": lambda v: v["context"].update(sample_key="0" * 32, person=None),
    "rounds": lambda v: v.update(rounds={}),
    "a query without its fields": lambda v: v["rounds"][0]["query"].pop(sorted(v["rounds"][0]["query"])[0]),
    "text as an answer": lambda v: v["rounds"][0].update(noisy=["1"]),
    "a round with more": lambda v: v["rounds"][0].update(exact=[1]),
    "pending": lambda v: v.update(pending=0.5),
    "a checksum": lambda v: v.update(checksum="md5:0"),
}


def test_it_is_a_schema_of_the_newest_version():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert max(SCHEMA["properties"]["schema_version"]["enum"]) == SCHEMA_VERSION
    kinds = [part["properties"]["type"] for part in SCHEMA["$defs"]["domain"]["oneOf"]]
    assert {kind for part in kinds for kind in part.get("enum", [part.get("const")])} == {*DOMAINS, *MIXED_DOMAINS}
    told = {part["if"]["properties"]["type"]["const"] for part in SCHEMA["$defs"]["query"]["allOf"]}
    assert told == {name for name, kind in QUERIES.items() if kind.__module__.startswith("recoup.queries")}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_version_that_was_ever_written_fits(path):
    assert [error.message for error in CHECK.iter_errors(json.loads(path.read_text()))] == []


@pytest.mark.parametrize("what", SPOILT)
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_what_does_not_follow_it_is_noticed(path, what):
    value = json.loads(path.read_text())
    SPOILT[what](value)
    assert not CHECK.is_valid(value)


def test_imported_rounds_and_rounds_of_a_release_are_told_apart():
    values = {path.stem: json.loads(path.read_text()) for path in GOLDEN}
    assert not CHECK.is_valid(values["lloyd-v3"] | {"schema_version": 2})
    assert not CHECK.is_valid(values["foreign-v2"] | {"schema_version": 1})
    assert not CHECK.is_valid({name: item for name, item in values["lloyd-v3"].items() if name != "payment"})
    assert not CHECK.is_valid(values["lloyd-v1"] | {"payment": {"ledger": None, "run": None}})


@pytest.mark.parametrize("name", sorted(name for name in ALGORITHMS if name != "elsewhere"))
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_what_is_released_now_fits(name, delta, few_points):
    kind = ALGORITHMS[name]
    if not kind.__module__.startswith("recoup.algorithms") or name == "find-bounds":
        pytest.skip("not one that is released by its name alone")
    given = {"n_clusters": 2} if kind.has_centers else {"n_components": 1} if "pca" in name or "mix" in name else {}
    rows = np.random.default_rng(0).uniform(size=(300, 2))
    made = release(kind(**given), rows, domain=Box([0, 0], [1, 1]), epsilon=2, delta=delta)
    assert [error.message for error in CHECK.iter_errors(made.to_json())] == []


def test_schemas_of_columns_fit(few_points):
    columns = {
        "a": Number(0, 9, missing="own", unit="km"),
        "b": Number(1, 9, scale="log"),
        "c": Number(0, 9, scale=(1, 2), missing=3),
        "d": Category(["x", "y"], other=True, missing="x"),
        "e": Category(["lo", "hi"], ordered=True),
    }
    table = pd.DataFrame({"a": [1.0], "b": [2.0], "c": [3.0], "d": ["x"], "e": ["hi"]})
    made = release(ALGORITHMS["kmeans-adaptive"](n_clusters=2), table, domain=Schema(columns), epsilon=2)
    for transcript in (made, count_incomplete(table, Schema(columns)).transcript):
        assert [error.message for error in CHECK.iter_errors(transcript.to_json())] == []
