"""The benchmark: its structure, never its times."""

from __future__ import annotations

import importlib
import itertools
import json
import math
import os
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from threadpoolctl import threadpool_info, threadpool_limits
from typer.testing import CliRunner

from recoup._threads import n_threads
from recoup.cli.app import app
from recoup.errors import ParameterError
from recoup_lab.bench import (
    cluster,
    databases,
    inference,
    performance,
    persons,
    release,
    run,
    spark,
    streaming,
    tables,
    whole,
)
from recoup_lab.bench.cluster import Job, PartitionCost, round_seconds, simulate_round
from recoup_lab.bench.data import blobs
from recoup_lab.bench.foreign import running
from recoup_lab.bench.growth import fit_growth
from recoup_lab.bench.memory import peak_growth
from recoup_lab.bench.picture import picture
from recoup_lab.bench.results import PARTS, Part, Race
from recoup_lab.bench.roofline import pass_load
from recoup_lab.bench.rules import Rules, race, stopwatch
from recoup_lab.commands.bench import Which
from recoup_lab.pages import markers

BEGIN, END = markers(performance.PLACE)

# ---- timing and memory ----


def test_contestants_take_turns_and_every_turn_begins_with_another():
    calls = []

    def contestant(name, times):
        remaining = iter(times)
        return lambda: calls.append(name) or next(remaining)

    contestants = {"a": contestant("a", [3.0, 1.0, 2.0]), "b": contestant("b", [5.0, 6.0, 4.0])}
    assert race(contestants, repeats=3) == {"a": 1.0, "b": 4.0}
    assert "".join(calls) == "abbaab"


def test_a_race_without_patience_still_gives_everyone_a_turn():
    calls = []
    assert race({"a": lambda: calls.append("a") or 1.0, "b": lambda: 2.0}, repeats=9, patience=-1.0) == {
        "a": 1.0,
        "b": 2.0,
    }
    assert calls == ["a"]
    with pytest.raises(ParameterError, match="at least one turn"):
        race({}, repeats=0)


