"""How the tests are run on a mutant: in a fork of a process that has loaded all libraries and no module of Recoup.

A mutant is never written to a file. An import hook compiles it in place of its module, so constants, decorators and
classes can be changed as well as functions, and every module and test that imports it meets the mutant. Only tests
that execute the changed lines are run, the likely killers first, until one fails.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from recoup_lab.audit.mutation.operators import mutated
from recoup_lab.tree import ROOT

SOURCE = ROOT / "src"
_MEMORY = 8 * 2**30  # a mutant that asks for more is stopped
_ARGUMENTS = ("-q", "--doctest-modules", "--import-mode=importlib", "--no-header", "--tb=no", "-p", "no:xdist")
_QUIET = ("-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:faulthandler")
_LOADED_BEFORE = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # of libraries, which contain no tests


def module_name(file: str) -> str:
    """The name under which a file of the source is imported."""
    return ".".join(Path(file).relative_to("src").with_suffix("").parts).removesuffix(".__init__")


class _MutantLoader(importlib.abc.Loader):
    def __init__(self, path: str, code: CodeType) -> None:
        self._path, self._code = path, code

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = self._path
        exec(self._code, module.__dict__)


class _MutantFinder(importlib.abc.MetaPathFinder):
    def __init__(self, file: str, index: int) -> None:
        path = ROOT / file
        self._name, self._path = module_name(file), str(path)
        self._code = compile(mutated(path.read_text(encoding="utf-8"), index), self._path, "exec", dont_inherit=True)

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        loader = _MutantLoader(self._path, self._code)
        package = Path(self._path).name == "__init__.py"
        spec = importlib.machinery.ModuleSpec(name, loader, origin=self._path, is_package=package)
        if package:
            spec.submodule_search_locations = [str(Path(self._path).parent)]
        return spec


class Tests:
    """A pytest plugin: runs given tests in a given order, and notes how long each took and which failed."""

    def __init__(self, wanted: Sequence[str] | None = None) -> None:
        self._order = None if wanted is None else {test: i for i, test in enumerate(wanted)}
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self.current = ""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leave only what is wanted, in its order."""
        if self._order is not None:
            order = self._order
            items[:] = sorted((i for i in items if i.nodeid in order), key=lambda item: order[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self.current = nodeid

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A part of a test has ended."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        """A file was collected, or could not be."""
        if report.failed:
            self.failed.append(report.nodeid)


class Tracer:
    """Which lines of some files each test executes."""

    def __init__(self, tests: Tests, files: Sequence[str]) -> None:
        self._tests, self._files = tests, {str(ROOT / file): file for file in files}
        self.lines: dict[str, dict[str, set[int]]] = {}

    def start(self) -> None:
        """Begin, in this thread and in those to come."""
        threading.settrace(self._call)
        sys.settrace(self._call)

    def _call(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        return self._line if frame.f_code.co_filename in self._files else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        file = self._files[frame.f_code.co_filename]
        self.lines.setdefault(self._tests.current, {}).setdefault(file, set()).add(frame.f_lineno)
        return self._line


def in_fork(work: Callable[[], Any], limit: float) -> tuple[str, Any]:
    """Run something in a forked process with a time limit.

    Returns:
        "done" and its result, which must be a JSON object; "timeout"; or "died" and how.

    Raises:
        RuntimeError: it has raised something itself, which says nothing about a mutant.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            os.setsid()
            resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
            quiet = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(quiet, stream)
            try:
                text = json.dumps(work()).encode()
            except Exception as error:
                text = json.dumps({"error": repr(error)}).encode()
            while text:
                text = text[os.write(write, text) :]
            os._exit(0)
        finally:
            os._exit(70)
    os.close(write)
    return _answer(pid, read, time.monotonic() + limit)


def _answer(pid: int, read: int, deadline: float) -> tuple[str, Any]:
    parts = []
    try:
        while True:
            ready, _, _ = select.select([read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return "timeout", None
            part = os.read(read, 2**16)
            if not part:
                break
            parts.append(part)
    finally:
        os.close(read)
        # The child leads a group of its own; with it go processes that a test has started.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if not parts:
        return "died", os.waitstatus_to_exitcode(status)
    value = json.loads(b"".join(parts))
    if "error" in value:
        raise RuntimeError(f"a run of the tests was not possible: {value['error']}")
    return "done", value


def run_tests(tests: Tests, files: Sequence[str], *more: str) -> int:
    """Run tests of some files in this process; returns what pytest ends with."""
    import pytest

    folder = tempfile.mkdtemp(prefix="recoup-mutant-")
    try:
        arguments = [
            *_ARGUMENTS,
            *_QUIET,
            *_LOADED_BEFORE,
            "--rootdir",
            str(ROOT),
            "--basetemp",
            f"{folder}/t",
            *more,
            *files,
        ]
        return int(pytest.main(arguments, plugins=[tests]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def looked_at(files: Sequence[str], tests: Sequence[str], left_out: Sequence[str]) -> dict[str, Any]:
    """Run tests and trace which lines of the files each executes; to be called in a fork."""
    plugin = Tests()
    tracer = Tracer(plugin, files)
    tracer.start()
    run_tests(plugin, tests, "-k", _none_of(left_out))
    sys.settrace(None)
    lines = {test: {f: sorted(found) for f, found in by.items()} for test, by in tracer.lines.items() if test}
    own = ("recoup", "tests", "conftest", "test_", "__", "_pytest", "mutat")
    libraries = [name for name in sys.modules if not name.startswith(own)]
    return {"lines": lines, "libraries": libraries}


def timed(tests: Sequence[str], left_out: Sequence[str]) -> dict[str, Any]:
    """Run tests on the source as it is; to be called in a fork."""
    plugin = Tests()
    code = run_tests(plugin, tests, "-k", _none_of(left_out))
    return {"code": code, "failed": plugin.failed, "seconds": plugin.seconds}


def _none_of(names: Sequence[str]) -> str:
    return " and ".join(f"not {name}" for name in names)


def tried(file: str, index: int, wanted: Sequence[str]) -> dict[str, Any]:
    """Run tests on a mutant; to be called in a fork."""
    sys.meta_path.insert(0, _MutantFinder(file, index))
    try:
        # Before pytest, whose own way to import a module for its doctests would pass the finder by.
        importlib.import_module(module_name(file))
    except Exception as error:
        return {"killed": f"cannot be imported: {type(error).__name__}"}
    plugin = Tests(wanted)
    code = run_tests(plugin, list(dict.fromkeys(test.split("::")[0] for test in wanted)), "-x")
    if plugin.failed:
        return {"killed": plugin.failed[0]}
    if code == 5:
        raise LookupError("none of the tests was found")
    # 0: all passed. Anything else without a failed test is a session that could not even start: the mutant broke it.
    return {"killed": "" if code == 0 else f"pytest ended with code {code}"}


def prepare(libraries: Sequence[str]) -> None:
    """Load what every fork would load: libraries, and Recoup's compiled kernels, which import nothing that mutates."""
    if sys.path[0] != str(SOURCE):
        sys.path.insert(0, str(SOURCE))
    os.chdir(ROOT)
    # What is not a mutant need not be compiled in each fork.
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(ROOT / "build" / "mutation" / "pycache")
    for name in ["pytest", "numpy", "scipy.sparse", "numba", *libraries]:
        try:
            importlib.import_module(name)
        except Exception:  # optional parts of libraries
            continue
    for path in sorted((SOURCE / "recoup" / "kernels").glob("*.py")):
        importlib.import_module(module_name(str(path.relative_to(ROOT))))
    # Forks leave what is here alone when they collect garbage.
    gc.collect()
    gc.freeze()
