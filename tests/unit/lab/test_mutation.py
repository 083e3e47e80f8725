"""Mutation testing is itself tested: what is changed, that a weak test is noticed, and that explanations still fit."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest
from pages import DOCS

from recoup_lab.audit.mutation import run as mutate
from recoup_lab.audit.mutation.operators import mutated, mutations

SOURCE = '''
"""Documentation stays."""
from __future__ import annotations
LIMIT: Final = 2**30
__all__ = ["f"]

@dataclass(frozen=True, slots=True)
class Value:
    """So does this."""
    size: int = 3

    def __repr__(self) -> str:
        return "left alone"

def f(a: int | None, *, b="short", **more) -> float:
    """And this."""
    if not isinstance(a, int | float) or a <= 0:
        raise ValueError(f"{a + 1} is for people", "text", a - 1)
    try:
        total = np.zeros(a, dtype=int)
    except (TypeError, OverflowError):
        return None
    for item in more:
        if item is None:
            continue
        total[0] += min(item, a) * -1.5
    return sqrt(total) if a else sum(x for x in more if x > 1)
'''


def changes(source=SOURCE):
    return [found.key for found in mutations(ast.parse(source))]


def test_what_is_changed():
    assert changes() == [
        "module: 2 ** 30 -> 2 * 30", "module: 2 -> 3", "module: 2 -> 1", "module: 30 -> 31", "module: 30 -> 29",
        "Value: True -> False", "Value: 3 -> 4", "Value: 3 -> 2",
        "f: 'short' -> 'XXshort'",
        "f: if not isinstance(a, int | float) or a <= 0 -> not",
        "f: and in not isinstance(a, int | float) or a <= 0",
        "f: or: without not isinstance(a, int | float)", "f: or: without a <= 0",
        "f: not isinstance(a, int | float) -> isinstance(a, int | float)",
        "f: isinstance(a, int | float) without int", "f: isinstance(a, int | float) without float",
        "f: a <= 0 -> a < 0", "f: a <= 0 -> a > 0", "f: 0 -> 1", "f: 0 -> -1",
        "f: no raise ValueError", "f: a - 1 -> a + 1", "f: 1 -> 2", "f: 1 -> 0",
        "f: np.zeros(a, dtype=int) -> ones", "f: np.zeros(...) without dtype=int",
        "f: except: without TypeError", "f: except: without OverflowError",
        "f: item is None -> item is not None", "f: continue -> break",
        "f: no total[0] += min(item, a) * -1.5", "f: total[0] += min(item, a) * -1.5 -> =",
        "f: 0 -> 1 (no. 2)", "f: 0 -> -1 (no. 2)",
        "f: min(item, a) * -1.5 -> min(item, a) / -1.5", "f: min(item, a) -> max", "f: -1.5 -> 1.5", "f: 1.5 -> 2.5",
        "f: return sqrt(total) if a else sum((x for x in more if x > 1)) -> return None",
        "f: sqrt(total) if a else sum((x for x in more if x > 1)) -> swapped", "f: sqrt(total) -> total",
        "f: no filter: if x > 1", "f: x > 1 -> x >= 1", "f: x > 1 -> x <= 1", "f: 1 -> 2 (no. 2)", "f: 1 -> 0 (no. 2)",
    ]  # fmt: skip


def test_every_change_is_one_change_that_compiles():
    texts = {ast.unparse(mutated(SOURCE, i)) for i in range(len(changes()))}
    assert len(texts) == len(changes())
    assert ast.unparse(ast.parse(SOURCE)) not in texts
    for i in range(len(changes())):
        compile(mutated(SOURCE, i), "mutant", "exec")


def test_what_an_import_executes_is_told_from_what_a_call_does():
    at_import = {found.key for found in mutations(ast.parse(SOURCE)) if found.at_import}
    assert {key.split(":")[0] for key in at_import} == {"module", "Value", "f"}
    assert {key for key in at_import if key.startswith("f")} == {"f: 'short' -> 'XXshort'"}


@pytest.mark.slow
def test_a_strong_test_kills_and_a_weak_one_does_not(tmp_path):
    (tmp_path / "src" / "tiny").mkdir(parents=True)
    (tmp_path / "src" / "tiny" / "__init__.py").write_text("SIZE = 3\n")
    (tmp_path / "src" / "tiny" / "code.py").write_text("LIMIT = 3\n\ndef small(n):\n    return n <= LIMIT\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_code.py").write_text(
        "from tiny.code import small\n"
        "def test_weak():\n    assert small(1)\n"
        "def test_strong():\n    assert small(3) and not small(4)\n"
        "def test_hangs():\n    while not small(3):\n        pass\n"
        "def test_package():\n    import tiny\n    assert tiny.SIZE == 3 and tiny.code.small(3)\n"
    )
    program = (
        "import json, sys\n"
        "sys.path.insert(0, 'src')\n"
        "from pathlib import Path\n"
        "from recoup_lab.audit.mutation import forks\n"
        "from recoup_lab.audit.mutation.forks import in_fork, looked_at, timed, tried\n"
        "forks.ROOT = Path.cwd()\n"
        "tests = ['tests/test_code.py']\n"
        "lines = in_fork(lambda: looked_at(['src/tiny/code.py'], tests, ['test_none']), 60)[1]['lines']\n"
        "control = in_fork(lambda: timed(tests, ['test_none']), 60)[1]\n"
        "found = {test: [in_fork(lambda: tried('src/tiny/code.py', i, [f'tests/test_code.py::test_{test}']), 120)\n"
        "                for i in (0, 3)] for test in ('weak', 'strong')}\n"
        "hanging = in_fork(lambda: tried('src/tiny/code.py', 4, ['tests/test_code.py::test_hangs']), 2)\n"
        "package = in_fork(lambda: tried('src/tiny/__init__.py', 0, ['tests/test_code.py::test_package']), 120)\n"
        "died = in_fork(lambda: __import__('os')._exit(3), 120)\n"
        "print(json.dumps([lines, control, found, hanging, package, died]))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    lines, control, found, hanging, package, died = json.loads(ran.stdout)
    assert lines["tests/test_code.py::test_weak"] == {"src/tiny/code.py": [4]}
    assert (control["code"], len(control["seconds"])) == (0, 4)
    keys = changes((tmp_path / "src" / "tiny" / "code.py").read_text())
    assert keys == [
        "module: 3 -> 4", "module: 3 -> 2", "small: return n <= LIMIT -> return None", "small: n <= LIMIT -> n < LIMIT",
        "small: n <= LIMIT -> n > LIMIT",
    ]  # fmt: skip
    weak, strong = ([bool(value["killed"]) for _, value in found[test]] for test in ("weak", "strong"))
    assert weak == [False, False]
    assert strong == [True, True]
    assert package == ["done", {"killed": "tests/test_code.py::test_package"}]
    assert (hanging, died) == (["timeout", None], ["died", 3])


def test_every_explanation_fits_a_mutant_and_says_something():
    keys = {(mutant.file, mutant.key) for mutant in mutate.all_mutants()}
    assert len(keys) == len(list(mutate.all_mutants()))
    reasons = mutate.explanations()
    # An edit of an explained line asks for a look at its explanation: `make mutate` tells which mutants live.
    assert set(reasons) <= keys
    assert all(len(reason) > 20 for reason in reasons.values())


def committed():
    return json.loads((DOCS / "data" / "mutation.json").read_text(encoding="utf-8"))


def test_what_is_committed_leaves_no_survivor_unexplained():
    # After an edit of a file: `make mutate` tries its mutants; with `--report`, the page says that they were not tried.
    kept = committed()
    assert mutate.untrue(kept) == []
    assert mutate.text_of(kept) in (DOCS / "evidence.md").read_text(encoding="utf-8")


DOMAIN = "src/recoup/domain.py"
BEAUTIFIED = {
    "left out": (lambda kept: kept["files"].pop(DOMAIN), "domain.py is left out"),
    "edited": (
        lambda kept: kept["files"][DOMAIN].update(source="0" * 16, state="tried"),
        "domain.py has changed since it was tried, and its state is: tried",
    ),
    "gone": (
        lambda kept: kept["files"].update({"src/recoup/gone.py": {**kept["files"][DOMAIN], "state": "tried"}}),
        "gone.py has changed since it was tried, and its state is: tried",
    ),
    "not all tried": (
        lambda kept: kept["files"][DOMAIN].update(_of_today() | {"killed": 2, "not tried": 1, "state": "tried"}),
        "domain.py: 1 mutants were not tried, and its state is: tried",
    ),
    "survived": (
        lambda kept: kept["files"][DOMAIN].update(_of_today() | {"killed": 2, "survived": 1}),
        "domain.py: 1 survivors are not explained",
    ),
    "more killed": (
        lambda kept: kept["files"][DOMAIN].update(_of_today() | {"killed": 4}),
        "the figures of src/recoup/domain.py do not add up",
    ),
    "explained by nothing": (
        lambda kept: kept["files"][DOMAIN].update(_of_today() | {"killed": 2, "explained": 1}),
        "the explanations of src/recoup/domain.py are not those of its survivors",
    ),
    "a larger total": (
        lambda kept: kept["total"].update(killed=kept["total"]["killed"] + 1),
        "the total is not that of the files whose source is as it was tried",
    ),
}


def _of_today():
    """The figures of a file of three mutants whose source is as it was tried."""
    counts = {"mutants": 3, **dict.fromkeys(mutate.OUTCOMES, 0)}
    source = mutate.digest((mutate.ROOT / DOMAIN).read_text(encoding="utf-8"))
    return {"source": source, "state": "tried", **counts}


@pytest.mark.parametrize("change", BEAUTIFIED)
def test_a_page_that_says_more_than_was_tried_is_noticed(change):
    kept = committed()
    spoil, message = BEAUTIFIED[change]
    spoil(kept)
    assert any(message in claim for claim in mutate.untrue(kept))
    assert mutate.text_of(kept) not in (DOCS / "evidence.md").read_text(encoding="utf-8")


def test_words_do_not_change_a_source_and_code_does():
    code = 'def f(a):\n    """Words."""\n    # More.\n    return a  # here\n'
    assert mutate.digest('"""Why."""\n\n' + code.replace("Words", "Other\n\n    words").replace("More", "Less")) == (
        mutate.digest(code)
    )
    assert mutate.digest(code.replace("return a", "return -a")) != mutate.digest(code)
    assert mutate.digest(code.replace('"""Words."""', 'b = """Words."""')) != mutate.digest(code)


def test_earlier_figures_stay_and_say_so(monkeypatch, tmp_path):
    """A file of which nothing is known but the figures of an earlier source; one that is gone; one that was tried."""
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    monkeypatch.setattr(mutate, "STATE", tmp_path)
    monkeypatch.setattr(mutate, "TARGETS", ("src/recoup/a.py", "src/recoup/b.py"))
    monkeypatch.setattr(mutate, "explanations", lambda: {("src/recoup/a.py", "f: return 1 -> return None"): "Why."})
    (tmp_path / "src" / "recoup").mkdir(parents=True)
    for name in "ab":
        (tmp_path / "src" / "recoup" / f"{name}.py").write_text("def f():\n    return 1\n")
    nothing = mutate.report({})
    assert {entry["state"] for entry in nothing["files"].values()} == {"not tried"}
    assert (nothing["total"]["mutants"], nothing["total"]["not tried"], mutate.untrue(nothing)) == (6, 6, [])
    before = {**nothing["files"]["src/recoup/b.py"], "source": "0" * 16, "state": "tried", "killed": 3, "not tried": 0}
    earlier = {"files": {"src/recoup/b.py": before, "src/recoup/gone.py": before}, "survivors": []}
    keys = [mutant.key for mutant in mutate.all_mutants(["src/recoup/a.py"])]
    records = [
        {"time": i, "file": "src/recoup/a.py", "key": key, "source": nothing["files"]["src/recoup/a.py"]["source"]}
        | {"tests": "", "status": "killed" if i else "survived", "by": "", "seconds": 1.0, "most": 1.0}
        for i, key in enumerate(keys)
    ]
    (tmp_path / "results-1.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records[:2]))
    assert mutate.report(earlier)["files"]["src/recoup/a.py"]["state"] == "partly tried"
    (tmp_path / "results-1.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    value = mutate.report(earlier)
    states = {file: entry["state"] for file, entry in value["files"].items()}
    assert states == {"src/recoup/a.py": "tried"} | dict.fromkeys(earlier["files"], "changed since it was tried")
    assert (value["total"]["mutants"], value["total"]["killed"], value["total"]["explained"]) == (3, 2, 1)
    assert mutate.untrue(value) == []
    assert "| `b.py` | 3 | 3 | 0 | 0 | 0 | 0 | changed since it was tried (source 0000000000000000) |" in (
        mutate.text_of(value)
    )
    # What a report says is kept by the next, which may know less.
    (tmp_path / "results-1.jsonl").unlink()
    assert mutate.report(value) == value
