"""Progress of a slow run: rounds and a percentage, the same for neighbouring tables, on a terminal and in a log."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from recoup import PrivateKMeans
from recoup.cli.app import app
from recoup.cli.commands.curator import _planned_rounds
from recoup.cli.output import Progress


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recoup.cli.output._QUIET_SECONDS", 0.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def show(n_rounds: int, finished: list[int], **given: object) -> None:
    with Progress(n_rounds, **given) as progress:
        progress._timer.join()
        for n in finished:
            progress.finished(n)


def test_a_terminal_gets_a_bar_that_is_cleared_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    show(4, [1, 2, 4])
    written = terminal.getvalue().split("\r")
    assert written[1] == "[....................] round 1 of 4, 0%"
    assert written[2] == "[#####...............] round 2 of 4, 25%"
    assert written[4] == "[####################] round 4 of 4, 100%"
    assert written[5].isspace()
    assert len(written[5]) >= len(written[4])
    assert written[6] == ""


def test_a_log_gets_lines_without_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    show(3, [1, 2], at_most=True)
    lines = capsys.readouterr().err.splitlines()
    shown = ["round 1 of at most 3, 0%", "round 1 of at most 3, 33%", "round 2 of at most 3, 66%"]
    # There could have been three, and two were all: a third, which was never asked, is not named.
    assert lines == [*shown, "round 2 of 2, 100%"]


def test_a_run_that_fails_is_not_said_to_be_done(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(3, at_most=True)
    progress.__enter__()
    progress._timer.join()
    progress.finished(1)
    progress.__exit__(ValueError, ValueError("stop"), None)
    assert capsys.readouterr().err.splitlines()[-1] == "round 1 of at most 3, 33%"


def test_a_percentage_is_shown_once_something_has_moved_it(capsys: pytest.CaptureFixture[str]) -> None:
    show(100, [], unit="percent")
    assert capsys.readouterr().err.splitlines() == ["working ..."]
    show(100, [40], unit="percent")
    assert capsys.readouterr().err.splitlines() == ["working ...", "40%"]


def test_more_rounds_than_planned_do_not_pass_100_percent(capsys: pytest.CaptureFixture[str]) -> None:
    show(2, [1, 2, 3])
    assert capsys.readouterr().err.splitlines()[-1] == "round 2 of 2, 100%"


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
    monkeypatch.setattr("recoup.cli.output._QUIET_SECONDS", 0.0)
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
