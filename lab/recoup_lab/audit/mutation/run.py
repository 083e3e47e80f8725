"""Change the source in thousands of small ways and see that for each change some test fails.

What a mutant is, says `operators.py`; how tests are run on it, `forks.py`. A mutant that no test kills
must be explained in `survivors.toml`, or the script ends with code 1; so it does if an explanation fits no
mutant. Results are kept in `build/mutation`: a run that was interrupted goes on, and later runs try again what is new
and, after a change of the tests, what has survived. The page says of each file whether its source is still the one that
was tried; figures of an earlier source stay until the file is tried again, and say that they are of an earlier source.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import platform
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from recoup_lab.audit.mutation.operators import mutations
from recoup_lab.tree import ROOT

STATE = ROOT / "build" / "mutation"
SURVIVORS = Path(__file__).resolve().parent / "survivors.toml"
TARGETS = (
    "src/recoup/curator/curator.py",
    "src/recoup/curator/persons.py",
    "src/recoup/domain.py",
    "src/recoup/mixed.py",
    "src/recoup/octaves.py",
    "src/recoup/schema.py",
    "src/recoup/transcript/continuation.py",
    "src/recoup/privacy/gaussian.py",
    "src/recoup/privacy/ledger.py",
    "src/recoup/privacy/ledger_rules.py",
    "src/recoup/privacy/ledger_file.py",
    "src/recoup/privacy/mechanism.py",
    *(f"src/recoup/queries/{name}.py" for name in ("__init__", "base", "cells", "counts", "models", "moments")),
    "src/recoup/transcript/round.py",
    "src/recoup/transcript/transcript.py",
    "src/recoup/privacy/statement.py",
)
OUTCOMES = ("killed", "timeout", "explained", "survived", "not tried")
TRIED, PARTLY, NOT = "tried", "partly tried", "not tried"
CHANGED = "changed since it was tried"
_UNIT = (
    *(
        f"privacy/test_{name}"
        for name in (
            "gaussian",
            "price",
            "ledger",
            "ledger_file",
            "ledger_rules",
            "mechanism",
            "selection",
            "statement",
        )
    ),
    *(f"transcript/test_{name}" for name in ("context", "continuation", "round", "transcript", "transcript_spending")),
    *(
        f"queries/test_{name}"
        for name in ("base", "cells", "counts", "queries", "query_bounds", "query_json", "simple")
    ),
    *(f"algorithms/test_{name}" for name in ("components", "lloyd", "logistic", "mixture")),
    *("curator/test_curator", "curator/test_persons", "curator/test_rivals"),
    *("test_domain", "test_driver", "test_find_bounds", "test_incomplete", "test_mixed", "test_schema"),
    *(f"imported/test_{name}" for name in ("claim", "imported", "refused", "units")),
)
TESTS = (
    *(f"tests/unit/{name}.py" for name in _UNIT),
    "tests/contract/test_queries.py",
    "tests/property/test_core.py",
    "tests/property/test_persons.py",
    "tests/privacy/test_budget_totals.py",
    "tests/privacy/test_continuation.py",
    "tests/privacy/test_csv_unit.py",
    "tests/privacy/test_found_bugs.py",
    "tests/privacy/test_grid_neighbours.py",
    "tests/privacy/test_ledger_units.py",
    "tests/privacy/test_mixed_sensitivity.py",
    "tests/privacy/test_neighbours.py",
    "tests/privacy/test_own_queries.py",
    "tests/privacy/test_persons.py",
    "tests/golden/test_golden.py",
    *TARGETS,  # their doctests
)
LEFT_OUT = ("test_many_clusters", "test_a_stream_that_can", "test_every_method", "test_inference_recovers")  # slow
_LONGEST_TEST = 2.0  # seconds; a slower test takes no part
_FIRST = (80, 1.5, 3)  # the tests that are tried first: at most so many, so many seconds, of so many files
_ONE_CORE = dict.fromkeys(("RECOUP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Mutant:
    """A mutant, without its tree."""

    file: str
    index: int
    where: str
    key: str
    lines: tuple[int, int]
    at_import: bool
    source: str


@dataclass(frozen=True)
class Cover:
    """What the tests execute, and how long they take."""

    lines: Mapping[str, Mapping[str, Sequence[int]]]
    seconds: Mapping[str, float]
    libraries: Sequence[str]

    def of(self, mutant: Mutant) -> list[str]:
        """The tests that may notice a mutant: those that execute its lines.

        What is executed by an import is noticed by any test that executes something of the file, and by all tests of
        the module itself: that a class is frozen is seen without a line of it.
        """
        first, last = mutant.lines
        words = {*Path(mutant.file).stem.split("_"), Path(mutant.file).parent.name} - {"recoup"}
        own = {test: not words.isdisjoint(Path(test.split("::")[0]).stem.split("_")) for test in self.seconds}
        found: dict[str, list[str]] = defaultdict(list)
        for test in self.seconds:
            lines = self.lines.get(test, {}).get(mutant.file, ())
            at_import = mutant.at_import and (lines or own[test])
            if at_import or any(first <= line <= last for line in lines):
                found[test.split("[")[0]].append(test)
        ranked = []
        for tests in found.values():
            tests.sort(key=self.seconds.__getitem__)
            ranked += [(i, self.seconds[test], test) for i, test in enumerate(tests)]
        # Tests of the module itself; then one of each test function, the second parameters of each, and so on.
        ranked.sort(key=lambda entry: (not own[entry[2]], *entry))
        return [test for _, _, test in ranked]


def all_mutants(files: Iterable[str] = TARGETS) -> Iterator[Mutant]:
    """The mutants of some files."""
    for file in files:
        text = (ROOT / file).read_text(encoding="utf-8")
        source, tree = digest(text), ast.parse(text)
        for i, found in enumerate(mutations(tree)):
            yield Mutant(file, i, found.where, found.key, found.lines, found.at_import, source)


def digest(text: str) -> str:
    """Of the code of a source; its documentation, comments and empty lines, which have no mutants, do not count."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    words: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            words.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    code = [line.rstrip() for i, line in enumerate(text.splitlines(), start=1) if i not in words]
    kept = "\n".join(line for line in code if line and not line.lstrip().startswith("#"))
    return hashlib.sha256(kept.encode()).hexdigest()[:16]


