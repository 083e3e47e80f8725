"""What is added or removed in CSV: a record, or by declaration a line; said by all that speaks of the promise."""

from __future__ import annotations

import csv
import gzip
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import recoup
from recoup._files import checksum_of
from recoup.cli.app import app
from recoup.curator.source import open_source
from recoup.curator.tables.open import open_table
from recoup.errors import DataError, ParameterError, TranscriptError, TranscriptFormatError
from recoup.inference.inferred import InferredDataset
from recoup.privacy.statement import PrivacyStatement
from recoup.queries.counts import GridQuery
from recoup.report.sections import privacy as privacy_section
from recoup.transcript.transcript import Transcript

BOX = recoup.Box([0, 0], [100, 100], ("age", "hours"))
BOUNDS = {"age": (0, 100), "hours": (0, 100)}
GIVEN = ["-k", "2", "--epsilon", "1", "--bounds", "age=0:100,hours=0:100"]
UNITS = {"rfc4180": "one record", "lines": "one line"}


def people(path: Path, *notes: str) -> Path:
    """A thousand records, and one for each note, by a writer that quotes."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(["age", "note", "hours", "label"])
    rng = np.random.default_rng(0)
    for i, (a, b) in enumerate(rng.uniform(0, 100, (1000, 2)).round(1).tolist()):
        writer.writerow([a, f"visit {i}", b, i % 2])
    for note in notes:
        writer.writerow([50, note, 50, 1])
    path.write_bytes(out.getvalue().encode())
    return path


HOSTILE = "hi\n" + "99,x,99,1\n" * 10_000


def test_a_text_with_line_breaks_counts_as_one_record(tmp_path: Path) -> None:
    query, one = GridQuery(sides=(1, 1)), np.ones(1)

    def total(*notes: str) -> int:
        return open_source(people(tmp_path / "t.csv", *notes), BOX).total(query, one)[0]

    assert [total(), total("a text"), total(HOSTILE), total(HOSTILE, HOSTILE + '"')] == [1000, 1001, 1001, 1002]
    # Read by lines the same file has as many units as lines: the check can fail.
    path = people(tmp_path / "t.csv", HOSTILE)
    assert open_source(path, BOX, "lines").total(query, one) == [11_000]


def statements(path: Path, dialect: str) -> dict[str, dict]:
    """Of every way in."""
    terms = {"epsilon": 1, "csv_dialect": dialect, "random_state": 0, "noise": "simulated"}
    algorithm = recoup.KMeans(n_clusters=2, n_rounds=1)
    kmeans = {"n_clusters": 2, "bounds": BOUNDS, "postprocess": "none"}
    logistic = recoup.PrivateLogisticRegression(bounds=BOUNDS, n_rounds=1, postprocess="none", **terms)
    return {
        "release": recoup.release(algorithm, path, domain=BOX, **terms).privacy,
        "k-means": recoup.PrivateKMeans(n_rounds=1, **kmeans, **terms).fit(path).privacy_,
        "a rival": recoup.PrivateKMeans(n_clusters=2, bounds=BOUNDS, algorithm="gupt", **terms).fit(path).privacy_,
        "a label column": logistic.fit(path, "label").privacy_,
        "components": recoup.PrivatePCA(n_components=1, bounds=BOUNDS, postprocess="none", **terms).fit(path).privacy_,
    }


@pytest.mark.parametrize("dialect", UNITS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_way_in_states_the_dialect_and_its_unit(dialect: str, tmp_path: Path) -> None:
    for name, privacy in statements(people(tmp_path / "t.csv"), dialect).items():
        assert (privacy["csv_dialect"], privacy["unit"]) == (dialect, UNITS[dialect]), name


def test_other_tables_have_no_dialect() -> None:
    terms = {"domain": recoup.Box([0], [1]), "epsilon": 1, "csv_dialect": "lines"}
    done = recoup.release(recoup.KMeans(n_clusters=1, n_rounds=1), np.ones((3, 1)), **terms)
    assert (done.privacy["csv_dialect"], done.privacy["unit"]) == (None, "one record")
    assert "csv_dialect" not in done.to_json()["context"]


@pytest.mark.parametrize("dialect", UNITS)
def test_commands_and_config_files_declare_it(dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    people(Path("t.csv"))
    Path("run.toml").write_text(f'csv-dialect = "{dialect}"\n')
    for command, more in (("release", ["--rounds", "1", "-o", "1.json"]), ("cluster", ["--postprocess", "none"])):
        for declared in (["--csv-dialect", dialect], ["--config", "run.toml"]):
            words = [command, "t.csv", *GIVEN, *more, *declared, "--json"]
            answer = CliRunner().invoke(app, words)
            assert answer.exit_code == 0, answer.stderr
            assert json.loads(answer.stdout)["privacy"]["csv_dialect"] == dialect
            said = {"rfc4180": "CSV as RFC 4180", "lines": "CSV by lines"}[dialect]
            assert f"for adding or removing {UNITS[dialect]} ({said}" in answer.stderr
            Path("1.json").unlink(missing_ok=True)


def test_an_unknown_dialect_is_refused(tmp_path: Path) -> None:
    for X in (people(tmp_path / "t.csv"), np.ones((2, 2))):
        domain = BOX if isinstance(X, Path) else recoup.Box([0, 0], [1, 1])
        with pytest.raises(ParameterError, match="rfc4180, lines"):
            recoup.release(recoup.KMeans(n_clusters=1), X, domain=domain, epsilon=1, csv_dialect="excel")


def release(folder: Path, dialect: str, **more: object) -> Transcript:
    algorithm = recoup.KMeans(n_clusters=2, n_rounds=2)
    terms = {"domain": BOX, "epsilon": 1, "csv_dialect": dialect, "path": folder / "t.json"}
    return recoup.release(algorithm, folder / "t.csv", **terms, **more)


def without_dialect(path: Path) -> None:
    """As a version wrote it that knew no dialects."""
    value = json.loads(path.read_text())
    del value["context"]["csv_dialect"], value["checksum"], value["payment"]
    value["schema_version"] = 1
    path.write_text(json.dumps(value | {"checksum": checksum_of(value)}))


def test_a_transcript_keeps_it_and_reads_without_it(tmp_path: Path) -> None:
    people(tmp_path / "t.csv")
    released = release(tmp_path, "lines")
    path = tmp_path / "t.json"
    assert Transcript.load(path).privacy == released.privacy
    value = released.to_json()
    for wrong in ("excel", ["lines"], 3):
        body = value | {"context": value["context"] | {"csv_dialect": wrong}}
        del body["checksum"]
        with pytest.raises(TranscriptFormatError):
            Transcript.from_json(body | {"checksum": checksum_of(body)})
    without_dialect(path)
    assert Transcript.load(path).privacy["csv_dialect"] is None


def test_a_release_is_continued_in_its_own_dialect(tmp_path: Path) -> None:
    people(tmp_path / "t.csv")

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    for dialect, other in (("rfc4180", "lines"), ("lines", "rfc4180")):
        with pytest.raises(KeyboardInterrupt):
            release(tmp_path, dialect, on_round=stop)
        with pytest.raises(TranscriptError, match="dialect"):
            release(tmp_path, other, resume=True)
        assert len(release(tmp_path, dialect, resume=True).rounds) == 2
        (tmp_path / "t.json").unlink()
    # One of an earlier version was read by lines.
    release(tmp_path, "lines")
    without_dialect(tmp_path / "t.json")
    with pytest.raises(TranscriptError, match="dialect"):
        release(tmp_path, "rfc4180", resume=True)
    assert release(tmp_path, "lines", resume=True).privacy["csv_dialect"] == "lines"


def test_inferred_data_and_the_report_say_it_too(tmp_path: Path) -> None:
    people(tmp_path / "t.csv")
    privacy = release(tmp_path, "lines").privacy
    inferred = InferredDataset(
        points=np.ones((1, 2)), weights=np.ones(1), method="maxent", simulated=False, privacy=privacy
    )
    inferred.save(tmp_path / "i.parquet")
    assert InferredDataset.load(tmp_path / "i.parquet").privacy == replace(privacy, counted=None)
    facts = privacy_section.content(privacy)
    assert {"name": "dialect of CSV", "value": "lines"}.items() <= facts["numbers"][-2].items()
    assert "whether any one line was in the table" in facts["words"][0]
    quoted, none = (replace(privacy, unit="one record", csv_dialect=d) for d in ("rfc4180", None))
    assert [
        PrivacyStatement.together(two)["csv_dialect"] for two in ([quoted, none], [none, quoted], [none, none])
    ] == [
        *("rfc4180", "rfc4180"),
        None,
    ]
    with pytest.raises(ParameterError, match="other units"):
        PrivacyStatement.together([privacy, none])


def test_rounds_about_records_do_not_become_rounds_about_lines(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(n_rounds: int) -> None:
        if n_rounds == 2:
            raise Stop

    x = np.random.default_rng(0).uniform(size=(200, 2))
    pd.DataFrame(x, columns=["a", "b"]).to_csv(tmp_path / "c.csv", index=False)
    algorithm, domain = recoup.KMeans(n_clusters=2, n_rounds=4), recoup.Box([0, 0], [1, 1], ("a", "b"))
    terms = {"domain": domain, "epsilon": 1, "path": tmp_path / "t.json"}
    with pytest.raises(Stop):
        recoup.release(algorithm, pd.DataFrame(x, columns=["a", "b"]), on_round=stop, **terms)
    for dialect in ("lines", "rfc4180"):
        with pytest.raises(TranscriptError, match="dialect of CSV"):
            recoup.release(algorithm, tmp_path / "c.csv", resume=True, csv_dialect=dialect, **terms)


@pytest.mark.parametrize(
    "names", [("p.csv", "p.tsv"), ("p.csv", "p.CSV"), ("p.csv.gz", "p.csv"), ("p.csv.GZ", "p.tsv")]
)
def test_a_table_that_is_there_with_two_endings_is_refused(names: tuple[str, str], tmp_path: Path) -> None:
    for name in names:
        text = b"a\n1\n"
        (tmp_path / name).write_bytes(gzip.compress(text) if name.lower().endswith(".gz") else text)
    with pytest.raises(DataError, match="twice"):
        open_table(tmp_path, ("a",))


def test_the_ending_of_a_compression_may_have_any_case(tmp_path: Path) -> None:
    (tmp_path / "p.csv.GZ").write_bytes(gzip.compress(b"a\n1\n2\n"))
    assert sum(len(block) for block in open_table(tmp_path / "p.csv.GZ", ("a",)).blocks()) == 2
