"""Transcripts: what is written is read back exactly, and what is not a transcript is refused with a typed error."""

import copy
import json
import random
import sys
from fractions import Fraction

import numpy as np
import pytest
from cases import context, domains, queries, request

from recoup import Box, KMeans, release
from recoup.curator.curator import Curator
from recoup.curator.source import open_source
from recoup.errors import ParameterError, TranscriptFormatError, TranscriptVersionError
from recoup.transcript import NOT_PRIVATE, Transcript, _checksum


@pytest.fixture(scope="module")
def transcript():
    x = np.random.default_rng(0).uniform(size=(200, 2))
    return release(KMeans(n_clusters=3, n_rounds=2), x, domain=Box([0, 0], [1, 1]), epsilon=1, random_state=0)


@pytest.fixture(scope="module")
def mixed():
    """A transcript of every kind of query."""
    domain = domains(2)["l2"]
    terms = context(domain, "gaussian")
    curator = Curator(open_source(np.zeros((1, 2)), domain), terms)
    share = Fraction(1, 2 * len(queries(2)))
    rounds = tuple(curator.answer(request(query, domain, share)) for query in queries(2).values())
    return Transcript(
        context=terms,
        algorithm={"type": "x"},
        rounds=rounds,
        simulated=True,
        lost=(Fraction(1, 4),),
        pending=Fraction(1, 8),
    )


def signed(value):
    """The value with a checksum that fits, as somebody who edits a file on purpose would write it."""
    body = {name: item for name, item in value.items() if name != "checksum"}
    return body | {"checksum": _checksum(body)}


@pytest.mark.parametrize("name", ["transcript", "mixed"])
def test_round_trip_through_a_file(name, request, tmp_path):
    written = request.getfixturevalue(name)
    path = tmp_path / "t.json"
    written.save(path)
    again = Transcript.load(path)
    assert again.to_json() == written.to_json()
    assert again.shares_spent == written.shares_spent
    assert again.amount_spent == written.amount_spent
    assert again.privacy == written.privacy
    for a, b in zip(again.rounds, written.rounds, strict=True):
        assert (a.integers, a.weights, a.scale, a.price, a.share) == (b.integers, b.weights, b.scale, b.price, b.share)
        np.testing.assert_array_equal(a.noisy, b.noisy)
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]


def test_the_privacy_statement(transcript, mixed):
    assert transcript.statement == "differentially private"
    assert mixed.statement == NOT_PRIVATE == mixed.to_json()["privacy"] == mixed.privacy["statement"]
    statement = transcript.privacy
    assert (statement["epsilon"], statement["delta"], statement["noise"]) == (1.0, 0.0, "secure")
    assert statement["neighbours"] == "add-remove-one-record"
    assert statement["spent"] <= 1


def test_blocks_of_an_answer(transcript):
    answered = transcript.rounds[0]
    assert answered.block("count", transcript.context) == slice(0, 3)
    assert answered.block("sum", transcript.context) == slice(3, 9)
    with pytest.raises(ParameterError, match="median"):
        answered.block("median", transcript.context)


def test_units_turn_integers_into_values(transcript):
    answered = transcript.rounds[0]
    np.testing.assert_allclose(answered.noisy[:3], np.array(answered.integers[:3]) / 2**29)
    np.testing.assert_allclose(answered.noisy[3:], np.array(answered.integers[3:]) / 2**28, rtol=1e-11)
    np.testing.assert_allclose(answered.scales[:3], 2 * 2 / 1.0, rtol=1e-9)


def test_a_truncated_file_is_refused(transcript, tmp_path):
    text, path = json.dumps(transcript.to_json(), indent=1), tmp_path / "t.json"
    for stop in range(0, len(text), 23):
        path.write_text(text[:stop])
        with pytest.raises(TranscriptFormatError):
            Transcript.load(path)