def explanations() -> dict[tuple[str, str], str]:
    """Why some mutants may survive, by file and key."""
    value = tomllib.loads(SURVIVORS.read_text(encoding="utf-8")) if SURVIVORS.exists() else {}
    return {
        (f"src/recoup/{group['file']}", change): group["reason"]
        for group in value.get("group", [])
        for change in group["changes"]
    }


def tests_hash() -> str:
    """Of everything that decides whether a mutant survives, but the mutated file itself."""
    return _hash(*ROOT.glob("tests/**/*.py"), *ROOT.glob("tests/golden/*.json"), *(ROOT / file for file in TARGETS))


def _hash(*paths: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def records() -> list[dict[str, Any]]:
    """All results that were kept, oldest first."""
    found = []
    for path in STATE.glob("results-*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:  # the last line of a run that was killed
                continue
    return sorted(found, key=lambda record: record["time"])


def known(tests: str, most: float) -> dict[tuple[str, str, str], dict[str, Any]]:
    """What need not be tried again, by file, hash of the file, and key.

    Args:
        tests: their hash; what has survived other tests may be killed by these.
        most: seconds of tests; what has survived fewer may be killed by more.
    """
    found = {}
    for record in records():
        place = (record["file"], record["source"], record["key"])
        if record["status"] in ("killed", "timeout") or (record["tests"] == tests and record["most"] >= most):
            found[place] = record
        else:
            found.pop(place, None)
    return found


def cover() -> Cover:
    """What each test executes; read back for files of tests that have not changed."""
    from recoup_lab.audit.mutation.forks import in_fork, looked_at, timed

    path = STATE / "cover.json"
    value = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"files": {}, "libraries": []}
    shared = _hash(ROOT / "tests" / "conftest.py", *ROOT.glob("tests/reference/*.py"), *(ROOT / t for t in TARGETS))
    hashes = {file: _hash(ROOT / file) + shared for file in TESTS}
    new = [file for file in TESTS if value["files"].get(file, {}).get("hash") != hashes[file]]
    if new:
        # Twice without the tracer: the first run compiles the kernels, the second one tells how long tests take.
        print(f"== The tests of {len(new)} files on the source as it is (a few minutes)", flush=True)
        _green(in_fork(lambda: timed(new, LEFT_OUT), 3600))
        print("== Which test executes which lines", flush=True)
        # Traced, some tests are slower than their own limits; whether all pass is asked without the tracer.
        traced = in_fork(lambda: looked_at(TARGETS, new, LEFT_OUT), 3600)[1]
        seconds = _green(in_fork(lambda: timed(new, LEFT_OUT), 3600))["seconds"]
        for file in new:
            lines = {test: found for test, found in traced["lines"].items() if test.split("::")[0] == file}
            times = {test: found for test, found in seconds.items() if test.split("::")[0] == file}
            value["files"][file] = {"hash": hashes[file], "lines": lines, "seconds": times}
        value["libraries"] = sorted({*value["libraries"], *traced["libraries"]})
        path.write_text(json.dumps(value), encoding="utf-8")
    lines = {test: found for file in TESTS for test, found in value["files"][file]["lines"].items()}
    seconds = {test: found for file in TESTS for test, found in value["files"][file]["seconds"].items()}
    return Cover(lines, {test: took for test, took in seconds.items() if took <= _LONGEST_TEST}, value["libraries"])


def _green(answer: tuple[str, Any]) -> Any:
    ended, value = answer
    if ended != "done" or value["code"] != 0:
        raise SystemExit(
            f"the tests do not pass on the source as it is: {value if ended != 'done' else value['failed']}"
        )
    return value


def verdict(mutant: Mutant, covered: Cover, kills: Counter[tuple[str, str]], most: float) -> tuple[str, str]:
    """Try a mutant: first the tests that killed its neighbours, then others, up to so many seconds of them.

    Returns:
        killed, timeout, survived or untested; and by which test.
    """
    from recoup_lab.audit.mutation.forks import in_fork, tried

    order = covered.of(mutant)
    if not order:
        return "untested", ""
    order.sort(key=lambda test: (-kills[mutant.where, test], -kills[mutant.file, test]))
    first = _first(order, covered.seconds)
    rest, total = [], 0.0
    for test in order:
        if test not in first and total < most:
            rest.append(test)
            total += covered.seconds[test]
    for tests in (first, rest):
        if not tests:
            continue
        limit = 20.0 + 6.0 * sum(covered.seconds[test] for test in tests)
        ended, value = in_fork(partial(tried, mutant.file, mutant.index, tests), limit)
        if ended == "timeout":
            return "timeout", ""
        if ended == "died":
            return "killed", f"the process ended with code {value}"
        if value["killed"]:
            kills[mutant.where, value["killed"]] += 1
            kills[mutant.file, value["killed"]] += 1
            return "killed", value["killed"]
    return "survived", ""


def _first(order: Sequence[str], seconds: Mapping[str, float]) -> list[str]:
    count, most, n_files = _FIRST
    files: set[str] = set()
    chosen, total = list[str](), 0.0
    for test in order:
        file = test.split("::")[0]
        if len(chosen) < count and total + seconds[test] <= most and (file in files or len(files) < n_files):
            chosen.append(test)
            files.add(file)
            total += seconds[test]
    return chosen


def work(mutants: Sequence[Mutant], covered: Cover, tests: str, most: float, name: str) -> None:
    """Try mutants and keep each result as soon as it is known."""
    kills: Counter[tuple[str, str]] = Counter()
    for record in records():
        if record["status"] == "killed":
            kills[record["file"], record["by"]] += 1
            kills[record["key"].split(":")[0], record["by"]] += 1
    with (STATE / f"results-{name}.jsonl").open("a", encoding="utf-8") as out:
        for mutant in mutants:
            start = time.monotonic()
            status, by = verdict(mutant, covered, kills, most)
            record = {
                "time": time.time(),
                **{"file": mutant.file, "key": mutant.key, "source": mutant.source, "tests": tests},
                **{"status": status, "by": by, "seconds": round(time.monotonic() - start, 2), "most": most},
            }
            out.write(json.dumps(record) + "\n")
            out.flush()


def run(todo: Sequence[Mutant], covered: Cover, tests: str, options: argparse.Namespace) -> None:
    """Try mutants in several processes."""
    children = []
    for i in range(options.processes):
        pid = os.fork()
        if pid == 0:
            try:
                work(todo[i :: options.processes], covered, tests, options.seconds, f"{os.getpid()}")
                os._exit(0)
            finally:
                os._exit(1)
        children.append(pid)
    start = time.monotonic()
    places = {(m.file, m.source, m.key) for m in todo}
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            children.remove(pid)
            if status:
                raise SystemExit("a process that tries mutants has died; run again to go on")
        time.sleep(1)
        if int(time.monotonic() - start) % 60 == 0:
            done = [r for place, r in known(tests, options.seconds).items() if place in places]
            survived = sum(r["status"] in ("survived", "untested") for r in done)
            print(f"   {len(done)} of {len(todo)} tried, {survived} survived", flush=True)


def report(earlier: Mapping[str, Any]) -> dict[str, Any]:
    """What is known about all mutants, as JSON.

    Args:
        earlier: the report before; its figures stay for a file of which nothing newer is known, and for files that are
            no longer there until all that are there were tried.
    """
    results, reasons = {(r["file"], r["source"], r["key"]): r for r in records()}, explanations()
    files: dict[str, dict[str, Any]] = {}
    survivors = []
    for file in TARGETS:
        count, alive, seconds = Counter[str](), [], 0.0
        mutants = list(all_mutants([file]))
        for mutant in mutants:
            record = results.get((file, mutant.source, mutant.key), {"status": "not tried", "seconds": 0.0})
            status = record["status"]
            seconds += record["seconds"]
            if status in ("survived", "untested"):
                reason = reasons.get((file, mutant.key), "")
                status = "explained" if reason else "survived"
                alive.append({"file": file, "line": mutant.lines[0], "change": mutant.key, "reason": reason})
            count[status] += 1
        before = earlier.get("files", {}).get(file)
        known_before = before is not None and before["source"] == mutants[0].source
        if before is not None and count["not tried"] >= (before["not tried"] + 1 if known_before else len(mutants)):
            files[file] = {**before, "state": before["state"] if known_before else CHANGED}
            survivors += [survivor for survivor in earlier["survivors"] if survivor["file"] == file]
        else:
            state = TRIED if not count["not tried"] else PARTLY if count["not tried"] < len(mutants) else NOT
            counts = {"mutants": len(mutants), **{name: count[name] for name in OUTCOMES}}
            files[file] = {"source": mutants[0].source, "state": state, **counts, "seconds": round(seconds, 1)}
            survivors += alive
    if any(entry["state"] != TRIED for entry in files.values()):
        gone = [file for file in earlier.get("files", {}) if file not in TARGETS]
        files |= {file: {**earlier["files"][file], "state": CHANGED} for file in gone}
        survivors += [survivor for survivor in earlier.get("survivors", []) if survivor["file"] in gone]
    present = [entry for entry in files.values() if entry["state"] != CHANGED]
    total = {name: round(sum(entry[name] for entry in present), 1) for name in ("mutants", *OUTCOMES, "seconds")}
    return {"python": platform.python_version(), "files": files, "total": total, "survivors": survivors}


def untrue(value: Mapping[str, Any]) -> list[str]:
    """What a report claims and is not so: of today's sources, by its own figures, or by keeping quiet."""
    files, found = value["files"], []
    for file in TARGETS:
        if file not in files:
            found.append(f"{file} is left out")
    for file, entry in files.items():
        tried = sum(entry[name] for name in OUTCOMES if name != "not tried")
        if entry["mutants"] != tried + entry["not tried"]:
            found.append(f"the figures of {file} do not add up")
        if entry["survived"]:
            found.append(f"{file}: {entry['survived']} survivors are not explained")
        if entry["explained"] != sum(bool(s["reason"]) for s in value["survivors"] if s["file"] == file):
            found.append(f"the explanations of {file} are not those of its survivors")
        if file not in TARGETS or entry["source"] != digest((ROOT / file).read_text(encoding="utf-8")):
            if entry["state"] != CHANGED:
                found.append(f"{file} has changed since it was tried, and its state is: {entry['state']}")
        elif entry["state"] != (TRIED if not entry["not tried"] else PARTLY if tried else NOT):
            found.append(f"{file}: {entry['not tried']} mutants were not tried, and its state is: {entry['state']}")
    present = [entry for entry in files.values() if entry["state"] != CHANGED]
    if any(value["total"][name] != sum(entry[name] for entry in present) for name in ("mutants", *OUTCOMES)):
        found.append("the total is not that of the files whose source is as it was tried")
    return found


def text_of(value: Mapping[str, Any]) -> str:
    """A report as Markdown."""
    from recoup_lab.pages import markdown

    total, files = value["total"], value["files"]
    rows = []
    for file, entry in [*files.items(), ("**all but the changed**", {"state": "", **total})]:
        name = f"`{file.removeprefix('src/recoup/')}`" if file in files else file
        killed = entry["killed"] + entry["timeout"]
        counts = [
            entry["mutants"],
            killed,
            *(entry[name] for name in ("timeout", "explained", "survived", "not tried")),
        ]
        source = f" (source {entry['source']})" if "source" in entry else ""
        rows.append((name, *(f"{n:,}" for n in counts), entry["state"] + source))
    header = ("file", "mutants", "killed", "of these by time limit", "explained", "unexplained", "not tried", "state")
    tried = total["mutants"] - total["not tried"]
    reasons: dict[str, int] = Counter(survivor["reason"] for survivor in value["survivors"] if survivor["reason"])
    changed = [file for file, entry in files.items() if entry["state"] == CHANGED]
    lines = [markdown(header, rows, range(1, 7)), ""]
    if changed:
        lines += [
            f'"{CHANGED}": the figures of {len(changed)} files are those of an earlier source, some of it under '
            "another name; nothing is claimed about the mutants of today's, and the total leaves them out.",
            "",
        ]
    lines += [
        f"{100.0 * (total['killed'] + total['timeout']) / max(tried, 1):.1f}% of the {tried:,} mutants that were tried "
        f"are killed; the last try of each, together, took {total['seconds'] / 60.0:.0f} minutes of a process. Why the "
        "others live:",
        "",
    ]
    lines += [
        f"- {reason} ({count})" for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    ]
    return "\n".join(lines)


def write(folder: Path, value: Mapping[str, Any]) -> None:
    """Keep a report in a folder and write its part of `evidence.md`."""
    from recoup_lab.audit.evidence import write_evidence
    from recoup_lab.pages import write_json

    write_json(folder / "data" / "mutation.json", value)
    write_evidence(folder, "mutation", text_of(value))


def main() -> int:
    """Try what is not known yet, and print what survives."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", action="append", metavar="TEXT", help="mutants whose file or name holds this; may be repeated"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=30.0, help="of tests that a mutant must survive")
    parser.add_argument("--report", action="store_true", help="try nothing, only say what is known")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write data/mutation.json and evidence.md")
    options = parser.parse_args()
    STATE.mkdir(parents=True, exist_ok=True)
    os.environ.update(_ONE_CORE | {"NUMBA_CACHE_DIR": str(STATE / "numba")})
    tests, mutants = tests_hash(), list(all_mutants())
    chosen = [m for m in mutants if any(text in f"{m.file}:{m.key}" for text in options.only or [""])]
    if not options.report:
        from recoup_lab.audit.mutation.forks import prepare

        prepare([])
        covered = cover()
        prepare(covered.libraries)
        found = known(tests, options.seconds)
        todo = [m for m in chosen if (m.file, m.source, m.key) not in found]
        print(f"== {len(todo)} of {len(mutants)} mutants are to be tried", flush=True)
        run(todo, covered, tests, options)
    kept = (options.output or ROOT / "docs") / "data" / "mutation.json"
    value = report(json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {})
    unexplained = [s for s in value["survivors"] if not s["reason"]]
    for survivor in unexplained:
        print(f"{survivor['file']}:{survivor['line']}: {survivor['change']}")
    idle = set(explanations()) - {(m.file, m.key) for m in mutants}
    for file, key in sorted(idle):
        print(f"explained, but there is no such mutant: {file}: {key}")
    print(json.dumps(value["total"]))
    if options.output is not None:
        write(options.output, value)
    return 1 if unexplained or idle or any(entry["state"] != TRIED for entry in value["files"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
