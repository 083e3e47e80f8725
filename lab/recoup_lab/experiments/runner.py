"""Run an experiment over all cores, keep every finished run at once, and never repeat one."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, NamedTuple

from recoup._files import exclusive
from recoup.errors import ParameterError, RecoupError
from recoup.version import __version__
from recoup_lab.experiments.datasets import DataSet, LoadedSet, check_folder, load
from recoup_lab.experiments.execute import Failure, execute
from recoup_lab.experiments.methods import Method
from recoup_lab.experiments.results import Result, RunKey, RunStore
from recoup_lab.experiments.run import METRICS, Metric, Run

RUNS_FILE = "runs.jsonl"
# Read by the libraries when a process starts: two workers with two threads each would only get in each other's way.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RECOUP_NUM_THREADS")

OnProgress = Callable[[int, int], None]
"""Called with the number of finished runs, those of earlier times included, and of all runs."""


class WorkerDiedError(RecoupError):
    """A worker process ended before its work did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an experiment consists of.

    Args:
        sets: the data sets.
        methods: the methods; each takes part in its own metrics.
        epsilons: for the methods that depend on it.
        n_seeds: seeds 0 to n_seeds - 1.
        metrics: "paper", "user" or both.
        data: the folder of the files; none to generate every set.
        extensions: Python files that add methods and sets, which every process has to load too.

    >>> from recoup_lab.experiments import METHODS, SETS
    >>> len(Plan(sets=tuple(SETS.values()), methods=tuple(METHODS.values())).epsilons)
    5
    """

    sets: tuple[DataSet, ...]
    methods: tuple[Method, ...]
    epsilons: tuple[Fraction, ...] = tuple(map(Fraction, ("0.05", "0.1", "0.25", "0.5", "1")))
    n_seeds: int = 10
    metrics: tuple[Metric, ...] = METRICS
    data: Path | None = None
    extensions: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if self.n_seeds < 1:
            raise ParameterError(f"{self.n_seeds} seeds: give at least 1.")
        for name in ("sets", "methods", "epsilons", "metrics"):
            if not getattr(self, name):
                raise ParameterError(f"an experiment needs at least one of its {name}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Runs that share a data set, an epsilon and a seed, and so a transcript."""

    entry: DataSet
    metric: Metric
    epsilon: Fraction | None
    seed: int
    methods: tuple[Method, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an experiment came to.

    Attributes:
        results: the runs that the plan asks for, whenever they were finished.
        everything: all runs in the folder, those of other plans included.
        n_reused: how many of the plan's runs were there before.
        failures: the runs that went wrong; they are tried again next time.
    """

    results: tuple[Result, ...]
    everything: tuple[Result, ...]
    n_reused: int
    failures: tuple[Failure, ...]


def run_experiment(
    plan: Plan, folder: Path, *, n_processes: int | None = None, on_progress: OnProgress | None = None
) -> Outcome:
    """Run what is missing of a plan and return all of it.

    Args:
        plan: what to run.
        folder: where finished runs are kept.
        n_processes: how many at a time, each with one thread; all cores if none is given. With 1, everything happens
            in this process.
        on_progress: called after every group of runs.

    Returns:
        The runs.

    Guarantees: a run is on disk as soon as it is finished, so after an interruption of any kind (Ctrl-C, kill -9) the
    same call repeats no finished run. All methods of one set, metric, epsilon and seed that read a transcript read the
    same one. Two calls never write to the same folder at once.

    Raises:
        FileInUseError: another process is at work in the folder.
        WorkerDiedError: a worker process was killed.
        DataError: a file is not what it should be.

    >>> import tempfile
    >>> from recoup_lab.experiments import METHODS, SETS
    >>> plan = Plan(sets=(SETS["s1"],), methods=(METHODS["data-free"],), n_seeds=3, metrics=("user",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = run_experiment(plan, Path(folder), n_processes=1)
    ...     second = run_experiment(plan, Path(folder), n_processes=1)
    >>> len(first.results), first.n_reused, second.n_reused
    (3, 0, 3)
    """
    folder.mkdir(parents=True, exist_ok=True)
    if plan.data is not None:
        check_folder(plan.sets, plan.data)
    store = RunStore(folder / RUNS_FILE)
    _loaded.cache_clear()  # files may have changed since an earlier call
    with exclusive(store.path):
        store.repair()
        wanted = _keys(plan)
        finished = {result.key for result in store.read()} & set(wanted)
        tasks = _tasks({key: run for key, run in wanted.items() if key not in finished})
        n_processes = min(n_processes or _n_cores(), max(1, len(tasks)))

        def progress(n_new: int) -> None:
            if on_progress is not None:
                on_progress(len(finished) + n_new, len(wanted))

        progress(0)
        work = _in_this_process if n_processes == 1 else _in_processes
        failures = work(plan, tasks, store.path, n_processes, progress)
        everything = store.read()
    by_key = {result.key: result for result in everything}
    return Outcome(
        results=tuple(by_key[key] for key in wanted if key in by_key),
        everything=tuple(everything),
        n_reused=len(finished),
        failures=tuple(failures),
    )


def finished_runs(folder: Path) -> list[Result]:
    """All runs that are finished in a folder.

    >>> finished_runs(Path("/nowhere"))
    []
    """
    return RunStore(folder / RUNS_FILE).read()


def load_extension(path: Path) -> None:
    """Run a Python file that adds methods or sets; twice is the same as once.

    Its functions are known to other processes by a name that follows from its path.

    Raises:
        ParameterError: there is no such file, or it cannot be loaded.
    """
    path = path.resolve()
    name = f"recoup_extension_{path.as_posix().encode().hex()}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise ParameterError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ParameterError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error


class _Described(NamedTuple):
    entry: DataSet
    metric: Metric
    method: Method
    epsilon: Fraction | None


def _keys(plan: Plan) -> dict[RunKey, _Described]:
    # Seeds are outermost: whatever is stopped half-way holds something of every set and epsilon.
    digests = {entry.name: _loaded(entry, plan.data).digest for entry in plan.sets}
    keys: dict[RunKey, _Described] = {}
    for seed in range(plan.n_seeds):
        for entry in plan.sets:
            for metric in plan.metrics:
                for method in plan.methods:
                    if metric not in method.metrics or (method.varies == "nothing" and seed > 0):
                        continue
                    for epsilon in plan.epsilons if method.private else (None,):
                        key = RunKey(
                            set=entry.name,
                            digest=digests[entry.name],
                            metric=metric,
                            method=method.name,
                            epsilon=None if epsilon is None else float(epsilon),
                            seed=seed,
                            recoup=__version__,
                        )
                        keys[key] = _Described(entry, metric, method, epsilon)
    return keys


def _tasks(missing: Mapping[RunKey, _Described]) -> list[Task]:
    groups: dict[tuple[Any, ...], list[RunKey]] = {}
    for key in missing:
        groups.setdefault((key.seed, key.set, key.epsilon, key.metric), []).append(key)
    return [
        Task(
            entry=missing[keys[0]].entry,
            metric=missing[keys[0]].metric,
            epsilon=missing[keys[0]].epsilon,
            seed=keys[0].seed,
            methods=tuple(missing[key].method for key in keys),
        )
        for keys in groups.values()
    ]


@lru_cache(maxsize=16)
def _loaded(entry: DataSet, folder: Path | None) -> LoadedSet:
    return load(entry, folder)


def _work(task: Task, data: Path | None, store: Path, stop: Event | None) -> tuple[int, list[Failure]]:
    """Do a task's runs one after the other; returns how many are finished and those that went wrong."""
    first = Run.of(_loaded(task.entry, data), task.metric, task.epsilon, task.seed)
    n_finished, failures = 0, []
    for method in task.methods:
        if stop is not None and stop.is_set():
            break
        result = execute(method, first.sibling())
        if isinstance(result, Failure):
            failures.append(result)
        else:
            RunStore(store).append(result)
        n_finished += 1
    return n_finished, failures


def _in_this_process(
    plan: Plan, tasks: Sequence[Task], store: Path, n_processes: int, progress: Callable[[int], None]
) -> list[Failure]:
    from threadpoolctl import threadpool_limits

    failures, n_finished = [], 0
    with _one_thread(), threadpool_limits(1):
        for task in tasks:
            n_new, wrong = _work(task, plan.data, store, None)
            n_finished += n_new
            failures += wrong
            progress(n_finished)
    return failures


def _in_processes(
    plan: Plan, tasks: Sequence[Task], store: Path, n_processes: int, progress: Callable[[int], None]
) -> list[Failure]:
    # Spawned, not forked: compiled kernels and BLAS have threads of their own, which a fork would tear apart.
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    failures: list[Failure] = []
    n_finished = 0
    waiting, running = deque(tasks), set[Future[tuple[int, list[Failure]]]]()
    begin = (stop, plan.extensions)
    with (
        _one_thread(),
        ProcessPoolExecutor(n_processes, mp_context=context, initializer=_begin_worker, initargs=begin) as pool,
    ):
        try:
            while waiting or running:
                # No more than can be worked on: a pool finishes what it was given even when it is told to stop.
                while waiting and len(running) < n_processes:
                    running.add(pool.submit(_work_in_worker, waiting.popleft(), plan.data, store))
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    n_new, wrong = future.result()
                    n_finished += n_new
                    failures += wrong
                progress(n_finished)
        except BrokenProcessPool:
            raise WorkerDiedError(
                "a worker process was killed, perhaps for want of memory. Finished runs are kept: run the same command "
                "again, with fewer --processes if memory is short."
            ) from None
        except BaseException:
            stop.set()
            raise
    return failures


_stop: Event | None = None


def _begin_worker(stop: Event, extensions: Sequence[Path]) -> None:
    global _stop
    _stop = stop
    # Ctrl-C reaches the whole process group; the first process decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for path in extensions:
        load_extension(path)


def _end_with_parent() -> None:
    # A pool's worker would wait for ever for a parent that was killed, or go on writing beside its successor.
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work_in_worker(task: Task, data: Path | None, store: Path) -> tuple[int, list[Failure]]:
    return _work(task, data, store, _stop)


@contextmanager
def _one_thread() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _n_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
