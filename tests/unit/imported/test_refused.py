"""What is no file of answers that were made elsewhere is refused."""

from __future__ import annotations

import copy
import random
import sys

import numpy as np
import pytest
from commands import run
from imported_cases import ONE_COMPONENT, file_of, kmeans_elsewhere, people

import recoup
from recoup._files import checksum_of
from recoup.cli.output import ExitCode
from recoup.errors import ParameterError, TranscriptFormatError
from recoup.imported import imported_from_json
from recoup.queries.counts import GridQuery
from recoup.queries.moments import MomentsQuery
from recoup.transcript.transcript import Transcript


def _set(path, item):
    def change(value):
        for key in path[:-1]:
            value = value[key]
        if item is ...:
            del value[path[-1]]
        else:
            value[path[-1]] = item

    change.__name__ = f"{'.'.join(map(str, path))}={str(item)[:20]}"
    return change


ROUND = ["rounds", 0]
HOSTILE = [
    _set(["format"], "recoup-transcript"),
    _set(["bounds"], ...),
    _set(["bounds"], {}),
    _set(["bounds"], {"age": [0, 100]}),
    _set(["bounds"], {"age": [0, 100], "hours": [90, 10]}),
    _set(["bounds"], {"age": [0, 100], "hours": ["10", "90"]}),
    _set(["bounds"], {"age": [0, 100], "hours": [0, 10**400]}),
    _set(["bounds"], {"age": [False, True], "hours": [10, 90]}),
    _set(["bounds"], "0:1"),
    _set(["domain"], "os.system"),
    _set(["domain"], ["box"]),
    _set(["radius"], 2),
    _set(["radius"], "1"),
    _set(["mechanism"], "uniform"),
    _set(["mechanism"], "gaussian"),
    _set(["mechanism"], ["laplace"]),
    _set(["epsilon"], 0),
    _set(["epsilon"], -1),
    _set(["epsilon"], None),
    _set(["epsilon"], True),
    _set(["epsilon"], "9" * 1000),
    _set(["epsilon"], [1]),
    _set(["delta"], 1),
    _set(["delta"], "x"),
    _set(["neighbours"], "none"),
    _set(["neighbours"], ["replace-one-record"]),
    _set(["records_per_person"], 0),
    _set(["records_per_person"], 1.5),
    _set(["n_records"], -3),
    _set(["simulated"], 1),
    _set(["units"], "metres"),
    _set(["units"], {}),
    _set(["algorithm"], {"type": "builtins.eval"}),
    _set(["algorithm"], {"type": "kmeans-lloyd"}),
    _set(["algorithm"], {"type": "kmeans-lloyd", "n_clusters": 4, "n_rounds": 3}),
    _set(["algorithm"], {"type": "kmeans-grid", "n_clusters": 3, "rule": "none"}),
    _set(["algorithm"], {"type": "elsewhere", "name": ""}),
    _set(["algorithm"], ""),
    _set(["algorithm"], 3),
    _set(["rounds"], []),
    _set(["rounds"], {}),
    _set(["rounds"], [None]),
    _set(["rounds"], [["grid", 1, 2]]),
    _set([*ROUND, "price"], 1),
    _set([*ROUND, "scale"], ...),
    _set([*ROUND, "query", "type"], "builtins.eval"),
    _set([*ROUND, "query", "type"], ["voronoi"]),
    _set([*ROUND, "query"], None),
    _set([*ROUND, "query", "centers"], [[1.0, 2.0]]),
    _set([*ROUND, "query", "centers"], [[1.0], [2.0], [3.0]]),
    _set([*ROUND, "query", "centers"], [[1, 2], [3, 4], [5, 10**400]]),
    _set([*ROUND, "query", "centers"], "text"),
    _set([*ROUND, "query", "sums"], "relative"),
    _set([*ROUND, "noisy"], [1, 2]),
    _set([*ROUND, "noisy"], {"count": [1, 2, 3]}),
    _set([*ROUND, "noisy"], {"count": [1, 2, 3], "sum": [[1, 2], [3, 4]]}),
    _set([*ROUND, "noisy"], {"count": [1, 2, 3], "sum": [1, 2, 3, 4, 5, "6"]}),
    _set([*ROUND, "noisy"], {"count": [1, 2, True], "sum": [1, 2, 3, 4, 5, 6]}),
    _set([*ROUND, "noisy"], {"count": [1, 2, 1e300], "sum": [1, 2, 3, 4, 5, 6]}),
    _set([*ROUND, "noisy"], {"count": [1, 2, 10**400], "sum": [1, 2, 3, 4, 5, 6]}),
    _set([*ROUND, "noisy"], "123456789"),
    _set([*ROUND, "noisy"], None),
    _set([*ROUND, "scale"], 0),
    _set([*ROUND, "scale"], -1),
    _set([*ROUND, "scale"], 1e-300),
    _set([*ROUND, "scale"], 1e300),
    _set([*ROUND, "scale"], "2"),
    _set([*ROUND, "scale"], None),
    _set([*ROUND, "scale"], {"count": 1}),
    _set([*ROUND, "scale"], {"count": 1, "sum": 2, "product": 3}),
    _set([*ROUND, "scale"], {"count": 1, "sum": 0}),
    _set([*ROUND, "scale"], [1, 2, 3]),
]