def test_a_single_changed_character_is_refused_or_means_nothing(transcript, tmp_path):
    text, path, rng = json.dumps(transcript.to_json(), indent=1), tmp_path / "t.json", random.Random(0)
    for position in rng.sample(range(len(text)), 400):
        path.write_text(text[:position] + rng.choice('0123456789-+.eE"{}[],: aZ\\\n') + text[position + 1 :])
        try:
            loaded = Transcript.load(path)
        except TranscriptFormatError:
            continue
        assert loaded.to_json() == transcript.to_json()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "NaN",
        '{"format": "recoup-transcript"}',
        '{"format": "recoup-transcript", "schema_version": true}',
        '{"format": "recoup-transcript", "schema_version": 0}',
        '{"format": "recoup-transcript", "schema_version": 1}',
        '{"format": "recoup-transcript", "schema_version": 1, "x": 1e999}',
        '{"format": "recoup-transcript", "schema_version": 1, "x": NaN}',
        '{"format": "recoup-transcript", "schema_version": 1, "schema_version": 1}',
        '{"format": "recoup-transcript", "schema_version": ' + "9" * 10_000 + "}",
        '{"format": "recoup-transcript", "schema_version": 1, "x": ' + "[" * 950 + "]" * 950 + "}",
        '{"format": "recoup-transcript", "schema_version": 1, "x": ' + "[" * 990 + "]" * 990 + "}",
        '{"format": "recoup-transcript", "schema_version": 1, "x": ' + "[" * 200_000,
    ],
)
def test_other_files_are_refused(text, tmp_path):
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(TranscriptFormatError):
        Transcript.load(path)


def test_unreadable_files_are_refused(tmp_path):
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    for name in ("binary", "missing", "."):
        with pytest.raises(TranscriptFormatError):
            Transcript.load(tmp_path / name)


@pytest.mark.parametrize("version", [3, 99, 10**4000])
def test_a_newer_version_is_refused_with_what_to_do(transcript, version):
    with pytest.raises(TranscriptVersionError, match="update Recoup"):
        Transcript.from_json(transcript.to_json() | {"schema_version": version})


def _set(path, item):
    def change(value):
        for key in path[:-1]:
            value = value[key]
        value[path[-1]] = item

    change.__name__ = f"{'.'.join(map(str, path))}={str(item)[:20]}"
    return change


HOSTILE = [
    _set(["context"], None),
    _set(["context", "domain", "type"], "os.system"),
    _set(["context", "domain", "type"], {"a": 1}),
    _set(["context", "domain", "low"], [0]),
    _set(["context", "domain", "low"], [10**400, 0]),
    _set(["context", "domain", "low"], ["0", "0"]),
    _set(["context", "epsilon"], "-1"),
    _set(["context", "epsilon"], 1.0),
    _set(["context", "epsilon"], "1/0"),
    _set(["context", "epsilon"], "9" * 19_999),
    _set(["context", "epsilon"], "9" * 30_000),
    _set(["context", "epsilon"], "1" + "0" * 4000),
    _set(["context", "delta"], "1"),
    _set(["context", "mechanism"], "gaussian"),
    _set(["context", "mechanism"], ["laplace"]),
    _set(["context", "records_per_person"], 2),
    _set(["context", "records_per_person"], 10**400),
    _set(["context", "n_records"], 0),
    _set(["simulated"], 1),
    _set(["neighbours"], "replace"),
    _set(["algorithm"], "kmeans"),
    _set(["library_version"], 3),
    _set(["rounds"], {}),
    _set(["rounds"], [None]),
    _set(["rounds", 0, "query", "type"], "builtins.eval"),
    _set(["rounds", 0, "query", "type"], ["voronoi"]),
    _set(["rounds", 0, "query", "centers"], [[0.0, 0.0]]),
    _set(["rounds", 0, "query", "centers"], [[0.0], [0.0], [0.0]]),
    _set(["rounds", 0, "query", "centers"], [[0, 0], [0, 0], [0, 10**400]]),
    _set(["rounds", 0, "query", "centers"], "text"),
    _set(["rounds", 0, "query", "sums"], "relative"),
    _set(["rounds", 0, "query", "sums"], []),
    _set(["rounds", 0, "noisy"], [1, 2]),
    _set(["rounds", 0, "noisy", 0], 0.5),
    _set(["rounds", 0, "noisy", 0], True),
    _set(["rounds", 0, "noisy", 0], 2**63),
    _set(["rounds", 0, "blocks"], []),
    _set(["rounds", 0, "blocks", 0, "weight"], 0),
    _set(["rounds", 0, "blocks", 0, "weight"], 2**31),
    _set(["rounds", 0, "blocks", 0, "weight"], 2**28),
    _set(["rounds", 0, "blocks", 0, "size"], 10**12),
    _set(["rounds", 0, "blocks", 0, "size"], "3"),
    _set(["rounds", 0, "blocks", 0, "unit"], 1.0),
    _set(["rounds", 0, "blocks", 0, "unit"], [1, 2]),
    _set(["rounds", 0, "scale"], 0),
    _set(["rounds", 0, "scale"], -1.0),
    _set(["rounds", 0, "scale"], "big"),
    _set(["rounds", 0, "scale"], 2.0**31 + 5000),
    _set(["rounds", 0, "price", "measure"], "zcdp"),
    _set(["rounds", 0, "price", "amount"], "1/1000"),
    _set(["rounds", 0, "price", "amount"], "0"),
    _set(["rounds", 0, "price", "amount"], "1" + "0" * 4000),
    _set(["rounds", 0, "share"], "half"),
    _set(["rounds", 0, "share"], 0.5),
    _set(["rounds", 0, "share"], "2"),
    _set(["lost"], ["x"]),
    _set(["lost"], ["1/2"]),
    _set(["lost"], "12"),
    _set(["lost"], None),
    _set(["pending"], "-1/2"),
]


