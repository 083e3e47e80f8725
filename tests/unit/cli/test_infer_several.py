"""The command that reads several transcripts."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pytest
from commands import run
from joint_cases import K, registered, released, table  # noqa: F401

import recoup
from recoup.cli.output import ExitCode
from recoup.privacy.statement import NOT_PRIVATE
from recoup.queries.counts import GridQuery


@pytest.fixture
def saved(tmp_path):
    paths = [tmp_path / "grid.json", tmp_path / "lloyd.json", tmp_path / "counts.json"]
    released("grid").save(paths[0])
    released("lloyd").save(paths[1])
    recoup.transcript_from(
        domain=recoup.Box([0, 0], [1, 1]), epsilon=1, simulated=True, algorithm="counts of quarters",
        rounds=[(GridQuery(sides=(2, 2)), [750.0, 760.0, 740.0, 755.0], 2)],
    ).save(paths[2])  # fmt: skip
    return paths


def test_the_command_reads_several(saved, tmp_path):
    grid, lloyd, counts = saved
    answer = run("infer", counts, lloyd, grid, "-o", tmp_path / "out", "--json")
    assert answer.exit_code == 0, answer.stderr
    value = json.loads(answer.stdout)
    parts = [recoup.Transcript.load(path) for path in (counts, lloyd, grid)]
    rng = np.random.default_rng(0)
    inferred = recoup.infer(parts, random_state=rng)
    centers = recoup.refit(parts[1], inferred, random_state=rng)
    assert value["centers"] == centers.tolist()
    assert [a["algorithm"] for a in value["answers"]] == ["elsewhere", "kmeans-lloyd", "kmeans-grid"]
    assert [a["transcript"] for a in value["answers"]] == [str(counts), str(lloyd), str(grid)]
    assert value["answers"][0]["answer"] is None
    assert value["answers"][1]["answer"] == value["centers"]
    assert np.array(value["answers"][2]["answer"]).shape == (K, 2)
    assert (value["privacy"]["epsilon"], value["privacy"]["statement"]) == (2.0, NOT_PRIVATE)
    names = ["centers.csv", "answers.json", "inferred.parquet", "diagnostics.json"]
    assert value["files"] == [str(tmp_path / "out" / name) for name in names]
    kept = json.loads((tmp_path / "out" / "answers.json").read_text())
    assert (kept["answers"], kept["privacy"]) == (value["answers"], NOT_PRIVATE)
    assert json.loads((tmp_path / "out" / "diagnostics.json").read_text())["privacy"] == NOT_PRIVATE
    assert (value["answers"][2]["rows"], value["answers"][2]["columns"]) == (list("0123"), ["column 0", "column 1"])
    table_for_people = run("infer", lloyd, grid).stdout
    assert "4 centres by maxent" in table_for_people
    assert f"Answer of kmeans-grid ({grid})" in table_for_people
    assert len(re.findall(r"^ *cluster( +records)? +column 0 +column 1 *$", table_for_people, re.M)) == 2


def test_another_number_of_clusters_is_for_every_clustering(saved):
    value = json.loads(run("infer", *saved, "-k", "2", "--json").stdout)
    assert [None if a["answer"] is None else len(a["answer"]) for a in value["answers"]] == [2, 2, None]
    assert "2 centres by maxent" in run("infer", *saved, "-k", "2").stdout


def test_answers_without_clusters_have_headers(tmp_path):
    x = np.column_stack([table(), (table()[:, 0] > 0.5).astype(float)])
    kinds = {
        "mixture": (recoup.GaussianMixture(n_components=2, n_rounds=2), "weight", "component 1"),
        "logistic": (recoup.LogisticRegression(n_rounds=2), "coefficient", "intercept"),
        "pca": (recoup.CovariancePCA(n_components=1), "bought", "component 1"),
    }
    domain = recoup.Box([0, 0, 0], [1, 1, 1], ("age", "hours", "bought"))
    for name, (algorithm, _, _) in kinds.items():
        transcript = recoup.release(
            algorithm, pa.table(dict(zip(domain.columns, x.T, strict=True))), domain=domain, epsilon=20,
            noise="simulated", random_state=0,
        )  # fmt: skip
        transcript.save(tmp_path / f"{name}.json")
    for name, (algorithm, column, row) in kinds.items():
        path = tmp_path / f"{name}.json"
        shown = run("infer", path)
        assert shown.exit_code == 0, shown.stderr
        title, _, header, *rows = shown.stdout.splitlines()
        assert f"Answer of {algorithm.type_name} ({path})" in title
        assert column in header
        assert any(line.strip().startswith(row) for line in rows)
        found = json.loads(run("infer", path, "-o", tmp_path / name, "--json").stdout)["answers"][0]
        assert row in found["rows"]
        assert column in found["columns"]
        assert np.shape(found["answer"])[0] == len(found["rows"])
        assert json.loads((tmp_path / name / "answers.json").read_text())["answers"] == [found]
    assert "directions in columns scaled to [-1, 1]" in run("infer", tmp_path / "pca.json").stderr
    assert not re.search(r"^ *bought", run("infer", tmp_path / "logistic.json").stdout, re.M)


def test_one_transcript_is_read_as_before(saved, tmp_path):
    answer = run("infer", saved[1], "-o", tmp_path / "out", "--json")
    value = json.loads(answer.stdout)
    part = recoup.Transcript.load(saved[1])
    rng = np.random.default_rng(0)
    assert value["centers"] == recoup.refit(part, recoup.infer(part, random_state=rng), random_state=rng).tolist()
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "centers.csv",
        "diagnostics.json",
        "inferred.parquet",
    ]
    # Who counts it is told by the release alone.
    assert value["privacy"] == {name: said for name, said in part.privacy.items() if name != "counted"}


def test_rounds_without_an_algorithm_have_data_and_no_centres(saved, tmp_path):
    value = json.loads(run("infer", saved[2], "-o", tmp_path / "out", "--json").stdout)
    assert (value["centers"], value["answers"][0]["answer"]) == ([], None)
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"answers.json", "diagnostics.json", "inferred.parquet"}
    refused = run("infer", saved[2], "-k", "3")
    assert (refused.exit_code, refused.stdout) == (ExitCode.USAGE, "")
    assert "none of these transcripts" in refused.stderr
    assert '{"type": "kmeans-adaptive", "n_clusters": 3}' in refused.stderr
    shown = run("infer", saved[2])
    assert "About 3,005 records by maxent, NOT PRIVATE" in shown.stdout
    assert re.search(r"^ *column 1 +0\.\d+ +0\.\d+", shown.stdout, re.M)
    assert "-o FOLDER writes the inferred data" in shown.stderr
    assert "-o FOLDER" not in run("infer", saved[2], "-o", tmp_path / "out").stderr


def test_the_way_to_clusters_that_the_refusal_names_works(saved, tmp_path):
    read = recoup.Transcript.load(saved[2])
    rounds = [(r.query, r.noisy, r.scales) for r in read.rounds]
    named = recoup.transcript_from(
        domain=read.context.domain, epsilon=1, rounds=rounds, algorithm={"type": "kmeans-adaptive", "n_clusters": 3}
    )
    named.save(tmp_path / "named.json")
    assert len(json.loads(run("infer", tmp_path / "named.json", "--json").stdout)["centers"]) == 3


def test_what_does_not_belong_together_is_one_line(saved, tmp_path):
    released("lloyd", domain=recoup.Box([0, 0], [1, 2])).save(tmp_path / "other.json")
    for second, words in ((tmp_path / "other.json", "different domains"), (saved[0], "given twice")):
        answer = run("infer", saved[0], second)
        assert (answer.exit_code, answer.stdout, answer.stderr.count("\n")) == (ExitCode.USAGE, "", 1)
        assert words in answer.stderr
    assert run("infer", saved[0], tmp_path / "missing.json").exit_code == ExitCode.TRANSCRIPT


def test_a_config_file_names_one_or_several(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.toml").write_text('transcript = ["grid.json", "lloyd.json"]\njson = true\n')
    (tmp_path / "one.toml").write_text('transcript = "lloyd.json"\njson = true\n')
    assert [len(json.loads(run("infer", "--config", name).stdout)["answers"]) for name in ("two.toml", "one.toml")] == [
        2,
        1,
    ]
    (tmp_path / "bad.toml").write_text('transcript = ["grid.json", true]\n')
    answer = run("infer", "--config", "bad.toml")
    assert answer.exit_code == ExitCode.USAGE
    assert "'transcript' in the config file" in answer.stderr
