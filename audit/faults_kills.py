"""Kills, interrupts and planted bugs: scenarios are ended at any point, and checked."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from faults_children import Ended, Fate, child, measure
from faults_scenarios import AFTERWARDS, Charge, Create, Release, Save, Scenario, scenarios

from recoup.audit.findings import Finding

GROUP: Final = "faults"


def killed(names: list[str] | None, n: int, seed: int, by: int = signal.SIGKILL) -> list[Finding]:
    """End scenarios at random points.

    Args:
        names: of the scenarios; none: all.
        n: how often, over all scenarios of the table.
        seed: of the points.
        by: the signal.

    Returns:
        A finding for each scenario.
    """
    found = []
    for name, (scenario, part) in scenarios().items():
        # What takes seconds is left out where few are asked for.
        times = max(1, round(n * part / 100)) if part > 1 else n * part // 100
        if times and (names is None or name in names):
            found.append(_ended(scenario, times, Random(f"{seed} {name} {by}"), by))
    return found


def _ended(scenario: Scenario, n: int, rng: Random, by: int) -> Finding:
    with tempfile.TemporaryDirectory(prefix="recoup-faults-") as top:
        folder, witness = Path(top) / "case", Path(top) / "witness"

        def again() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            witness.unlink(missing_ok=True)
            folder.mkdir()
            scenario.ready(folder)

        length = measure(lambda: scenario.act(folder), again)
        # Without any fault everything must be right, and the reference is taken.
        problems = scenario.problems(folder)
        reached: dict[str, int] = {}
        for _ in range(n):
            again()
            fate = length.fate(rng, scenario.hows, by)
            ended = child(lambda: scenario.act(folder), fate, witness=witness)
            reached[fate.how] = reached.get(fate.how, 0) + (ended.signal == by or ended.code == 130)
            problems += _checked(scenario, folder, ended, fate)
    n_reached = sum(reached.values())
    where = ", ".join(f"{count} by {how}" for how, count in sorted(reached.items()))
    said = f"{n_reached} ended on the way ({where}); nothing lost, {AFTERWARDS.get(scenario.name, 'all continued')}"
    if n >= 10 and n_reached < n / 2:
        problems.append(f"only {n_reached} of {n} were ended on the way")
    return Finding(
        group=GROUP,
        attack="kill -9" if by == signal.SIGKILL else "Ctrl-C",
        target=scenario.name,
        tries=n,
        result="; ".join(dict.fromkeys(problems)) or said,
        passed=not problems,
        figures={"reached": n_reached, "lines": length.lines, "calls": length.calls},
    )


def _checked(scenario: Scenario, folder: Path, ended: Ended, fate: Fate) -> list[str]:
    wrong = []
    if ended.signal not in (0, fate.by):
        wrong.append(f"crashed with signal {ended.signal} at {fate.how} {fate.at:g}")
    if ended.code not in (0, 130) or (ended.code == 130 and fate.by != signal.SIGINT):
        wrong.append(f"ended with code {ended.code} at {fate.how} {fate.at:g}")
    try:
        wrong += [f"{problem} (at {fate.how} {fate.at:g})" for problem in scenario.problems(folder)]
    except Exception as error:
        wrong.append(f"could not be continued at {fate.how} {fate.at:g}: {type(error).__name__}: {error}")
    return wrong


# ---- planted bugs, which the same checks must catch ------------------------------------------------------------------


def _draw_first() -> None:
    from recoup.ledger import Ledger
    from recoup.mechanism import SecureNoise

    charge, laplace, late = Ledger.charge, SecureNoise.laplace, []

    def charge_later(self: Any, price: Any, **named: Any) -> None:
        late.append(lambda: charge(self, price, **named))

    def draw(self: Any, totals: Any, scale: float) -> list[int]:
        drawn = laplace(self, totals, scale)
        os.write(os.open("witness", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), f"laplace {scale!r}\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)
        late.pop()()
        return drawn

    Ledger.charge = charge_later  # type: ignore[assignment,method-assign]
    SecureNoise.laplace = draw  # type: ignore[method-assign]


def _forget_the_pending_round() -> None:
    from recoup.ledger import Ledger
    from recoup.transcript import Transcript

    save, charge = Transcript.save, Ledger.charge

    def charge_and_die(self: Any, price: Any, **named: Any) -> None:
        charge(self, price, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    Transcript.save = lambda self, path: None if self.pending is not None else save(self, path)  # type: ignore[method-assign,assignment]
    Ledger.charge = charge_and_die  # type: ignore[assignment,method-assign]


def _save_in_place() -> None:
    import recoup.transcript

    def write(path: Any, content: str) -> None:
        with open(path, "w") as file:
            file.write(content[: len(content) // 2])
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    recoup.transcript.write_whole = write  # type: ignore[assignment]


def _create_in_place() -> None:
    import recoup.ledger

    def die(connection: Any, budget: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    from contextlib import contextmanager

    @contextmanager
    def in_place(path: Path) -> Any:
        path.touch(exist_ok=False)
        yield path

    recoup.ledger.appearing = in_place
    recoup.ledger._initialise = die


def _release_before_the_commit() -> None:
    from recoup.ledger import Ledger

    def unpaid(self: Any, price: Any, **named: Any) -> None:
        os.write(os.open("case/released", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), b"xx")
        os.kill(os.getpid(), signal.SIGKILL)

    Ledger.charge = unpaid  # type: ignore[assignment,method-assign]


PLANTED: Final[dict[str, tuple[Callable[[], Scenario], Callable[[], None]]]] = {
    "noise before its charge": (lambda: Release("laplace"), _draw_first),
    "a round not announced": (lambda: Release("laplace"), _forget_the_pending_round),
    "a file written in place": (Save, _save_in_place),
    "a ledger made in place": (Create, _create_in_place),
    "a release before the commit": (Charge, _release_before_the_commit),
}


def planted() -> Finding:
    """Bugs whose traces the checks above must find."""
    missed = []
    for name, (make, plant) in PLANTED.items():
        scenario = make()
        with tempfile.TemporaryDirectory(prefix="recoup-faults-") as top:
            folder = Path(top) / "case"
            folder.mkdir()
            scenario.ready(folder)

            def act(folder: Path = folder, scenario: Scenario = scenario) -> None:
                os.chdir(folder.parent)
                scenario.act(folder)

            ended = child(act, plant=plant)
            try:
                problems = scenario.problems(folder)
            except Exception as error:
                problems = [str(error)]
            if ended.signal != signal.SIGKILL or not problems:
                missed.append(name)
    return Finding(
        group=GROUP,
        attack="control: planted bugs",
        target=", ".join(PLANTED),
        tries=len(PLANTED),
        result=f"not caught: {', '.join(missed)}" if missed else f"all {len(PLANTED)} caught",
        passed=not missed,
    )