@pytest.mark.parametrize("change", HOSTILE, ids=lambda change: change.__name__)
def test_an_edited_transcript_is_refused_even_if_it_is_signed_anew(transcript, change):
    value = copy.deepcopy(transcript.to_json())
    change(value)
    before = set(sys.modules)
    with pytest.raises(TranscriptFormatError):
        Transcript.from_json(signed(value))
    assert set(sys.modules) == before


@pytest.mark.parametrize("name", ["transcript", "mixed"])
def test_junk_anywhere_is_refused_with_a_typed_error_or_harmless(name, request):
    original, rng = request.getfixturevalue(name).to_json(), random.Random(1)
    junk = [None, True, -1, 0, 1.5, 10**30, "", "x", [], [[]], {}, {"type": "grid"}, "1/2", [1e300]]

    def leaves(value, path=()):
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in items:
            yield (*path, key)
            yield from leaves(item, (*path, key))

    paths = list(leaves(original))
    for path in rng.sample(paths, min(len(paths), 150)):
        value = copy.deepcopy(original)
        _set(path, rng.choice(junk))(value)
        try:
            loaded = Transcript.from_json(signed(value))
        except TranscriptFormatError:
            continue
        assert np.isfinite(loaded.rounds[0].noisy).all() if loaded.rounds else True


def test_values_that_json_does_not_have_are_refused(transcript):
    for item in (float("nan"), {1, 2}, object()):
        with pytest.raises(TranscriptFormatError):
            Transcript.from_json(transcript.to_json() | {"extra": item})


def test_a_file_holds_only_documented_fields(transcript):
    value = transcript.to_json()
    assert set(value) == {
        *("format", "schema_version", "library_version", "privacy", "simulated", "neighbours", "context"),
        *("algorithm", "rounds", "lost", "pending", "checksum"),
    }
    assert set(value["context"]) == {"domain", "epsilon", "delta", "mechanism", "n_records", "records_per_person"}
    assert set(value["rounds"][0]) == {"query", "noisy", "blocks", "scale", "price", "share"}


def test_saving_never_leaves_a_part(transcript, tmp_path, monkeypatch):
    path = tmp_path / "t.json"
    transcript.save(path)
    before = path.read_bytes()

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        transcript.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]