@pytest.mark.parametrize("change", HOSTILE, ids=lambda change: change.__name__)
def test_an_unusable_file_is_refused(change):
    value = file_of(kmeans_elsewhere(people(200))[0])
    imported_from_json(value)
    change(value)
    before = set(sys.modules)
    with pytest.raises(TranscriptFormatError) as found:
        imported_from_json(value)
    assert len(str(found.value)) < 500
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "null", "{}", "NaN", '{"format": "recoup-foreign"}', '{"format": "recoup-foreign", "epsilon": NaN}',
        '{"format": "recoup-foreign", "format": "recoup-foreign"}', '{"format": ' + "[" * 100_000, "\x00",
    ],
)  # fmt: skip
def test_other_files_are_refused(text, tmp_path):
    (tmp_path / "f.json").write_text(text)
    with pytest.raises(TranscriptFormatError):
        recoup.load_foreign(tmp_path / "f.json")
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    for name in ("binary", "missing", "."):
        with pytest.raises(TranscriptFormatError):
            recoup.load_foreign(tmp_path / name)
    answer = run("import", tmp_path / "f.json", "-o", tmp_path / "t.json")
    assert (answer.exit_code, answer.stdout, answer.stderr.count("\n")) == (ExitCode.TRANSCRIPT, "", 1)
    assert not (tmp_path / "t.json").exists()


def _junk_anywhere(original, read, seed):
    """Junk in a place at random is refused with a typed error, or leaves finite numbers."""
    rng = random.Random(seed)
    junk = [None, True, -1, 0, 1.5, 10**30, "", "x", [], [[]], {}, {"type": "grid"}, "1/2", [1e300]]

    def places(value, path=()):
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in items:
            yield (*path, key)
            yield from places(item, (*path, key))

    paths = list(places(original))
    for path in rng.choices(paths, k=200):
        value = copy.deepcopy(original)
        _set(path, rng.choice(junk))(value)
        try:
            loaded = read(value)
        except TranscriptFormatError:
            continue
        for answered in loaded.rounds:
            assert np.isfinite(answered.noisy).all()
            assert (answered.scales > 0).all()


def test_junk_anywhere_in_what_people_write():
    _junk_anywhere(file_of(kmeans_elsewhere(people(200))[0]), imported_from_json, 2)


def test_junk_anywhere_in_what_is_saved(imported):
    def signed(value):
        body = {name: item for name, item in value.items() if name != "checksum"}
        return Transcript.from_json(body | {"checksum": checksum_of(body)})

    _junk_anywhere(imported.to_json(), signed, 3)


SAVED = [
    _set([*ROUND, "noisy", 0], 1e16),
    _set([*ROUND, "noisy", 0], True),
    _set([*ROUND, "noisy"], [1.0]),
    _set([*ROUND, "scales"], 0.0),
    _set([*ROUND, "scales"], [1.0, 2.0, 3.0]),
    _set([*ROUND, "scales"], "1"),
    _set([*ROUND, "share"], "1/2"),
    _set([*ROUND, "query", "type"], "builtins.eval"),
    _set(["rounds"], []),
    _set(["lost"], ["1/4"]),
    _set(["pending"], "1/4"),
    _set(["neighbours"], "none"),
    _set(["schema_version"], 1),
    _set(["schema_version"], 3),
]


@pytest.mark.parametrize("change", SAVED, ids=lambda change: change.__name__)
def test_an_edited_transcript_is_refused_even_if_it_is_signed_anew(imported, change):
    value = copy.deepcopy(imported.to_json())
    change(value)
    body = {name: item for name, item in value.items() if name != "checksum"}
    with pytest.raises(TranscriptFormatError):
        Transcript.from_json(body | {"checksum": checksum_of(body)})


def test_a_release_cannot_pass_for_something_made_elsewhere_nor_the_reverse(imported):
    released = recoup.release(recoup.KMeans(n_clusters=1, n_rounds=1), [[0.5]], domain=recoup.Box([0], [1]), epsilon=1)
    for value, version in ((released.to_json(), 2), (imported.to_json(), 1)):
        body = {name: item for name, item in value.items() if name != "checksum"} | {"schema_version": version}
        with pytest.raises(TranscriptFormatError):
            Transcript.from_json(body | {"checksum": checksum_of(body)})


def test_bad_arguments_of_the_builder():
    domain, good = recoup.Box([0], [1]), [(GridQuery(sides=(2,)), [1, 2], 1)]
    for change in (
        {"domain": None}, {"domain": "box"}, {"rounds": None}, {"rounds": "x"}, {"rounds": [(1, 2)]}, {"epsilon": 0},
        {"rounds": [("x", [1, 2], 1)]}, {"units": "user"}, {"units": None}, {"simulated": "no"}, {"algorithm": 3},
        {"algorithm": recoup.KMeans(n_clusters=2)}, {"rounds": [(GridQuery(sides=(2, 2)), [1, 2, 3, 4], 1)]},
        {"rounds": [(GridQuery(sides=(2,)), [1, np.nan], 1)]}, {"rounds": [(GridQuery(sides=(2,)), [[1, 2]], 1)]},
        {"mechanism": "gaussian"}, {"neighbours": "x"},
    ):  # fmt: skip
        with pytest.raises(ParameterError):
            recoup.transcript_from(**{"domain": domain, "epsilon": 1, "rounds": good} | change)


def test_an_algorithm_of_another_number_of_components_is_refused():
    domain = recoup.Box([0, 0], [100, 100])
    cases = [
        (ONE_COMPONENT, recoup.GaussianMixture(n_components=4)),
        (MomentsQuery(dimension=2), recoup.CovariancePCA(n_components=7)),
    ]
    for query, algorithm in cases:
        rounds = [(query, np.full(query.size, 50.0), 1.0)]
        with pytest.raises(ParameterError, match="components"):
            recoup.transcript_from(domain=domain, epsilon=1, mechanism="laplace", rounds=rounds, algorithm=algorithm)
