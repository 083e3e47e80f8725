"""`recoup serve` by the command line: tokens, what is refused before anything is served, and a server that runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest
from typer.testing import CliRunner

from recoup.cli.app import app
from recoup.serve.store import Store

SERVE = ("--bounds", "age=17:90,hours=1:99", "--ledger", "l.db", "--state", "state")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).uniform((17, 1), (90, 99), size=(50, 2))
    np.savetxt(tmp_path / "people.csv", rows, delimiter=",", header="age,hours", comments="")
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, [*words])


def test_tokens_are_made_listed_and_revoked(folder):
    made = run("serve", "token", "create", "ann", "--epsilon", "0.1", "--state", "state")
    assert made.exit_code == 0
    assert made.stdout.startswith("recoup_")
    assert run("serve", "token", "create", "me", "--operator", "--state", "state").exit_code == 0
    assert run("serve", "token", "revoke", "ann", "--state", "state").exit_code == 0
    listed = json.loads(run("serve", "token", "list", "--state", "state", "--json").stdout)["tokens"]
    assert [(one["name"], one["kind"], one["revoked"]) for one in listed] == [
        ("ann", "analyst", True),
        ("me", "operator", False),
    ]
    assert "revoked" in run("serve", "token", "list", "--state", "state").stdout
    # One tenth as it was typed, not the float next to it.
    assert str(Store(folder / "state").tokens()[0].epsilon) == "1/10"


@pytest.mark.parametrize(
    "words",
    [
        ("create", "ann", "--state", "state"),
        ("create", "ann", "--state", "state", "--epsilon", "1", "--operator"),
        ("create", "", "--state", "state", "--epsilon", "1"),
        ("create", "a\nb", "--state", "state", "--epsilon", "1"),
        ("create", "ann", "--state", "state", "--epsilon", "1", "--delta", "1"),
        ("create", "ann", "--state", "people.csv", "--epsilon", "1"),
        ("revoke", "ann", "--state", "nowhere"),
        ("list", "--state", "nowhere"),
    ],
)
def test_wrong_usage_of_tokens_is_refused(words):
    result = run("serve", "token", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("recoup: ")


def test_what_cannot_be_served_is_refused_at_once():
    assert run("serve", "people.csv", *SERVE).exit_code == 5  # no ledger
    assert run("ledger", "create", "l.db", "--epsilon", "1").exit_code == 0
    assert run("serve", "nowhere.csv", *SERVE).exit_code == 4
    assert run("serve", "people.csv", "--ledger", "l.db", "--state", "state").exit_code == 2  # no bounds
    assert run("serve", "people.csv", *SERVE, "--bounds", "weight=0:1").exit_code == 4


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_runs_until_it_is_told_to_stop(folder, workers):
    assert run("ledger", "create", "l.db", "--epsilon", "1").exit_code == 0
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "recoup", "serve", "people.csv", *SERVE]
    command += ["--port", str(port), "--workers", str(workers), "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as reply:
                    assert reply.read() == b'{"status":"ok"}'
                break
            except OSError:
                assert server.poll() is None, server.stderr.read()
                time.sleep(0.1)
    finally:
        server.send_signal(signal.SIGTERM)
        printed, logged = server.communicate(timeout=60)
    assert json.loads(printed) == {"address": f"http://127.0.0.1:{port}", "table": "people", "workers": workers}
    assert "GET /health no token: 200" in logged
    assert "Traceback" not in logged
