"""What a second process compiles ahead is what a fit looks for; it starts once, and never outlives the release."""

import contextlib
import os
import subprocess
import sys

import pytest

from recoup.cli import ahead


def run_with_cache(folder, *words):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    return subprocess.run([sys.executable, *words], env=environment, check=True, capture_output=True, text=True).stdout


def test_a_fit_finds_what_was_compiled_ahead(tmp_path):
    ask = "from recoup.cli import ahead; print(ahead._is_compiled())"
    assert run_with_cache(tmp_path, "-c", ask).strip() == "False"
    run_with_cache(tmp_path, "-P", "-m", "recoup.cli.ahead")
    assert run_with_cache(tmp_path, "-c", ask).strip() == "True"
    # A fit of another shape, all of whose last kernels come from there.
    fit = (
        "import numpy as np; from recoup import PrivateKMeans\n"
        "from recoup.kernels.cells import relative_values\n"
        "from recoup.kernels.weighted_kmeans import greedy_plus_plus, lloyd\n"
        "x = np.random.default_rng(0).uniform(size=(500, 3))\n"
        "PrivateKMeans(n_clusters=2, epsilon=5, bounds=(0, 1)).fit(x)\n"
        "for kernel in (relative_values, greedy_plus_plus, lloyd):\n"
        "    print(len(kernel.stats.cache_hits) == 1 and not kernel.stats.cache_misses)"
    )
    assert run_with_cache(tmp_path, "-c", fit).split() == ["True"] * 3


class Process:
    started: list = []  # noqa: RUF012 - emptied by the test

    def __init__(self, words, **given):
        self.words, self.ended = words, False
        Process.started.append(self)

    def kill(self):
        self.ended = True

    def wait(self):
        assert self.ended


@pytest.fixture
def started(monkeypatch):
    monkeypatch.setattr(ahead.subprocess, "Popen", Process)
    monkeypatch.setattr(ahead.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(Process, "started", [])
    return Process.started


def test_it_starts_once_and_ends_with_the_release(monkeypatch, started):
    monkeypatch.setattr(ahead, "_is_compiled", lambda: False)
    with contextlib.suppress(KeyboardInterrupt), ahead.compiling_ahead():
        (process,) = Process.started
        assert process.words[1:] == ["-P", "-m", "recoup.cli.ahead"]
        assert not process.ended
        raise KeyboardInterrupt
    assert process.ended


def test_nothing_starts_where_all_is_compiled_or_one_core_does_all(monkeypatch, started):
    monkeypatch.setattr(ahead, "_is_compiled", lambda: True)
    with ahead.compiling_ahead():
        assert not Process.started
    monkeypatch.setattr(ahead, "_is_compiled", lambda: False)
    monkeypatch.setattr(ahead.os, "cpu_count", lambda: 1)
    with ahead.compiling_ahead():
        assert not Process.started
