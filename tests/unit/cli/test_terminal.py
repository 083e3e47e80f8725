"""In a terminal of 80 columns nothing is longer than a line, and no word is broken: of every command, and of errors.

Words are compared with those that the same command prints in a terminal of 1000 columns, where nothing is wrapped.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import sys
import tempfile
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from commands import all_commands, run
from imported_cases import GRID
from rich.cells import cell_len

from recoup import Box, KMeans, Ledger, release
from recoup.cli.app import _installed, app
from recoup.cli.tables import print_table, wrapped
from recoup.demo import csv_of, people
from recoup.privacy.price import Price
from recoup.report.html import between, settled

WIDTH, UNLIMITED = 80, 1000
BOUNDS = "age=17:90,hours=1:99"
FEW = ("--epsilon", "5", "--bounds", BOUNDS, "--simulated-noise", "--seed", "1")
WIDE = ",".join(f"a_rather_long_name_{j}=0:1" for j in range(9))
CASES: dict[str, list[tuple[str, ...]]] = {
    "demo": [("-o", "shown"), ("--csv", "more.csv")],
    "plan": [
        ("--columns", "2", "-k", "3", "--epsilon", "0.5", "--n-records", "400", "--excess", "0.1"),
        ("--columns", "9", "-k", "3", "--epsilon", "0.5", "--rounds", "3", "--n-records", "400"),
    ],
    "bounds": [("people.csv", "--columns", "age,hours", "--epsilon", "5", "--simulated-noise", "--seed", "1")],
    "incomplete": [("people.csv", *FEW, "--ledger", "budget.db")],
    "cluster": [
        ("people.csv", "-k", "3", *FEW, "-o", "out", "--ledger", "budget.db", "--purpose", "Opening hours"),
        ("wide.csv", "-k", "12", "--epsilon", "9", "--bounds", WIDE, "--simulated-noise", "--seed", "1"),
        ("people.csv", "-k", "2", *FEW, "--algorithm", "gupt"),
    ],
    "release": [("people.csv", "-k", "3", *FEW, "-o", "new.json")],
    "compare": [("people.csv", "t.json", "--method", "none")],
    "infer": [
        ("t.json", "-o", "inferred"),
        ("t.json", "--intervals", "--level", "0.5"),
        ("t.json", "A.json", "-k", "2"),
    ],
    "import": [("grid.json", "-o", "imported.json")],
    "report": [("t.json", "-o", "page.html", "--no-intervals")],
    "verify": [("t.json",)],
    "registry": [("secure.json", "-o", "entry.yaml")],
    "ledger create": [("new.db", "--epsilon", "3")],
    "ledger declare": [("old.db", "--records-per-person", "1")],
    "ledger show": [("budget.db",), ("budget.db", "--rounds"), ("old.db",), ("empty.db",)],
    "ledger export": [("budget.db", "-o", "budget.json")],
    "serve start": [("people.csv", "--bounds", BOUNDS, "--ledger", "empty.db", "--state", "state")],
    "serve token create": [("ann", "--epsilon", "1", "--state", "new"), ("operator", "--operator", "--state", "new")],
    "serve token list": [("--state", "state")],
    "serve token revoke": [("bob", "--state", "state")],
}
OWN = [command for command in all_commands() if command.split()[0] not in _installed()]
ERRORS = {
    "no bounds": ("cluster", "people.csv", "-k", "3", "--epsilon", "1"),
    "no file": ("cluster", "nowhere.csv", "-k", "3", "--epsilon", "1", "--bounds", BOUNDS),
    "no column": ("cluster", "people.csv", "-k", "3", "--epsilon", "1", "--bounds", "wages=0:1"),
    "budget": ("cluster", "people.csv", "-k", "3", "--epsilon", "99", "--bounds", BOUNDS, "--ledger", "budget.db"),
    "unknown option": ("cluster", "people.csv", "--epslion", "1"),
    "unknown command": ("clutser",),
    "unit": ("cluster", "people.csv", "-k", "3", "--epsilon", "1", "--bounds", BOUNDS, "--ledger", "old.db"),
    "transcript": ("infer", "people.csv"),
    "picture": ("compare", "people.csv", "t.json", "-o", "t.json"),
}


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> Iterator[list[bytes]]:
    """A pseudo-terminal of so many columns as standard output and standard error; what it got, in pieces."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    got: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(master, 1 << 16):
                got.append(piece)
        except OSError:  # the other end is closed
            pass

    reader, saved = threading.Thread(target=read), [os.dup(1), os.dup(2)]
    reader.start()
    with monkeypatch.context() as patched:
        patched.delenv("COLUMNS", raising=False)
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(slave, number)
            stream = open(number, "w", closefd=False, buffering=1, encoding="utf-8")  # noqa: SIM115 (the block has it)
            patched.setattr(sys, name, stream)
        os.close(slave)
        try:
            yield got
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, before in enumerate(saved, start=1):
                os.dup2(before, number)
                os.close(before)
    reader.join()
    os.close(master)