def test_peak_memory_is_that_of_the_work_alone(tmp_path, monkeypatch):
    (tmp_path / "memory_works.py").write_text(
        "def before(n):\n    bytearray(b'x') * n\n    return lambda: None\n"
        "def during(n):\n    return lambda: len(bytearray(b'x') * n)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    works = importlib.import_module("memory_works")
    assert 90 < peak_growth(works.during, 100 << 20) < 130
    assert peak_growth(works.before, 100 << 20) < 30  # what preparation took and gave back is not counted


def threads():
    return [n_threads(), pa.cpu_count(), *(pool["num_threads"] for pool in threadpool_info())]


def test_one_core_holds_everyone_to_one_thread_and_lets_go(monkeypatch):
    monkeypatch.setenv("RECOUP_NUM_THREADS", "3")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    import sklearn.cluster  # noqa: F401, its threads are to be counted

    before = threads()
    with Rules(one_core=True).cores():
        assert set(threads()) == {1}
        assert os.environ["OMP_NUM_THREADS"] == "1"
    assert threads() == before
    assert before[0] == 3
    assert "OMP_NUM_THREADS" not in os.environ
    with Rules().cores():
        assert threads() == before


def test_one_core_is_on_the_clock_of_the_processor(monkeypatch):
    for clock, step in (("process_time", 2.0), ("perf_counter", 5.0)):
        ticks = itertools.count(0.0, step)
        monkeypatch.setattr(time, clock, lambda ticks=ticks: next(ticks))
    assert Rules(one_core=True).timed(lambda: None)() == 2.0
    assert stopwatch(lambda: None, time.perf_counter)() == Rules().timed(lambda: None)() == 5.0


# ---- growth ----


def test_growth_is_found_in_noisy_times():
    rng = np.random.default_rng(0)
    shapes = [{"n": n, "d": d, "k": k} for n in (1e4, 1e5, 1e6) for d in (2, 10, 50) for k in (5, 15, 100)]
    seconds = [1e-9 * s["n"] * s["d"] ** 0.8 * s["k"] ** 0.5 * rng.lognormal(sigma=0.05) for s in shapes]
    growth = fit_growth(shapes, seconds)
    assert growth.exponents == pytest.approx({"n": 1.0, "d": 0.8, "k": 0.5}, abs=0.05)
    assert 1.03 < growth.misfit < 1.08
    assert growth.n_points == 27


@pytest.mark.parametrize("shapes", [[], [{"n": 10.0}], [{"n": 10.0}, {"n": 10.0}], [{"n": 1.0, "k": 1.0}] * 2])
def test_growth_that_cannot_be_told_is_refused(shapes):
    with pytest.raises(ParameterError, match="cannot tell the growth"):
        fit_growth(shapes, [1.0] * len(shapes))


# ---- contestants ----


def test_the_grid_covers_what_it_says_and_stays_under_its_cap():
    shapes = list(release.shapes(Rules()))
    assert {n for n, _, _ in shapes} == {10**4, 10**5, 10**6, 10**7}
    assert {d for _, d, _ in shapes} == {2, 10, 50}
    assert {k for _, _, k in shapes} == {5, 10, 15, 100}
    assert max(n * d for n, d, _ in shapes) == release.MAX_VALUES
    assert set(release.shapes(Rules(quick=True))) < set(shapes)
    assert {n for n, _, _ in release.shapes(Rules(max_records=10**6))} == {10**4, 10**5, 10**6}


def test_plain_lloyd_is_lloyd():
    x, start = blobs(70_000, 2, 3), np.array([[0.1, 0.2], [-0.3, 0.4], [9.0, 9.0]])
    centers = start
    for _ in range(3):
        cells = ((x[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        centers = np.array([x[cells == c].mean(axis=0) if (cells == c).any() else centers[c] for c in range(3)])
    np.testing.assert_allclose(release.plain_lloyd(x, start, 3), centers, rtol=1e-9)
    np.testing.assert_array_equal(centers[2], [9.0, 9.0])


def test_a_python_without_a_library_is_refused(tmp_path, capfd):
    for library, module in (
        (release.DIFFPRIVLIB, "diffprivlib"),
        (release.FAISS, "faiss"),
        (release.INTELEX, "daal4py"),
    ):
        with pytest.raises(ParameterError, match=f"cannot run {library}"), running(library, sys.executable, tmp_path):
            pass
        assert f"No module named '{module}'" in capfd.readouterr().err
    with pytest.raises(ParameterError, match="cannot be started"), running("faiss-cpu", str(tmp_path / "no"), tmp_path):
        pass


FAKES = {
    "diffprivlib/__init__.py": "",
    "diffprivlib/models.py": """
class KMeans:
    def __init__(self, n_clusters, epsilon, bounds, random_state):
        assert epsilon == 1.0 and len(bounds[0]) == 3
    def fit(self, records):
        assert records.shape == (4, 3)
""",
    "faiss.py": """
class Kmeans:
    def __init__(self, d, k, niter, nredo, seed, max_points_per_centroid, min_points_per_centroid):
        assert (d, k, niter, nredo, max_points_per_centroid) == (3, 2, 5, 1, 4)
    def train(self, records):
        assert records.shape == (4, 3) and records.dtype == "float32"
""",
    "daal4py.py": "def daalinit(n): assert n == 1",
    "sklearnex/__init__.py": "",
    "sklearnex/cluster.py": """
class KMeans:
    def __init__(self, n_clusters, init, n_init, max_iter, tol, algorithm, random_state):
        assert (n_clusters, init, n_init, max_iter, tol, algorithm) == (2, "random", 1, 5, 0, "lloyd")
    def fit(self, records):
        assert records.shape == (4, 3) and records.dtype == "float64"
""",
}


@pytest.fixture
def other_python(tmp_path, monkeypatch):
    """An interpreter whose libraries check what they are asked for, and do nothing."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for library in (release.DIFFPRIVLIB, release.FAISS, release.INTELEX):
        facts = tmp_path / f"{library.replace('-', '_')}-0.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {library}\nVersion: 0.0\n")
    for name, text in FAKES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    program = tmp_path / "python"
    # The worker is started isolated; here, and only here, it must find a package that is not installed.
    program.write_text(f'#!/bin/sh\nshift\nPYTHONPATH={tmp_path} exec {sys.executable} -P "$@"\n')
    program.chmod(0o755)
    return str(program)


def test_the_first_run_of_all_finds_nothing_compiled_and_later_ones_do(monkeypatch):
    started = []

    def run_process(command, *, env=None, **given):
        started.append((command[3:5] if "-m" in command else ["-c"], env and Path(env["NUMBA_CACHE_DIR"]).name))

    monkeypatch.setattr(whole.subprocess, "run", run_process)
    found = whole.in_shell(Rules(one_core=True))
    assert list(found) == [whole.SHELL, whole.SHELL_YARDSTICK, whole.FIRST]
    cluster = ["recoup", "cluster"]
    assert started[:4] == [(["recoup", "demo"], None), (cluster, "new0"), (cluster, "new1"), (cluster, "kept")]
    assert {folder for _, folder in started[4:]} == {"kept"}


def test_the_comparison_tells_how_long_aim_takes(monkeypatch, tmp_path):
    rows = whole.beside_aim()
    assert rows
    for row in rows:
        assert row["seconds"][whole.AIM] > row["seconds"][whole.OURS] > 0
    monkeypatch.setattr(whole, "ROOT", tmp_path)
    assert whole.beside_aim() == []


@pytest.mark.parametrize("library", [release.DIFFPRIVLIB, release.FAISS, release.INTELEX])
def test_another_interpreter_takes_part(other_python, tmp_path, library):
    with running(library, other_python, tmp_path) as peer:
        assert peer.version == "0.0"
        peer.load(np.zeros((4, 3)))
        assert peer.fit(2) >= 0.0
        assert 0.0 <= peer.fit(2, processor=True) < 1.0
        assert not list(tmp_path.glob("*.npy"))
    with running(library, None, tmp_path) as nobody:
        assert nobody is None


def test_the_load_of_a_pass_is_dominated_by_distances():
    assert pass_load(10, 100).operations == 3 * 10 * 100 + 7 * 100 + 6 * 10
    assert pass_load(10, 100).bytes == pass_load(10, 5).bytes == 40


# ---- the cluster ----

COST = PartitionCost(per_record=1e-7, per_task=0.3, per_job=2.0)


def job(n_records=10**9, n_cores=50):
    return Job(n_records=n_records, n_columns=10, n_clusters=15, n_rounds=5, n_cores=n_cores)


def test_partitions_cover_the_records_and_are_not_too_many():
    for n in (1, 10**6, 10**9, 10**12, 10**12 + 1):
        found = job(n)
        assert (found.n_tasks - 1) * found.records_per_task < n <= found.n_tasks * found.records_per_task
        assert found.n_tasks <= cluster.MOST_TASKS
    assert job().driver_bytes == 5 * 15 * 11 * 24  # whatever the number of records
    assert job().shuffle_bytes == job().n_tasks * 165 * cluster.ROW_BYTES


def test_without_mishaps_the_simulation_is_the_formula():
    for n_cores in (1, 7, 597, 10_000):
        calm = simulate_round(job(n_cores=n_cores), COST, np.random.default_rng(0), failure=0.0, spread=0.0)
        assert calm.seconds == pytest.approx(round_seconds(job(n_cores=n_cores), COST))
        assert (calm.n_failed, calm.answered) == (0, True)


def test_a_simulated_round_never_beats_its_work_and_failures_cost_time():
    found = job()
    work = found.n_tasks * (COST.per_task + found.records_per_task * COST.per_record)
    smooth = simulate_round(found, COST, np.random.default_rng(1), failure=0.0)
    rough = simulate_round(found, COST, np.random.default_rng(1), failure=0.2)
    assert smooth.seconds >= COST.per_job + 0.95 * work / found.n_cores  # the mean of 597 factors is not exactly 1
    assert rough.seconds > smooth.seconds
    # Expected: 597 * (0.2 + 0.04 + 0.008 + 0.0016) = 149, with a deviation of about 12.
    assert 90 < rough.n_failed < 210


def test_a_task_that_always_fails_ends_the_round():
    dead = simulate_round(job(10**8), COST, np.random.default_rng(0), failure=1.0)
    assert not dead.answered
    assert dead.n_failed == cluster.MAX_ATTEMPTS * job(10**8).n_tasks


# ---- parts and pages ----


@pytest.fixture(scope="module")
def parts():
    """Every part, measured on next to nothing; without Spark, and with memory not measured."""
    # One thread: on a busy machine the threads of others wait for each other.
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(1):
        grid = [(n, d, k) for n in (200, 400) for d in (2, 3) for k in (2, 3)]
        patch.setattr(release, "shapes", lambda rules: grid)
        patch.setattr(release, "peak_growth", lambda prepare, *arguments: float(len(arguments)))
        patch.setattr(streaming, "peak_growth", lambda prepare, *arguments: 12.0)
        patch.setattr(persons, "peak_growth", lambda prepare, *arguments: 12.0)
        limits = {"bandwidth": 1e10, "copy": 1e10, "arithmetic": 1e10}
        point = {"what": "pass", "n_columns": 2, "n_clusters": 3, "bytes": 8, "operations": 35, "seconds": 1e-8}
        roof = limits | {"points": [point | {"memory": 0.08, "arithmetic": 0.35}]}
        patch.setattr(release, "measure_roofline", lambda rules: roof)
        base = inference.Shape(n_rounds=2, n_clusters=2, n_points=300)
        shapes = [base, inference.Shape(n_rounds=3, n_clusters=2, n_points=300), inference.Shape(n_points=200)]
        patch.setattr(inference, "shapes", lambda quick: shapes)
        patch.setattr(spark, "what_is_missing", lambda: "Java")
        patch.setattr(spark, "_SIZES", (10**8, 10**9))
        patch.setattr(whole, "peak_growth", lambda prepare, *arguments: 34.0)
        small = [whole.Shape(n_records=n, n_columns=d, n_clusters=k) for n, d, k in
                 ((300, 2, 2), (600, 2, 2), (300, 3, 2), (300, 2, 3))]  # fmt: skip
        patch.setattr(whole, "shapes", lambda rules: small)
        patch.setattr(whole, "in_shell", lambda rules: dict.fromkeys((whole.SHELL, whole.FIRST), 0.5))
        found = [
            whole.measure_whole(Rules(quick=True, one_core=True, max_records=1000)),
            release.measure_release(Rules(quick=True, one_core=True)),
            inference.measure_inference(Rules(quick=True, max_records=500)),
            streaming.measure_streaming(Rules(quick=True, max_records=2000)),
            persons.measure_persons(Rules(quick=True, max_records=2000)),
            databases.measure_databases(Rules(quick=True, max_records=2000)),
            spark.measure_spark(Rules(quick=True, max_records=8000)),
        ]
    return {part.name: part for part in found}


def test_every_part_measures_every_contestant(parts):
    assert tuple(parts) == PARTS
    for r in parts["whole"].races:
        assert tuple(r.seconds) == whole.METHODS
        assert all(value > 0 for name, value in r.seconds.items() if name != whole.DIFFPRIVLIB)
    assert set(parts["whole"].facts["growth"]) == set(whole.METHODS) - {whole.DIFFPRIVLIB}
    for one in parts["whole"].facts["beyond_passes"]:
        assert 0 < one["answers"] < one["fit"]
        assert 0 < one["rest"] < one["fit"]
    assert parts["whole"].facts["memory"]["megabytes"] == 34.0
    for r in parts["release"].races:
        assert tuple(r.seconds) == release.METHODS
        absent = (release.DIFFPRIVLIB, release.INTELEX, release.FAISS)
        assert all(r.seconds[name] is None for name in absent)
        assert all(value > 0 for name, value in r.seconds.items() if name not in absent)
    assert len(parts["release"].races) == 8
    assert parts["release"].facts["memory"]["megabytes"][release.OURS] == 4.0
    assert [note.split(" was not measured")[0] for note in parts["release"].notes] == list(absent)
    assert [r.shape["n_rows"] for r in parts["inference"].races] == [12, 18, 225]
    assert [r.shape["dtype"] for r in parts["streaming"].races] == ["float64", "float32"]
    assert [r.shape["identifiers"] for r in parts["persons"].races] == ["whole numbers", "text"]
    assert [r.shape["database"] for r in parts["databases"].races] == ["DuckDB", "SQLite"]
    assert parts["spark"].races == ()
    assert parts["spark"].notes == ("Spark was not measured: Java is missing.",)
    assert [row["n_records"] for row in parts["spark"].facts["projection"]] == [10**8, 10**9]


def test_parts_survive_json(parts):
    for part in parts.values():
        assert Part.from_json(json.loads(json.dumps(part.to_json(), allow_nan=False))) == part


def test_a_ratio_needs_both():
    r = Race(shape={}, seconds={"a": 1.0, "b": None})
    assert r.ratio("a", "b") is None
    assert r.ratio("b", "a") is None
    assert r.ratio("a", "absent") is None


def test_tables_are_rectangular_and_say_what_is_missing(parts):
    for part in parts.values():
        for table in tables.tables_of(part) + (tables.cluster_tables(part) if part.name == "spark" else []):
            assert table.rows
            assert {len(row) for row in table.rows} == {len(table.header)}
    text = performance.performance_text(parts)
    assert text.count(tables.NOT_MEASURED) == 8 * 4 + 4 + 4 + 1  # three libraries and the share of the fastest; notes
    for title in ("Whole fits", "Release", "Inference", "Files larger than memory", "Persons", "Spark"):
        assert f"## {title}" in text


def test_a_machine_that_is_busy_says_so(parts):
    part = parts["streaming"]
    calm = {**part.machine, "cores": 2, "clock": "wall", "load": [0.5, 1.0]}
    busy = calm | {"load": [0.5, 9.0]}
    sentences = [
        tables.machine_sentence(Part(name="streaming", quick=False, machine=machine, races=part.races))
        for machine in (calm, busy, busy | {"clock": "processor"})
    ]
    assert tables.BUSY not in sentences[0]
    assert sentences[1].endswith(f"Load: 0.5 to 9; {tables.BUSY}")
    assert sentences[2].endswith("Processor seconds of one thread, not the clock's. Load: 0.5 to 9.")


def test_pages_keep_prose_and_other_parts(parts, tmp_path):
    before = f"# Mine\nfirst\n{BEGIN}\nold figures\n{END}\nlast\n"
    (tmp_path / "performance.md").write_text(before)
    held, files = performance.write_pages(tmp_path, [parts["inference"]])
    assert list(held) == ["inference"]
    held, files = performance.write_pages(tmp_path, [parts["spark"], parts["release"]])
    assert list(held) == ["release", "inference", "spark"]  # always in this order
    text = (tmp_path / "performance.md").read_text()
    assert text.startswith(f"# Mine\nfirst\n{BEGIN}\n![")
    assert text.endswith(f"{END}\nlast\n")
    assert "old figures" not in text
    assert "## Inference" in text
    assert "## Files" not in text
    assert "Five rounds, projected" in (tmp_path / "cluster.md").read_text()
    assert (tmp_path / "images" / "performance.png").read_bytes()[1:4] == b"PNG"
    assert {path.relative_to(tmp_path).as_posix() for path in files} == {
        "performance.md", "cluster.md", "images/performance.png", "data/performance.json",
    }  # fmt: skip
    assert performance.read_parts(tmp_path / "data" / "performance.json") == held
    performance.write_pages(tmp_path, [])
    assert (tmp_path / "performance.md").read_text() == text


@pytest.mark.parametrize("text", ["no markers", f"{END}{BEGIN}", f"{BEGIN}{BEGIN}{END}"])
def test_a_page_without_a_place_is_left_alone(parts, tmp_path, text):
    (tmp_path / "performance.md").write_text(text)
    with pytest.raises(ParameterError, match="has no place for results"):
        performance.write_pages(tmp_path, [parts["streaming"]])
    assert [path.name for path in tmp_path.iterdir()] == ["performance.md"]
    assert (tmp_path / "performance.md").read_text() == text


def test_a_foreign_results_file_is_refused(tmp_path):
    (tmp_path / "results.json").write_text('{"a": 1}')
    with pytest.raises(ParameterError, match="not a file that recoup bench wrote"):
        performance.read_parts(tmp_path / "results.json")


def test_numbers_are_short():
    assert [tables.short(value) for value in (0.5, 99.96, 999.6, 1e6, 0.0)] == [
        "0.500",
        "100",
        "1000",
        "1,000,000",
        "0.00",
    ]


def test_spark_needs_pyspark_and_java(monkeypatch, tmp_path):
    monkeypatch.setattr(spark.importlib.util, "find_spec", lambda name: None)
    assert spark.what_is_missing() == "PySpark"
    monkeypatch.setattr(spark.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert spark.what_is_missing() == "Java"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    assert spark.what_is_missing() is None


def test_the_cost_of_a_partition_is_put_together_from_its_sizes(monkeypatch):
    monkeypatch.setattr(spark, "race", lambda contestants, repeats: {n: 0.5 + 1e-3 * int(n) for n in contestants})
    cost = spark.partition_cost((10, 100, 1000))
    assert cost.per_record == pytest.approx(1e-3)
    assert cost.per_task == pytest.approx(0.5)
    assert math.isclose(cost.per_job, 0.0)


# ---- the command ----


def bench(*arguments):
    return CliRunner().invoke(app, ["bench", *(str(a) for a in arguments)])


@pytest.fixture
def measured(parts, monkeypatch):
    asked = []

    def run_parts(names, rules, *, diffprivlib, peers):
        asked.append((tuple(names), rules.quick, rules.one_core, rules.max_records, diffprivlib, peers))
        yield from (parts[name] for name in names)

    monkeypatch.setattr(run, "run_parts", run_parts)
    return asked


def test_the_command_writes_and_prints(measured, tmp_path):
    result = bench("--quick", "--diffprivlib", "python9", "--peers", "python8", "--max-records", 50_000, "-o", tmp_path)
    assert result.exit_code == 0, result.output
    assert measured == [(PARTS, True, False, 50_000, "python9", "python8")]
    assert "Release of 5 rounds" in result.stdout
    assert "Five rounds, projected" in result.stdout
    assert "Spark was not measured: Java is missing." in result.stderr
    assert (tmp_path / "performance.md").exists()


def test_one_part_as_json(measured, parts, tmp_path):
    result = bench("streaming", "--json", "--one-core", "-o", tmp_path)
    assert result.exit_code == 0, result.output
    assert measured == [(("streaming",), False, True, None, None, None)]
    printed = json.loads(result.stdout)
    assert [Part.from_json(value) for value in printed["parts"]] == [parts["streaming"]]
    assert all(Path(path).is_file() for path in printed["files"])
    assert not (tmp_path / "cluster.md").exists()


def test_a_part_that_is_not_there(tmp_path):
    assert bench("everything", "-o", tmp_path).exit_code == 2
    assert {which.value for which in Which} == {*PARTS, "all"}


def test_parts_are_run_by_name(monkeypatch):
    rules = Rules(quick=True)
    for name in PARTS:
        monkeypatch.setattr(run, f"measure_{name}", lambda *given, name=name, **named: (name, given, named))
    found = list(run.run_parts(PARTS, rules, diffprivlib="p", peers="q"))
    assert [name for name, _, _ in found] == list(PARTS)
    assert all(given == (rules,) for _, given, _ in found)
    assert {"diffprivlib": "p", "peers": "q"} in [given for _, _, given in found]


def test_every_contestant_of_a_release_can_be_drawn():
    shape = {"n_records": 10, "n_columns": 10, "n_clusters": 15}
    everyone = Race(shape=shape, seconds=dict.fromkeys(release.METHODS, 1.0), facts={"left_out": []})
    part = Part(name="release", quick=True, machine={}, races=(everyone,))
    assert picture({"release": part}).startswith(b"\x89PNG")


def test_the_share_of_the_fastest_needs_all_of_them():
    seconds = {release.OURS: 2.0, release.LLOYD: 1.0, release.LLOYD_RANDOM: 8.0, release.INTELEX: 4.0}
    assert tables._of_the_fastest(Race(shape={}, seconds=seconds)) is None
    assert tables._of_the_fastest(Race(shape={}, seconds=seconds | {release.FAISS: 5.0})) == 0.5


def test_a_part_that_an_older_version_measured_is_dropped(parts, tmp_path):
    old = parts["release"].to_json() | {"facts": {}}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "performance.json").write_text(json.dumps([old]))
    held, _ = performance.write_pages(tmp_path, [parts["streaming"]])
    assert list(held) == ["streaming"]
