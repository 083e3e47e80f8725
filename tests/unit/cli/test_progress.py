"""Progress of a slow run: rounds and a percentage, the same for neighbouring tables, on a terminal and in a log."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from recoup import PrivateKMeans, infer, suggest_clusters
from recoup._progress import OnProgress
from recoup.cli.app import app
from recoup.cli.commands.curator import _planned_rounds
from recoup.cli.progress import Progress


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 0.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """What a terminal shows, one after the other."""

    def show(finished: list[int], n_rounds: int | None = None, *, total: int = 0, **given: bool) -> list[str]:
        terminal = Terminal()
        monkeypatch.setattr("sys.stderr", terminal)
        with Progress(n_rounds, **given) as progress:
            progress._timer.join()
            for n in finished:
                if n_rounds is None:
                    progress.reached(n, total)
                else:
                    progress.finished(n)
        return [text.rstrip() for text in terminal.getvalue().split("\r")[1:]]

    return show


Shown = Callable[..., list[str]]


def test_what_is_known_to_be_slow_says_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 1e6)
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with Progress(at_once=True) as progress:
        assert terminal.getvalue() == "\rworking ..."
        progress.reached(1, 2)
        assert terminal.getvalue().endswith("\r[##########..........] 50%")
    with Progress():
        assert "working" not in terminal.getvalue().split("50%")[1]


def test_a_report_says_that_it_works_before_it_imports(tmp_path: Path) -> None:
    program = (
        "import sys; from recoup.cli import progress; from recoup.cli.app import app\n"
        "def seen(self): raise SystemExit(5 + bool({'numpy', 'numba'} & set(sys.modules)))\n"
        "progress.Progress.__enter__ = seen\n"
        "app(['report', 'transcript.json'])"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True).returncode == 5


def test_a_terminal_gets_a_bar_that_is_cleared_at_the_end(shown: Shown) -> None:
    assert shown([1, 2, 4], 4) == [
        "[....................] round 1 of 4, 0%",
        "[#####...............] round 2 of 4, 25%",
        "[##########..........] round 3 of 4, 50%",
        "[####################] round 4 of 4, 100%",
        *("", ""),
    ]


def test_rounds_that_could_have_been_more_end_at_100_percent(shown: Shown) -> None:
    texts = [text.partition("] ")[2] for text in shown([1, 2], 3, at_most=True)]
    # There could have been three, and two were all: a third, which was never asked, is not named.
    assert texts[:-2] == [
        *("round 1 of at most 3, 0%", "round 1 of at most 3, 33%", "round 2 of at most 3, 66%"),
        "round 2 of 2, 100%",
    ]


@pytest.mark.parametrize("steps", [[3, 7], [3, 7, 10], [7, 3, 10, 10]])
def test_a_percentage_ends_at_100_once_and_never_goes_back(shown: Shown, steps: list[int]) -> None:
    texts = shown(steps, total=10)
    assert texts[0] == "working ..."
    numbers = [int(text.split()[-1][:-1]) for text in texts[1:-2]]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 100


def test_a_percentage_is_shown_once_something_has_moved_it(shown: Shown) -> None:
    assert shown([]) == ["working ...", "", ""]


def test_more_rounds_than_planned_do_not_pass_100_percent(shown: Shown) -> None:
    assert shown([1, 2, 3], 2)[-3].endswith("round 2 of 2, 100%")


def test_a_run_that_fails_is_not_said_to_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    progress = Progress(3, at_most=True)
    progress.__enter__()
    progress._timer.join()
    progress.finished(1)
    progress.__exit__(ValueError, ValueError("stop"), None)
    assert "100%" not in terminal.getvalue()


def test_a_log_gets_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    # How long a round took, and so how many records there are, must not stay in it.
    with Progress(3) as progress:
        assert progress._timer.ident is None  # never started
        for n in (1, 2, 3):
            progress.finished(n)
    assert capsys.readouterr().err == ""


# ---- in Python ----


@pytest.mark.usefixtures("few_points")
def test_whatever_reads_a_transcript_tells_how_far_it_is(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal([[0.3, 0.7]], 0.1, size=(300, 2))
    model = PrivateKMeans(n_clusters=2, epsilon=5, bounds=(0, 1), random_state=0).fit(x)
    transcript = model.transcript_
    given = {"level": 0.5, "n_draws": 5, "random_state": 0}
    work: dict[str, Callable[[OnProgress], object]] = {
        "maxent": lambda tell: infer(transcript, random_state=0, on_progress=tell),
        "mcmc": lambda tell: infer(transcript, "mcmc", n_steps=5000, random_state=0, on_progress=tell),
        "intervals": lambda tell: model.intervals(0.5, on_progress=tell),
        "clusters": lambda tell: suggest_clusters(
            model.inferred_, k_max=2, transcript=transcript, on_progress=tell, **given
        ),
        "report": lambda tell: model.report(tmp_path / "r.html", on_progress=tell),
        "no intervals": lambda tell: model.report(tmp_path / "r.html", intervals=False, on_progress=tell),
    }
    for name, run in work.items():
        told = list[tuple[int, int]]()
        run(lambda done, total, told=told: told.append((done, total)))
        assert [done for done, _ in told] == sorted({done for done, _ in told}), name
        assert [done == total for done, total in told] == [False] * (len(told) - 1) + [True], name
        assert len(told) > 1, name


@pytest.mark.usefixtures("few_points")
def test_what_is_told_is_the_same_for_neighbouring_tables() -> None:
    x = np.random.default_rng(0).normal([[0.3, 0.7]], 0.1, size=(300, 2))
    seen = []
    for rows in (x, x[:-1], x[:0]):
        model = PrivateKMeans(n_clusters=2, epsilon=5, bounds=(0, 1), algorithm="lloyd", random_state=0).fit(rows)
        told = list[tuple[int, int]]()
        infer(model.transcript_, random_state=0, on_progress=lambda *at, told=told: told.append(at))
        model.intervals(0.5, on_progress=lambda *at, told=told: told.append(at))
        seen.append(told)
    assert seen[0] == seen[1] == seen[2]


BOUNDS2, BOUNDS4 = ({f"x{j}": (-1.0, 1.0) for j in range(d)} for d in (2, 4))
PLANS: dict[str, dict[str, object]] = {
    "few columns": {"bounds": BOUNDS2},
    "grid": {"bounds": BOUNDS2, "algorithm": "grid"},
    "grid, declared": {"bounds": BOUNDS2, "algorithm": "grid", "n_records": 1000},
    "hybrid": {"bounds": BOUNDS2, "algorithm": "hybrid"},
    "lloyd": {"bounds": BOUNDS2, "algorithm": "lloyd"},
    "three rounds": {"bounds": BOUNDS4, "n_rounds": 3},
    "many columns": {"bounds": BOUNDS4},
    "many columns, declared": {"bounds": BOUNDS4, "n_records": 1000},
}


@pytest.mark.usefixtures("few_points")
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("n", [0, 3000])
def test_the_planned_rounds_are_those_that_are_made(plan: str, n: int) -> None:
    given = {"n_clusters": 2, "epsilon": 1000, "postprocess": "none", "random_state": 0, "noise": "simulated"}
    model = PrivateKMeans(**given, **PLANS[plan])
    n_rounds, at_most = _planned_rounds(model)
    assert at_most == plan.startswith(("many", "hybrid"))
    rng, seen = np.random.default_rng(0), []
    model.fit(pa.table({name: rng.uniform(-1, 1, n) for name in PLANS[plan]["bounds"]}), on_round=seen.append)
    assert seen[-1] <= n_rounds
    assert at_most or seen[-1] == n_rounds
    # Both ends of "at most" are reached: by no records, and by as many as make the most rounds worthwhile.
    assert not plan.startswith("many") or (seen[-1] == n_rounds) == (n > 0)


@pytest.mark.parametrize(
    "given",
    [{"n_clusters": 0}, {"epsilon": -1}, {"bounds": None}, {"bounds": {"a": (1, 0)}}, {"algorithm": "gupt"}],
)
def test_bad_parameters_are_left_for_the_fit_to_refuse(given: dict[str, object]) -> None:
    model = PrivateKMeans(**({"n_clusters": 2, "epsilon": 1, "bounds": BOUNDS2} | given))
    assert _planned_rounds(model) == (None, False)


def test_a_folder_is_clustered_and_its_size_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Slow from the first moment, so that every line that could be shown is.
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 0.0)
    bounds = tmp_path / "bounds.json"
    bounds.write_text(json.dumps({"x": [-1, 1], "y": [-1, 1]}))
    shown = []
    for name, sizes in (("one", [300]), ("many", [123, 456, 789, 0])):
        folder = tmp_path / name
        for i, n in enumerate(sizes):
            rng = np.random.default_rng(i)
            (folder / f"day={i}").mkdir(parents=True)
            table = pa.table({"x": rng.uniform(-1, 1, n), "y": rng.uniform(-1, 1, n), "note": ["SECRET"] * n})
            pq.write_table(table, folder / f"day={i}" / "part-0.parquet")
        options = ["-k", "2", "--epsilon", "1", "--bounds", str(bounds), "--algorithm", "lloyd", "--rounds", "3"]
        answer = CliRunner().invoke(app, ["cluster", str(folder), *options, "--postprocess", "none", "--json"])
        assert answer.exit_code == 0, answer.stderr
        assert np.array(json.loads(answer.stdout)["centers"]).shape == (2, 2)
        lines = [line for line in answer.stderr.splitlines() if re.match(r"round \d|working", line)]
        shown.append(lines)
    # A log has no line that comes once work has proved slow: it would tell how large the table is.
    assert shown == [[], []]
