"""Transcripts: what is written is read back exactly, and what is not a transcript is refused with a typed error."""

import copy
import hashlib
import json
import random
import sys
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction

import numpy as np
import pytest

import recoup
from recoup._files import checksum_of
from recoup.cli.settings import read_columns
from recoup.errors import ParameterError, TranscriptFormatError, TranscriptVersionError
from recoup.privacy.statement import NOT_PRIVATE
from recoup.transcript.transcript import Payment, Transcript
from recoup.version import __version__


def signed(value):
    """The value with a checksum that fits, as somebody who edits a file on purpose would write it."""
    body = {name: item for name, item in value.items() if name != "checksum"}
    return body | {"checksum": checksum_of(body)}


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


@pytest.mark.parametrize("version", [6, 99, 10**4000])
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
    _set(["payment"], None),
    _set(["payment"], {"ledger": "0" * 32}),
    _set(["payment"], {"ledger": "0" * 32, "run": None}),
    _set(["payment"], {"ledger": None, "run": "0" * 32}),
    _set(["payment"], {"ledger": "l.db", "run": "0" * 32}),
    _set(["payment"], {"ledger": "0" * 32, "run": "0" * 32, "path": "l.db"}),
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
        *("algorithm", "rounds", "lost", "pending", "payment", "checksum"),
    }
    assert set(value["payment"]) == {"ledger", "run"}
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


def test_transcripts_are_frozen_and_plain_by_default(transcript):
    with pytest.raises(FrozenInstanceError):
        transcript.simulated = True
    fresh = Transcript(context=transcript.context, algorithm={}, simulated=False)
    assert (fresh.rounds, fresh.lost, fresh.pending, fresh.neighbours) == ((), (), None, "add-remove-one-record")
    assert (fresh.payment, fresh.library_version) == (Payment(None, None), __version__)
    assert len({fresh, replace(fresh)}) == 2


def test_a_payment_is_two_drawn_names_or_none():
    drawn = "0123456789abcdef" * 2
    assert Payment().possible
    assert Payment(drawn, drawn).possible
    for other in (None, 1, drawn.encode(), drawn[1:], drawn + "0", drawn.upper(), drawn + "\n", ""):
        assert not Payment(drawn, other).possible
        assert not Payment(other, drawn).possible


def test_the_file_is_indented_json_that_ends_with_a_line(transcript, tmp_path):
    transcript.save(tmp_path / "t.json")
    text = (tmp_path / "t.json").read_text(encoding="utf-8")
    assert text == json.dumps(transcript.to_json(), indent=1) + "\n"
    value = transcript.to_json()
    assert (value["format"], value["lost"], value["pending"]) == ("recoup-transcript", [], None)
    assert replace(transcript, lost=(Fraction(1, 3),), pending=Fraction(1, 4)).to_json()["lost"] == ["1/3"]
    assert replace(transcript, pending=Fraction(1, 4)).to_json()["pending"] == "1/4"
    body = {name: item for name, item in value.items() if name != "checksum"}
    compact = json.dumps(body, sort_keys=True, separators=(",", ":"))
    assert value["checksum"] == "sha256:" + hashlib.sha256(compact.encode()).hexdigest()


def test_values_that_json_does_not_have_are_not_written(transcript, tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        replace(transcript, algorithm={"x": float("nan")}).save(tmp_path / "t.json")
    assert not (tmp_path / "t.json").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "not a Recoup transcript"),
        ({"schema_version": None}, "not a whole number"),
        ({"schema_version": "1"}, "not a whole number"),
        ({"schema_version": True}, "not a whole number"),
        ({"schema_version": 0}, "not a whole number"),
        ({"schema_version": 6}, "has schema version 6, this Recoup reads up to 5"),
        ({"schema_version": 999_999}, "has schema version 999999,"),
        ({"schema_version": 10**6}, "has schema version of a million or more,"),
        ({"checksum": "sha256:0"}, "checksum does not match"),
        ({"extra": object()}, "not JSON"),
        ({"extra": float("nan")}, "not JSON"),
    ],
)
def test_a_file_of_another_kind_is_refused_for_what_it_is(transcript, changes, message):
    with pytest.raises(TranscriptFormatError, match=message) as refusal:
        Transcript.from_json(transcript.to_json() | changes)
    assert isinstance(refusal.value, TranscriptVersionError) == ("schema version" in message)