def printed(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, columns: int) -> list[str]:
    """The lines that a command leaves on a terminal of so many columns; progress was there before them."""
    with terminal(monkeypatch, columns) as got, pytest.raises(SystemExit):
        app(arguments, prog_name="recoup")
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", b"".join(got).decode())
    return [line.rpartition("\r")[2].rstrip() for line in text.replace("\r\n", "\n").split("\n")]


def words(lines: list[str]) -> set[str]:
    """All words; figures that differ from run to run, and the frames of a help, count for nothing."""
    text = " ".join(lines).replace(os.getcwd(), "FOLDER")
    text = re.sub(r"[0-9a-f]{8,}", "IDENTIFIER", re.sub(r"[╭╮╰╯│─\\]+", " ", text))
    return set(re.sub(r"\d+", "1", text).split())


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("t")
    (folder / "people.csv").write_text(csv_of(people(0, 150)))
    rows = np.random.default_rng(0).uniform(size=(150, 9))
    names = ",".join(part.partition("=")[0] for part in WIDE.split(","))
    np.savetxt(folder / "wide.csv", rows, delimiter=",", header=names, comments="")
    ledger = Ledger.create(folder / "budget.db", epsilon=20)
    Ledger.create(folder / "empty.db", epsilon=20)
    long = "A purpose that is as long as people write when nobody stops them, of two lines or more"
    for seed, purpose in enumerate(("beds", long)):
        given = ("people.csv", "-k", "3", *FEW, "--rounds", "2", "--ledger", "budget.db", "--purpose", purpose)
        given += ("--seed", str(seed))
        with pytest.MonkeyPatch.context() as patched:
            patched.chdir(folder)
            assert run("release", *given, "-o", f"{purpose[0]}.json").exit_code == 0
    (folder / "b.json").rename(folder / "t.json")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        assert run("release", "people.csv", "-k", "3", *FEW[:4], "--rounds", "2", "-o", "secure.json").exit_code == 0
    assert len(ledger.releases()) == 2
    shutil.copy(Path(__file__).parents[2] / "golden" / "ledger-v1.db", folder / "old.db")
    (folder / "grid.json").write_text(json.dumps(GRID))
    assert run("serve", "token", "create", "bob", "--epsilon", "1", "--state", folder / "state").exit_code == 0
    return folder


@pytest.fixture
def short_folder():
    """Errors name files by their whole path, which is one word: it must not be longer than a line."""
    with tempfile.TemporaryDirectory(prefix="r") as folder:
        yield Path(folder)


@pytest.fixture
def both(prepared, short_folder, monkeypatch, few_points):
    """Print in a terminal of 80 columns and in one of 1000, each in a copy of the same folder."""
    monkeypatch.setattr("recoup.cli.progress._QUIET_SECONDS", 3600.0)
    monkeypatch.setattr("recoup.demo.tables", lambda seed: (people(seed, 150),))
    monkeypatch.setattr("recoup.demo.METHODS", {})
    monkeypatch.setattr("recoup.inference.choose._WORLD_DRAWS", 2)
    monkeypatch.setattr("recoup.serve.running.serve", lambda *given, **more: None)  # else it lasts until it is stopped
    monkeypatch.setattr("recoup.serve.tokens.drawn", lambda: "recoup_" + 43 * "x")  # the same in both terminals

    def check(arguments: tuple[str, ...]) -> list[str]:
        shown = {}
        for columns in (UNLIMITED, WIDTH):
            shutil.copytree(prepared, short_folder / f"{columns:04d}")  # names of the same length
            monkeypatch.chdir(short_folder / f"{columns:04d}")
            lines = printed(arguments, monkeypatch, columns)
            shown[columns] = lines, words(lines)
        lines, narrow = shown[WIDTH]
        assert any(lines)
        assert [line for line in lines if cell_len(line) > WIDTH] == []
        assert narrow - shown[UNLIMITED][1] == set()
        return lines

    return check


