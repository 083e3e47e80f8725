"""Recoup needs no network: its commands and its Python face run where opening a socket kills the process.

The power half: attempts from Python, from compiled code, by name or through another process do not go unnoticed, also
where the code that makes them swallows every error.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from network_guard import can_forbid_in_kernel

GUARD = Path(__file__).parents[1] / "reference" / "network_guard.py"
STOPPED, KILLED = 70, -signal.SIGSYS
BOUNDS = "age=17:90,hours=1:99"


def guarded(code, guards, folder):
    command = [sys.executable, str(GUARD), guards, code]
    environment = os.environ | {"RECOUP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def guards(tmp_path_factory):
    """All guards that this system has; the kernel's must work wherever it is known."""
    if not can_forbid_in_kernel():
        return "python"
    ran = guarded("print('on')", "kernel", tmp_path_factory.mktemp("probe"))
    if "refuses the filter" in ran.stderr:
        return "python"
    assert ran.stdout == "on\n", ran.stderr
    return "python+kernel"


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.uniform(17, 90, 300), rng.uniform(1, 99, 300)])
    lines = [f"{age:.1f},{hours:.1f}" for age, hours in rows]
    (tmp_path / "people.csv").write_text("age,hours\n" + "\n".join(lines) + "\nragged\n,\n")
    return tmp_path


COMMANDS = [
    "--version",
    "ledger create budget.db --epsilon 5",
    "plan --columns 2 -k 3 --epsilon 0.5 --n-records 300",
    f"cluster people.csv -k 3 --epsilon 1 --bounds {BOUNDS} --ledger budget.db -o out",
    f"release people.csv -k 3 --epsilon 1 --rounds 2 --bounds {BOUNDS} --ledger budget.db -o lloyd.json",
    f"release people.csv -k 3 --epsilon 1 --delta 1e-6 --rounds 2 --bounds {BOUNDS} --ledger zcdp.db -o gauss.json",
    "infer lloyd.json -o inferred",
    "infer lloyd.json --method mcmc -o chain",
    "report out/transcript.json -o report.html",
    "ledger show budget.db --json",
    "ledger export budget.db -o export.json",
]


def run_all(commands):
    """Code that runs commands one after the other, and prints the exit code of each."""
    return (
        "import json, sys\n"
        "from recoup.cli.app import main\n"
        "codes = []\n"
        f"for command in {commands!r}:\n"
        "    sys.argv = ['recoup', *command.split()]\n"
        "    try:\n"
        "        codes.append(main() or 0)\n"
        "    except SystemExit as end:\n"
        "        codes.append(end.code or 0)\n"
        "with open('codes.json', 'w') as file:\n"
        "    json.dump(codes, file)\n"
    )


@pytest.mark.slow
def test_the_commands_run_without_a_network(folder, guards):
    commands = ["ledger create zcdp.db --epsilon 5 --delta 1e-6", *COMMANDS]
    ran = guarded(run_all(commands), guards, folder)
    assert ran.returncode == 0, ran.stderr
    codes = dict(zip(commands, json.loads((folder / "codes.json").read_text()), strict=True))
    assert {command: code for command, code in codes.items() if code} == {}, ran.stderr
    made = {"out/transcript.json", "lloyd.json", "gauss.json", "report.html", "export.json", "inferred", "chain"}
    assert {name for name in made if not (folder / name).exists()} == set()


DEMO = """
from pathlib import Path

import numpy as np

import recoup
from recoup import demo
from recoup.demo import gaussian_blobs
from recoup.inference import choose, intervals
from recoup.report.write import write_report

choose._DRAWS = intervals._DRAWS = 9  # enough for a level of 0.9

result = demo.compare(gaussian_blobs(n_records=400), n_fits=1, methods={})
shown = demo.figures(result)
Path("index.html").write_text(demo.page([result], [shown]))
model = result.release
write_report(Path("report.html"), model.transcript_, model.cluster_centers_, model.inferred_)

x = np.random.default_rng(0).uniform(size=(300, 2))
model = recoup.PrivateKMeans(3, 1.0, (0, 1), random_state=0, ledger=recoup.Ledger.create("l.db", epsilon=2)).fit(x)
model.intervals(level=0.9)
model.predict(x)
model.report("own.html")
print("done")
"""


@pytest.mark.slow
def test_the_demo_and_the_estimator_run_without_a_network(folder, guards):
    ran = guarded(DEMO, guards, folder)
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr
    assert all((folder / name).stat().st_size > 10_000 for name in ("index.html", "report.html", "own.html"))


ATTEMPTS = {
    "connect": "import socket; socket.create_connection(('192.0.2.1', 9), timeout=1)",
    "listen": "import socket; socket.socket().bind(('127.0.0.1', 0))",
    "ask for a name": "import socket; socket.getaddrinfo('nowhere.invalid', 80)",
    "fetch": "import urllib.request; urllib.request.urlopen('http://192.0.2.1/', timeout=1)",
    "datagram": "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))",
    "another process": "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import socket'])",
}
SWALLOWED = "try:\n    {}\nexcept BaseException:\n    pass\nprint('unnoticed')"


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_an_attempt_is_noticed_even_where_its_error_is_swallowed(tmp_path, attempt):
    ran = guarded(SWALLOWED.format(ATTEMPTS[attempt]), "python", tmp_path)
    assert (ran.returncode, ran.stdout) == (STOPPED, "")
    assert "network attempt" in ran.stderr


def test_an_attempt_inside_a_command_is_noticed(folder):
    planted = (
        "import socket, recoup.privacy.ledger\n"
        "releases = recoup.privacy.ledger.Ledger.releases\n"
        "def calls_home(self):\n"
        "    try:\n"
        "        socket.create_connection(('192.0.2.1', 9), timeout=1)\n"
        "    except OSError:\n"
        "        pass\n"
        "    return releases(self)\n"
        "recoup.privacy.ledger.Ledger.releases = calls_home\n"
    )
    commands = ["ledger create budget.db --epsilon 5", "ledger show budget.db"]
    ran = guarded(planted + run_all(commands), "python", folder)
    assert ran.returncode == STOPPED
    assert "network attempt" in ran.stderr


@pytest.mark.parametrize("family", [2, 10, 17])  # IPv4, IPv6, packets
def test_compiled_code_is_killed(tmp_path, guards, family):
    if guards == "python":
        pytest.skip("this system cannot forbid sockets to compiled code")
    code = f"import ctypes; ctypes.CDLL(None).socket({family}, 2, 0); print('unnoticed')"
    ran = guarded(code, "kernel", tmp_path)
    assert (ran.returncode, ran.stdout) == (KILLED, "")


def test_local_sockets_and_files_are_left_alone(tmp_path, guards):
    code = "import socket; socket.socket(socket.AF_UNIX).bind('s'); open('f', 'w').close(); print('fine')"
    ran = guarded(code, guards, tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "fine\n"), ran.stderr