def test_a_value_that_nests_too_deeply_is_refused(transcript):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TranscriptFormatError, match="nests too deeply"):
        Transcript.from_json(transcript.to_json() | {"extra": deep})


@pytest.mark.parametrize(
    ("path", "item", "message"),
    [
        (["simulated"], 1, "neighbours or noise"),
        (["neighbours"], "replace-one-record", "neighbours or noise"),
        (["algorithm"], [], "algorithm or version"),
        (["library_version"], None, "algorithm or version"),
        (["rounds"], {}, "must be lists"),
        (["lost"], "12", "must be lists"),
        (["lost"], ["1/2"], "more than the whole budget"),
        (["pending"], "1/1000000", "more than the whole budget"),
        (["pending"], "x", "fractions written as text"),
        (["context"], None, "misses a field"),
        (["context"], {}, "misses a field"),
        (["context", "epsilon"], "0", "cannot be used: epsilon"),
        (["context", "n_records"], 0, "cannot be used: n_records"),
        (["rounds", 0, "blocks"], [3], "misses a field"),
        (["rounds", 0, "blocks", 0, "unit"], [1, 2], "misses a field"),
        (["rounds", 0, "blocks", 0, "unit"], "x", "misses a field"),
        (["rounds", 0, "scale"], 10**400, "noise scale must be"),
        (
            ["rounds", 0, "query"],
            {"type": "voronoi", "centers": [[0.0, 0.0]], "sums": "relative", "radii": [1.0]},
            "misses",
        ),
    ],
)
def test_a_signed_file_is_refused_for_what_is_wrong_with_it(transcript, path, item, message):
    value = copy.deepcopy(transcript.to_json())
    _set(path, item)(value)
    with pytest.raises(TranscriptFormatError, match=message):
        Transcript.from_json(signed(value))


@pytest.mark.parametrize("content", [b'{"a": "SECRET", x}', b"SECRET,1\n", b"SECRET,\xff\n"])
def test_a_refusal_keeps_nothing_of_the_file(content, tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(content)
    box = recoup.Box([0], [1])
    for work in (
        lambda: Transcript.load(path),
        lambda: recoup.release(recoup.KMeans(n_clusters=2), [[0.5]], domain=box, epsilon=1, path=path, resume=True),
        lambda: read_columns(str(path)),
    ):
        with pytest.raises(recoup.errors.RecoupError) as caught:
            work()
        assert caught.value.__context__ is caught.value.__cause__ is None
        assert "SECRET" not in str(caught.value)


def test_reading_says_what_is_wrong_with_the_file(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "twice").write_text('{"a": 1, "a": 1}')
    for name, message in (
        ("binary", "not a text file"),
        ("missing", "cannot be read: No such file"),
        ("twice", "not complete JSON"),
    ):
        with pytest.raises(TranscriptFormatError, match=message):
            Transcript.load(tmp_path / name)


def test_the_version_that_wrote_it_is_kept(transcript):
    older = Transcript.from_json(signed(transcript.to_json() | {"library_version": "0.0.1"}))
    assert older.library_version == older.privacy["version"] == older.to_json()["library_version"] == "0.0.1"


def test_text_in_other_alphabets_is_kept(transcript, tmp_path):
    named = replace(transcript, algorithm={"type": "x", "name": "größe 数"})
    named.save(tmp_path / "t.json")
    assert Transcript.load(tmp_path / "t.json").algorithm["name"] == "größe 数"