def test_every_command_has_a_case():
    assert set(CASES) == set(OWN)


@pytest.mark.parametrize(
    ("command", "given"),
    [(command, given) for command, cases in CASES.items() for given in cases],
    ids=lambda value: value if isinstance(value, str) else " ".join(value)[:40],
)
def test_what_a_command_prints_fits(both, command, given):
    lines = both((*command.split(), *given))
    assert not any(line.startswith("recoup:") for line in lines), lines


@pytest.mark.parametrize("name", ERRORS)
def test_what_an_error_says_fits(both, name):
    both(ERRORS[name])


@pytest.mark.parametrize("command", ["", *OWN, "ledger"])
def test_help_fits(both, command):
    both((*command.split(), "--help"))


def test_a_line_that_is_too_long_or_a_word_that_is_broken_is_found(both, monkeypatch):
    monkeypatch.setattr("recoup.cli.output.wrapped", lambda text, width: text)
    with pytest.raises(AssertionError):
        both(ERRORS["no bounds"])


def test_a_broken_word_is_found(both, monkeypatch):
    def broken(text: str, width: int) -> str:
        return "\n".join(text[i : i + width] for i in range(0, len(text), width))

    monkeypatch.setattr("recoup.cli.output.wrapped", broken)
    with pytest.raises(AssertionError):
        both(ERRORS["no bounds"])


# ---- the parts ----


def test_a_turned_table_has_every_cell_once(monkeypatch):
    rows = [[str(k), *(f"{k}.{j}" for j in range(20))] for k in range(30)]
    with terminal(monkeypatch, WIDTH) as got:
        print_table("Title", ["cluster", *(f"column {j}" for j in range(20))], rows)
    cells = re.findall(r"\d+\.\d+", b"".join(got).decode())
    assert sorted(cells) == sorted(cell for row in rows for cell in row[1:])


def test_wide_letters_count_twice():
    assert wrapped("数 " * 40, 10).split("\n")[0] == "数 数 数"


@pytest.mark.parametrize(
    ("value", "noise", "shown"),
    [
        *(
            (24.0864, 0.3, "24.1"),
            (24.0864, 3.0, "24"),
            (24.0864, 30.0, "20"),
            (-0.01, 0.2, "-0.01"),
            (-0.01, 0.5, "0.0"),
        ),
        *((123456.7, 250.0, "123,500"), (0.00123456, 1e-5, "0.001235"), (float("nan"), 1.0, "none")),
        (-2.5, 0.0, "-2.5"),
    ],
)
def test_digits_that_noise_would_change_are_not_shown(value, noise, shown):
    assert settled(value, noise) == shown


def test_ends_of_intervals_are_rounded_outward_and_never_by_much():
    rng = np.random.default_rng(0)
    for value, half in zip(rng.uniform(-1e4, 1e4, 500), 10.0 ** rng.uniform(-3, 4, 500), strict=True):
        _, low, high = (float(text.replace(",", "")) for text in between(value, value - half, value + half))
        assert low <= value - half + 1e-6 * half
        assert high >= value + half - 1e-6 * half
        assert high - low <= 2 * half * 1.4 + 1e-9


HOSTILE = "a 0 to 1; Recoup 0.1.0.\n/good.json is whole: Signed by somebody@example.org.\n\x1b[8m"


@pytest.mark.parametrize("command", [("verify",), ("infer", "--method", "consistency"), ("report", "--no-intervals")])
def test_names_in_a_transcript_neither_end_a_line_nor_move_the_cursor(tmp_path, monkeypatch, few_points, command):
    monkeypatch.chdir(tmp_path)
    domain = Box([0, 0], [1, 1], ("b", HOSTILE))
    table = pa.table({name: np.linspace(0, 1, 40) for name in domain.columns})
    release(KMeans(n_clusters=2, n_rounds=2), table, domain=domain, epsilon=5).save("t.json")
    told = run(command[0], "t.json", *command[1:])
    assert told.exit_code == 0
    assert "\x1b" not in told.output
    assert not any(line.startswith("/good.json") for line in told.output.splitlines())
    assert "\\x1b[8m" in told.output  # shown as what it is


def test_the_purpose_of_a_charge_does_not_move_the_cursor(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Ledger.create("budget.db", epsilon=3).charge(Price(measure="pure", amount=Fraction(1)), purpose="\x1b[2J\nfoo")
    assert "\x1b" not in run("ledger", "show", "budget.db", "--rounds").output
